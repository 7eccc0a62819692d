import FMCore
import FMImaging
import FMWire

/// A prepared picture whose bytes stay at one address.
final class PreparedImageObject: LiveObject, @unchecked Sendable {
  let image: PreparedImage
  /// The picture's own storage, which stays in place because nothing here ever changes it. A copy of
  /// a photo that is passed through would take longer than all the rest.
  let bytes: UnsafeBufferPointer<UInt8>

  init(_ image: PreparedImage) {
    self.image = image
    bytes = image.bytes.withUnsafeBufferPointer { $0 }
    super.init(.preparedImage)
  }
}

@_cdecl("FMImagePrepare")
public func fmImagePrepare(
  _ path: UnsafePointer<CChar>?, _ orientation: Int32, _ policyJSON: UnsafePointer<CChar>?,
  _ expectedSHA256: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let orientation = try imageOrientation(orientation)
    let policy = try ImagePolicy(json: try nonEmptyText(policyJSON, "image policy"))
    let source = try SourceImage(
      contentsOfFile: try imagePath(path), expectedSHA256: try sha256Text(expectedSHA256))
    return HandleTable.shared.insert(
      PreparedImageObject(
        try ImagePreparer.shared.prepare(source, orientation: orientation, policy: policy)))
  }
}

@_cdecl("FMPreparedImageGetBytes")
public func fmPreparedImageGetBytes(
  _ image: UnsafeRawPointer?, _ length: UnsafeMutablePointer<Int>?
) -> UnsafePointer<UInt8>? {
  enter(else: nil) {
    let object = try HandleTable.shared.object(
      image, as: PreparedImageObject.self, "prepared image")
    length?.pointee = object.bytes.count
    return object.bytes.baseAddress
  }
}

/// FMPreparedImageInfo of OpenFM.h, up to its arrays.
struct CPreparedImageInfo {
  var width: Int32 = 0
  var height: Int32 = 0
  var originalWidth: Int32 = 0
  var originalHeight: Int32 = 0
  var scale: Double = 0
  var byteCount: Int64 = 0
  var orientation: Int32 = 0
  var warningCount: Int32 = 0
}

@_cdecl("FMPreparedImageGetInfo")
public func fmPreparedImageGetInfo(
  _ image: UnsafeRawPointer?, _ info: UnsafeMutableRawPointer?
) -> Bool {
  enter(else: false) {
    let image = try HandleTable.shared.object(
      image, as: PreparedImageObject.self, "prepared image"
    ).image
    guard let info else { throw Failure(.invalidArgument, "The image info is NULL.") }
    info.storeBytes(
      of: CPreparedImageInfo(
        width: Int32(image.width), height: Int32(image.height),
        originalWidth: Int32(image.originalWidth), originalHeight: Int32(image.originalHeight),
        scale: image.scale, byteCount: Int64(image.bytes.count),
        orientation: Int32(image.orientation.rawValue),
        warningCount: Int32(clamping: image.warningCount)), as: CPreparedImageInfo.self)
    var fields = CTextFields(info, after: CPreparedImageInfo.self)
    fields.write(image.format.mediaType, capacity: 32)
    fields.write(image.action.rawValue, capacity: 16)
    fields.write(image.sha256Text, capacity: 65)
    return true
  }
}

/// The arrays of characters at the end of a C struct, which a Swift struct cannot name.
private struct CTextFields {
  private var next: UnsafeMutableRawPointer

  init<Fields>(_ base: UnsafeMutableRawPointer, after type: Fields.Type) {
    next = base + MemoryLayout<Fields>.size
  }

  /// NUL-terminated, cut where it does not fit.
  mutating func write(_ text: String, capacity: Int) {
    let field = UnsafeMutableRawBufferPointer(start: next, count: capacity)
    field.initializeMemory(as: UInt8.self, repeating: 0)
    field.copyBytes(from: text.utf8.prefix(capacity - 1))
    next += capacity
  }
}

/// FMImageCacheInfo of OpenFM.h, field for field.
public struct CImageCacheInfo {
  public var count: Int64
  public var byteCount: Int64
  public var byteLimit: Int64
  public var hits: Int64
  public var misses: Int64
  public var evictions: Int64
}

@_cdecl("FMImageCacheGetInfo")
public func fmImageCacheGetInfo(_ info: UnsafeMutableRawPointer?) -> Bool {
  enter(else: false) {
    guard let info else { throw Failure(.invalidArgument, "The cache info is NULL.") }
    let cache = ImagePreparer.shared.cacheInfo
    info.storeBytes(
      of: CImageCacheInfo(
        count: Int64(cache.count), byteCount: Int64(cache.byteCount),
        byteLimit: Int64(cache.byteLimit), hits: Int64(cache.hits), misses: Int64(cache.misses),
        evictions: Int64(cache.evictions)), as: CImageCacheInfo.self)
    return true
  }
}

@_cdecl("FMImageCacheClear")
public func fmImageCacheClear() {
  enter(else: ()) { ImagePreparer.shared.clearCache() }
}

@_cdecl("FMImageEstimateTokens")
public func fmImageEstimateTokens(
  _ model: UnsafePointer<CChar>?, _ width: Int32, _ height: Int32,
  _ isExact: UnsafeMutablePointer<Bool>?, _ code: ErrorCode, _ description: ErrorDescription
) -> Int64 {
  enter(code, description, else: -1) {
    guard width > 0, height > 0 else {
      throw Failure(.invalidArgument, "\(width) x \(height) is no size of a picture.")
    }
    let estimate = ImageTokenEstimate(
      width: Int(width), height: Int(height), model: try requiredText(model, "model's name"))
    isExact?.pointee = estimate.isExact
    return Int64(estimate.tokenCount)
  }
}

/// FMImageInfo of OpenFM.h, up to its arrays.
struct CImageInfo {
  var width: Int32 = 0
  var height: Int32 = 0
  var storedWidth: Int32 = 0
  var storedHeight: Int32 = 0
  var orientation: Int32 = 0
  var byteCount: Int64 = 0
}

@_cdecl("FMImageInspect")
public func fmImageInspect(
  _ path: UnsafePointer<CChar>?, _ orientation: Int32, _ info: UnsafeMutableRawPointer?,
  _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    guard let info else { throw Failure(.invalidArgument, "The image info is NULL.") }
    let asked = try imageOrientation(orientation)
    let source = try SourceImage(contentsOfFile: try imagePath(path))
    let applied = asked ?? source.info.orientation
    let (width, height) = (Int32(source.info.storedWidth), Int32(source.info.storedHeight))
    info.storeBytes(
      of: CImageInfo(
        width: applied.swapsAxes ? height : width, height: applied.swapsAxes ? width : height,
        storedWidth: width, storedHeight: height, orientation: Int32(applied.rawValue),
        byteCount: Int64(source.bytes.count)), as: CImageInfo.self)
    var fields = CTextFields(info, after: CImageInfo.self)
    fields.write(source.info.format.mediaType, capacity: 32)
    fields.write(source.sha256Text, capacity: 65)
    return true
  }
}
