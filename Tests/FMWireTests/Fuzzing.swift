import Foundation

/// How often a seeded test tries: more in a soak run.
func rounds(_ usual: Int) -> Int {
  ProcessInfo.processInfo.environment["OPENFM_SOAK"] == nil ? usual : usual * 100
}
