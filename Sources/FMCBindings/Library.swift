import FMCommand
import FMCore
import FMWire
import Glibc

private func makeConstant(_ text: String) -> UnsafePointer<CChar> {
  UnsafePointer(copyString(text))
}

/// Made once and never freed: constants of the ABI.
private nonisolated(unsafe) let statusNames: [Int32: UnsafePointer<CChar>] = Dictionary(
  uniqueKeysWithValues: StatusCode.allCases.map {
    ($0.rawValue, makeConstant(String(describing: $0)))
  })
private nonisolated(unsafe) let unknownName = makeConstant(String(describing: StatusCode.unknown))
private nonisolated(unsafe) let version = makeConstant(openFMVersion)

@_cdecl("FMSetDefaultCertificateFile")
public func fmSetDefaultCertificateFile(
  _ path: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    HostCertificates.set(try nonEmptyText(path, "path of the certificates"))
    return true
  }
}

@_cdecl("FMStatusName")
public func fmStatusName(_ code: Int32) -> UnsafePointer<CChar> {
  statusNames[code] ?? unknownName
}

@_cdecl("FMVersion")
public func fmVersion() -> UnsafePointer<CChar> { version }

@_cdecl("FMCopyBuildInfoJSON")
public func fmCopyBuildInfoJSON() -> UnsafeMutablePointer<CChar> {
  copyString(BuildInfo.json.jsonText)
}

@_cdecl("FMLastErrorCode")
public func fmLastErrorCode() -> Int32 { LastError.current?.status.rawValue ?? 0 }

@_cdecl("FMLastErrorDescription")
public func fmLastErrorDescription() -> UnsafePointer<CChar>? {
  LastError.current.map { UnsafePointer($0.description) }
}

@_cdecl("FMLastErrorCopyDetailsJSON")
public func fmLastErrorCopyDetailsJSON() -> UnsafeMutablePointer<CChar> {
  copyString(LastError.current?.detailsJSON ?? "{}")
}

@_cdecl("FMDebugLiveObjects")
public func fmDebugLiveObjects(_ kind: Int32) -> Int64 {
  enter(else: -1) {
    if kind == 0 { return Int64(LiveObject.liveCount(nil)) }
    guard let kind = LiveObject.Kind(rawValue: Int(kind)) else {
      throw Failure(.invalidArgument, "\(kind) is no FMObjectKind.")
    }
    return Int64(LiveObject.liveCount(kind))
  }
}

@_cdecl("FMShutdown")
public func fmShutdown() {
  enter(else: ()) {
    RunningRequests.shared.shutDown(waitingAtMost: 1)
    Engine.stopAll()
  }
}

@_cdecl("FMCommandMain")
public func fmCommandMain(
  _ argc: Int32, _ argv: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> Int32 {
  enter(else: 1) {
    let arguments = (0..<Int(argc)).compactMap { argv?[$0].map { String(validatingCString: $0) } }
    return Command.run(Array(arguments.dropFirst()))
  }
}

@_cdecl("FMRetain")
public func fmRetain(_ object: UnsafeRawPointer?) {
  guard let object else { return }
  enter(else: ()) { try HandleTable.shared.retain(object) }
}

@_cdecl("FMRelease")
public func fmRelease(_ object: UnsafeRawPointer?) {
  guard let object else { return }
  enter(else: ()) { try HandleTable.shared.release(object) }
}

@_cdecl("FMFreeString")
public func fmFreeString(_ string: UnsafeMutablePointer<CChar>?) { free(string) }
