/// A regular expression that is matched in time proportional to the text, whatever the pattern: an
/// answer can be long, and a pattern that makes a backtracking engine run for hours costs here what
/// every other of its length costs.
///
/// The language is that of ECMA-262 with the flag `u`, as JSON Schema asks for: literals, `.`,
/// classes, `\d \w \s` and their opposites (ASCII, but for `\s`), `\b \B`, `^ $` (the text's start
/// and end), groups (their names are ignored), alternatives, greedy and lazy repetition, lookahead
/// and lookbehind, `\t \n \v \f \r \0 \cX \xHH \uHHHH \u{H}`, and `\p{...}` for general categories
/// and a few more properties. Refused, because no automaton does them or the standard library does
/// not know them: references back to a group, `\p{Script=...}`, inline flags.
package struct Pattern: Sendable, Equatable {
  package let text: String
  private let main: PatternProgram
  /// What lookarounds ask for, inner ones before the outer ones that use them.
  private let looks: [PatternProgram]
  /// Whether a match can only begin at the text's start.
  private let isAnchored: Bool

  package static func == (left: Pattern, right: Pattern) -> Bool { left.text == right.text }

  /// Costs time and memory proportional to the pattern with its repetitions written out.
  init(_ text: String) throws(PatternError) {
    self.text = text
    let node = try PatternParser.parse(text)
    var compiler = PatternCompiler()
    main = try compiler.program(for: node, isReversed: false)
    looks = compiler.looks
    isAnchored = main.instructions.first == .assert(.start)
  }

  /// Whether the pattern matches anywhere in the text.
  package func matches(_ text: String) -> Bool {
    let scalars = text.unicodeScalars.map(\.value)
    var tables: [[Bool]] = []
    for look in looks {
      var matcher = PatternMatcher(program: look, scalars: scalars, tables: tables)
      tables.append(matcher.endsOfMatches())
    }
    var matcher = PatternMatcher(program: main, scalars: scalars, tables: tables)
    return matcher.matchesAnywhere(isAnchored: isAnchored)
  }
}

/// Instructions of an automaton that walks over a text in one direction.
struct PatternProgram: Sendable {
  enum Assertion: Sendable, Equatable {
    case start, end
    case wordBoundary(isNegated: Bool)
    case look(table: Int, isNegated: Bool)
  }

  enum Instruction: Sendable, Equatable {
    case scalar(set: Int)
    case split(Int, Int)
    case jump(Int)
    case assert(Assertion)
    case match
  }

  var instructions: [Instruction] = []
  var sets: [ScalarSet] = []
  /// Walks from the text's end to its start.
  var isReversed: Bool
}

private struct PatternCompiler {
  /// Repetitions are written out; this many instructions bound the memory and the time a scalar.
  private static let maximumInstructions = 20_000

  var looks: [PatternProgram] = []
  private var count = 0

  mutating func program(
    for node: PatternNode, isReversed: Bool
  ) throws(PatternError) -> PatternProgram {
    var program = PatternProgram(isReversed: isReversed)
    try emit(node, into: &program)
    program.instructions.append(.match)
    return program
  }

  private mutating func append(
    _ instruction: PatternProgram.Instruction, to program: inout PatternProgram
  ) throws(PatternError) {
    count += 1
    guard count <= Self.maximumInstructions else {
      throw PatternError(offset: 0, reason: "it is too large with its repetitions written out")
    }
    program.instructions.append(instruction)
  }

  private mutating func emit(
    _ node: PatternNode, into program: inout PatternProgram
  ) throws(PatternError) {
    switch node {
    case .set(let set):
      let known = program.sets.firstIndex(of: set)
      if known == nil { program.sets.append(set) }
      try append(.scalar(set: known ?? program.sets.count - 1), to: &program)
    case .sequence(let nodes):
      for node in program.isReversed ? nodes.reversed() : nodes { try emit(node, into: &program) }
    case .choice(let branches):
      var jumps: [Int] = []
      for branch in branches.dropLast() {
        let split = program.instructions.count
        try append(.split(split + 1, 0), to: &program)
        try emit(branch, into: &program)
        jumps.append(program.instructions.count)
        try append(.jump(0), to: &program)
        program.instructions[split] = .split(split + 1, program.instructions.count)
      }
      try emit(branches[branches.count - 1], into: &program)
      for jump in jumps { program.instructions[jump] = .jump(program.instructions.count) }
    case .repetition(let node, let least, let most):
      for _ in 0..<least {
        let before = program.instructions.count
        try emit(node, into: &program)
        // The empty text, however often.
        guard program.instructions.count > before else { return }
      }
      if let most {
        var splits: [Int] = []
        for _ in least..<most {
          splits.append(program.instructions.count)
          try append(.split(0, 0), to: &program)
          try emit(node, into: &program)
          guard program.instructions.count > splits[splits.count - 1] + 1 else { break }
        }
        for split in splits {
          program.instructions[split] = .split(split + 1, program.instructions.count)
        }
      } else {
        let split = program.instructions.count
        try append(.split(0, 0), to: &program)
        try emit(node, into: &program)
        try append(.jump(split), to: &program)
        program.instructions[split] = .split(split + 1, program.instructions.count)
      }
    case .start: try append(.assert(.start), to: &program)
    case .end: try append(.assert(.end), to: &program)
    case .wordBoundary(let isNegated):
      try append(.assert(.wordBoundary(isNegated: isNegated)), to: &program)
    case .look(let node, let isAhead, let isNegated):
      // Where a lookahead holds is where a match begins, which a walk from the end finds for all
      // places at once; a lookbehind's matches end there, which a walk from the start finds.
      let look = try self.program(for: node, isReversed: isAhead)
      looks.append(look)
      try append(.assert(.look(table: looks.count - 1, isNegated: isNegated)), to: &program)
    }
  }
}

