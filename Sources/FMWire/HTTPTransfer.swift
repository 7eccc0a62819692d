import CCurl
import Glibc

/// The running half of an exchange: a curl transfer with its callbacks and clocks. Used on the I/O
/// thread only.
final class HTTPTransfer {
  /// Bytes of a response's head, all lines together.
  private static let maxHeadLength = 1 << 20
  /// How long a server may take to end a response whose reader is gone.
  private static let drainSeconds = 0.25

  private enum Phase {
    case connecting
    case awaitingFirstByte
    case receiving
    case draining
  }

  let exchange: HTTPExchange
  let easy: CurlEasyHandle
  /// The earliest moment at which a time limit is due.
  private(set) var deadline: MonotonicTime
  /// Why a callback stopped the transfer.
  private(set) var failure: WireError?
  private(set) var hasHead = false

  private var phase = Phase.connecting
  private var body: RequestBodyReader
  private var head = HTTPResponseHead(status: 0, headers: [])
  private var headLength = 0
  private let totalDeadline: MonotonicTime
  /// Called when `deadline` moved.
  private let reschedule: (MonotonicTime) -> Void

  private var request: HTTPRequest { exchange.request }
  private var timeouts: HTTPTimeouts { exchange.request.timeouts }

  init?(_ exchange: HTTPExchange, reschedule: @escaping (MonotonicTime) -> Void) {
    guard let easy = CurlEasyHandle() else { return nil }
    self.exchange = exchange
    self.easy = easy
    body = RequestBodyReader(exchange.request.body)
    self.reschedule = reschedule
    let total = exchange.request.timeouts.total
    totalDeadline =
      total > 0 ? MonotonicTime.now().advanced(by: total - exchange.request.elapsed) : .never
    deadline = totalDeadline
    configure()
    for line in exchange.target.headerLines {
      guard easy.appendHeader(line) else { return nil }
    }
    easy.useHeaders()
  }

  // MARK: - Options

  private func configure() {
    let target = exchange.target
    easy.set(CURLOPT_PRIVATE, unretained: self)
    easy.set(CURLOPT_URL, target.url)
    // `http` and `https` are also what a proxy or a server could lead to.
    easy.set(CURLOPT_PROTOCOLS_STR, "http,https")
    easy.set(CURLOPT_FOLLOWLOCATION, false)
    easy.set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
    easy.set(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS)
    easy.set(CURLOPT_NOSIGNAL, true)
    easy.set(CURLOPT_TCP_KEEPALIVE, true)
    // Without this a cancelled transfer would wait for its name lookup on the I/O thread.
    easy.set(CURLOPT_QUICK_EXIT, true)
    // Answers to CONNECT are the proxy's, not the server's.
    easy.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
    if let path = request.unixSocketPath { easy.set(CURLOPT_UNIX_SOCKET_PATH, path) }
    if let proxy = target.proxy { easy.set(CURLOPT_PROXY, proxy) }

    easy.set(CURLOPT_SSL_VERIFYPEER, true)
    easy.set(CURLOPT_SSL_VERIFYHOST, 2)
    switch target.certificates {
    case .file(let path):
      easy.set(CURLOPT_CAINFO, path)
      easy.set(CURLOPT_PROXY_CAINFO, path)
    case .folder(let path):
      easy.set(CURLOPT_CAPATH, path)
      easy.set(CURLOPT_PROXY_CAPATH, path)
    case nil: break
    }

    // The other limits are this class's own; 0 would be curl's default of five minutes.
    let connect = timeouts.connect > 0 ? min(timeouts.connect * 1000, 2e9) : 2e9
    easy.set(CURLOPT_CONNECTTIMEOUT_MS, max(1, Int(connect)))

    configureBody()

    easy.set(CURLOPT_HEADERDATA, unretained: self)
    fm_easy_set_data_callback(easy.pointer, CURLOPT_HEADERFUNCTION) { bytes, size, count, user in
      let length = size * count
      return HTTPTransfer.from(user).receiveHeader(
        UnsafeRawBufferPointer(start: bytes, count: length))
        ? length : 0
    }
    easy.set(CURLOPT_WRITEDATA, unretained: self)
    fm_easy_set_data_callback(easy.pointer, CURLOPT_WRITEFUNCTION) { bytes, size, count, user in
      let length = size * count
      return HTTPTransfer.from(user).receiveBody(
        UnsafeRawBufferPointer(start: bytes, count: length))
        ? length : fm_write_pause
    }
    easy.set(CURLOPT_PREREQDATA, unretained: self)
    fm_easy_set_prerequest_callback(easy.pointer) { user, _, _, _, _ in
      HTTPTransfer.from(user).connected()
      return Int32(CURL_PREREQFUNC_OK)
    }
    fm_easy_set_open_socket_callback(easy.pointer) { _, _, address in
      // A child process must not hold our connections open.
      let address = address!.pointee
      return socket(
        address.family, address.socktype | Int32(SOCK_CLOEXEC.rawValue), address.protocol)
    }
  }

