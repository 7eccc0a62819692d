/* The event queue: order, tokens, exactly one end, a descriptor that tells the truth. */
#include "harness.h"

#include <poll.h>

static bool readable(int descriptor, int milliseconds) {
  struct pollfd entry = {.fd = descriptor, .events = POLLIN};
  return poll(&entry, 1, milliseconds) == 1 && (entry.revents & POLLIN) != 0;
}

/* What the events of one token said. */
typedef struct Seen {
  char text[65536];
  char content[65536];
  char metadata[65536];
  char end[65536];
  int deltas, replaces, contents, metadatas, ends, after_end;
  int status;
} Seen;

static void add(Seen *seen, const FMEventHeader *event) {
  const char *payload = (const char *)(event + 1);
  char *target = NULL;
  if (seen->ends > 0) seen->after_end++;
  switch ((FMEventKind)event->kind) {
    case FMEventKindDelta:
      seen->deltas++;
      CHECK(strlen(seen->text) + event->length < sizeof seen->text);
      strncat(seen->text, payload, event->length);
      break;
    case FMEventKindReplace:
      seen->replaces++;
      target = seen->text;
      break;
    case FMEventKindContent:
      seen->contents++;
      target = seen->content;
      break;
    case FMEventKindMetadata:
      seen->metadatas++;
      target = seen->metadata;
      break;
    case FMEventKindEnd:
      seen->ends++;
      seen->status = event->status;
      target = seen->end;
      break;
    default:
      CHECK(!"a kind the header does not know");
  }
  if (target != NULL) {
    CHECK(event->length < sizeof seen->text);
    memcpy(target, payload, event->length);
    target[event->length] = 0;
  }
  if (event->kind != FMEventKindEnd) CHECK_INT(0, event->status);
}

/* Drains into `seen[token]` until `ends` requests have ended, at most 20 seconds. */
static void drain(FMEventQueueRef queue, Seen *seen, int tokens, int ends) {
  static uint64_t buffer[8192];
  int descriptor = FMEventQueueGetFileDescriptor(queue);
  int ended = 0;
  double until = seconds_now() + 20;
  while (ended < ends && seconds_now() < until) {
    if (!readable(descriptor, 1000)) continue;
    size_t needed = 1;
    size_t bytes = FMEventQueueDrain(queue, buffer, sizeof buffer, &needed);
    CHECK_INT(0, needed);
    CHECK_INT(0, bytes % 8);
    for (size_t at = 0; at < bytes;) {
      const FMEventHeader *event = (const FMEventHeader *)((char *)buffer + at);
      CHECK_INT(0, event->size % 8);
      CHECK(event->size >= sizeof *event + event->length);
      CHECK(event->token < (uint64_t)tokens);
      if (event->size == 0 || event->token >= (uint64_t)tokens) return;
      add(&seen[event->token], event);
      if (event->kind == FMEventKindEnd) ended++;
      at += event->size;
    }
  }
  CHECK_INT(ends, ended);
}

