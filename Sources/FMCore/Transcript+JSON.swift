import FMImaging
import FMWire

extension Transcript {
  /// Reads a transcript as it is exported. Pictures are read from their data or files; one that
  /// cannot be had is an error of the request that sends it, not of this.
  ///
  /// - Throws: `TranscriptError` with the place that is wrong.
  public init(json text: String) throws(TranscriptError) {
    self = try TranscriptReader().read(text)
  }

  /// The same, with pictures of `other` that are in memory already not read again.
  package init(json text: String, withImagesOf other: Transcript) throws(TranscriptError) {
    var reader = TranscriptReader()
    for source in other.imageSources { reader.knownSources[source.sha256Text] = source }
    self = try reader.read(text)
  }

  /// Compact JSON, with what was not understood when it was read. Pictures by URL and SHA-256; with
  /// `embeddingAttachments` also by their bytes, so that the text stands without the files.
  public func jsonText(embeddingAttachments: Bool = false) -> String {
    TranscriptWriter(embedsData: embeddingAttachments).json(self).jsonText
  }

  private var imageSources: [SourceImage] {
    entries.flatMap(\.segments).compactMap { segment in
      guard case .attachment(let attachment) = segment, case .image(let image) = attachment.content
      else { return nil }
      return try? image.content.source.get()
    }
  }
}
