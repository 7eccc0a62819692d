// swift-tools-version: 6.3
import PackageDescription

// FM_STATIC=1 links the Swift runtime into the library, keeps every symbol but FM* private and
// strips it. `scripts/build` sets it, and lets pkg-config find the archives of scripts/vendor; a debug
// build or `swift test` does neither.
let isStatic = Context.environment["FM_STATIC"] != nil

// Further flags for the library's link, a list of words as `ld` takes them.
let moreLinkerFlags: [LinkerSetting] = {
  let words = (Context.environment["OPENFM_LINKER_FLAGS"] ?? "").split(separator: " ")
  return words.isEmpty ? [] : [.unsafeFlags(words.flatMap { ["-Xlinker", String($0)] })]
}()

let releaseLinkerSettings: [LinkerSetting] =
  isStatic
  ? [
    .unsafeFlags([
      "-static-stdlib", "-use-ld=lld",
      "-Xlinker", "--version-script=\(Context.packageDirectory)/Sources/FMCBindings/exports.map",
      "-Xlinker", "--gc-sections", "-Xlinker", "--as-needed",
      "-Xlinker", "-soname", "-Xlinker", "libFoundationModels.so.1",
      "-Xlinker", "-s",
      // See Sources/CRelease/glibc.c.
      "-Xlinker", "--wrap=hypotf",
    ])
  ] : []

let libraryLinkerSettings: [LinkerSetting] = releaseLinkerSettings + moreLinkerFlags

// Programs that only measure; see Benchmarks/.
let benchmarks: [Target] =
  Context.environment["OPENFM_BENCHMARKS"] == nil
  ? []
  : [
    .executableTarget(
      name: "StreamBenchmark", dependencies: ["FMCore"], path: "Benchmarks/StreamBenchmark")
  ]

let package = Package(
  name: "OpenFM",
  products: [
    .library(name: "FoundationModels", type: .dynamic, targets: ["FMCBindings"]),
    .library(name: "FMCore", targets: ["FMCore"]),
  ],
  targets: [
    // One C module a library. Targets with C code of their own (CJPEG, CLinux) hold what Swift
    // cannot express: setjmp/longjmp, variadics, fork.
    .target(name: "CJPEG", linkerSettings: [.linkedLibrary("jpeg")]),
    .systemLibrary(name: "CSPNG", pkgConfig: "spng", providers: [.apt(["libspng-dev"])]),
    .systemLibrary(name: "CZimg", pkgConfig: "zimg", providers: [.apt(["libzimg-dev"])]),
    .systemLibrary(name: "CWebP", pkgConfig: "libwebp", providers: [.apt(["libwebp-dev"])]),
    .target(name: "CHEIF"),
    .systemLibrary(name: "CLCMS", pkgConfig: "lcms2", providers: [.apt(["liblcms2-dev"])]),
    .systemLibrary(name: "CExif", pkgConfig: "libexif", providers: [.apt(["libexif-dev"])]),
    .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(
      name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .target(name: "CLinux"),
    .target(name: "CRelease", cSettings: isStatic ? [.define("FM_RELEASE")] : []),
    .target(name: "CBase64"),
    .target(name: "CText"),

    .target(
      name: "FMImaging",
      dependencies: ["CJPEG", "CSPNG", "CWebP", "CHEIF", "CZimg", "CLCMS", "CExif", "CCrypto"]),
    .target(name: "FMWire", dependencies: ["CBase64", "CText", "CCurl", "CCrypto", "CLinux"]),
    .target(name: "FMCore", dependencies: ["FMImaging", "FMWire"]),
    .target(name: "FMCommand", dependencies: ["FMCore", "FMImaging", "FMWire", "CLinux"]),
    .target(
      name: "FMCBindings", dependencies: ["FMCore", "FMCommand", "CLinux", "CRelease"],
      exclude: ["exports.map"],
      linkerSettings: libraryLinkerSettings),

    .testTarget(name: "FMImagingTests", dependencies: ["FMImaging"]),
    .testTarget(name: "FMWireTests", dependencies: ["FMWire"]),
    .testTarget(name: "FMCoreTests", dependencies: ["FMCore"]),
    .testTarget(name: "FMCommandTests", dependencies: ["FMCommand"]),
  ] + benchmarks,
  swiftLanguageModes: [.v6]
)
