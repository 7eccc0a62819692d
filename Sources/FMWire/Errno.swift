import Glibc

/// A failed system call's error number, with the system's words for it.
struct Errno: Error, Equatable, CustomStringConvertible {
  var code: Int32
  static var current: Errno { Errno(code: errno) }
  var description: String {
    // strerror(3) shares its buffer between threads.
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
      strerror_r(code, buffer.baseAddress!, buffer.count) == 0
        ? String(cString: buffer.baseAddress!) : "error \(code)"
    }
  }
}
