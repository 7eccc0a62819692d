import Synchronization

/// Prepared pictures by content and policy, bounded in bytes; the least recently used go first.
final class PreparedImageCache: Sendable {
  struct Key: Hashable, Sendable {
    var sha256: [UInt8]
    var orientation: ImageOrientation
    var policy: ImagePolicy
  }

  /// One preparation that is running: whoever wants the same waits for it instead of repeating it.
  private final class Flight: Sendable {
    let result = Mutex<PreparedImage?>(nil)
  }

  private struct Entry {
    var image: PreparedImage
    /// When it was used last, by `State.clock`.
    var lastUse: UInt64
  }

  private struct State {
    var entries: [Key: Entry] = [:]
    var flights: [Key: Flight] = [:]
    var byteCount = 0
    var clock: UInt64 = 0
    var hits = 0
    var misses = 0
    var evictions = 0
  }

  private let byteLimit: Int
  private let state = Mutex(State())

  init(byteLimit: Int) { self.byteLimit = byteLimit }

  var info: ImageCacheInfo {
    state.withLock {
      ImageCacheInfo(
        count: $0.entries.count, byteCount: $0.byteCount, byteLimit: byteLimit, hits: $0.hits,
        misses: $0.misses, evictions: $0.evictions)
    }
  }

  /// Forgets every picture and sets the counters to zero. What is being prepared is finished, and
  /// kept.
  func clear() {
    state.withLock { state in
      state.entries = [:]
      (state.byteCount, state.hits, state.misses, state.evictions) = (0, 0, 0, 0)
    }
  }

  /// The picture for `key`, made by `make` when it is not there. Failures are not kept.
  func image(for key: Key, make: () throws(ImageProblem) -> PreparedImage) throws(ImageProblem)
    -> PreparedImage
  {
    enum Found {
      case image(PreparedImage)
      case flight(Flight)
    }
    let found = state.withLock { state -> Found in
      if let image = state.entries[key]?.image {
        state.clock += 1
        state.hits += 1
        state.entries[key]?.lastUse = state.clock
        return .image(image)
      }
      if let flight = state.flights[key] { return .flight(flight) }
      let flight = Flight()
      state.flights[key] = flight
      return .flight(flight)
    }
    switch found {
    case .image(let image):
      return image
    case .flight(let flight):
      // The lock is held while the picture is made; the next in line finds it ready, or, after a
      // failure, tries with its own source.
      let outcome = flight.result.withLock { result -> Result<PreparedImage, ImageProblem> in
        if let image = result {
          state.withLock { $0.hits += 1 }
          return .success(image)
        }
        state.withLock { $0.misses += 1 }
        do throws(ImageProblem) {
          let image = try make()
          result = image
          return .success(image)
        } catch {
          return .failure(error)
        }
      }
      land(flight, key, try? outcome.get())
      return try outcome.get()
    }
  }

  private func land(_ flight: Flight, _ key: Key, _ image: PreparedImage?) {
    state.withLock { state in
      guard state.flights[key] === flight else { return }
      state.flights[key] = nil
      guard let image, image.bytes.count <= byteLimit, state.entries[key] == nil else { return }
      state.clock += 1
      state.entries[key] = Entry(image: image, lastUse: state.clock)
      state.byteCount += image.bytes.count
      while state.byteCount > byteLimit,
        let oldest = state.entries.min(by: { $0.value.lastUse < $1.value.lastUse })
      {
        state.entries[oldest.key] = nil
        state.byteCount -= oldest.value.image.bytes.count
        state.evictions += 1
      }
    }
  }
}
