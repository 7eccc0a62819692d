import FMCore

public typealias RequestLogCallback =
  @convention(c) @Sendable (UnsafePointer<CChar>?, UnsafePointer<CChar>?, UnsafeMutableRawPointer?)
  -> Void

@_cdecl("FMRequestLogSetCallback")
public func fmRequestLogSetCallback(
  _ callback: RequestLogCallback?, _ userInfo: UnsafeMutableRawPointer?
) {
  enter(else: ()) {
    guard let callback else { return RequestLogging.setHandler(nil) }
    let userInfo = UserInfo(pointer: userInfo)
    RequestLogging.setHandler { line, json in callback(line, json, userInfo.pointer) }
  }
}

@_cdecl("FMRequestLogKeep")
public func fmRequestLogKeep(_ keeps: Bool) {
  enter(else: ()) { RequestLogging.keep(keeps) }
}

@_cdecl("FMRequestLogTakeJSON")
public func fmRequestLogTakeJSON() -> UnsafeMutablePointer<CChar>? {
  enter(else: nil) { copyString(RequestLogging.takeJSON()) }
}

@_cdecl("FMRequestLogRecord")
public func fmRequestLogRecord(
  _ path: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    try RequestLogging.record(to: try nonEmptyText(path, "path"))
    return true
  }
}
