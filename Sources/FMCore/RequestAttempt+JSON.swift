import FMWire

extension RequestAttempt {
  /// As OpenFM.h lists it; what is not known is null.
  package var json: JSONValue {
    func number(_ value: Double?) -> JSONValue {
      value.flatMap { JSONNumber(($0 * 1e6).rounded() / 1e6) }.map(JSONValue.number) ?? .null
    }
    return [
      "seconds": number(duration),
      "http_status": httpStatus.map { .number(JSONNumber($0)) } ?? .null,
      "error": failure.map { .string($0.rawValue) } ?? .null,
      "message": message.map(JSONValue.string) ?? .null,
      "delay": number(delay),
    ]
  }
}