TEST(a_response_is_content_metadata_end) {
  static Seen seen[1];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  CHECK(FMEventQueueGetFileDescriptor(queue) >= 0);
  CHECK(!readable(FMEventQueueGetFileDescriptor(queue), 0));
  FMLanguageModelSessionRef session = scenario_session("text?text=Zürich");
  FMComposedPromptRef prompt = text_prompt("Where?");
  FMTaskRef task =
      FMLanguageModelSessionRespondOnQueue(session, prompt, NULL, NULL, queue, 0, NULL, NULL);
  CHECK(task != NULL);
  drain(queue, seen, 1, 1);
  CHECK_INT(1, seen->contents);
  CHECK_INT(1, seen->metadatas);
  CHECK_INT(1, seen->ends);
  CHECK_INT(0, seen->deltas + seen->replaces + seen->after_end);
  CHECK_INT(0, seen->status);
  CHECK_TEXT("Zürich", seen->content);
  CHECK_HAS("\"finish_reason\"", seen->metadata);
  CHECK_TEXT("", seen->end);
  CHECK(!readable(FMEventQueueGetFileDescriptor(queue), 0));
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(a_stream_is_deltas_metadata_end) {
  static Seen seen[1];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("slow-stream?chunks=40&delay=0.002");
  FMComposedPromptRef prompt = text_prompt("hello");
  FMTaskRef task =
      FMLanguageModelSessionStreamOnQueue(session, prompt, NULL, NULL, queue, 0, NULL, NULL);
  drain(queue, seen, 1, 1);
  CHECK(seen->deltas > 0);
  CHECK_INT(1, seen->metadatas);
  CHECK_INT(0, seen->contents);
  CHECK_INT(0, seen->status);
  CHECK_INT(0, seen->after_end);
  CHECK_HAS("The quick brown fox", seen->text);
  CHECK_HAS("東京 🦊", seen->text);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(a_schema_stream_repeats_the_content) {
  static Seen seen[1];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("Which way?");
  FMTaskRef task = FMLanguageModelSessionStreamOnQueue(
      session, prompt,
      "{\"title\":\"W\",\"type\":\"object\",\"properties\":{\"d\":{\"type\":\"string\",\"enum\":"
      "[\"up\"]}},\"required\":[\"d\"],\"additionalProperties\":false}",
      NULL, queue, 0, NULL, NULL);
  drain(queue, seen, 1, 1);
  CHECK_INT(0, seen->status);
  CHECK_INT(1, seen->contents);
  CHECK_HAS("\"up\"", seen->content);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(a_slow_reader_gets_everything_joined) {
  static Seen seen[1];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("fast-stream?chunks=2000");
  FMComposedPromptRef prompt = text_prompt("hello");
  FMTaskRef task =
      FMLanguageModelSessionStreamOnQueue(session, prompt, NULL, NULL, queue, 0, NULL, NULL);
  for (int i = 0; i < 1000 && FMLanguageModelSessionIsResponding(session); i++) sleep_ms(10);
  drain(queue, seen, 1, 1);
  CHECK_INT(0, seen->status);
  CHECK_INT(64, seen->deltas);
  /* 2,000 words of which each but the first has a space before it. */
  int spaces = 0;
  for (const char *at = seen->text; *at != 0; at++) spaces += *at == ' ';
  CHECK_INT(1999, spaces);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(a_few_pieces_that_wait_stay_apart) {
  static Seen seen[1];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("fast-stream?chunks=40");
  FMComposedPromptRef prompt = text_prompt("hello");
  FMTaskRef task =
      FMLanguageModelSessionStreamOnQueue(session, prompt, NULL, NULL, queue, 0, NULL, NULL);
  for (int i = 0; i < 1000 && FMLanguageModelSessionIsResponding(session); i++) sleep_ms(10);
  drain(queue, seen, 1, 1);
  CHECK_INT(0, seen->status);
  CHECK_INT(40, seen->deltas);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(failures_are_one_end_with_details) {
  static Seen seen[1];
  static const struct {
    const char *scenario;
    int code;
    const char *part;
  } cases[] = {
      {"error?status=503", FMStatusServer, "\"http_status\":503"},
      {"rate-limit", FMStatusRateLimited, "\"retry_after\":2"},
      {"overflow?prompt=5000&context=4096", FMStatusExceededContextWindowSize,
       "\"token_count\":5000"},
      {"no-images", FMStatusUnsupportedCapability, "\"capability\""},
      {"broken-off", FMStatusEndedEarly, "\"partial_text\":\"The quick brown\""},
      {"refusal", FMStatusRefusal, "\"message\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memset(seen, 0, sizeof seen);
    FMEventQueueRef queue = FMEventQueueCreate();
    FMLanguageModelSessionRef session = scenario_session(cases[i].scenario);
    FMComposedPromptRef prompt = text_prompt("hello");
    FMTaskRef task =
        FMLanguageModelSessionRespondOnQueue(session, prompt, NULL, NULL, queue, 0, NULL, NULL);
    CHECK(task != NULL);
    drain(queue, seen, 1, 1);
    if (seen->status != cases[i].code) printf("  %s:\n", cases[i].scenario);
    CHECK_INT(cases[i].code, seen->status);
    CHECK_INT(0, seen->contents + seen->after_end);
    CHECK_HAS("\"message\"", seen->end);
    CHECK_HAS(cases[i].part, seen->end);
    FMRelease(task);
    FMRelease(prompt);
    FMRelease(session);
    FMRelease(queue);
  }
}

TEST(what_is_known_at_once_comes_as_the_end_too) {
  static Seen seen[3];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("hello");
  FMComposedPromptRef empty = FMComposedPromptInitialize();
  FMTaskRef tasks[3] = {
      FMLanguageModelSessionRespondOnQueue(session, prompt, NULL, "{", queue, 0, NULL, NULL),
      FMLanguageModelSessionRespondOnQueue(session, prompt, "{", NULL, queue, 1, NULL, NULL),
      FMLanguageModelSessionStreamOnQueue(session, empty, NULL, NULL, queue, 2, NULL, NULL),
  };
  drain(queue, seen, 3, 3);
  for (int i = 0; i < 3; i++) {
    CHECK(tasks[i] != NULL);
    CHECK_INT(1, seen[i].ends);
    CHECK(seen[i].status != 0);
    FMRelease(tasks[i]);
  }
  CHECK_INT(FMStatusUnknown, seen[0].status);
  CHECK_INT(FMStatusEmptyPrompt, seen[2].status);
  FMRelease(empty);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(cancel_is_one_end_with_255) {
  static Seen seen[1];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("hang-midstream");
  FMComposedPromptRef prompt = text_prompt("hello");
  FMTaskRef task =
      FMLanguageModelSessionStreamOnQueue(session, prompt, NULL, NULL, queue, 0, NULL, NULL);
  CHECK(readable(FMEventQueueGetFileDescriptor(queue), 10000));
  FMTaskCancel(task);
  drain(queue, seen, 1, 1);
  CHECK_INT(FMStatusUnknown, seen->status);
  CHECK_INT(0, seen->after_end);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(requests_share_a_queue_by_their_tokens) {
  enum { COUNT = 16 };
  static Seen seen[COUNT];
  memset(seen, 0, sizeof seen);
  FMEventQueueRef queue = FMEventQueueCreate();
  for (int i = 0; i < COUNT; i++) {
    char text[32];
    snprintf(text, sizeof text, "number %d", i);
    FMLanguageModelSessionRef session = scenario_session("echo");
    FMComposedPromptRef prompt = text_prompt(text);
    FMTaskRef task = FMLanguageModelSessionRespondOnQueue(session, prompt, NULL, NULL, queue,
                                                          (uint64_t)i, NULL, NULL);
    CHECK(task != NULL);
    FMRelease(task);
    FMRelease(prompt);
    FMRelease(session);
  }
  drain(queue, seen, COUNT, COUNT);
  for (int i = 0; i < COUNT; i++) {
    char text[32];
    snprintf(text, sizeof text, "number %d", i);
    CHECK_TEXT(text, seen[i].content);
    CHECK_INT(1, seen[i].ends);
  }
  FMRelease(queue);
}

TEST(a_small_buffer_is_told_what_it_needs) {
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("text?text=a+rather+long+answer+of+words");
  FMComposedPromptRef prompt = text_prompt("hello");
  FMTaskRef task =
      FMLanguageModelSessionRespondOnQueue(session, prompt, NULL, NULL, queue, 9, NULL, NULL);
  CHECK(readable(FMEventQueueGetFileDescriptor(queue), 10000));
  uint64_t small[3];
  size_t needed = 0;
  CHECK_INT(0, FMEventQueueDrain(queue, small, sizeof small, &needed));
  CHECK(needed > sizeof small);
  CHECK(readable(FMEventQueueGetFileDescriptor(queue), 0));
  void *large = malloc(needed);
  size_t again = 1;
  CHECK_INT(needed, FMEventQueueDrain(queue, large, needed, &again));
  CHECK_INT(0, again);
  CHECK_INT(FMEventKindContent, ((FMEventHeader *)large)->kind);
  CHECK_INT(9, ((FMEventHeader *)large)->token);
  free(large);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(a_released_queue_takes_its_requests_along) {
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("slow-stream?chunks=20&delay=0.01");
  FMComposedPromptRef prompt = text_prompt("hello");
  FMTaskRef task =
      FMLanguageModelSessionStreamOnQueue(session, prompt, NULL, NULL, queue, 0, NULL, NULL);
  FMRelease(queue);
  FMTaskCancel(task);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(bad_references_start_nothing) {
  FMEventQueueRef queue = FMEventQueueCreate();
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("hello");
  int code = 0;
  char *description = NULL;
  CHECK(FMLanguageModelSessionRespondOnQueue(NULL, prompt, NULL, NULL, queue, 0, &code,
                                             &description) == NULL);
  CHECK_INT(FMStatusInvalidArgument, code);
  FMFreeString(description);
  CHECK(FMLanguageModelSessionRespondOnQueue(session, queue, NULL, NULL, queue, 0, NULL, NULL) ==
        NULL);
  CHECK(FMLanguageModelSessionStreamOnQueue(session, prompt, NULL, NULL, prompt, 0, NULL, NULL) ==
        NULL);
  CHECK(!readable(FMEventQueueGetFileDescriptor(queue), 50));
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(queue);
}

TEST(nothing_is_left_alive) { CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny)); }

MAIN()
