import FMCore
import Synchronization

/// The base of everything a C caller can hold, counted by kind from birth to death.
///
/// Subclasses are immutable or guard their state themselves.
class LiveObject: @unchecked Sendable {
  /// FMObjectKind of OpenFM.h.
  enum Kind: Int, CaseIterable {
    case model = 1
    case session
    case composedPrompt
    case task
    case responseStream
    case generatedContent
    case eventQueue
    case preparedImage
    case generationSchema
    case generationSchemaProperty
    case tool
  }

  private static let counts = Mutex([Int](repeating: 0, count: Kind.allCases.count + 1))

  let kind: Kind

  init(_ kind: Kind) {
    self.kind = kind
    Self.counts.withLock { $0[kind.rawValue] += 1 }
  }

  deinit {
    Self.counts.withLock { $0[kind.rawValue] -= 1 }
  }

  /// How many are alive of one kind, nil for all.
  static func liveCount(_ kind: Kind?) -> Int {
    counts.withLock { counts in
      kind.map { counts[$0.rawValue] } ?? counts.reduce(0, +)
    }
  }
}

/// What a C reference stands for.
///
/// A reference is a number that is never used again, not an address: one that was released, made up
/// or of another kind is found out, whatever has been allocated since.
struct HandleTable: ~Copyable {
  static let shared = HandleTable()

  private struct Entry {
    var object: LiveObject
    var count: Int
  }

  private struct Storage {
    var entries: [UInt: Entry] = [:]
    var next: UInt = 0x1000
  }

  private let storage = Mutex(Storage())

  /// A new reference with one owner.
  func insert(_ object: LiveObject) -> UnsafeRawPointer {
    let handle = storage.withLock { storage in
      let handle = storage.next
      storage.next += 16
      storage.entries[handle] = Entry(object: object, count: 1)
      return handle
    }
    // Never nil: handles start above zero and do not wrap within the age of the machine.
    return UnsafeRawPointer(bitPattern: handle).unsafelyUnwrapped
  }

  func retain(_ handle: UnsafeRawPointer) throws(Failure) {
    let isKnown = storage.withLock { storage in
      storage.entries[UInt(bitPattern: handle)]?.count += 1
      return storage.entries[UInt(bitPattern: handle)] != nil
    }
    guard isKnown else { throw Self.stale }
  }

  func release(_ handle: UnsafeRawPointer) throws(Failure) {
    // The object may die here, and its deinit may come back to this table: not under the lock.
    let (isKnown, last) = storage.withLock { storage -> (Bool, LiveObject?) in
      let key = UInt(bitPattern: handle)
      guard let entry = storage.entries[key] else { return (false, nil) }
      if entry.count > 1 {
        storage.entries[key]?.count -= 1
        return (true, nil)
      }
      storage.entries[key] = nil
      return (true, entry.object)
    }
    _ = last
    guard isKnown else { throw Self.stale }
  }

  /// The object of a reference, of the type the caller needs.
  func object<Object: LiveObject>(
    _ handle: UnsafeRawPointer?, as type: Object.Type, _ name: String
  ) throws(Failure) -> Object {
    guard let handle else { throw Failure(.invalidArgument, "The \(name) is NULL.") }
    let object = storage.withLock { $0.entries[UInt(bitPattern: handle)]?.object }
    guard let object else {
      throw Failure(
        .invalidArgument,
        "The \(name) is no reference of this library, or has been released.")
    }
    guard let result = object as? Object else {
      throw Failure(
        .invalidArgument, "The \(name) is a reference to another kind of object (\(object.kind)).")
    }
    return result
  }

  private static let stale = Failure(
    .invalidArgument, "The reference is none of this library, or has been released.")
}
