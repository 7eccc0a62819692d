/// The status codes of the C ABI. A code never changes its meaning; 0 to 11 and 255 are the
/// reference's. OpenFM.h says what each means, and a test holds the two tables together.
package enum StatusCode: Int32, Sendable, CaseIterable {
  case success = 0
  case exceededContextWindowSize = 1
  case assetsUnavailable = 2
  case guardrailViolation = 3
  case unsupportedGuide = 4
  case unsupportedLanguageOrLocale = 5
  case decodingFailure = 6
  case rateLimited = 7
  case concurrentRequests = 8
  case refusal = 9
  case invalidSchema = 10
  case invalidArgument = 11

  case imageNotFound = 100
  case imageNotAFile = 101
  case imageNotReadable = 102
  case imageEmpty = 103
  case notAnImage = 104
  case unsupportedImageFormat = 105
  case corruptImage = 106
  case imageTooLarge = 107
  case imageChanged = 108
  case invalidImagePath = 109

  case invalidPromptText = 120
  case duplicateLabel = 121
  case invalidLabel = 122
  case emptyPrompt = 123
  case invalidOrientation = 124
  case unknownLabel = 125

  case connect = 140
  case tls = 141
  case timeout = 142
  case server = 143
  case invalidResponse = 144
  case endedEarly = 145
  case requestTooLarge = 146
  case invalidURL = 147
  case authentication = 148
  case notFound = 149

  case unsupportedCapability = 160
  case engineNotStarted = 161
  case engineFailed = 162
  case engineDied = 163
  case emptyResponse = 164
  case toolCall = 165
  case toolRoundLimit = 166
  case modelStorage = 167
  case usedAfterFork = 170
  case shutDown = 171

  case unknown = 255
}
