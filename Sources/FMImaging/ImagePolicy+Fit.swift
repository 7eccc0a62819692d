extension ImagePolicy {
  /// The size that a picture of that size is sent in, in pixels.
  ///
  /// Keeps the proportions to the nearest pixel (with a `sideMultiple`, to the nearest multiple),
  /// never enlarges a side and never gives an empty one.
  public func fit(width: Int, height: Int) -> (width: Int, height: Int) {
    precondition(width > 0 && height > 0)
    var fitted = (width: width, height: height)
    func take(_ other: (width: Int, height: Int)) {
      if other.width <= fitted.width, other.height <= fitted.height { fitted = other }
    }
    /// Both sides times limit / side, rounded to the nearest pixel.
    func limit(_ side: Int, to limit: Int?) {
      guard let limit = limit.map({ max(1, $0) }), side > limit else { return }
      func scaled(_ length: Int) -> Int {
        // Through 128 bits: sides of a few hundred million pixels are refused later, not here.
        let (high, low) = length.multipliedFullWidth(by: limit)
        let (sum, carry) = low.addingReportingOverflow(UInt(side / 2))
        return max(1, side.dividingFullWidth((high + (carry ? 1 : 0), sum)).quotient)
      }
      take((scaled(width), scaled(height)))
    }
    limit(max(width, height), to: maxLongEdge)
    limit(min(width, height), to: maxShortEdge)
    if let maxPixels { take(Self.fit(width, height, pixels: max(1, maxPixels))) }
    guard fitted != (width, height), sideMultiple > 1 else { return fitted }

    let nearest = (
      nearestMultiple(fitted.width, within: width),
      nearestMultiple(fitted.height, within: height)
    )
    if isWithinLimits(nearest.0, nearest.1) { return nearest }
    func below(_ side: Int) -> Int { side < sideMultiple ? side : side - side % sideMultiple }
    return (below(fitted.width), below(fitted.height))
  }

  /// The largest size of those proportions with at most so many pixels.
  static func fit(_ width: Int, _ height: Int, pixels: Int) -> (width: Int, height: Int) {
    let area = Double(width) * Double(height)
    guard area > Double(pixels) else { return (width, height) }
    let scale = (Double(pixels) / area).squareRoot()
    var fitted = (
      width: max(1, Int(Double(width) * scale)), height: max(1, Int(Double(height) * scale))
    )
    // A strip one pixel wide: the other side alone has to give way.
    if fitted.width == 1 { fitted.height = min(fitted.height, pixels) }
    if fitted.height == 1 { fitted.width = min(fitted.width, pixels) }
    return fitted
  }

  func isWithinLimits(_ width: Int, _ height: Int) -> Bool {
    max(width, height) <= maxLongEdge ?? .max && min(width, height) <= maxShortEdge ?? .max
      && width.multipliedReportingOverflow(by: height).partialValue <= maxPixels ?? .max
  }

  /// The nearest multiple, half to even as the models' own preparation rounds; a side shorter than
  /// one multiple stays.
  private func nearestMultiple(_ side: Int, within most: Int) -> Int {
    guard side >= sideMultiple else { return side }
    let rounded = Int((Double(side) / Double(sideMultiple)).rounded(.toNearestOrEven))
    return min(rounded, most / sideMultiple) * sideMultiple
  }
}
