import CLinux
import Glibc

/// A NULL-terminated array of C strings, as execve(2) takes them; frees them with itself.
final class CStringArray {
  private(set) var pointers: [UnsafeMutablePointer<CChar>?] = [nil]

  /// - Precondition: no string holds a NUL; what follows one is lost.
  init(_ strings: [String]) {
    for string in strings { append(string) }
  }

  /// This process's environment, byte for byte, without the variables whose names `removed` gives,
  /// and with `added`.
  init(environmentWithout removed: Set<String>, adding added: [(name: String, value: String)]) {
    let removed = removed.union(added.map(\.name))
    if var next = fm_environment() {
      while let entry = next.pointee {
        let name = String(
          decoding: UnsafeRawBufferPointer(start: entry, count: strlen(entry))
            .prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self)
        if !removed.contains(name) { pointers.insert(strdup(entry), at: pointers.count - 1) }
        next += 1
      }
    }
    for variable in added { append("\(variable.name)=\(variable.value)") }
  }

  deinit {
    for pointer in pointers { free(pointer) }
  }

  private func append(_ string: String) {
    pointers.insert(strdup(string), at: pointers.count - 1)
  }
}
