/// Pixels as they are sent: upright, sRGB, opaque, of their final size; what encoders take.
struct UprightImage {
  enum Model {
    case gray
    case rgb
    /// The chroma planes have fewer samples, as `subsampling` says.
    case yCbCr
  }

  var model: Model
  /// One plane of gray or three.
  var planes: [Plane]
  /// The source's own chroma subsampling, after the turn; `.none` where it had none.
  var subsampling: JPEGEncoder.Subsampling
}
