// What the thread sanitizer makes of `Synchronization.Mutex`, in the smallest program that uses one:
//
//     swiftc -swift-version 5 -parse-as-library -sanitize=thread mutex_report.swift -o report && ./report
//
// reports races between the four threads, though each holds the lock. With Mutex.swift beside it
// (`swiftc ... mutex_report.swift Mutex.swift`, whose type then stands for the other), it is silent.
import Glibc
import Synchronization

final class Counter: Sendable {
  private let state = Mutex((marks: [UInt8](), count: 0))
  func add() {
    state.withLock {
      $0.marks.append(1)
      $0.count += 1
    }
  }
  var count: Int { state.withLock { $0.count } }
}

@main enum Report {
  static let counter = Counter()

  static func main() {
    let threads = (0..<4).map { _ in
      var thread = pthread_t()
      pthread_create(
        &thread, nil,
        { _ in
          for _ in 0..<20_000 { Report.counter.add() }
          return nil
        }, nil)
      return thread
    }
    for thread in threads { pthread_join(thread, nil) }
    print(counter.count)
  }
}