/// Walks over a text with all the states that the automaton can be in at once.
private struct PatternMatcher {
  let program: PatternProgram
  let scalars: [UInt32]
  /// For each look: whether it holds at each position of the text, 0 to its length.
  let tables: [[Bool]]

  private var current: [Int] = []
  private var following: [Int] = []
  /// The step in which an instruction was last added.
  private var added: [Int]
  private var step = 0
  private var pending: [Int] = []
  /// What each set said of the scalar of this step.
  private var verdicts: [Bool?]

  init(program: PatternProgram, scalars: [UInt32], tables: [[Bool]]) {
    self.program = program
    self.scalars = scalars
    self.tables = tables
    added = [Int](repeating: -1, count: program.instructions.count)
    verdicts = [Bool?](repeating: nil, count: program.sets.count)
  }

  mutating func matchesAnywhere(isAnchored: Bool) -> Bool {
    for position in 0...scalars.count {
      if position == 0 || !isAnchored, add(0, at: position) { return true }
      if current.isEmpty && isAnchored { return false }
      if position < scalars.count, advance(over: scalars[position], to: position + 1) {
        return true
      }
    }
    return false
  }

  /// For each position whether a match ends there: begins there, in a walk from the end.
  mutating func endsOfMatches() -> [Bool] {
    var ends = [Bool](repeating: false, count: scalars.count + 1)
    var matched = false
    for offset in 0...scalars.count {
      let position = program.isReversed ? scalars.count - offset : offset
      matched = add(0, at: position) || matched
      ends[position] = matched
      guard offset < scalars.count else { break }
      let scalar = scalars[program.isReversed ? position - 1 : position]
      matched = advance(over: scalar, to: position + (program.isReversed ? -1 : 1))
    }
    return ends
  }

  /// True when the walk can be at the end of a match after that scalar.
  private mutating func advance(over scalar: UInt32, to position: Int) -> Bool {
    step += 1
    following.removeAll(keepingCapacity: true)
    swap(&current, &following)
    var matched = false
    for set in verdicts.indices { verdicts[set] = nil }
    for state in following {
      guard case .scalar(let set) = program.instructions[state] else { continue }
      let holds: Bool
      if let known = verdicts[set] {
        holds = known
      } else {
        holds = program.sets[set].contains(scalar)
        verdicts[set] = holds
      }
      if holds, add(state + 1, at: position) { matched = true }
    }
    return matched
  }

  /// Adds a state with all that it leads to without a scalar; true when a match is among them.
  private mutating func add(_ state: Int, at position: Int) -> Bool {
    var matched = false
    pending.append(state)
    while let state = pending.popLast() {
      guard added[state] != step else { continue }
      added[state] = step
      switch program.instructions[state] {
      case .scalar: current.append(state)
      case .jump(let target): pending.append(target)
      case .split(let first, let second):
        pending.append(second)
        pending.append(first)
      case .assert(let assertion):
        if holds(assertion, at: position) { pending.append(state + 1) }
      case .match: matched = true
      }
    }
    return matched
  }

  private func holds(_ assertion: PatternProgram.Assertion, at position: Int) -> Bool {
    switch assertion {
    case .start: return position == 0
    case .end: return position == scalars.count
    case .wordBoundary(let isNegated):
      let before = position > 0 && ScalarSet.word.contains(scalars[position - 1])
      let after = position < scalars.count && ScalarSet.word.contains(scalars[position])
      return (before != after) != isNegated
    case .look(let table, let isNegated): return tables[table][position] != isNegated
    }
  }
}
