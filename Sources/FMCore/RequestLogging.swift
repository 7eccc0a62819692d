import FMWire

/// Watching what goes over the wire: a line about each request, and a file of requests and answers.
///
/// Neither holds keys, and pictures only by their sizes and hashes. `OPENFM_LOG=debug` prints the
/// lines on standard error, `OPENFM_RECORD=PATH` records, without a call.
public enum RequestLogging {
  /// `handler` gets a line for people, without its end, and a JSON object for programs, when a
  /// request is over. It is called on a thread of the library and must not block. nil ends it; the
  /// last one holds.
  public static func setHandler(
    _ handler: (@Sendable (_ line: String, _ json: String) -> Void)?
  ) {
    guard let handler else { return RequestLog.shared.setHandler(nil) }
    RequestLog.shared.setHandler { handler($0.line, $0.json.jsonText) }
  }

  /// Appends every request and its answer to that file, a JSON object a line: `time`, `record`,
  /// `request` and `response`. The file is made for its owner alone. nil ends the recording.
  public static func record(to path: String?) throws {
    do throws(RequestRecorder.RecorderError) {
      try RequestRecorder.shared.record(to: path)
    } catch {
      throw Failure(.invalidArgument, error.message)
    }
  }

  /// Keeps the records for `take`, for hosts that cannot be called: the last 1,000.
  package static func keep(_ keeps: Bool) { RequestLog.shared.keep(keeps) }

  /// What was kept since the last time: a JSON list of objects, each with its `line` too.
  package static func takeJSON() -> String {
    let records = RequestLog.shared.take().map { record -> JSONValue in
      var object = record.json.objectValue ?? JSONObject()
      object["line"] = .string(record.line)
      return .object(object)
    }
    return JSONValue.array(records).jsonText
  }
}
