/// One attempt of a request that may have been sent several times.
public struct RequestAttempt: Sendable, Equatable {
  /// Seconds from its start to the answer's head, or to its failure.
  public var duration: Double
  /// nil = no answer came.
  public var httpStatus: Int?
  /// Why it failed; nil for the one whose answer was used.
  public var failure: WireError.Kind?
  public var message: String?
  /// Seconds waited before the next attempt; nil for the last one.
  public var delay: Double?

  init(duration: Double = 0) { self.duration = duration }
}
