extension SourceImage {
  /// Decodes what is never passed through: every format but JPEG and PNG.
  ///
  /// - Parameter background: 0xRRGGBB, what shows through where the picture is not opaque.
  func decodeWhole(background: UInt32) throws(ImageProblem) -> DecodedImage {
    // The header passed these checks with the source's own limits.
    let limits = ImageLimits.none
    switch info.format {
    case .jpeg, .png:
      preconditionFailure("JPEG and PNG have decoders of their own")
    case .webp:
      let structure = try WebPStructure(bytes, limits: limits)
      let profile = structure.colorProfile.map { ColorProfile.icc(Array($0)) } ?? .absent
      let colors = ColorTransform.make(profile, model: .rgb)
      var image = try WebPDecoder.decode(
        structure, background: background, transform: colors.transform)
      image.warningCount = colors.warningCount
      return image
    case .gif:
      return try GIFDecoder.decode(try GIFStructure(bytes, limits: limits), background: background)
    case .bmp:
      let structure = try BMPStructure(bytes, limits: limits)
      let colors = ColorTransform.make(structure.colorProfile, model: .rgb)
      var image = try BMPDecoder.decode(
        structure, background: background, transform: colors.transform)
      image.warningCount = colors.warningCount
      return image
    case .heic, .avif:
      return try bytes.withUnsafeBufferPointer { buffer throws(ImageProblem) in
        try HEIFDecoder(
          buffer, structure: HEIFStructure(bytes), format: info.format, limits: limits
        ).decode(background: background)
      }
    }
  }
}
