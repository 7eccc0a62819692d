import Glibc

/// A text that grows, kept with the NUL that C readers look for: appending costs what is appended,
/// and handing it out costs nothing.
final class SnapshotBuffer {
  private var memory: UnsafeMutablePointer<CChar>
  private var capacity: Int
  /// Bytes, without the NUL.
  private(set) var count = 0

  init() {
    capacity = 256
    memory = .allocate(capacity: capacity)
    memory[0] = 0
  }

  deinit { memory.deallocate() }

  /// Valid until the next change.
  var pointer: UnsafePointer<CChar> { UnsafePointer(memory) }

  func append(_ text: String) {
    var text = text
    text.withUTF8 { utf8 in
      let needed = count + utf8.count + 1
      if needed > capacity { grow(to: needed) }
      if let base = utf8.baseAddress { memcpy(memory + count, base, utf8.count) }
      count += utf8.count
      memory[count] = 0
    }
  }

  func replace(with text: String) {
    count = 0
    append(text)
  }

  private func grow(to needed: Int) {
    capacity = max(needed, capacity * 2)
    let larger = UnsafeMutablePointer<CChar>.allocate(capacity: capacity)
    memcpy(larger, memory, count + 1)
    memory.deallocate()
    memory = larger
  }
}
