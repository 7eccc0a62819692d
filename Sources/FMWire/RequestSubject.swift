/// What a request is about, for logs: the body alone would have to be read again for it.
package struct RequestSubject: Sendable {
  package var model: String?
  package var images: [RequestRecord.Image]
  package init(model: String? = nil, images: [RequestRecord.Image] = []) {
    self.model = model
    self.images = images
  }
}
