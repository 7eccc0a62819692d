import CLinux
import Glibc

/// One attempt to get a child that serves.
struct EngineStart {
  var engine: Engine

  private var configuration: EngineConfiguration { engine.configuration }

  private enum Address {
    case socket(EngineDirectory)
    case port(UInt16)
  }

  /// What would make a llama-server listen elsewhere, serve something else, or share one context
  /// between requests. The rest of LLAMA_ARG_* is the user's to set.
  private static let removedVariables: Set<String> = [
    "OPENFM_API_KEY", "LLAMA_ARG_HOST", "LLAMA_ARG_PORT", "LLAMA_ARG_API_PREFIX",
    "LLAMA_ARG_API_KEY_FILE", "LLAMA_ARG_SSL_KEY_FILE", "LLAMA_ARG_SSL_CERT_FILE",
    "LLAMA_ARG_EMBEDDINGS", "LLAMA_ARG_RERANKING", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_HF_REPO",
    "LLAMA_ARG_HF_FILE", "LLAMA_ARG_DOCKER_REPO", "LLAMA_ARG_MODELS_DIR",
    "LLAMA_ARG_MODELS_PRESET", "LLAMA_ARG_MMPROJ", "LLAMA_ARG_MMPROJ_URL",
    "LLAMA_ARG_KV_UNIFIED", "LLAMA_ARG_KV_UNIFIED_PER_SLOT", "LLAMA_ARG_LOG_FILE",
  ]

  func run() async throws -> Engine.Lease {
    _ = Engine.stopsAtExit
    let settings = EngineSettings(environment: ProcessEnvironment.current)
    guard let name = configuration.command.first, let path = settings.executable(name) else {
      throw EngineError(
        kind: .notStarted,
        message: "there is no program \(configuration.command.first ?? "") to start the engine "
          + "with; `pip install xllamacpp`, or set OPENFM_ENGINE to llama.cpp's llama-server")
    }
    // A private socket is beyond other users' reach. A port is for where there can be none: paths
    // too long, a file system without sockets, an engine too old.
    if let directory = EngineDirectory(environment: settings) {
      if let lease = try await attempt(path, settings, .socket(directory)) { return lease }
    }
    for _ in 0..<3 {
      guard let port = Self.freePort() else { break }
      if let lease = try await attempt(path, settings, .port(port)) { return lease }
    }
    throw EngineError(
      kind: .failed,
      message: "the engine \(path) can listen neither on a socket under TMPDIR nor on 127.0.0.1")
  }

  /// nil when the child could not listen there.
  private func attempt(
    _ path: String, _ settings: EngineSettings, _ address: Address
  ) async throws -> Engine.Lease? {
    guard let key = Self.randomKey() else {
      throw EngineError(kind: .notStarted, message: "the system gives no random bytes for a key")
    }
    let directory: EngineDirectory?
    let listen: [String]
    var endpoint: Endpoint
    switch address {
    case .socket(let made):
      directory = made
      listen = ["--host", made.socketPath, "--port", "0"]
      endpoint = Endpoint(baseURL: "http://localhost", unixSocketPath: made.socketPath)
    case .port(let port):
      directory = nil
      listen = ["--host", "127.0.0.1", "--port", String(port)]
      endpoint = Endpoint(baseURL: "http://127.0.0.1:\(port)")
    }
    endpoint.apiKey = key
    // A long prompt on a slow machine, behind others in the queue, may take very long to begin;
    // that the engine lives is known by other means.
    endpoint.timeouts.firstByte = 3600
    endpoint.timeouts.idle = 600
    // A child that does not answer has died, and is started again.
    endpoint.retry = .none

    let process: EngineProcess
    do {
      process = try await EngineProcess.start(
        path: path, arguments: arguments(listen), withoutVariables: Self.removedVariables,
        variables: variables(settings, key: key), directory: directory, owner: engine)
    } catch {
      throw EngineError(
        kind: .notStarted,
        message: "cannot start the engine \(configuration.command.joined(separator: " ")): "
          + "\(error); check OPENFM_ENGINE")
    }
    engine.isStarting(process)
    guard try await isReady(process, endpoint) else { return nil }
    return Engine.Lease(process: process, endpoint: endpoint)
  }

