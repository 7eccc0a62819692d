import FMCore
import FMWire
import Glibc
import Synchronization

// How every exported function is entered and left.

public typealias ErrorCode = UnsafeMutablePointer<Int32>?
public typealias ErrorDescription = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?

/// True in a child of fork(), where neither Swift's worker threads nor the I/O thread exist.
private let forked = Atomic(false)

private let watchesFork: Void = {
  pthread_atfork(nil, nil) { forked.store(true, ordering: .relaxed) }
}()

let usedAfterFork = Failure(
  .usedAfterFork,
  "This process was forked after the library had been used; use it in a process that was started"
    + " anew (in Python: multiprocessing's \"spawn\").")

/// Runs the body of an exported function. A failure is kept for FMLastErrorCode, written to the
/// caller's error parameters, and turned into `fallback`.
func enter<Result>(
  _ code: ErrorCode = nil, _ description: ErrorDescription = nil, else fallback: Result,
  _ body: () throws -> Result, onFork: () -> Void = {}
) -> Result {
  _ = watchesFork
  do {
    // Checked before anything takes a lock: in the child its owner may not exist any more.
    if forked.load(ordering: .relaxed) {
      onFork()
      throw usedAfterFork
    }
    return try body()
  } catch {
    let failure = Failure(error)
    LastError.set(failure)
    code?.pointee = failure.status.rawValue
    description?.pointee = copyString(failure.message)
    return fallback
  }
}

/// The last failure of the calling thread.
final class LastError {
  let status: StatusCode
  let description: UnsafeMutablePointer<CChar>
  let detailsJSON: String

  private init(_ failure: Failure) {
    status = failure.status
    description = copyString(failure.message)
    detailsJSON = failure.json
  }

  deinit { free(description) }

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key) { pointer in
      if let pointer { Unmanaged<LastError>.fromOpaque(pointer).release() }
    }
    return key
  }()

  static func set(_ failure: Failure) {
    if let old = pthread_getspecific(key) { Unmanaged<LastError>.fromOpaque(old).release() }
    pthread_setspecific(key, Unmanaged.passRetained(LastError(failure)).toOpaque())
  }

  static var current: LastError? {
    pthread_getspecific(key).map { Unmanaged<LastError>.fromOpaque($0).takeUnretainedValue() }
  }
}

/// A malloc'ed, NUL-terminated copy for a C caller to free. A NUL inside the text, which C cannot
/// see past, is written as U+FFFD.
func copyString(_ text: String) -> UnsafeMutablePointer<CChar> {
  var text = text
  if text.withUTF8({ $0.contains(0) }) {
    text = String(
      String.UnicodeScalarView(text.unicodeScalars.map { $0.value == 0 ? "\u{FFFD}" : $0 }))
  }
  guard let copy = strdup(text) else { fatalError("out of memory") }
  return copy
}

/// The text of a C string; nil stays nil.
func text(
  _ pointer: UnsafePointer<CChar>?, _ name: String, status: StatusCode = .invalidArgument
) throws(Failure) -> String? {
  guard let pointer else { return nil }
  guard let text = String(validatingCString: pointer) else {
    throw Failure(status, "The \(name) is no UTF-8.")
  }
  return text
}

func requiredText(_ pointer: UnsafePointer<CChar>?, _ name: String) throws(Failure) -> String {
  guard let text = try text(pointer, name) else {
    throw Failure(.invalidArgument, "The \(name) is NULL.")
  }
  return text
}

/// The same with "" as none, as the reference has it for options and instructions.
func nonEmptyText(
  _ pointer: UnsafePointer<CChar>?, _ name: String, status: StatusCode = .invalidArgument
) throws(Failure) -> String? {
  guard let text = try text(pointer, name, status: status), !text.isEmpty else { return nil }
  return text
}
