import CCurl

/// libcurl's set of running transfers and its pool of connections; freed with the object.
final class CurlMultiHandle {
  private let pointer: UnsafeMutableRawPointer

  /// nil when memory is short.
  init?() {
    guard let pointer = curl_multi_init() else { return nil }
    self.pointer = pointer
  }

  deinit { curl_multi_cleanup(pointer) }

  func set(_ option: CURLMoption, _ value: Int) { fm_multi_set_long(pointer, option, value) }

  /// `user`, unretained, is what the callbacks get.
  func setCallbacks(
    user: AnyObject, socket: fm_socket_callback, timer: fm_timer_callback
  ) {
    let user = Unmanaged.passUnretained(user).toOpaque()
    fm_multi_set_pointer(pointer, CURLMOPT_SOCKETDATA, user)
    fm_multi_set_pointer(pointer, CURLMOPT_TIMERDATA, user)
    fm_multi_set_socket_callback(pointer, socket)
    fm_multi_set_timer_callback(pointer, timer)
  }

  /// nil = added, else why not.
  func add(_ easy: CurlEasyHandle) -> String? {
    let code = curl_multi_add_handle(pointer, easy.pointer)
    return code == CURLM_OK ? nil : String(cString: curl_multi_strerror(code))
  }

  /// Ends the transfer; a connection in the midst of one is closed.
  func remove(_ easy: CurlEasyHandle) { curl_multi_remove_handle(pointer, easy.pointer) }

  /// Tells curl what happened to a socket; `fm_socket_timeout` = its timer is due.
  func act(on socket: Int32, mask: Int32 = 0) {
    var running: Int32 = 0
    curl_multi_socket_action(pointer, socket, mask, &running)
  }

  /// The next transfer that is over, with its result.
  func nextFinished() -> (easy: UnsafeMutableRawPointer, code: CURLcode)? {
    var left: Int32 = 0
    while let message = curl_multi_info_read(pointer, &left) {
      if message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle {
        return (easy, fm_message_result(message))
      }
    }
    return nil
  }
}
