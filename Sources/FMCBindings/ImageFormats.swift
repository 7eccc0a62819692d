import FMCore
import FMImaging

@_cdecl("FMImageSetLimits")
public func fmImageSetLimits(
  _ maxFileBytes: Int64, _ maxPixels: Int64, _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    guard maxFileBytes >= 0, maxPixels >= 0 else {
      throw Failure(
        .invalidArgument, "The limits of pictures are counts, or 0 for the default, not negative.")
    }
    var limits = ImageLimits()
    if maxFileBytes > 0 { limits.maxFileBytes = Int(maxFileBytes) }
    if maxPixels > 0 { limits.maxPixels = Int(maxPixels) }
    ImageLimits.default = limits
    return true
  }
}

@_cdecl("FMImageOfferHEIFLibrary")
public func fmImageOfferHEIFLibrary(
  _ path: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    let path = try imagePath(path)
    if path.isEmpty {
      throw Failure(.invalidImagePath, "The path of the HEIF library is empty; give its full path.")
    }
    HEIFLibrary.offer(path: path)
    return true
  }
}
