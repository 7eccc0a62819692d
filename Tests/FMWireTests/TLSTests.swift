import Foundation
import Testing

@testable import FMWire

extension NetworkTests {
  @Suite struct TLSTests {
    /// Certificates in a folder that is gone once the server has read them and the tests have theirs.
    private struct Authorities {
      let server: ScriptedServer
      let own: TemporaryFile
      let other: TemporaryFile
    }

    private static let authorities: Authorities = {
      let (own, key, other) = (TemporaryFile(), TemporaryFile(), TemporaryFile())
      makeCertificate("/CN=127.0.0.1", at: own.path, key: key.path)
      makeCertificate("/CN=other", at: other.path, key: "/dev/null")
      return Authorities(
        server: ScriptedServer(tls: (certificate: own.path, key: key.path)), own: own, other: other)
    }()

    private static func makeCertificate(_ subject: String, at path: String, key: String) {
      let openssl = Process()
      openssl.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      openssl.arguments = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", subject, "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", path,
      ]
      openssl.standardError = FileHandle.nullDevice
      try! openssl.run()
      openssl.waitUntilExit()
    }

    func send(_ url: String, certificateFile: String? = nil) async throws -> Int {
      try await HTTPClient.shared.send(
        HTTPRequest(method: "GET", url: url, certificateFile: certificateFile)
      ).head.status
    }

    func secure(_ scenario: String) -> String {
      "https://127.0.0.1:\(Self.authorities.server.port)/s/\(scenario)/"
    }

    @Test func trustsTheGivenAuthority() async throws {
      #expect(try await send(secure("ok"), certificateFile: Self.authorities.own.path) == 200)
    }

    @Test func refusesUnknownAuthorities() async throws {
      let error = await #expect(throws: WireError.self) {
        // Any authority but the server's: here a fresh one.
        try await send(secure("ok"), certificateFile: Self.authorities.other.path)
      }
      #expect(error?.kind == .tls)
      #expect(error?.message.contains("cannot be trusted") == true)
    }

    @Test func saysWhenAServerSpeaksNoTLS() async throws {
      let url = "https://127.0.0.1:\(ScriptedServer.shared.port)/s/ok/"
      let error = await #expect(throws: WireError.self) {
        try await send(url, certificateFile: Self.authorities.own.path)
      }
      #expect(error?.kind == .tls)
      #expect(error?.message.contains("use http://") == true)
    }

    @Test func namesAMissingCertificateFile() async throws {
      let error = await #expect(throws: WireError.self) {
        try await send(secure("ok"), certificateFile: "/nonexistent/ca.pem")
      }
      #expect(error?.kind == .tls)
      #expect(error?.message.contains("/nonexistent/ca.pem") == true)
      #expect(error?.message.contains("No such file or directory") == true)
    }

    @Test func saysWhenThereAreNoAuthorities() throws {
      guard getenv("SSL_CERT_FILE") == nil, getenv("CURL_CA_BUNDLE") == nil,
        getenv("SSL_CERT_DIR") == nil
      else { return }
      let error = #expect(throws: WireError.self) {
        try CertificateSource.find(nil, for: "https://host/", known: ["/nonexistent"])
      }
      #expect(error?.kind == .tls)
      #expect(error?.message.contains("ca-certificates") == true)
    }
  }
}
