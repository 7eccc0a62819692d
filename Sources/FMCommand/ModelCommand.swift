import FMCore
import FMWire
import Glibc

/// `fm model`: lists, fetches, finds and removes model files.
struct ModelCommand {
  private enum Verb: String, CaseIterable {
    case list
    case pull
    case path
    case remove
  }

  private let verb: Verb
  private let name: String?
  private let options: ModelStore.PullOptions
  private let asksJSON: Bool
  let asksHelp: Bool
  private let console: Console

  init(_ arguments: [String], console: Console) throws {
    self.console = console
    let parsed = try ArgumentParser<ModelOption>.parse(arguments)
    var words: [String] = []
    var options = ModelStore.PullOptions()
    var asksJSON = false
    var asksHelp = false
    var pullOptions: [ModelOption] = []
    for argument in parsed {
      switch argument {
      case .positional(let text): words.append(text)
      case .value(let option, let text):
        pullOptions.append(option)
        switch option {
        case .mmproj: options.projector = text
        default: options.sha256 = text
        }
      case .option(.json): asksJSON = true
      case .option: asksHelp = true
      }
    }
    self.options = options
    self.asksJSON = asksJSON
    self.asksHelp = asksHelp
    if asksHelp {
      verb = .list
      name = nil
      return
    }
    let verbs = Verb.allCases.map(\.rawValue)
    guard let first = words.first else {
      throw UsageError(message: "model needs one of \(verbs.joined(separator: ", "))")
    }
    guard let verb = Verb(rawValue: first) else {
      let near = nearest(to: first, among: verbs)
      throw UsageError(
        message: "unknown command model \(typed(first)); "
          + (near.map { "did you mean \($0)?" } ?? "it has \(verbs.joined(separator: ", "))"))
    }
    self.verb = verb
    let takesName = verb != .list
    guard words.count == (takesName ? 2 : 1) else {
      throw UsageError(
        message: takesName
          ? "model \(first) takes one model: fm model \(first) \(KnownModel.all[0].name)"
          : "model list takes no \(typed(words[1]))")
    }
    name = takesName ? words[1] : nil
    if verb != .pull, let option = pullOptions.first {
      throw UsageError(message: "\(option.written) goes with model pull only")
    }
  }

  /// - Throws: a `Failure`, `Stop` or `UsageError`; a failure is on stdout as JSON by then where that
  ///   was asked for.
  func run() throws {
    try console.tellingFailure(asJSON: asksJSON) { try act() }
  }

  private func act() throws {
    let store = try ModelStore()
    switch verb {
    case .list: try list(store)
    case .path: try tell(try store.find(name ?? ""))
    case .pull: try tell(try pull(store))
    case .remove:
      let paths = try store.remove(name ?? "")
      try console.write(
        asksJSON
          ? JSONValue.array(paths.map(JSONValue.string)).jsonText + "\n"
          : paths.map { "removed \($0)\n" }.joined())
    }
  }

  private func tell(_ model: InstalledModel) throws {
    try console.write((asksJSON ? model.json.jsonText : model.path) + "\n")
  }

  // MARK: - The list

  private func list(_ store: ModelStore) throws {
    if asksJSON { return try console.write(store.listJSON.jsonText + "\n") }
    let installed = store.installed()
    let known = KnownModel.all.filter { known in !installed.contains { $0.name == known.name } }
    var lines: [String] = []
    lines.append(installed.isEmpty ? "No model in \(store.folder)." : "In \(store.folder):")
    let width = (installed.map(\.name.count) + known.map(\.name.count)).max() ?? 0
    func padded(_ name: String) -> String {
      name + String(repeating: " ", count: max(0, width - name.count))
    }
    for model in installed {
      let sight = model.projectorPath == nil ? "text" : "text and pictures"
      lines.append("  \(padded(model.name))  \(Self.size(model.size)), \(sight)")
    }
    if !known.isEmpty {
      lines.append("To be had with fm model pull NAME:")
      for model in known {
        lines.append(
          "  \(padded(model.name))  \(model.summary); \(model.licence), \(model.sourceText)")
      }
    }
    try console.write(lines.joined(separator: "\n") + "\n")
  }

  private static func size(_ bytes: Int64) -> String {
    let megabytes = (bytes + 500_000) / 1_000_000
    if megabytes < 1 { return "\((bytes + 500) / 1000) kB" }
    if megabytes < 10_000 { return "\(megabytes) MB" }
    return "\((megabytes + 500) / 1000) GB"
  }

  // MARK: - Fetching

  private func pull(_ store: ModelStore) throws -> InstalledModel {
    let bar = ProgressBar()
    defer { bar.clear() }
    var isInterrupted = false
    do {
      return try store.pullAndWait(name ?? "", options: options) { progress in
        bar.show(progress)
        if !isInterrupted, console.interrupt.hasCome {
          isInterrupted = true
          // Left waiting, it would end the process as soon as signals are let through again.
          console.interrupt.take()
        }
        return !isInterrupted
      }
    } catch {
      // What came so far is kept.
      if isInterrupted { throw Stop.interrupted }
      throw error
    }
  }
}

extension InterruptSource {
  /// Whether a signal waits to be taken.
  fileprivate var hasCome: Bool {
    guard descriptor >= 0 else { return false }
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&entry, 1, 0) > 0
  }
}
