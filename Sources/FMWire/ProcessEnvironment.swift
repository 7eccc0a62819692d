import CLinux

/// The environment of this process.
public enum ProcessEnvironment {
  /// A copy, as the process has it now; a variable that is set twice keeps its first value, as
  /// getenv(3) reads it. A host must not change the environment in another thread meanwhile, as
  /// with every use of getenv.
  public static var current: [String: String] {
    guard var next = fm_environment() else { return [:] }
    var result: [String: String] = [:]
    while let entry = next.pointee {
      let text = String(cString: entry)
      if let equals = text.firstIndex(of: "="), equals > text.startIndex {
        let name = String(text[..<equals])
        if result[name] == nil { result[name] = String(text[text.index(after: equals)...]) }
      }
      next += 1
    }
    return result
  }
}
