import FMImaging
import FMWire

/// How the library was built and what it can do; FMCopyBuildInfoJSON and `fm available` tell it.
package enum BuildInfo {
  package static var json: JSONValue {
    let linked = JSONObject(
      (TransportInfo.versions + ImagingInfo.versions).map { ($0.name, .string($0.version)) }
        + [("swift", .string(swiftVersion))])
    return [
      "version": .string(openFMVersion),
      "image_formats": .array(
        ImageFormat.allCases.filter { $0.missing == nil }.map { .string($0.rawValue) }),
      "missing_image_formats": missingImageFormats,
      "tls": TransportInfo.tls.map(JSONValue.string) ?? .null,
      "http2": .bool(TransportInfo.hasHTTP2),
      "unix_sockets": .bool(TransportInfo.hasUnixSockets),
      "engine": engine,
      "linked": .object(linked),
    ]
  }

  /// Formats that this machine cannot read, each with what to install.
  private static var missingImageFormats: JSONValue {
    .object(
      JSONObject(
        ImageFormat.allCases.compactMap { format in
          format.missing.map { (format.rawValue, JSONValue.string($0)) }
        }))
  }

  /// The command of the embedded engine that this machine offers, or why there is none.
  private static var engine: JSONValue {
    switch EngineDiscovery.command() {
    case .success(let command?): ["command": .array(command.map(JSONValue.string))]
    case .success(nil): .null
    case .failure(let error): ["error": .string(error.message)]
    }
  }

  /// Of the compiler, whose runtime is the one that is linked in.
  private static var swiftVersion: String {
    #if compiler(>=6.4)
      "6.4 or later"
    #elseif compiler(>=6.3)
      "6.3"
    #else
      "6.2 or earlier"
    #endif
  }
}
