import FMWire
import Glibc

/// One line on stderr that says how far a fetch is; nothing where stderr is no terminal.
final class ProgressBar {
  private let isShown = isatty(STDERR_FILENO) == 1
  private let start = ContinuousClock.now
  private var first: Int64?
  private var file = ""

  func show(_ progress: ModelStore.Progress) {
    guard isShown else { return }
    if file != progress.file {
      file = progress.file
      first = progress.received
    }
    var line = progress.file + " "
    if let total = progress.total, total > 0 {
      let done = Int(progress.received * 20 / total)
      line += "[" + String(repeating: "=", count: done) + String(repeating: " ", count: 20 - done)
      line += "] \(progress.received * 100 / total) % of \(megabytes(total)) MB"
    } else if progress.received > 0 {
      line += "\(megabytes(progress.received)) MB"
    }
    let seconds = start.duration(to: .now).components
    let elapsed = Double(seconds.seconds) + Double(seconds.attoseconds) * 1e-18
    let fetched = progress.received - (first ?? 0)
    if elapsed > 0.5, fetched > 0 {
      line += ", \(megabytes(Int64(Double(fetched) / elapsed))) MB/s"
    }
    write("\r\u{1B}[K" + line)
  }

  func clear() {
    if isShown, !file.isEmpty { write("\r\u{1B}[K") }
  }

  private func megabytes(_ bytes: Int64) -> String {
    let tenths = (bytes + 50_000) / 100_000
    return tenths < 100 ? "\(tenths / 10).\(tenths % 10)" : "\(tenths / 10)"
  }

  private func write(_ text: String) {
    let bytes = Array(text.utf8)
    _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
  }
}
