import FMCore
import FMWire

/// bool (*FMModelProgress)(file, received, total, userInfo) of OpenFM.h.
public typealias ModelProgress =
  @convention(c) (UnsafePointer<CChar>?, Int64, Int64, UnsafeMutableRawPointer?) -> Bool

@_cdecl("FMModelPull")
public func fmModelPull(
  _ reference: UnsafePointer<CChar>?, _ optionsJSON: UnsafePointer<CChar>?,
  _ progress: ModelProgress?, _ userInfo: UnsafeMutableRawPointer?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  enter(code, description, else: nil) {
    let options = try ModelStore.PullOptions(json: try nonEmptyText(optionsJSON, "model options"))
    let model = try ModelStore().pullAndWait(try modelName(reference), options: options) { news in
      guard let progress else { return true }
      return news.file.withCString { progress($0, news.received, news.total ?? -1, userInfo) }
    }
    return copyString(model.json.jsonText)
  }
}

@_cdecl("FMModelCopyListJSON")
public func fmModelCopyListJSON(
  _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  enter(code, description, else: nil) { copyString(try ModelStore().listJSON.jsonText) }
}

@_cdecl("FMModelCopyInstalledJSON")
public func fmModelCopyInstalledJSON(
  _ name: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  enter(code, description, else: nil) {
    copyString(try ModelStore().find(try modelName(name)).json.jsonText)
  }
}

@_cdecl("FMModelRemove")
public func fmModelRemove(
  _ name: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    _ = try ModelStore().remove(try modelName(name))
    return true
  }
}

private func modelName(_ pointer: UnsafePointer<CChar>?) throws(Failure) -> String {
  guard let name = try nonEmptyText(pointer, "model's name") else {
    throw Failure(.invalidArgument, "The model's name is missing.")
  }
  return name
}
