/// How a family of models turns a picture's size into tokens.
public enum ImageTokenRule: Sendable, Hashable {
  /// Always the same.
  case flat(Int)
  /// Squares of `side` pixels, begun ones whole; more than `cap` are scaled down to it.
  case cells(side: Int, cap: Int?)
  /// The same with OpenAI's factor for the price, in hundredths.
  case weightedCells(side: Int, cap: Int, hundredths: Int)
  /// Sides rounded to multiples, area clamped from `least` to `most` pixels, then squares.
  case roundedCells(side: Int, least: Int, most: Int)
  /// Squares of `side` pixels within a long edge, and a mark at the end of every row but the last.
  case rows(side: Int, maxLongEdge: Int)
  /// Fitted into 2048 x 2048, then to a short side of 768: a base and so much for each 512 tile.
  case openAITiles(base: Int, tile: Int)
  /// 258 up to 384 pixels a side, else 258 for each tile of two thirds of the short side.
  case geminiTiles
  /// Long edge brought to `longEdge`, tiles of `side`, and the whole picture once more; each has
  /// `each` tokens between two marks, and rows of tiles end with a line break.
  case framedTiles(longEdge: Int, side: Int, each: Int)
  /// The grid of at most `most` tiles whose proportions are nearest, and the whole once more.
  case nearestGrid(side: Int, each: Int, most: Int)
  /// So many slices as the area has tiles, at most `most`, and the whole once more.
  case slices(side: Int, each: Int, most: Int)

  /// Tokens of a picture of that size; without the marks that some templates put around it.
  public func tokenCount(width: Int, height: Int) -> Int {
    let width = max(1, width)
    let height = max(1, height)
    switch self {
    case .flat(let count): return count
    case .cells(let side, let cap):
      return min(cells(width, side) * cells(height, side), cap ?? .max)
    case .weightedCells(let side, let cap, let hundredths):
      let count = min(cells(width, side) * cells(height, side), cap)
      return (count * hundredths + 99) / 100
    case .roundedCells(let side, let least, let most):
      return roundedCells(width, height, side, least, most)
    case .rows(let side, let maxLongEdge):
      let scale = min(1, Double(maxLongEdge) / Double(max(width, height)))
      func count(_ length: Int) -> Int { cells(max(1, Int(Double(length) * scale)), side) }
      return count(width) * count(height) + count(height) - 1
    case .openAITiles(let base, let tile):
      var scale = min(1, 2048 / Double(max(width, height)))
      scale = min(scale, 768 / Double(min(width, height)))
      // Half a thousandth of a pixel is rounding of ours, not another tile.
      func count(_ length: Int) -> Int {
        max(1, Int((Double(length) * scale / 512 - 1e-6).rounded(.up)))
      }
      return base + tile * count(width) * count(height)
    case .geminiTiles:
      guard max(width, height) > 384 else { return 258 }
      let unit = min(768, max(256, min(width, height) * 2 / 3))
      return 258 * cells(width, unit) * cells(height, unit)
    case .framedTiles(let longEdge, let side, let each):
      let scale = Double(longEdge) / Double(max(width, height))
      func count(_ length: Int) -> Int {
        max(1, Int((Double(length) * scale / Double(side) - 1e-6).rounded(.up)))
      }
      let rows = count(height)
      // A mark and a place for each tile and a line break for each row; around the whole, a line
      // break, two marks and a last one.
      return rows * count(width) * (each + 2) + rows + each + 4
    case .nearestGrid(let side, let each, let most):
      let tiles = nearestGrid(width, height, side, most)
      return each * (tiles == 1 ? 1 : tiles + 1)
    case .slices(let side, let each, let most):
      let slices = min(most, cells(width * height, side * side))
      return each * (slices == 1 ? 1 : slices + 1)
    }
  }

  private func cells(_ length: Int, _ side: Int) -> Int { (length + side - 1) / side }

  private func roundedCells(_ width: Int, _ height: Int, _ side: Int, _ least: Int, _ most: Int)
    -> Int
  {
    let unit = Double(side)
    func multiple(_ length: Double, _ rule: FloatingPointRoundingRule) -> Double {
      max(1, (length / unit).rounded(rule)) * unit
    }
    let (w, h) = (Double(width), Double(height))
    var rounded = (multiple(w, .toNearestOrEven), multiple(h, .toNearestOrEven))
    if rounded.0 * rounded.1 > Double(most) {
      let factor = (w * h / Double(most)).squareRoot()
      rounded = (multiple(w / factor, .down), multiple(h / factor, .down))
    } else if rounded.0 * rounded.1 < Double(least) {
      let factor = (Double(least) / (w * h)).squareRoot()
      rounded = (multiple(w * factor, .up), multiple(h * factor, .up))
    }
    return Int(rounded.0 * rounded.1) / (side * side)
  }

  private func nearestGrid(_ width: Int, _ height: Int, _ side: Int, _ most: Int) -> Int {
    let ratio = Double(width) / Double(height)
    var best = (difference: Double.infinity, tiles: 1)
    // By number of tiles, so that of two grids of the same proportions the smaller comes first.
    for tiles in 1...most {
      for columns in 1...tiles where tiles % columns == 0 {
        let difference = abs(ratio - Double(columns) / Double(tiles / columns))
        let fillsMore = width * height > side * side * tiles / 2
        if difference < best.difference || difference == best.difference && fillsMore {
          best = (difference, tiles)
        }
      }
    }
    return best.tiles
  }
}
