import Foundation

@testable import FMWire

/// The scripted server of Tests/server as a child process of the test run.
final class ScriptedServer: Sendable {
  /// Shared by the tests that need no server of their own; ends with the test process.
  static let shared = ScriptedServer()

  let port: Int
  let unixSocketPath: String
  private let process: Process
  private let input = Pipe()

  init(tls: (certificate: String, key: String)? = nil) {
    let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent("server/scripted_server.py")
    unixSocketPath = NSTemporaryDirectory() + "openfm-\(UUID().uuidString.prefix(8)).sock"
    process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments =
      ["python3", script.path, "--unix", unixSocketPath]
      + (tls.map { ["--tls", $0.certificate, $0.key] } ?? [])
    process.standardInput = input
    let output = Pipe()
    process.standardOutput = output
    try! process.run()
    var line = Data()
    while line.last != UInt8(ascii: "\n") {
      let more = output.fileHandleForReading.readData(ofLength: 1)
      if more.isEmpty { fatalError("the scripted server did not start") }
      line.append(more)
    }
    port = Int(String(decoding: line, as: UTF8.self).trimmingCharacters(in: .newlines))!
  }

  deinit {
    try? input.fileHandleForWriting.close()
    process.waitUntilExit()
  }

  var baseURL: String { "http://127.0.0.1:\(port)" }

  /// A URL that plays a scenario, whatever the request.
  func url(_ scenario: String) -> String {
    let (name, query) = Self.parts(scenario)
    return "\(baseURL)/s/\(name)/\(query)"
  }

  private static func parts(_ scenario: String) -> (String, String) {
    guard let mark = scenario.firstIndex(of: "?") else { return (scenario, "") }
    return (String(scenario[..<mark]), String(scenario[mark...]))
  }

  func client(
    _ path: String = "", apiKey: String? = nil, headers: [String: String] = [:],
    timeouts: HTTPTimeouts = HTTPTimeouts(), retry: RetryPolicy = .none
  ) -> ChatCompletionsClient {
    ChatCompletionsClient(
      endpoint: Endpoint(
        baseURL: baseURL + path, apiKey: apiKey, headers: headers, timeouts: timeouts, retry: retry)
    )
  }

  /// For requests whose connection the next one must not find: libcurl would replace it unseen when
  /// the scenario breaks it.
  private static let unkept = [(name: "Connection", value: "close")]

  /// What the next requests get, one scenario each.
  func script(_ scenarios: JSONValue...) async throws {
    let (head, _) = try await HTTPClient.shared.send(
      HTTPRequest(
        method: "POST", url: baseURL + "/_script", headers: Self.unkept,
        body: RequestBody(Array(JSONValue.array(scenarios).jsonText.utf8))))
    assert(head.status == 200)
  }

  /// Forgets the requests so far and what was scripted.
  func clear() async throws {
    _ = try await HTTPClient.shared.send(
      HTTPRequest(method: "DELETE", url: baseURL + "/_log", headers: Self.unkept))
  }

  /// A request body whose model selects the scenario; `tag` finds the request in the log.
  static func body(_ scenario: String, tag: String = "", text: String = "Hello") -> RequestBody {
    var writer = JSONWriter(leavingLarge: true)
    writer.value([
      "model": .string("scenario:" + scenario), "stream": true, "user": .string(tag),
      "messages": [["role": "user", "content": .string(text)]],
    ])
    return writer.body
  }

  /// The log's entry of the request with that tag, once it is over.
  func entry(tag: String, within seconds: Double = 5) async throws -> JSONValue? {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while ContinuousClock.now < deadline {
      let log = try await log()
      if let entry = log.last(where: { $0["body"]?["user"]?.stringValue == tag }),
        entry["finished_at"]?.isNull == false
      {
        return entry
      }
      try await Task.sleep(for: .milliseconds(20))
    }
    return nil
  }

  func log() async throws -> [JSONValue] {
    let (_, body) = try await HTTPClient.shared.send(
      HTTPRequest(method: "GET", url: baseURL + "/_log", headers: Self.unkept))
    return try JSONValue(parsing: body).arrayValue ?? []
  }
}

/// All events of an answer, and the error that ended it.
func collect(
  _ client: ChatCompletionsClient, _ body: RequestBody
) async -> (events: [ChatEvent], error: (any Error)?) {
  var events: [ChatEvent] = []
  do {
    for try await event in try await client.stream(body: body) { events.append(event) }
    return (events, nil)
  } catch {
    return (events, error)
  }
}

extension [ChatEvent] {
  var text: String {
    compactMap { if case .text(let text) = $0 { text } else { nil } }.joined()
  }
  var reasoning: String {
    compactMap { if case .reasoning(let text) = $0 { text } else { nil } }.joined()
  }
  var refusal: String {
    compactMap { if case .refusal(let text) = $0 { text } else { nil } }.joined()
  }
  var finishReasons: [String] {
    compactMap { if case .finish(let reason) = $0 { reason } else { nil } }
  }
  var usages: [ChatUsage] {
    compactMap { if case .usage(let usage) = $0 { usage } else { nil } }
  }
}
