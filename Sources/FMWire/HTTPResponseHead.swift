public struct HTTPResponseHead: Sendable {
  public var status: Int
  /// Names in lower case.
  public var headers: [(name: String, value: String)]
  public func header(_ name: String) -> String? { headers.last { $0.name == name }?.value }
}
