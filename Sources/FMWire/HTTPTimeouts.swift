public struct HTTPTimeouts: Sendable, Hashable {
  /// Seconds; 0 = no limit.
  public var connect: Double
  /// From the request's last byte to the response's first.
  public var firstByte: Double
  /// Between two chunks of a body.
  public var idle: Double
  public var total: Double
  public init(
    connect: Double = 10, firstByte: Double = 300, idle: Double = 120, total: Double = 0
  ) {
    self.connect = connect
    self.firstByte = firstByte
    self.idle = idle
    self.total = total
  }
}
