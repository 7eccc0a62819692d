/// What a user names a model by.
enum ModelReference: Equatable {
  case known(KnownModel)
  /// `hf://ORGANISATION/REPOSITORY[@REVISION]/FILE`.
  case hub(repository: String, revision: String, file: String)
  case url(String)

  init(_ text: String) throws(ModelError) {
    if let known = KnownModel.named(text) {
      self = .known(known)
    } else if text.hasPrefix("hf://") {
      let parts = text.dropFirst(5).split(
        separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
      guard parts.count == 3, parts.allSatisfy({ !$0.isEmpty }),
        !parts.contains(where: { $0.contains("..") })
      else {
        throw ModelError(
          kind: .badReference,
          message:
            "\"\(text)\" names no file of the hub; write hf://ORGANISATION/REPOSITORY/FILE.gguf")
      }
      let repository = parts[1].split(separator: "@", maxSplits: 1)
      self = .hub(
        repository: "\(parts[0])/\(repository[0])",
        revision: repository.count == 2 ? String(repository[1]) : "main", file: String(parts[2]))
    } else if text.hasPrefix("https://") || text.hasPrefix("http://") {
      self = .url(text)
    } else {
      let names = KnownModel.all.map(\.name).joined(separator: ", ")
      throw ModelError(
        kind: .badReference,
        message:
          "\"\(text)\" is no known model (\(names)), no hf://ORGANISATION/REPOSITORY/FILE.gguf "
          + "and no https:// URL")
    }
  }

  /// Where a file of the hub is fetched from. HF_ENDPOINT names another hub, as it does for the hub's
  /// own tools.
  static func hubURL(
    repository: String, revision: String, file: String, endpoint: String?
  ) -> String {
    let endpoint = endpoint ?? "https://huggingface.co"
    let base = endpoint.hasSuffix("/") ? String(endpoint.dropLast()) : endpoint
    return
      "\(base)/\(repository)/resolve/\(escaped(revision, keeping: ""))/\(escaped(file, keeping: "/"))"
  }

  /// Percent-encodes all but the unreserved characters (RFC 3986 section 2.3).
  private static func escaped(_ text: String, keeping kept: String) -> String {
    var result = ""
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        result.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        if "-._~".utf8.contains(byte) || kept.utf8.contains(byte) {
          result.unicodeScalars.append(Unicode.Scalar(byte))
        } else {
          let digits = String(byte, radix: 16, uppercase: true)
          result += "%" + (digits.count == 1 ? "0" : "") + digits
        }
      }
    }
    return result
  }
}
