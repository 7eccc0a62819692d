import Testing

@testable import FMWire

@Suite struct EndpointTests {
  @Test(arguments: [
    ("http://h:8080", "http://h:8080/v1/chat/completions", "http://h:8080/props"),
    ("http://h:8080/", "http://h:8080/v1/chat/completions", "http://h:8080/props"),
    ("https://h/v1", "https://h/v1/chat/completions", "https://h/props"),
    ("https://h/v1/", "https://h/v1/chat/completions", "https://h/props"),
    ("https://h/api", "https://h/api/v1/chat/completions", "https://h/api/props"),
    (
      "https://h/v1beta/openai", "https://h/v1beta/openai/v1/chat/completions",
      "https://h/v1beta/openai/props"
    ),
    ("https://h/api/v4/x/", "https://h/api/v4/x/chat/completions", "https://h/api/props"),
    ("https://h/v1/chat/completions", "https://h/v1/chat/completions", "https://h/props"),
    ("https://h/x/chat/completions/", "https://h/x/chat/completions/", "https://h/x/props"),
    ("https://h/v/", "https://h/v/v1/chat/completions", "https://h/v/props"),
    (
      "https://h/d?api-version=7", "https://h/d/v1/chat/completions?api-version=7",
      "https://h/d/props?api-version=7"
    ),
    ("HTTP://[::1]:80/V1", "http://[::1]:80/V1/v1/chat/completions", "http://[::1]:80/V1/props"),
  ])
  func appendsThePath(_ base: String, _ completions: String, _ props: String) throws {
    let endpoint = Endpoint(baseURL: base)
    #expect(try endpoint.completionsURL() == completions)
    #expect(try endpoint.rootURL("props") == props)
  }

  @Test(arguments: [
    "", "localhost:8080", "ftp://host", "http://", "http:///v1", "http://:80", "http://h/v1?x=1",
    "http://user:secret@host", "http://host/a b", "file:///etc/passwd", "http://h/#x",
    "http://:secret@h", "no scheme",
  ])
  func badBaseURLsAreRefused(url: String) {
    let error = #expect(throws: WireError.self) { try Endpoint(baseURL: url).validate() }
    #expect(error?.kind == .invalidURL)
  }

  @Test(arguments: ["http://h", "HTTPS://h/v1/", "http://[::1]:80/x", "http://127.0.0.1:8080"])
  func goodBaseURLsPass(url: String) throws {
    try Endpoint(baseURL: url).validate()
  }

  @Test(arguments: ["http://user:s3cret@h", "http://h/v1?key=s3cret", "ftp://x:s3cret@h"])
  func badBaseURLsAreNotQuoted(url: String) {
    let error = #expect(throws: WireError.self) { try Endpoint(baseURL: url).validate() }
    #expect(error?.message.contains("s3cret") == false)
  }

  @Test(arguments: [
    ("http://localhost/", true), ("http://LOCALHOST:1/", true), ("http://x.localhost/", true),
    ("http://127.0.0.1/", true), ("http://127.9.9.9/", true), ("http://[::1]/", true),
    ("http://127.0.0.1.example.com/", false), ("http://localhost.example.com/", false),
    ("http://10.0.0.1/", false), ("http://h/", false),
  ])
  func knowsLoopback(_ url: String, _ isLoopback: Bool) throws {
    #expect(try CurlURL(url).isLoopback == isLoopback)
  }
}