  private func configureBody() {
    switch request.method {
    case "GET" where request.body.isEmpty: easy.set(CURLOPT_HTTPGET, true)
    case "HEAD": easy.set(CURLOPT_NOBODY, true)
    case _ where request.body.isEmpty && request.method != "POST":
      easy.set(CURLOPT_CUSTOMREQUEST, request.method)
    default:
      easy.set(CURLOPT_POST, true)
      easy.set(CURLOPT_CUSTOMREQUEST, request.method)
      easy.set(CURLOPT_POSTFIELDSIZE_LARGE, offset: request.body.count)
      // Pictures make bodies of megabytes: fewer, larger writes.
      if request.body.count > 256 << 10 { easy.set(CURLOPT_UPLOAD_BUFFERSIZE, 512 << 10) }
      easy.set(CURLOPT_READDATA, unretained: self)
      fm_easy_set_data_callback(easy.pointer, CURLOPT_READFUNCTION) { bytes, size, count, user in
        guard let bytes else { return fm_read_abort }
        let room = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
        return HTTPTransfer.from(user).sendBody(into: room)
      }
      easy.set(CURLOPT_SEEKDATA, unretained: self)
      fm_easy_set_seek_callback(easy.pointer) { user, offset, origin in
        HTTPTransfer.from(user).seekBody(to: Int(offset), origin: origin)
          ? Int32(CURL_SEEKFUNC_OK) : Int32(CURL_SEEKFUNC_FAIL)
      }
    }
  }

  private static func from(_ user: UnsafeMutableRawPointer?) -> HTTPTransfer {
    Unmanaged<HTTPTransfer>.fromOpaque(user!).takeUnretainedValue()
  }

  // MARK: - What curl calls

  /// The connection is there, new or reused.
  private func connected() {
    phase = .awaitingFirstByte
    restartClock()
  }

  private func sendBody(into room: UnsafeMutableRawBufferPointer) -> Int {
    let count = body.read(into: room)
    // As long as the server takes the request, it need not answer.
    restartClock()
    return count
  }

  /// curl sends a request again when a reused connection turns out to be dead.
  private func seekBody(to offset: Int, origin: Int32) -> Bool {
    guard origin == SEEK_SET, 0...request.body.count ~= offset else { return false }
    body.seek(to: offset)
    return true
  }

  private func receiveHeader(_ line: UnsafeRawBufferPointer) -> Bool {
    if phase != .draining { phase = .receiving }
    restartClock()
    // Trailers, which come after the body, say nothing of use.
    if hasHead { return true }
    headLength += line.count
    if headLength > Self.maxHeadLength {
      fail(.invalidResponse, "sent a response head longer than \(Self.maxHeadLength) bytes")
      return false
    }
    let text = String(decoding: line, as: UTF8.self)
    let trimmed = text.trimmingASCIIWhitespace()
    if trimmed.hasPrefix("HTTP/") && head.headers.isEmpty {
      head.status = trimmed.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    } else if trimmed.isEmpty {
      // 1xx heads announce the real one.
      if head.status >= 200 {
        hasHead = true
        exchange.receive(head)
      } else {
        head = HTTPResponseHead(status: 0, headers: [])
      }
    } else if let colon = trimmed.firstIndex(of: ":") {
      let name = trimmed[..<colon].lowercased()
      let value = String(trimmed[trimmed.index(after: colon)...]).trimmingASCIIWhitespace()
      head.headers.append((name: name, value: value))
    }
    return true
  }

  private func receiveBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard exchange.receive(bytes) else {
      // A slow reader is not the server's fault: only the total limit runs on.
      deadline = totalDeadline
      return false
    }
    restartClock()
    return true
  }

  // MARK: - What the driver calls

  /// The reader took what was there.
  func resume() {
    restartClock()
    easy.resume()
  }

  /// The reader is gone; the rest of the body is thrown away.
  func drain() {
    phase = .draining
    deadline = min(totalDeadline, MonotonicTime.now().advanced(by: Self.drainSeconds))
    reschedule(deadline)
    easy.resume()
  }

  /// The error of a time limit that is due.
  func timeoutError(at now: MonotonicTime) -> WireError? {
    guard deadline <= now else { return nil }
    let url = exchange.target.shownURL
    let message: String
    if totalDeadline <= now {
      message =
        "\(url) did not complete its answer within \(Self.seconds(timeouts.total)) "
        + "(total time limit)"
    } else if phase == .awaitingFirstByte {
      message =
        "\(url) sent no answer within \(Self.seconds(timeouts.firstByte)) "
        + "(first byte time limit)"
    } else {
      message =
        "\(url) stopped in the midst of its answer for \(Self.seconds(timeouts.idle)) "
        + "(idle time limit)"
    }
    return WireError(kind: .timeout, message: message, url: url)
  }

  static func seconds(_ seconds: Double) -> String {
    let whole = seconds.rounded()
    return whole == seconds ? "\(Int(whole)) s" : "\(seconds) s"
  }

  // MARK: - Parts

  private func fail(_ kind: WireError.Kind, _ what: String) {
    let url = exchange.target.shownURL
    failure = WireError(kind: kind, message: "\(url) \(what)", url: url)
  }

  /// Something moved: the limit of the present phase starts anew.
  private func restartClock() {
    let limit: Double
    switch phase {
    case .connecting, .draining: return
    case .awaitingFirstByte: limit = timeouts.firstByte
    case .receiving: limit = timeouts.idle
    }
    deadline =
      limit > 0 ? min(totalDeadline, MonotonicTime.now().advanced(by: limit)) : totalDeadline
    reschedule(deadline)
  }
}
