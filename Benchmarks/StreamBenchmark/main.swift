// Streams answers through the Swift interface and tells what it cost.
//   StreamBenchmark BASE_URL MODEL REPEATS
// prints "SNAPSHOTS LENGTH CPU_SECONDS WALL_SECONDS" a repeat, of the whole process, after one
// unmeasured.

import FMCore
import Glibc

func cpuSeconds() -> Double {
  var usage = rusage()
  getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
  return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
    + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
}

let arguments = CommandLine.arguments
guard arguments.count == 4, let repeats = Int(arguments[3]) else { exit(2) }
let model = ChatCompletionsLanguageModel(baseURL: arguments[1], model: arguments[2])
for index in 0...repeats {
  let session = LanguageModelSession(model: model)
  let cpu = cpuSeconds()
  let start = ContinuousClock.now
  var snapshots = 0
  var length = 0
  for try await snapshot in session.streamResponse(to: "Write.") {
    snapshots += 1
    length = snapshot.content.utf8.count
  }
  let wall = (ContinuousClock.now - start) / .seconds(1)
  if index > 0 { print(snapshots, length, cpuSeconds() - cpu, wall) }
}
