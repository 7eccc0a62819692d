import Glibc

/// Where this process's program lies.
package enum ProgramPath {
  /// The folder of the running program; nil where /proc is not mounted.
  package static var folder: String? {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink("/proc/self/exe", &path, path.count - 1)
    guard count > 0 else { return nil }
    let own = String(decoding: path[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    return own.lastIndex(of: "/").map { String(own[..<$0]) }
  }
}
