import CCurl
import CLinux
import Glibc

/// Runs all transfers of the process on the I/O thread, with one curl multi handle.
///
/// Every member is used on that thread alone, which is what makes the class safe to share.
final class HTTPDriver: @unchecked Sendable {
  static let shared = HTTPDriver()

  /// Connections, busy and idle, beyond which no idle one is kept for reuse.
  private static let maxConnections = 128

  private var multi: CurlMultiHandle?
  private var transfers: [ObjectIdentifier: HTTPTransfer] = [:]
  /// curl's own timer, and the earliest time limit of all transfers.
  private var curlTimer: EventLoop.Timer?
  private var limitTimer: EventLoop.Timer?

  private init() {}

  func start(_ exchange: HTTPExchange) {
    // Cancelled before it began.
    if exchange.isOver { return }
    guard
      let multi = preparedMulti(),
      let transfer = HTTPTransfer(exchange, reschedule: { [unowned self] in schedule($0) })
    else {
      exchange.end(
        WireError(
          kind: .connect, message: "out of memory for a request to \(exchange.target.shownURL)",
          url: exchange.target.shownURL))
      return
    }
    transfers[ObjectIdentifier(exchange)] = transfer
    schedule(transfer.deadline)
    if let reason = multi.add(transfer.easy) {
      transfers[ObjectIdentifier(exchange)] = nil
      exchange.end(
        WireError(
          kind: .connect,
          message: "cannot start a request to \(exchange.target.shownURL): \(reason)",
          url: exchange.target.shownURL))
    }
  }

  /// Closes the connection of an exchange that nobody waits for.
  func abandon(_ exchange: HTTPExchange) {
    guard let transfer = transfers.removeValue(forKey: ObjectIdentifier(exchange)) else { return }
    multi?.remove(transfer.easy)
  }

  func resume(_ exchange: HTTPExchange) {
    transfers[ObjectIdentifier(exchange)]?.resume()
    collect()
  }

  func drain(_ exchange: HTTPExchange) {
    transfers[ObjectIdentifier(exchange)]?.drain()
    collect()
  }

  /// Ends every exchange with `.cancelled`.
  func cancelAll() {
    for transfer in Array(transfers.values) {
      let url = transfer.exchange.target.shownURL
      finish(
        transfer,
        WireError(kind: .cancelled, message: "the request to \(url) was cancelled", url: url)
      )
    }
  }

  // MARK: - curl

  private func preparedMulti() -> CurlMultiHandle? {
    if let multi { return multi }
    guard curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK, let multi = CurlMultiHandle()
    else { return nil }
    let loop = IOThread.shared.loop
    curlTimer = loop.makeTimer { [unowned self] in
      self.multi?.act(on: fm_socket_timeout)
      collect()
    }
    limitTimer = loop.makeTimer { [unowned self] in enforceLimits() }
    multi.set(CURLMOPT_MAXCONNECTS, Self.maxConnections)
    multi.setCallbacks(
      user: self,
      socket: { _, socket, what, user, _ in
        HTTPDriver.from(user).watch(socket, what)
        return 0
      },
      timer: { _, milliseconds, user in
        HTTPDriver.from(user).setCurlTimer(milliseconds)
        return 0
      })
    self.multi = multi
    return multi
  }

  private static func from(_ user: UnsafeMutableRawPointer?) -> HTTPDriver {
    Unmanaged<HTTPDriver>.fromOpaque(user!).takeUnretainedValue()
  }

  private func watch(_ socket: Int32, _ what: Int32) {
    let loop = IOThread.shared.loop
    if what == CURL_POLL_REMOVE {
      loop.unwatch(socket)
      return
    }
    var events: UInt32 = 0
    if what & CURL_POLL_IN != 0 { events |= EPOLLIN.rawValue }
    if what & CURL_POLL_OUT != 0 { events |= EPOLLOUT.rawValue }
    loop.watch(socket, events: events) { [unowned self] events in
      var mask: Int32 = 0
      if events & EPOLLIN.rawValue != 0 { mask |= CURL_CSELECT_IN }
      if events & EPOLLOUT.rawValue != 0 { mask |= CURL_CSELECT_OUT }
      if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { mask |= CURL_CSELECT_ERR }
      multi?.act(on: socket, mask: mask)
      collect()
    }
  }

  private func setCurlTimer(_ milliseconds: Int) {
    curlTimer?.deadline =
      milliseconds < 0 ? .never : MonotonicTime.now().advanced(by: Double(milliseconds) / 1000)
  }

  /// Ends the exchanges whose transfers curl has finished.
  private func collect() {
    while let (easy, code) = multi?.nextFinished() {
      guard let transfer = CurlEasyHandle.owner(of: easy, as: HTTPTransfer.self) else { continue }
      // curl is content with a head that ends in the middle.
      let isComplete = code == CURLE_OK && transfer.hasHead
      finish(transfer, isComplete ? nil : WireError(code, of: transfer))
    }
  }

  private func finish(_ transfer: HTTPTransfer, _ failure: WireError?) {
    transfers[ObjectIdentifier(transfer.exchange)] = nil
    multi?.remove(transfer.easy)
    transfer.exchange.end(failure)
  }

  // MARK: - Time limits

  /// Deadlines mostly move later, so the timer is only ever moved earlier here; `enforceLimits`
  /// finds the true next one. Keeps the cost of a chunk constant.
  private func schedule(_ deadline: MonotonicTime) {
    if let limitTimer, deadline < limitTimer.deadline { limitTimer.deadline = deadline }
  }

  private func enforceLimits() {
    let now = MonotonicTime.now()
    for transfer in Array(transfers.values) {
      if let error = transfer.timeoutError(at: now) {
        finish(transfer, error)
      } else {
        schedule(transfer.deadline)
      }
    }
  }
}
