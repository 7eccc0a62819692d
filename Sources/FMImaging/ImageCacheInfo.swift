/// What the cache of prepared pictures holds and has done since it was made or cleared.
public struct ImageCacheInfo: Sendable, Hashable {
  /// Pictures held.
  public var count: Int
  /// Bytes of their encoded files.
  public var byteCount: Int
  /// Bytes at which the least recently used are dropped.
  public var byteLimit: Int
  /// Preparations that were not needed, because the picture was there or being made.
  public var hits: Int
  /// Preparations that were made, failed ones included.
  public var misses: Int
  /// Pictures dropped to stay within the limit.
  public var evictions: Int
}
