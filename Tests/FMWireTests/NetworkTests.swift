import Testing

/// The tests that talk to a server, one after the other: many of them measure time.
@Suite(.serialized) enum NetworkTests {}
