import FMWire

/// JSON text that is still being written, closed so that it parses.
enum PartialJSON {
  /// The part of the text that is certain, with its strings, arrays and objects closed; nil where
  /// nothing is certain yet.
  ///
  /// A string that is being written is kept as far as it goes. A member whose name or value has not
  /// begun, and a number or word at the end that may go on, are left out. Costs one pass; whether
  /// the text is JSON otherwise is for the parser to say.
  static func closed(_ text: String) -> String? {
    var scanner = Scanner()
    for byte in text.utf8 { scanner.take(byte) }
    return scanner.closed(text.utf8)
  }

  private enum Container {
    case array
    /// `isName`: the next string is a member's name.
    case object(isName: Bool)

    var closer: UInt8 {
      switch self {
      case .array: UInt8(ascii: "]")
      case .object: UInt8(ascii: "}")
      }
    }
  }

  private struct Scanner {
    private var containers: [Container] = []
    private var position = 0
    /// Bytes after which everything still open can be closed at once.
    private var certain: Int?
    private var isInString = false
    /// Where the escape that is being written began.
    private var escapeStart: Int?
    private var escapeDigitsLeft = 0
    /// Where a scalar outside of strings began.
    private var scalarStart: Int?

    private var isName: Bool {
      if case .object(let isName) = containers.last { isName } else { false }
    }

    mutating func take(_ byte: UInt8) {
      defer { position += 1 }
      if isInString { return takeInString(byte) }
      switch byte {
      case UInt8(ascii: "\""): isInString = true
      case UInt8(ascii: "{"): open(.object(isName: true))
      case UInt8(ascii: "["): open(.array)
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        endScalar()
        if !containers.isEmpty { containers.removeLast() }
        certain = position + 1
      case UInt8(ascii: ","):
        endScalar()
        if case .object = containers.last {
          containers[containers.count - 1] = .object(isName: true)
        }
      case UInt8(ascii: ":"):
        if case .object = containers.last {
          containers[containers.count - 1] = .object(isName: false)
        }
      case 0x20, 0x09, 0x0A, 0x0D: endScalar()
      default: if scalarStart == nil { scalarStart = position }
      }
    }

    private mutating func open(_ container: Container) {
      containers.append(container)
      certain = position + 1
    }

    /// A number or word is over only when something follows it.
    private mutating func endScalar() {
      guard scalarStart != nil else { return }
      scalarStart = nil
      certain = position
    }

    private mutating func takeInString(_ byte: UInt8) {
      if escapeStart != nil {
        if escapeDigitsLeft > 0 {
          escapeDigitsLeft -= 1
        } else if byte == UInt8(ascii: "u") {
          escapeDigitsLeft = 4
          return
        }
        if escapeDigitsLeft == 0 { escapeStart = nil }
      } else if byte == UInt8(ascii: "\\") {
        escapeStart = position
      } else if byte == UInt8(ascii: "\"") {
        isInString = false
        if !isName { certain = position + 1 }
      }
    }

    func closed(_ text: String.UTF8View) -> String? {
      var bytes: [UInt8]
      if isInString && !isName {
        bytes = Array(text.prefix(escapeStart ?? position))
        bytes.dropHalfPair()
        bytes.append(UInt8(ascii: "\""))
      } else {
        guard let certain else { return nil }
        bytes = Array(text.prefix(certain))
      }
      for container in containers.reversed() { bytes.append(container.closer) }
      return String(decoding: bytes, as: UTF8.self)
    }
  }
}

extension [UInt8] {
  /// Drops the first half of a surrogate pair, written as an escape, whose second half is missing.
  fileprivate mutating func dropHalfPair() {
    guard count >= 6 else { return }
    let escape = suffix(6)
    let start = escape.startIndex
    guard escape[start] == UInt8(ascii: "\\"), escape[start + 1] == UInt8(ascii: "u"),
      let value = UInt16(String(decoding: escape.dropFirst(2), as: UTF8.self), radix: 16),
      0xD800...0xDBFF ~= value
    else { return }
    removeLast(6)
  }
}

extension GeneratedContent {
  /// The content of JSON text that may be unfinished; nil where nothing is certain yet, and for a
  /// text that is no JSON.
  package init?(unfinishedJSON text: String, id: GenerationID? = nil) {
    if let value = try? JSONValue(parsing: text) {
      self.init(value, id: id, isComplete: false)
    } else if let closed = PartialJSON.closed(text), let value = try? JSONValue(parsing: closed) {
      self.init(value, id: id, isComplete: false)
    } else {
      return nil
    }
  }
}
