/// What is wrong with a picture, before anybody knows which file it is; `ImageError` adds the path.
struct ImageProblem: Error, Equatable {
  var kind: ImageError.Kind
  /// What failed and what to do, without the path, lower case.
  var reason: String

  init(_ kind: ImageError.Kind, _ reason: String) {
    self.kind = kind
    self.reason = reason
  }

  static func outOfMemory(_ width: Int, _ height: Int) -> ImageProblem {
    ImageProblem(
      .tooLarge, "not enough memory for \(width) x \(height) pixels; scale the picture down")
  }
}

extension ImageError {
  init(_ problem: ImageProblem, path: String?) {
    self.init(
      kind: problem.kind, message: "\(path ?? "the picture"): \(problem.reason)", path: path)
  }
}
