import Foundation
import Synchronization
import Testing

@testable import FMWire

extension NetworkTests {
  /// A reader that holds up its answer: nothing comes meanwhile, nothing is lost, and who waits can be
  /// cancelled.
  @Suite struct AnswerFlowTests {
    let server = ScriptedServer.shared

    @Test func flowsWhenNobodyHoldsIt() async {
      let flow = AnswerFlow()
      await flow.wait()
      flow.hold(.caller)
      flow.hold(.delivery)
      let isThrough = Mutex(false)
      let waiter = Task {
        await flow.wait()
        isThrough.withLock { $0 = true }
      }
      try? await Task.sleep(for: .milliseconds(30))
      flow.release(.delivery)
      flow.release(.delivery)
      try? await Task.sleep(for: .milliseconds(30))
      #expect(flow.isHeld)
      #expect(isThrough.withLock { $0 } == false)
      flow.release(.caller)
      await waiter.value
      #expect(!flow.isHeld)
    }

    @Test func waitingEndsWithItsTask() async {
      let flow = AnswerFlow()
      flow.hold(.caller)
      // Before it waits, while it does, and both at once.
      for delay in [0, 0, 1, 5, 20] {
        let waiter = Task { await flow.wait() }
        if delay > 0 { try? await Task.sleep(for: .milliseconds(delay)) }
        waiter.cancel()
        await waiter.value
      }
      #expect(flow.isHeld)
    }

    @Test func holdsUpAnAnswerAndLosesNothing() async throws {
      let flow = AnswerFlow()
      let text = Mutex(0)
      let client = server.client(timeouts: HTTPTimeouts(idle: 1))
      let answer = Task {
        try await client.stream(
          body: ScriptedServer.body("flood?bytes=40000000", tag: "held"), flow: flow
        ) { events in
          let isFirst = text.withLock { text in
            defer { text += events.text.utf8.count }
            return text == 0
          }
          if isFirst { flow.hold(.delivery) }
        }
      }
      while text.withLock({ $0 }) == 0 { try await Task.sleep(for: .milliseconds(5)) }
      // Longer than the idle limit, which does not count while the reader rests.
      try await Task.sleep(for: .milliseconds(1500))
      // No more than had come before the reader was there.
      #expect(text.withLock { $0 } < HTTPExchange.highWater + 64 << 10)
      flow.release(.delivery)
      _ = try await answer.value
      #expect(text.withLock { $0 } > 30_000_000)
      #expect(text.withLock { $0 } % 1000 == 0)
    }

    @Test func aHeldAnswerCanBeCancelled() async throws {
      let flow = AnswerFlow()
      let started = Mutex(false)
      let answer = Task {
        try await server.client().stream(
          body: ScriptedServer.body("flood?bytes=40000000", tag: "held-cancelled"), flow: flow
        ) { _ in
          flow.hold(.delivery)
          started.withLock { $0 = true }
        }
      }
      while started.withLock({ $0 }) == false { try await Task.sleep(for: .milliseconds(5)) }
      answer.cancel()
      await #expect(throws: CancellationError.self) { try await answer.value }
      let entry = try #require(try await server.entry(tag: "held-cancelled"))
      #expect(entry["closed_at"]?.isNull == false)
      // It is too late to go on.
      flow.release(.delivery)
    }

    @Test func anAnswerHasALargestSize() async throws {
      var endpoint = Endpoint(baseURL: server.baseURL)
      endpoint.maximumAnswerBytes = 500_000
      let client = ChatCompletionsClient(endpoint: endpoint)
      for scenario in ["flood", "plain?text=" + String(repeating: "x", count: 600_000)] {
        let (events, error) = await collect(client, ScriptedServer.body(scenario))
        let failure = try #require(error as? WireError)
        #expect(failure.kind == .invalidResponse)
        #expect(failure.message.contains("an answer longer than 500000 bytes"))
        #expect(failure.attempts.count == 1)
        #expect(events.text.utf8.count < 500_000)
      }
    }

    /// Answers that are pushed, held, let go and left at any moment. Under the sanitizers this is where
    /// a use after free or a race would show.
    @Test func survivesEarlyEnds() async throws {
      let isSoak = ProcessInfo.processInfo.environment["OPENFM_SOAK"] == "1"
      let own = ScriptedServer()
      let client = own.client()
      await withTaskGroup(of: Void.self) { group in
        for index in 0..<(isSoak ? 500 : 100) {
          if index >= 8 { await group.next() }
          group.addTask {
            let flow = AnswerFlow()
            let task = Task {
              try await client.stream(
                body: ScriptedServer.body("fast-stream?chunks=60&split=40"), flow: flow
              ) { events in
                if events.count % 3 == index % 3 { flow.hold(.delivery) }
              }
            }
            let keeper = Task {
              while !Task.isCancelled {
                flow.release(.delivery)
                if index % 5 == 0 { flow.hold(.caller) }
                try? await Task.sleep(for: .microseconds(200))
                flow.release(.caller)
              }
              flow.release(.caller)
            }
            // Two of three are broken off.
            if index % 3 != 0 {
              try? await Task.sleep(for: .microseconds((index * 137) % 6000))
              task.cancel()
            }
            _ = await task.result
            keeper.cancel()
            await keeper.value
          }
        }
      }
      let (events, error) = await collect(client, ScriptedServer.body("echo"))
      #expect(error == nil)
      #expect(events.text == "Hello")
    }
  }
}
