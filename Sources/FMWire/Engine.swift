/// One child a configuration and process: started on first use, restarted after it died, ended
/// with this process.
public final class Engine: Sendable {
  /// The engine of that configuration, shared by all who ask.
  public static func shared(_ configuration: EngineConfiguration) -> Engine { fatalError() }
  public let configuration: EngineConfiguration

  private init(configuration: EngineConfiguration) { self.configuration = configuration }

  /// Where the running child listens; starts it and waits until it is ready where it does not run.
  /// `withEndpoint` counts as a request for the idle clock until `body` returns. When `body` fails
  /// because the child died, that is thrown as `EngineError` `.died` with the log's tail.
  public func withEndpoint<R: Sendable>(
    _ body: (Endpoint) async throws -> R
  ) async throws -> R { fatalError() }

  /// Ends every child of this process; later use starts them again.
  public static func stopAll() { fatalError() }
}
