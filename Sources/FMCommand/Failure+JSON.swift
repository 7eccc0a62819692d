import FMCore
import FMWire

extension Failure {
  /// What `--json` prints for a failure: the status code with its name, the message, and the
  /// details that OpenFM.h lists at FMEventKindEnd.
  var commandJSON: JSONValue {
    var error = JSONObject([
      ("name", .string(String(describing: status))),
      ("code", .number(JSONNumber(Int(status.rawValue)))),
      ("message", .string(message)),
    ])
    error.members += details.members
    return ["error": .object(error)]
  }
}
