import FMCore
import FMImaging
import FMWire

/// A prepared picture whose bytes stay at one address.
final class PreparedImageObject: LiveObject, @unchecked Sendable {
  let image: PreparedImage
  let bytes: UnsafeMutableBufferPointer<UInt8>

  init(_ image: PreparedImage) {
    self.image = image
    bytes = .allocate(capacity: image.bytes.count)
    _ = bytes.initialize(from: image.bytes)
    super.init(.preparedImage)
  }

  deinit { bytes.deallocate() }
}

@_cdecl("FMPreparedImageCreate")
public func fmPreparedImageCreate(
  _ path: UnsafePointer<CChar>?, _ orientation: Int32, _ policyJSON: UnsafePointer<CChar>?,
  _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let orientation = try imageOrientation(orientation)
    let policy = try ImagePolicy(json: try nonEmptyText(policyJSON, "image policy"))
    let source = try SourceImage(contentsOfFile: try imagePath(path))
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
    return UnsafePointer(object.bytes.baseAddress)
  }
}

@_cdecl("FMPreparedImageCopyInfoJSON")
public func fmPreparedImageCopyInfoJSON(_ image: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>?
{
  enter(else: nil) {
    let object = try HandleTable.shared.object(
      image, as: PreparedImageObject.self, "prepared image")
    return copyString(SentImage(label: nil, prepared: object.image).json.jsonText)
  }
}

/// FMImageInfo of OpenFM.h, field for field.
struct CImageInfo {
  var width: Int32 = 0
  var height: Int32 = 0
  var storedWidth: Int32 = 0
  var storedHeight: Int32 = 0
  var orientation: Int32 = 0
  var byteCount: Int64 = 0

  // The two arrays that follow in C. A Swift struct cannot name them; they are written by offset.
  static let mediaTypeOffset = MemoryLayout<CImageInfo>.size
  static let mediaTypeCapacity = 32
  static let sha256Offset = mediaTypeOffset + mediaTypeCapacity
  static let sha256Capacity = 65
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
    func write(_ text: String, at offset: Int, capacity: Int) {
      let field = UnsafeMutableRawBufferPointer(start: info + offset, count: capacity)
      field.initializeMemory(as: UInt8.self, repeating: 0)
      field.copyBytes(from: text.utf8.prefix(capacity - 1))
    }
    write(
      source.info.format.mediaType, at: CImageInfo.mediaTypeOffset,
      capacity: CImageInfo.mediaTypeCapacity)
    write(
      source.sha256Text, at: CImageInfo.sha256Offset, capacity: CImageInfo.sha256Capacity)
    return true
  }
}
