/// A response whose body arrives in chunks. Dropping the iterator or cancelling the task that
/// iterates closes the connection at once; so does dropping a stream that was never iterated.
///
/// One iterator reads the body. Memory stays bounded under a slow reader: the connection is read
/// no further while more than `HTTPExchange.highWater` bytes wait.
public struct HTTPResponseStream: Sendable, AsyncSequence {
  public typealias Element = [UInt8]
  public var head: HTTPResponseHead
  private let owner: Owner

  init(head: HTTPResponseHead, exchange: HTTPExchange) {
    self.head = head
    owner = Owner(exchange)
  }

  /// Hands the body to `sink` on the I/O thread, chunk by chunk as it comes, and returns when it is
  /// over or `sink` has had enough. In place of iterating: no task is switched to for a chunk. While
  /// `flow` is held, the connection is not read.
  ///
  /// Throws `WireError`, or `CancellationError` when the task was cancelled.
  func pour(flow: AnswerFlow? = nil, into sink: @escaping HTTPExchange.Sink) async throws {
    let exchange = owner.handOver()
    do {
      try await exchange.pour(into: sink, flow: flow)
    } catch {
      exchange.cancel()
      throw error
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(owner: Owner(owner.handOver())) }

  /// Cancels its exchange when the last reference goes.
  fileprivate final class Owner: Sendable {
    let exchange: HTTPExchange
    private let isHandedOver = AtomicFlag()

    init(_ exchange: HTTPExchange) { self.exchange = exchange }

    deinit {
      if !isHandedOver.isSet { exchange.cancel() }
    }

    /// From now on the iterator decides when the exchange ends.
    func handOver() -> HTTPExchange {
      isHandedOver.set()
      return exchange
    }
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    private let owner: Owner

    fileprivate init(owner: Owner) { self.owner = owner }

    /// The next chunk, nil at the end of a complete body. Throws `WireError`, or
    /// `CancellationError` when the task was cancelled.
    public mutating func next() async throws -> [UInt8]? {
      try await owner.exchange.nextChunk()
    }

    /// The reader wants no more: the server gets a moment to end the response properly, so that the
    /// connection can serve the next request, and is cut off otherwise.
    func finish() { owner.handOver().drain() }
  }
}
