import CCurl

/// One libcurl transfer; frees the handle, its header list and its error buffer.
///
/// Must have left its multi handle before it goes.
final class CurlEasyHandle {
  let pointer: UnsafeMutableRawPointer
  private let errorBuffer: UnsafeMutablePointer<CChar>
  private var headerList: UnsafeMutablePointer<curl_slist>?

  /// nil when memory is short.
  init?() {
    guard let pointer = curl_easy_init() else { return nil }
    self.pointer = pointer
    errorBuffer = .allocate(capacity: fm_error_size)
    errorBuffer.initialize(repeating: 0, count: fm_error_size)
    fm_easy_set_pointer(pointer, CURLOPT_ERRORBUFFER, errorBuffer)
  }

  deinit {
    curl_easy_cleanup(pointer)
    curl_slist_free_all(headerList)
    errorBuffer.deallocate()
  }

  /// What curl wrote about the failure; "" where it wrote nothing.
  var errorText: String { String(cString: errorBuffer) }

  func set(_ option: CURLoption, _ value: Int) { fm_easy_set_long(pointer, option, value) }
  func set(_ option: CURLoption, _ value: Bool) { fm_easy_set_long(pointer, option, value ? 1 : 0) }
  func set(_ option: CURLoption, offset: Int) {
    fm_easy_set_offset(pointer, option, curl_off_t(offset))
  }
  func set(_ option: CURLoption, _ value: String) { fm_easy_set_string(pointer, option, value) }
  /// The object must outlive the transfer.
  func set(_ option: CURLoption, unretained object: AnyObject) {
    fm_easy_set_pointer(pointer, option, Unmanaged.passUnretained(object).toOpaque())
  }

  /// Adds a line to the request's head; false when memory is short.
  func appendHeader(_ line: String) -> Bool {
    guard let list = curl_slist_append(headerList, line) else { return false }
    headerList = list
    return true
  }

  /// Puts the lines added so far in place.
  func useHeaders() { fm_easy_set_pointer(pointer, CURLOPT_HTTPHEADER, headerList) }

  func long(_ info: CURLINFO) -> Int {
    var value = 0
    fm_easy_get_long(pointer, info, &value)
    return value
  }

  /// The object set as CURLOPT_PRIVATE.
  static func owner<Owner: AnyObject>(of pointer: UnsafeMutableRawPointer, as: Owner.Type) -> Owner?
  {
    var value: UnsafeMutableRawPointer?
    fm_easy_get_pointer(pointer, CURLINFO_PRIVATE, &value)
    return value.map { Unmanaged<Owner>.fromOpaque($0).takeUnretainedValue() }
  }

  func resume() { curl_easy_pause(pointer, CURLPAUSE_CONT) }
}
