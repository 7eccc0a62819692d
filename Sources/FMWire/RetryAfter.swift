import Glibc

/// How long a server asks to wait.
enum RetryAfter {
  /// Seconds from now, from `retry-after-ms` or `Retry-After`; nil where there is none or it makes
  /// no sense.
  static func seconds(in head: HTTPResponseHead, now: Int = time(nil)) -> Double? {
    if let text = head.header("retry-after-ms"), let value = Double(text), value >= 0,
      value.isFinite
    {
      return value / 1000
    }
    guard let text = head.header("retry-after") else { return nil }
    if let value = Double(text) { return value >= 0 && value.isFinite ? value : nil }
    return epochSeconds(ofDate: text).map { Double(max(0, $0 - now)) }
  }

  /// An HTTP date (RFC 9110 section 5.6.7), of which only the first form is still written:
  /// `Sun, 06 Nov 1994 08:49:37 GMT`.
  static func epochSeconds(ofDate text: String) -> Int? {
    let fields = text.split(separator: " ")
    guard fields.count == 6, fields[0].hasSuffix(","), fields[5] == "GMT" else { return nil }
    let months = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    let clock = fields[4].split(separator: ":").compactMap { Int($0) }
    guard
      let day = Int(fields[1]), 1...31 ~= day,
      let month = months.firstIndex(of: String(fields[2])),
      let year = Int(fields[3]), 1970...9999 ~= year,
      clock.count == 3, 0...23 ~= clock[0], 0...59 ~= clock[1], 0...60 ~= clock[2]
    else { return nil }
    var parts = tm()
    parts.tm_year = Int32(year - 1900)
    parts.tm_mon = Int32(month)
    parts.tm_mday = Int32(day)
    parts.tm_hour = Int32(clock[0])
    parts.tm_min = Int32(clock[1])
    parts.tm_sec = Int32(clock[2])
    return timegm(&parts)
  }
}