  /// llama-server's own names, which the bundled launcher shares.
  private func arguments(_ listen: [String]) -> [String] {
    var arguments = configuration.command
    arguments += ["--model", configuration.modelPath]
    if let projector = configuration.projectorPath { arguments += ["--mmproj", projector] }
    arguments += [
      "--ctx-size", String(configuration.contextSize * configuration.slots),
      "--parallel", String(configuration.slots), "--threads", String(configuration.threads),
      "--jinja", "--no-webui",
    ]
    return arguments + listen
  }

  /// The key goes here, since every user of the machine can read command lines. So do options that
  /// an older llama-server does not know, which it would refuse as arguments.
  private func variables(
    _ settings: EngineSettings, key: String
  ) -> [(name: String, value: String)] {
    var variables = [(name: "LLAMA_API_KEY", value: key), ("OPENFM_ENGINE_PARENT_FD", "0")]
    // Its own default is 8 GiB of prompt cache.
    if settings["LLAMA_ARG_CACHE_RAM"] == nil { variables.append(("LLAMA_ARG_CACHE_RAM", "256")) }
    // An idle connection holds one of these threads for seconds.
    if settings["LLAMA_ARG_THREADS_HTTP"] == nil {
      variables.append(("LLAMA_ARG_THREADS_HTTP", String(configuration.slots + 30)))
    }
    return variables
  }

  /// Asks the child for its health until it is well; false when it could not listen.
  private func isReady(_ process: EngineProcess, _ endpoint: Endpoint) async throws -> Bool {
    let deadline = ContinuousClock.now.advanced(by: .seconds(configuration.startSeconds))
    var delay = Duration.milliseconds(10)
    while true {
      if process.exit != nil {
        if process.logTail.contains("couldn't bind") && !process.wasStopped { return false }
        throw ended(process)
      }
      let left = deadline - .now
      if left <= .zero {
        process.stop(grace: .zero)
        throw failure(
          process,
          "was not ready within \(configuration.startSeconds.formatted) seconds; give it more with "
            + "OPENFM_ENGINE_START_TIMEOUT, or choose a smaller model")
      }
      switch await health(endpoint, within: min(left, .seconds(10))) {
      case 200: return true
      case nil, 503: break  // Does not listen yet, or loads the model.
      case let status?:
        process.stop(grace: .zero)
        throw failure(
          process,
          "answered GET /health with status \(status); OPENFM_ENGINE must be llama.cpp's "
            + "llama-server or take its options")
      }
      _ = await process.hasEnded(within: min(delay, left))
      delay = min(delay * 3 / 2, .milliseconds(250))
    }
  }

  private func health(_ endpoint: Endpoint, within time: Duration) async -> Int? {
    if let path = endpoint.unixSocketPath, access(path, F_OK) != 0 { return nil }
    let request = HTTPRequest(
      method: "GET", url: endpoint.baseURL + "/health", unixSocketPath: endpoint.unixSocketPath,
      headers: [("Authorization", "Bearer \(endpoint.apiKey ?? "")")],
      timeouts: HTTPTimeouts(connect: 2, firstByte: 10, idle: 10, total: time.seconds))
    return try? await HTTPClient.shared.send(request, maxBytes: 64 << 10).head.status
  }

  private func ended(_ process: EngineProcess) -> EngineError {
    if process.wasStopped { return failure(process, "was stopped while it started") }
    let exit = process.exit?.description ?? "an unknown status"
    let why = process.lastLogLine.map { ": \($0)" } ?? " and said nothing"
    return failure(process, "ended before it was ready (\(exit))\(why)")
  }

  private func failure(_ process: EngineProcess, _ what: String) -> EngineError {
    EngineError(
      kind: .failed,
      message: "the engine \(configuration.command.first ?? "") with \(configuration.modelPath) "
        + what,
      logTail: process.logTail)
  }

  /// 256 bits, in hexadecimal.
  private static func randomKey() -> String? {
    var bytes = [UInt8](repeating: 0, count: 32)
    guard fm_random_bytes(&bytes, bytes.count) else { return nil }
    return FileDigest.hexadecimal(bytes)
  }

  /// A port of 127.0.0.1 that nobody has at this moment. Somebody may take it before the child
  /// does; then the child ends, and the next attempt takes another.
  private static func freePort() -> UInt16? {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = withUnsafeMutableBytes(of: &address) { bytes in
      let address = bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self)
      return bind(descriptor, address, length) == 0
        && getsockname(descriptor, address, &length) == 0
    }
    return isBound ? UInt16(bigEndian: address.sin_port) : nil
  }
}

extension Double {
  /// Without ".0" for a whole number.
  fileprivate var formatted: String { self == rounded() ? String(Int(self)) : String(self) }
}
