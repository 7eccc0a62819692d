import Glibc

/// A failed system call's error number, with the system's words for it.
struct Errno: Error, Equatable, CustomStringConvertible {
  var code: Int32
  static var current: Errno { Errno(code: errno) }
  var description: String { String(cString: strerror(code)) }
}
