import Glibc

/// Why a file is no usable GGUF model.
public struct GGUFError: Error, Sendable, Equatable {
  /// One line that names the file.
  public var message: String
  public init(message: String) { self.message = message }
}

/// What a GGUF file's metadata says of the model, without its weights.
///
///     let header = try GGUFHeader(path: "/models/small.gguf")
///     let limit = header.contextLength ?? 4096
///
/// Format: the GGUF specification of the ggml project, versions 2 and 3, little-endian.
public struct GGUFHeader: Sendable, Equatable {
  public var version: Int
  /// `general.architecture`, e.g. "llama"; "clip" for a vision projector.
  public var architecture: String?
  /// `general.name`.
  public var name: String?
  /// `general.type`, e.g. "model" or "mmproj"; older files have none.
  public var type: String?
  /// Tokens the model was trained for: `ARCHITECTURE.context_length`.
  public var contextLength: Int?

  /// Whether the file is a vision (or audio) projector, which goes beside a model.
  public var isProjector: Bool { type == "mmproj" || architecture == "clip" }

  /// Reads the metadata in blocks of 64 KiB, up to the tensor list. Keeps no descriptor.
  ///
  /// The cost is that of stepping over the vocabulary: 1 to 5 ms when the file is in the page cache.
  ///
  /// - Throws: `GGUFError` for a file that cannot be read, is no GGUF, or is cut or malformed.
  public init(path: String) throws(GGUFError) {
    var reader = try GGUFReader(path: path)
    guard try reader.bytes(4) == Array("GGUF".utf8) else {
      throw reader.malformed("it does not begin with \"GGUF\"")
    }
    let version = try reader.integer(UInt32.self)
    guard version == 2 || version == 3 else {
      throw reader.malformed(
        version.byteSwapped == 2 || version.byteSwapped == 3
          ? "it is big-endian" : "it has version \(version); 2 and 3 are known")
    }
    self.version = Int(version)
    _ = try reader.integer(UInt64.self)  // How many tensors.
    let count = try reader.integer(UInt64.self)
    guard count <= GGUFReader.maximumPairs else {
      throw reader.malformed("it claims \(count) metadata entries")
    }

    // The architecture may come after the length that it names.
    var contextLengths: [String: Int] = [:]
    let suffix = ".context_length"
    for _ in 0..<count {
      let key = try reader.string(maximum: 65_535)
      let kind = try reader.kind()
      switch key {
      case "general.architecture" where kind == .string: architecture = try reader.string()
      case "general.name" where kind == .string: name = try reader.string()
      case "general.type" where kind == .string: type = try reader.string()
      default:
        if key.hasSuffix(suffix), kind.isWholeNumber {
          contextLengths[String(key.dropLast(suffix.count))] = try reader.wholeNumber(kind)
        } else {
          try reader.skip(kind)
        }
      }
    }
    if let architecture, let length = contextLengths[architecture], length > 0 {
      contextLength = length
    }
  }
}

/// Reads a file forward through one buffer and owns its descriptor.
private struct GGUFReader: ~Copyable {
  static let maximumPairs: UInt64 = 1 << 16
  /// Metadata is tens of megabytes at most; a length beyond this is a broken file's.
  static let maximumBytes: UInt64 = 512 << 20

  enum Kind: UInt32 {
    case uint8, int8, uint16, int16, uint32, int32, float32, bool, string, array, uint64, int64
    case float64

    /// Bytes of one value; nil for those that say their length themselves.
    var size: UInt64? {
      switch self {
      case .uint8, .int8, .bool: 1
      case .uint16, .int16: 2
      case .uint32, .int32, .float32: 4
      case .uint64, .int64, .float64: 8
      case .string, .array: nil
      }
    }

    var isWholeNumber: Bool {
      switch self {
      case .uint8, .int8, .uint16, .int16, .uint32, .int32, .uint64, .int64: true
      case .float32, .float64, .bool, .string, .array: false
      }
    }
  }

  private let path: String
  private let descriptor: Int32
  private var buffer: [UInt8] = []
  /// Where in the buffer the next byte is, and where in the file the buffer ends.
  private var index = 0
  private var end: UInt64 = 0

