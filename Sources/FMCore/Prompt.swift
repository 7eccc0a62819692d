import FMImaging

/// What a session is asked: texts and pictures, in order.
///
///     let prompt = Prompt {
///       "Which way does the arrow point?"
///       Attachment(path: "arrow.jpg").label("arrow")
///     }
///
/// A prompt never throws while it is built; what is wrong with it is thrown by the request, before
/// anything is sent.
public struct Prompt: Sendable, Equatable {
  var components: [PromptComponent]

  init(components: [PromptComponent]) {
    self.components = components
  }

  public init(_ content: some PromptRepresentable) {
    self = content.promptRepresentation
  }

  public init(@PromptBuilder _ content: () throws -> Prompt) rethrows {
    self = try content()
  }
}

/// One piece of a prompt or of instructions.
package enum PromptComponent: Sendable, Equatable {
  case text(String)
  case image(Attachment<ImageAttachmentContent>)
}

/// Anything that can stand in a prompt.
public protocol PromptRepresentable {
  @PromptBuilder var promptRepresentation: Prompt { get }
}

extension Prompt: PromptRepresentable {
  // The explicit return keeps the builder that the requirement carries away from this body, which
  // it would turn into a call of itself.
  public var promptRepresentation: Prompt { return self }
}

extension Prompt {
  /// The pieces in order, for callers that compose piece by piece.
  package init(_ components: [PromptComponent]) {
    self.components = components
  }
}
