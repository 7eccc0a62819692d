import CJPEG

extension JPEGDecoder {
  /// What the values mean; nil for a colour space that nothing here converts.
  var colorModel: ColorTransform.Model? {
    switch header.color {
    case CJPEG_COLOR_GRAY: .gray
    case CJPEG_COLOR_YCBCR, CJPEG_COLOR_RGB: .rgb
    case CJPEG_COLOR_CMYK: .inks
    default: nil
    }
  }

  /// Decodes at 1/`denominator`: 1, 2, 4 or 8.
  func decode(denominator: Int, transform: ColorTransform?, sharesChroma: Bool = false)
    throws(ImageProblem) -> DecodedImage
  {
    let model: DecodedImage.Model
    switch header.color {
    case CJPEG_COLOR_GRAY: model = .gray
    case CJPEG_COLOR_YCBCR: model = .yCbCr(subsampling)
    case CJPEG_COLOR_RGB: model = .rgb
    case CJPEG_COLOR_CMYK:
      let planes = try decodeInks(denominator: denominator)
      let extent = (
        width: Double(header.width) / Double(denominator),
        height: Double(header.height) / Double(denominator)
      )
      return DecodedImage(
        model: .inks, planes: planes, extents: Array(repeating: extent, count: 4),
        transform: transform)
    default:
      throw ImageProblem(
        .unsupportedFormat, "the JPEG's colour space is not supported; save it as RGB or gray")
    }
    let planes = try decodePlanes(denominator: denominator, sharesChroma: sharesChroma)
    return DecodedImage(
      model: model, planes: planes, extents: components.map(extent(of:)), transform: transform)
  }

  /// The chroma subsampling, 4:1:1 and rarer ones as the nearest of the four usual ones.
  private var subsampling: JPEGEncoder.Subsampling {
    let components = components
    return JPEGEncoder.Subsampling(
      horizontal: min(2, Int(header.max_h_samp / max(components[1].h_samp, components[2].h_samp))),
      vertical: min(2, Int(header.max_v_samp / max(components[1].v_samp, components[2].v_samp))))
  }
}