  init(path: String) throws(GGUFError) {
    self.path = path
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      throw GGUFError(message: "cannot read the model \(path): \(Errno.current)")
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      throw GGUFError(message: "cannot read the model \(path): it is no regular file")
    }
  }

  deinit { close(descriptor) }

  func malformed(_ why: String) -> GGUFError {
    GGUFError(message: "\(path) is no usable GGUF model: \(why)")
  }

  private mutating func fill() throws(GGUFError) {
    guard end < Self.maximumBytes else { throw malformed("its metadata has no end") }
    let (path, descriptor, offset) = (path, descriptor, off_t(end))
    var failure: Int32 = 0
    buffer = [UInt8](unsafeUninitializedCapacity: 64 << 10) { bytes, count in
      var result: Int
      repeat {
        result = pread(descriptor, bytes.baseAddress, bytes.count, offset)
      } while result < 0 && errno == EINTR
      if result < 0 { failure = errno }
      count = max(result, 0)
    }
    guard failure == 0 else {
      throw GGUFError(
        message: "cannot read the model \(path): \(Errno(code: failure))")
    }
    guard !buffer.isEmpty else { throw malformed("it ends inside its metadata") }
    end += UInt64(buffer.count)
    index = 0
  }

  private mutating func byte() throws(GGUFError) -> UInt8 {
    if index == buffer.count { try fill() }
    defer { index += 1 }
    return buffer[index]
  }

  mutating func bytes(_ count: Int) throws(GGUFError) -> [UInt8] {
    var result: [UInt8] = []
    while result.count < count {
      if index == buffer.count { try fill() }
      let part = min(count - result.count, buffer.count - index)
      result += buffer[index..<index + part]
      index += part
    }
    return result
  }

  mutating func integer<T: FixedWidthInteger>(_: T.Type) throws(GGUFError) -> T {
    var value: T = 0
    for shift in stride(from: 0, to: T.bitWidth, by: 8) {
      value |= T(truncatingIfNeeded: try byte()) << T(shift)
    }
    return value
  }

  mutating func kind() throws(GGUFError) -> Kind {
    let value = try integer(UInt32.self)
    guard let kind = Kind(rawValue: value) else {
      throw malformed("it holds a value of unknown type \(value)")
    }
    return kind
  }

  mutating func string(maximum: UInt64 = 1 << 20) throws(GGUFError) -> String {
    let length = try integer(UInt64.self)
    guard length <= maximum else { throw malformed("it claims a text of \(length) bytes") }
    return String(decoding: try bytes(Int(length)), as: UTF8.self)
  }

  /// - Precondition: `kind.isWholeNumber`.
  /// - Returns: nil for a value that does not fit.
  mutating func wholeNumber(_ kind: Kind) throws(GGUFError) -> Int? {
    switch kind {
    case .uint8: Int(try integer(UInt8.self))
    case .int8: Int(try integer(Int8.self))
    case .uint16: Int(try integer(UInt16.self))
    case .int16: Int(try integer(Int16.self))
    case .uint32: Int(try integer(UInt32.self))
    case .int32: Int(try integer(Int32.self))
    case .uint64: Int(exactly: try integer(UInt64.self))
    case .int64: Int(try integer(Int64.self))
    case .float32, .float64, .bool, .string, .array: nil
    }
  }

  mutating func skip(_ kind: Kind, depth: Int = 0) throws(GGUFError) {
    if let size = kind.size { return try skip(bytes: size) }
    if kind == .string { return try skip(bytes: try integer(UInt64.self)) }
    guard depth < 4 else { throw malformed("its arrays are nested too deeply") }
    let element = try self.kind()
    let count = try integer(UInt64.self)
    guard count <= Self.maximumBytes else { throw malformed("it claims an array of \(count)") }
    if let size = element.size { return try skip(bytes: size * count) }
    for _ in 0..<count { try skip(element, depth: depth + 1) }
  }

  private mutating func skip(bytes count: UInt64) throws(GGUFError) {
    let buffered = UInt64(buffer.count - index)
    if count <= buffered {
      index += Int(count)
      return
    }
    // Beyond the buffer: nothing there needs to be read.
    let (target, overflow) = end.addingReportingOverflow(count - buffered)
    guard !overflow, target < Self.maximumBytes else {
      throw malformed("it claims a value of \(count) bytes")
    }
    end = target
    buffer = []
    index = 0
  }
}
