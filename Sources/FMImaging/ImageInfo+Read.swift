extension ImageInfo {
  /// Reads the header of a file of that format; decodes nothing.
  init(_ format: ImageFormat, _ bytes: [UInt8], limits: ImageLimits) throws(ImageProblem) {
    switch format {
    case .jpeg:
      let structure = try JPEGStructure(bytes, limits: limits)
      self.init(format, structure.frame.width, structure.frame.height, exif: structure.exif)
    case .png:
      let structure = try PNGStructure(bytes, limits: limits)
      self.init(format, structure.width, structure.height, exif: structure.exif)
    case .webp:
      let structure = try WebPStructure(bytes, limits: limits)
      self.init(format, structure.width, structure.height, exif: structure.exif)
    case .gif:
      let structure = try GIFStructure(bytes, limits: limits)
      self.init(format, structure.width, structure.height, exif: nil)
    case .bmp:
      let structure = try BMPStructure(bytes, limits: limits)
      self.init(format, structure.width, structure.height, exif: nil)
    case .heic, .avif:
      // Their EXIF orientation is a copy, by specification, of what irot and imir say.
      self = try bytes.withUnsafeBufferPointer { buffer throws(ImageProblem) in
        let decoder = try HEIFDecoder(
          buffer, structure: HEIFStructure(bytes), format: format, limits: limits)
        return ImageInfo(
          format: format, storedWidth: decoder.width, storedHeight: decoder.height,
          orientation: decoder.orientation)
      }
    }
  }

  private init(_ format: ImageFormat, _ width: Int, _ height: Int, exif: ArraySlice<UInt8>?) {
    let found = exif.map(EXIFReader.orientation(ofTIFF:)) ?? .absent
    self.init(
      format: format, storedWidth: width, storedHeight: height, orientation: found.orUp,
      warningCount: found == .malformed ? 1 : 0)
  }
}
