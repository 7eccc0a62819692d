/// The sizes of one preparation, in pixels.
struct ImageGeometry: Equatable {
  var orientation: ImageOrientation
  var storedWidth: Int
  var storedHeight: Int
  /// What the stored pixels are scaled to before they are turned.
  var scaledWidth: Int
  var scaledHeight: Int

  init(info: ImageInfo, orientation: ImageOrientation, policy: ImagePolicy) {
    self.orientation = orientation
    storedWidth = info.storedWidth
    storedHeight = info.storedHeight
    // The limits do not tell width from height, so the size may be found before the turn.
    (scaledWidth, scaledHeight) = policy.fit(width: storedWidth, height: storedHeight)
  }

  var isScaled: Bool { scaledWidth != storedWidth || scaledHeight != storedHeight }

  /// Upright sizes.
  var width: Int { orientation.swapsAxes ? scaledHeight : scaledWidth }
  var height: Int { orientation.swapsAxes ? scaledWidth : scaledHeight }
  var sourceWidth: Int { orientation.swapsAxes ? storedHeight : storedWidth }
  var sourceHeight: Int { orientation.swapsAxes ? storedWidth : storedHeight }

  /// The cheapest DCT scale that still has every pixel that is asked for: 1, 2, 4 or 8. Sizes
  /// between have no SIMD code in libjpeg-turbo.
  var denominator: Int {
    [8, 4, 2].first { storedWidth >= scaledWidth * $0 && storedHeight >= scaledHeight * $0 } ?? 1
  }

  /// Brings one decoded plane to its final size and turns it.
  ///
  /// - Parameters:
  ///   - extent: The part of the plane that the picture covers, in samples.
  ///   - scaler: Keeps what planes of one size share.
  ///   - across, down: Pixels of the (unturned) result that share a sample.
  ///
  /// Where a subsampled plane of odd size is mirrored, the grid of shared samples begins at the
  /// other edge: the region then starts half a sample before the plane, and resampling moves the
  /// chroma where it belongs.
  func fit(
    _ plane: Plane, extent: (width: Double, height: Double), scaler: PlaneScaler, across: Int = 1,
    down: Int = 1
  ) throws(ImageProblem) -> Plane {
    func axis(_ extent: Double, _ size: Int, _ step: Int, _ isMirrored: Bool)
      -> (start: Double, length: Double, count: Int)
    {
      let count = (size + step - 1) / step
      let start = isMirrored ? size - count * step : 0
      // One multiplication and one division, so that whole numbers stay whole.
      return (
        Double(start) * extent / Double(size), Double(count * step) * extent / Double(size), count
      )
    }
    let x = axis(extent.width, scaledWidth, across, orientation.mirrorsX)
    let y = axis(extent.height, scaledHeight, down, orientation.mirrorsY)
    let scaled = try scaler.scale(
      plane,
      region: .init(x: x.start, y: y.start, width: x.length, height: y.length),
      width: x.count, height: y.count)
    return try scaled.turned(orientation)
  }
}
