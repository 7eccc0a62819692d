import Testing

@testable import FMImaging

@Suite("Image policy")
struct ImagePolicyTests {
  private static let sizes = [
    (1, 1), (1, 5000), (4032, 3024), (3024, 4032), (4033, 27), (12000, 9000), (1568, 1568),
    (1569, 1567), (13, 7), (65500, 3), (500_000, 400_000),
  ]

  @Test func limitsHoldAndNothingGrows() {
    let policies = [
      ImagePolicy(), ImagePolicy(maxLongEdge: nil, maxPixels: 1_000_000),
      ImagePolicy(maxLongEdge: 2048, maxShortEdge: 768),
      ImagePolicy(maxLongEdge: 100, maxShortEdge: 90, maxPixels: 5000),
      ImagePolicy(maxLongEdge: nil, maxPixels: 1_003_520, sideMultiple: 28),
      ImagePolicy(maxLongEdge: 1000, sideMultiple: 32), ImagePolicy(maxLongEdge: nil, maxPixels: 7),
    ]
    for policy in policies {
      for (width, height) in Self.sizes {
        let fitted = policy.fit(width: width, height: height)
        #expect(fitted.width >= 1 && fitted.height >= 1)
        #expect(fitted.width <= width && fitted.height <= height)
        #expect(policy.isWithinLimits(fitted.width, fitted.height), "\(policy) \(width) \(height)")
        // Turned pictures meet the same limits.
        let turned = policy.fit(width: height, height: width)
        #expect(turned == (fitted.height, fitted.width))
        // What fits is not made smaller once more, unless rounding to multiples moved it.
        if policy.sideMultiple == 1 {
          #expect(policy.fit(width: fitted.width, height: fitted.height) == fitted)
        }
      }
    }
  }

  @Test func nothingIsLostToALimitThatIsMet() {
    for (width, height) in [(1568, 1568), (640, 480), (27, 13)] {
      #expect(ImagePolicy(sideMultiple: 28).fit(width: width, height: height) == (width, height))
    }
  }

  /// Sizes from the makers' own tables.
  @Test func publishedSizes() {
    #expect(ImagePolicy(maxLongEdge: 1568).fit(width: 4032, height: 3024) == (1568, 1176))
    let tiles = ImagePolicy(maxLongEdge: 2048, maxShortEdge: 768)
    #expect(tiles.fit(width: 2048, height: 4096) == (768, 1536))
    #expect(tiles.fit(width: 1024, height: 1024) == (768, 768))
    let square = ImagePolicy(maxLongEdge: 1568, maxPixels: 1092 * 1092)
    #expect(square.fit(width: 3000, height: 3000) == (1092, 1092))
    #expect(square.fit(width: 4000, height: 2000) == (1544, 772))
  }

  @Test func multiplesAreThoseOfTheModel() {
    let policy = ImagePolicy(maxLongEdge: nil, maxPixels: 1280 * 28 * 28, sideMultiple: 28)
    let (width, height) = policy.fit(width: 4032, height: 3024)
    #expect(width % 28 == 0 && height % 28 == 0)
    #expect(width * height <= 1280 * 28 * 28 && width * height > 1200 * 28 * 28)
    // A side shorter than one multiple is scaled with the other, to no multiple.
    #expect(policy.fit(width: 1_000_000, height: 9).height == 3)
  }
}
