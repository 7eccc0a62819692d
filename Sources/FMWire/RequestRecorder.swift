import Glibc
import Synchronization

/// Writes requests and their answers to a file, one JSON object a line, for looking at them later or
/// playing them again. Keys do not get there, and pictures only as their hashes.
package final class RequestRecorder: Sendable {
  package static let shared = RequestRecorder()

  private struct State {
    var descriptor: Int32 = -1
  }

  private let state = Mutex(State())
  private let isRecording = Atomic(false)

  /// `OPENFM_RECORD` names a file from the start; one that cannot be opened is told on standard error.
  private init() {
    guard let path = ProcessEnvironment.current["OPENFM_RECORD"], !path.isEmpty else { return }
    do throws(RecorderError) {
      try record(to: path)
    } catch {
      let line = Array("openfm: OPENFM_RECORD: \(error.message)\n".utf8)
      _ = line.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
  }

  package struct RecorderError: Error {
    package var message: String
  }

  /// Appends to that file from now on, which is made for its owner alone; nil ends the recording.
  package func record(to path: String?) throws(RecorderError) {
    var descriptor: Int32 = -1
    if let path {
      descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
      guard descriptor >= 0 else {
        throw RecorderError(message: "cannot record to '\(path)': \(Errno.current)")
      }
    }
    let previous = state.withLock { state in
      defer { state.descriptor = descriptor }
      return state.descriptor
    }
    isRecording.store(descriptor >= 0, ordering: .relaxed)
    if previous >= 0 { close(previous) }
  }

  var isOn: Bool { isRecording.load(ordering: .relaxed) }

  /// Adds a line. `request` and `response` are the bodies as they went and came.
  func add(
    _ record: RequestRecord, request: [UInt8], response: [UInt8], secrets: Secrets
  ) {
    func body(_ bytes: [UInt8]) -> JSONValue {
      let text = secrets.removed(
        from: String(decoding: PictureHashes.inPlace(of: bytes), as: UTF8.self))
      return (try? JSONValue(parsing: text)) ?? .string(text)
    }
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    let seconds = Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    let value: JSONValue = [
      "time": JSONNumber(seconds).map(JSONValue.number) ?? .null, "record": record.json,
      "request": request.isEmpty ? .null : body(request),
      "response": response.isEmpty ? .null : body(response),
    ]
    let line = Array((value.jsonText + "\n").utf8)
    state.withLock { state in
      guard state.descriptor >= 0 else { return }
      // One write: O_APPEND keeps lines of several processes apart.
      _ = line.withUnsafeBytes { Glibc.write(state.descriptor, $0.baseAddress, $0.count) }
    }
  }
}
