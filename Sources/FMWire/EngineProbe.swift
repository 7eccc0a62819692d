import Glibc
import Synchronization

/// Asks a `llama-server` for its version, to tell it from a program that cannot run here (a missing
/// library, another machine's) before anyone waits for it.
enum EngineProbe {
  private static let results = Mutex<[String: Bool]>([:])

  /// Whether `path --version` succeeds within that time; asked once a path and process.
  static func works(_ path: String, seconds: Double = 5) -> Bool {
    if let known = results.withLock({ $0[path] }) { return known }
    let works = run(path, seconds: seconds)
    results.withLock { $0[path] = works }
    return works
  }

  private static func run(_ path: String, seconds: Double) -> Bool {
    let environment = CStringArray(environmentWithout: ["OPENFM_API_KEY"], adding: [])
    guard
      let child = try? EngineChild(
        path: path, arguments: [path, "--version"], environment: environment)
    else { return false }
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
    guard child.reap() == .code(0) else { return false }
    return String(decoding: output, as: UTF8.self).contains("version")
  }
}
