import CJPEG

extension JPEGDecoder {
  /// Whether turning the coefficients gives the very pixels: the minimum coded units of a side that
  /// is mirrored must end with the picture.
  func canTurn(_ orientation: ImageOrientation) -> Bool {
    let across = Int(header.max_h_samp) * 8
    let down = Int(header.max_v_samp) * 8
    return (!orientation.mirrorsX || Int(header.width) % across == 0)
      && (!orientation.mirrorsY || Int(header.height) % down == 0)
  }

  /// The picture turned upright without decoding it to pixels; nil where its coefficients do not
  /// allow that. The decoder is used up.
  ///
  /// Costs an entropy decode, an entropy encode and, for a file that is packed with tables of its
  /// own, a count of its symbols; 2 bytes of memory a sample.
  func turned(_ orientation: ImageOrientation) throws(ImageProblem) -> [UInt8]? {
    var output = cjpeg_output()
    let status = cjpeg_turn(
      handle, orientation.swapsAxes ? 1 : 0, orientation.mirrorsX ? 1 : 0,
      orientation.mirrorsY ? 1 : 0, &output)
    if status == CJPEG_CORRUPT || status == CJPEG_UNSUPPORTED { return nil }
    return try JPEGEncoder.take(&output, status, Int(header.width), Int(header.height))
  }
}
