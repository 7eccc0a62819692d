/*
 * harness.h - the little that the C tests need: tests that register themselves, checks that say
 * what they saw, and collectors for the library's callbacks.
 *
 * A test program is one file: TEST(name) { ... } as often as needed, then MAIN(). It prints a line a
 * test and closes with "N passed, N failed". Each test has 60 seconds.
 */
#ifndef OPENFM_TEST_HARNESS_H
#define OPENFM_TEST_HARNESS_H

#include <OpenFM.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Tests -------------------------------------------------------------------------------- */

typedef struct HarnessTest {
  const char *name;
  void (*run)(void);
} HarnessTest;

static HarnessTest harness_tests[128];
static int harness_count;
static int harness_failures; /* of the running test */

#define TEST(name)                                                 \
  static void name(void);                                          \
  __attribute__((constructor)) static void name##_register(void) { \
    harness_tests[harness_count++] = (HarnessTest){#name, name};   \
  }                                                                \
  static void name(void)

static inline void harness_fail(const char *file, int line, const char *format, const char *a,
                                const char *b) {
  harness_failures++;
  printf("  %s:%d: ", file, line);
  printf(format, a, b);
  printf("\n");
}

#define CHECK(condition) \
  ((condition) ? (void)0 : harness_fail(__FILE__, __LINE__, "not so: %s%s", #condition, ""))

static inline void harness_check_int(const char *file, int line, const char *what, long long wanted,
                                     long long seen) {
  char text[96];
  if (wanted == seen) return;
  snprintf(text, sizeof text, " is %lld, not %lld", seen, wanted);
  harness_fail(file, line, "%s%s", what, text);
}
#define CHECK_INT(wanted, seen) \
  harness_check_int(__FILE__, __LINE__, #seen, (long long)(wanted), (long long)(seen))

static inline void harness_check_text(const char *file, int line, const char *wanted,
                                      const char *seen) {
  if (seen == NULL || strcmp(wanted, seen) != 0) {
    harness_fail(file, line, "\"%s\" is not \"%s\"", seen != NULL ? seen : "(null)", wanted);
  }
}
#define CHECK_TEXT(wanted, seen) harness_check_text(__FILE__, __LINE__, (wanted), (seen))

/* `whole` holds `part`. */
static inline void harness_check_has(const char *file, int line, const char *part,
                                     const char *whole) {
  if (whole == NULL || strstr(whole, part) == NULL) {
    harness_fail(file, line, "\"%s\" does not hold \"%s\"", whole != NULL ? whole : "(null)", part);
  }
}
#define CHECK_HAS(part, whole) harness_check_has(__FILE__, __LINE__, (part), (whole))

#define MAIN()                                                             \
  int main(void) {                                                         \
    int failed = 0;                                                        \
    setvbuf(stdout, NULL, _IOLBF, 0);                                      \
    for (int i = 0; i < harness_count; i++) {                              \
      harness_failures = 0;                                                \
      printf("%s\n", harness_tests[i].name);                               \
      alarm(60);                                                           \
      harness_tests[i].run();                                              \
      alarm(0);                                                            \
      if (harness_failures > 0) failed++;                                  \
    }                                                                      \
    printf("%d passed, %d failed\n", harness_count - failed, failed);      \
    return failed == 0 && harness_count > 0 ? 0 : 1;                       \
  }

/* ---- Surroundings ------------------------------------------------------------------------- */

/* An environment variable that the runner must have set. */
static inline const char *need_env(const char *name) {
  const char *value = getenv(name);
  if (value == NULL) {
    fprintf(stderr, "%s is not set; run Tests/c/run.py\n", name);
    exit(2);
  }
  return value;
}

/* The scripted server's base URL. */
static inline const char *server_url(void) { return need_env("OPENFM_TEST_SERVER"); }

/* The path of one of the runner's pictures, in one of four buffers taken in turn. */
static inline const char *picture(const char *name) {
  static char paths[4][4096];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", need_env("OPENFM_TEST_PICTURES"), name);
  return path;
}

static inline void sleep_ms(int milliseconds) {
  struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  nanosleep(&time, NULL);
}

static inline double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Waits until no object of that kind is alive, at most 5 seconds; returns how many are. */
static inline int64_t live_objects_after_a_while(FMObjectKind kind) {
  for (int i = 0; i < 500 && FMDebugLiveObjects(kind) > 0; i++) sleep_ms(10);
  return FMDebugLiveObjects(kind);
}

/* ---- Models, sessions, prompts ------------------------------------------------------------ */

/* A model whose every answer is the scripted server's scenario, e.g. "error?status=500". +1. */
static inline FMSystemLanguageModelRef scenario_model(const char *scenario) {
  char name[512];
  int code = 0;
  char *description = NULL;
  snprintf(name, sizeof name, "scenario:%s", scenario);
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      server_url(), name, NULL, "{\"max_retries\": 0}", &code, &description);
  if (model == NULL) {
    fprintf(stderr, "no model: %d %s\n", code, description != NULL ? description : "");
    exit(2);
  }
  return model;
}

/* A session with scenario_model. +1. */
static inline FMLanguageModelSessionRef scenario_session(const char *scenario) {
  FMSystemLanguageModelRef model = scenario_model(scenario);
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMRelease(model);
  return session;
}

static inline FMComposedPromptRef text_prompt(const char *text) {
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  FMComposedPromptAddText(prompt, text);
  return prompt;
}

/* ---- Collecting callbacks ----------------------------------------------------------------- */

#define COLLECTED_MAX 256

/* Every call that a request's callback got. */
typedef struct Collected {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int calls;
  int ends; /* calls that close: a failure, or a stream's NULL content, or a response */
  bool stream;
  int status; /* of the last call */
  char *texts[COLLECTED_MAX];
  size_t lengths[COLLECTED_MAX];
  int statuses[COLLECTED_MAX];
  pthread_t thread;
} Collected;

static inline void collected_init(Collected *collected, bool stream) {
  memset(collected, 0, sizeof *collected);
  pthread_mutex_init(&collected->lock, NULL);
  pthread_cond_init(&collected->changed, NULL);
  collected->stream = stream;
}

static inline void collected_free(Collected *collected) {
  for (int i = 0; i < collected->calls && i < COLLECTED_MAX; i++) free(collected->texts[i]);
  pthread_cond_destroy(&collected->changed);
  pthread_mutex_destroy(&collected->lock);
}

/* The library's FMLanguageModelSessionResponseCallback. */
static inline void collect(int status, const char *content, size_t length, void *user_info) {
  Collected *collected = user_info;
  pthread_mutex_lock(&collected->lock);
  collected->thread = pthread_self();
  if (collected->calls < COLLECTED_MAX) {
    collected->texts[collected->calls] = content != NULL ? strdup(content) : NULL;
    collected->lengths[collected->calls] = length;
    collected->statuses[collected->calls] = status;
  }
  collected->calls++;
  collected->status = status;
  if (!collected->stream || status != 0 || content == NULL) collected->ends++;
  pthread_cond_broadcast(&collected->changed);
  pthread_mutex_unlock(&collected->lock);
}

/* The library's structured callback: keeps the content's JSON text. */
static inline void collect_content(int status, FMGeneratedContentRef content, void *user_info) {
  char *json = content != NULL ? FMGeneratedContentGetJSONString(content) : NULL;
  collect(status, json, json != NULL ? strlen(json) : 0, user_info);
  FMFreeString(json);
  FMRelease(content);
}

static inline bool collected_wait(Collected *collected, int *field, int wanted, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)seconds;
  until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  if (until.tv_nsec >= 1000000000L) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000L;
  }
  int failed = 0;
  pthread_mutex_lock(&collected->lock);
  while (*field < wanted && failed == 0) {
    failed = pthread_cond_timedwait(&collected->changed, &collected->lock, &until);
  }
  bool reached = *field >= wanted;
  pthread_mutex_unlock(&collected->lock);
  return reached;
}

/* Waits for the closing call, then a little longer for one too many. False after 20 seconds. */
static inline bool wait_for_end(Collected *collected) {
  bool ended = collected_wait(collected, &collected->ends, 1, 20);
  if (ended) collected_wait(collected, &collected->calls, collected->calls + 1, 0.05);
  return ended;
}

static inline bool wait_for_calls(Collected *collected, int calls) {
  return collected_wait(collected, &collected->calls, calls, 20);
}

/* The last call's text; "" where it had none. */
static inline const char *last_text(const Collected *collected) {
  if (collected->calls == 0 || collected->calls > COLLECTED_MAX) return "";
  const char *text = collected->texts[collected->calls - 1];
  return text != NULL ? text : "";
}

/* Responds and waits. The collected calls stay the caller's to free. */
static inline void respond(FMLanguageModelSessionRef session, FMComposedPromptRef prompt,
                           const char *options, Collected *collected) {
  collected_init(collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, options, collected, collect);
  CHECK(wait_for_end(collected));
  CHECK_INT(1, collected->calls);
  FMRelease(task);
}

#endif
