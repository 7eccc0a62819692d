/*
 * A server sends faster than its answer is taken: the connection waits, the memory does not grow,
 * and nothing is lost.
 */
#include "harness.h"

#include <poll.h>

/* 64 MiB of events with 1,000 characters each. */
#define FLOOD "flood"
#define EVENTS_AT_LEAST 50000
#define KIB_WHILE_RESTING (12 << 10)

static long resident_kib(void) {
  char line[256];
  long kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "VmRSS:", 6) == 0) kib = atol(line + 6);
  }
  if (file != NULL) fclose(file);
  return kib;
}

/* What a reader has seen, without a copy of it. */
typedef struct Reader {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int snapshots;
  size_t length;
  int status;
  bool ended, grew_only;
  long growth; /* KiB, while it rested */
  int rests;
} Reader;

static void reader_init(Reader *reader) {
  memset(reader, 0, sizeof *reader);
  pthread_mutex_init(&reader->lock, NULL);
  pthread_cond_init(&reader->changed, NULL);
  reader->grew_only = true;
}

/* Rests at the first snapshots, as one does who writes to a slow disk. */
static void read_slowly(int status, const char *content, size_t length, void *user_info) {
  Reader *reader = user_info;
  if (content != NULL && status == 0 && reader->rests > 0) {
    reader->rests--;
    long before = resident_kib();
    sleep_ms(700);
    long growth = resident_kib() - before;
    if (growth > reader->growth) reader->growth = growth;
  }
  pthread_mutex_lock(&reader->lock);
  if (content == NULL || status != 0) {
    reader->ended = true;
    reader->status = status;
  } else {
    if (length <= reader->length || content[length - 1] != 'y') reader->grew_only = false;
    reader->snapshots++;
    reader->length = length;
  }
  pthread_cond_broadcast(&reader->changed);
  pthread_mutex_unlock(&reader->lock);
}

static void wait_for_reader(Reader *reader) {
  pthread_mutex_lock(&reader->lock);
  while (!reader->ended) pthread_cond_wait(&reader->changed, &reader->lock);
  pthread_mutex_unlock(&reader->lock);
}

TEST(a_slow_callback_holds_up_the_server) {
  FMLanguageModelSessionRef session = scenario_session(FLOOD);
  FMComposedPromptRef prompt = text_prompt("hello");
  Reader reader;
  reader_init(&reader);
  reader.rests = 2;
  FMLanguageModelSessionResponseStreamRef stream =
      FMLanguageModelSessionStreamResponse(session, prompt, NULL);
  FMLanguageModelSessionResponseStreamIterate(stream, &reader, read_slowly);
  wait_for_reader(&reader);
  CHECK_INT(0, reader.status);
  CHECK(reader.grew_only);
  /* One call for each piece, and all of the text. */
  CHECK(reader.snapshots > EVENTS_AT_LEAST);
  CHECK_INT(reader.snapshots * 1000L, reader.length);
  if (reader.growth >= KIB_WHILE_RESTING) printf("  %ld KiB more\n", reader.growth);
  CHECK(reader.growth < KIB_WHILE_RESTING);
  FMRelease(stream);
  FMRelease(prompt);
  FMRelease(session);
}

/* Reads a queue to the end of its one request; returns the bytes of its deltas, or -1. */
static long drain_to_the_end(FMEventQueueRef queue, int *status) {
  size_t room = 1 << 20;
  char *buffer = malloc(room);
  long length = 0;
  bool ended = false;
  struct pollfd wait = {.fd = FMEventQueueGetFileDescriptor(queue), .events = POLLIN};
  while (!ended && poll(&wait, 1, 20000) > 0) {
    size_t needed = 0;
    size_t count = FMEventQueueDrain(queue, buffer, room, &needed);
    if (needed > 0) {
      buffer = realloc(buffer, room = needed);
      continue;
    }
    for (size_t at = 0; at < count;) {
      FMEventHeader header;
      memcpy(&header, buffer + at, sizeof header);
      if (header.kind == FMEventKindDelta) length += header.length;
      if (header.kind == FMEventKindEnd) {
        ended = true;
        *status = header.status;
      }
      at += header.size;
    }
  }
  free(buffer);
  return ended ? length : -1;
}

TEST(a_queue_that_is_not_read_holds_up_the_server) {
  FMLanguageModelSessionRef session = scenario_session(FLOOD);
  FMComposedPromptRef prompt = text_prompt("hello");
  FMEventQueueRef queue = FMEventQueueCreate();
  FMTaskRef task =
      FMLanguageModelSessionStreamOnQueue(session, prompt, NULL, NULL, queue, 1, NULL, NULL);
  struct pollfd wait = {.fd = FMEventQueueGetFileDescriptor(queue), .events = POLLIN};
  CHECK_INT(1, poll(&wait, 1, 20000));
  long before = resident_kib();
  sleep_ms(1000);
  long growth = resident_kib() - before;
  if (growth >= KIB_WHILE_RESTING) printf("  %ld KiB more\n", growth);
  CHECK(growth < KIB_WHILE_RESTING);
  int status = -1;
  long length = drain_to_the_end(queue, &status);
  CHECK_INT(0, status);
  CHECK(length > EVENTS_AT_LEAST * 1000L);
  FMRelease(task);
  FMRelease(queue);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(a_paused_task_takes_no_more_until_it_goes_on) {
  FMLanguageModelSessionRef session = scenario_session(FLOOD);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  FMTaskSetPaused(task, true);
  FMTaskSetPaused(task, true);
  sleep_ms(200);
  long before = resident_kib();
  sleep_ms(700);
  CHECK(resident_kib() - before < KIB_WHILE_RESTING);
  CHECK_INT(0, collected.calls);
  FMTaskSetPaused(task, false);
  CHECK(wait_for_end(&collected));
  CHECK_INT(0, collected.status);
  CHECK(collected.lengths[0] > EVENTS_AT_LEAST * 1000UL);
  FMTaskSetPaused(task, true); /* it is over */
  FMTaskSetPaused(NULL, true);
  CHECK_INT(FMStatusInvalidArgument, FMLastErrorCode());
  FMRelease(task);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(a_paused_task_can_be_cancelled) {
  FMLanguageModelSessionRef session = scenario_session(FLOOD);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  FMTaskSetPaused(task, true);
  sleep_ms(200);
  FMTaskCancel(task);
  /* The session is free at once, and not when the end is told. */
  CHECK(!FMLanguageModelSessionIsResponding(session));
  CHECK(wait_for_end(&collected));
  CHECK_INT(FMStatusUnknown, collected.status);
  CHECK_INT(1, collected.calls);
  FMRelease(task);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(an_answer_has_a_largest_size) {
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      server_url(), "scenario:" FLOOD, NULL, "{\"max_answer_bytes\": 3000000}", NULL, NULL);
  CHECK(model != NULL);
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusInvalidResponse, collected.status);
  CHECK_HAS("longer than 3000000 bytes", last_text(&collected));
  CHECK_HAS("max_answer_bytes", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  CHECK(FMLanguageModelCreateChatCompletions(server_url(), "m", NULL, "{\"max_answer_bytes\": 0}",
                                             NULL, NULL) == NULL);
  CHECK_INT(FMStatusInvalidArgument, FMLastErrorCode());
}

TEST(nothing_is_left_alive) {
  for (FMObjectKind kind = FMObjectKindAny; kind <= FMObjectKindPreparedImage; kind++) {
    CHECK_INT(0, live_objects_after_a_while(kind));
  }
}

MAIN()
