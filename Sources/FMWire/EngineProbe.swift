import Glibc
import Synchronization

/// Asks a program what it is, to tell it from one that cannot run here (a missing library, another
/// machine's) before anyone waits for it.
enum EngineProbe {
  private static let results = Mutex<[String: Bool]>([:])

  /// What `works` found out; nil where it was not asked.
  static func known(_ path: String) -> Bool? { results.withLock { $0[path] } }

  /// Whether `path --version` succeeds within that time; asked once a path and process.
  static func works(_ path: String, seconds: Double = 5) -> Bool {
    if let known = known(path) { return known }
    let works = output(of: [path, "--version"], seconds: seconds)?.contains("version") == true
    results.withLock { $0[path] = works }
    return works
  }

  /// What a command writes, at most some 64 KiB of it; nil when it does not succeed within that time.
  /// Its first word is the program's path.
  static func output(of command: [String], seconds: Double) -> String? {
    let environment = CStringArray(environmentWithout: ["OPENFM_API_KEY"], adding: [])
    guard
      let child = try? EngineChild(
        path: command[0], arguments: command, environment: environment)
    else { return nil }
    let deadline = ContinuousClock.now.advanced(by: .seconds(seconds))
    var output: [UInt8] = []
    var isOpen = true
    while true {
      let left = deadline - .now
      let ready = child.wait(watchesOutput: isOpen, timeout: left)
      if ready.hasOutput {
        isOpen = child.readOutput { if output.count < 64 << 10 { output += $0 } }
      }
      if ready.hasEnded { break }
      if left <= .zero {
        child.signalGroup(SIGKILL)
        break
      }
    }
    _ = child.readOutput { if output.count < 64 << 10 { output += $0 } }
    guard child.reap() == .code(0) else { return nil }
    return String(decoding: output, as: UTF8.self)
  }
}
