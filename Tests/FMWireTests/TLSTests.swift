import Foundation
import Testing

@testable import FMWire

extension NetworkTests {
  @Suite struct TLSTests {
    /// A server with a certificate of its own for 127.0.0.1.
    static let server: (server: ScriptedServer, certificate: String) = {
      let folder = NSTemporaryDirectory() + "openfm-tls-\(UUID().uuidString.prefix(8))"
      try! FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      let (certificate, key) = (folder + "/cert.pem", folder + "/key.pem")
      let openssl = Process()
      openssl.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      openssl.arguments = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", certificate,
      ]
      openssl.standardError = FileHandle.nullDevice
      try! openssl.run()
      openssl.waitUntilExit()
      return (ScriptedServer(tls: (certificate: certificate, key: key)), certificate)
    }()

    func send(_ url: String, certificateFile: String? = nil) async throws -> Int {
      try await HTTPClient.shared.send(
        HTTPRequest(method: "GET", url: url, certificateFile: certificateFile)
      ).head.status
    }

    func secure(_ scenario: String) -> String {
      "https://127.0.0.1:\(Self.server.server.port)/s/\(scenario)/"
    }

    @Test func trustsTheGivenAuthority() async throws {
      #expect(try await send(secure("ok"), certificateFile: Self.server.certificate) == 200)
    }

    @Test func refusesUnknownAuthorities() async throws {
      let error = await #expect(throws: WireError.self) {
        // Any authority but the server's: here a fresh one.
        try await send(secure("ok"), certificateFile: try Self.otherAuthority())
      }
      #expect(error?.kind == .tls)
      #expect(error?.message.contains("cannot be trusted") == true)
    }

    private static func otherAuthority() throws -> String {
      let path = NSTemporaryDirectory() + "openfm-other-\(UUID().uuidString.prefix(8)).pem"
      let openssl = Process()
      openssl.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      openssl.arguments = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", "/CN=other", "-keyout", "/dev/null", "-out", path,
      ]
      openssl.standardError = FileHandle.nullDevice
      try openssl.run()
      openssl.waitUntilExit()
      return path
    }

    @Test func saysWhenAServerSpeaksNoTLS() async throws {
      let url = "https://127.0.0.1:\(ScriptedServer.shared.port)/s/ok/"
      let error = await #expect(throws: WireError.self) {
        try await send(url, certificateFile: Self.server.certificate)
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
