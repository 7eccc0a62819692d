/* Cancelling reaches the server at once, the end is the last call, and the session goes on. */
#include "harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* Free. The server's answer to a request on its control path, head included; NULL on failure. */
static char *control(const char *method, const char *path) {
  int port = atoi(strrchr(server_url(), ':') + 1);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    close(fd);
    return NULL;
  }
  char request[256];
  int length = snprintf(request, sizeof request,
                        "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
  if (write(fd, request, (size_t)length) != length) {
    close(fd);
    return NULL;
  }
  size_t size = 0, room = 1 << 16;
  char *text = malloc(room);
  ssize_t count;
  while ((count = read(fd, text + size, room - size - 1)) > 0) {
    size += (size_t)count;
    if (room - size < 2) text = realloc(text, room *= 2);
  }
  text[size] = 0;
  close(fd);
  return text;
}

static void clear_log(void) { free(control("DELETE", "/_log")); }

/* When the server saw the close of the only request since clear_log; 0 when it saw none in time. */
static double closed_at(void) {
  char *log = control("GET", "/_log?finished=1&timeout=10");
  const char *member = log != NULL ? strstr(log, "\"closed_at\": ") : NULL;
  double moment = member != NULL ? atof(member + strlen("\"closed_at\": ")) : 0;
  free(log);
  return moment;
}

typedef enum { TASK_CANCEL, STREAM_RELEASE } How;

/* Seconds from the cancellation until the server saw the close. */
static double cancel_once(const char *scenario, How how) {
  clear_log();
  FMLanguageModelSessionRef session = scenario_session(scenario);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  collected_init(&collected, how == STREAM_RELEASE);
  const void *running;
  if (how == TASK_CANCEL) {
    running = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  } else {
    running = FMLanguageModelSessionStreamResponse(session, prompt, NULL);
    FMLanguageModelSessionResponseStreamIterate(running, &collected, collect);
    CHECK(wait_for_calls(&collected, 1));
  }
  FMRelease(prompt);
  sleep_ms(150);
  double moment = seconds_now();
  if (how == TASK_CANCEL) FMTaskCancel(running);
  FMRelease(running);
  CHECK(wait_for_end(&collected));
  CHECK_INT(FMStatusUnknown, collected.status);
  CHECK_HAS("cancelled", last_text(&collected));
  int calls = collected.calls;
  CHECK(!FMLanguageModelSessionIsResponding(session));
  double delay = closed_at() - moment;
  /* Nothing comes after the end. */
  sleep_ms(100);
  CHECK_INT(1, collected.ends);
  CHECK_INT(calls, collected.calls);
  collected_free(&collected);

  /* The session is usable at once; what was cancelled left no trace. */
  prompt = text_prompt("again");
  collected_init(&collected, false);
  clear_log();
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  CHECK(FMLanguageModelSessionIsResponding(session));
  FMTaskCancel(task);
  FMTaskCancel(task);
  CHECK(wait_for_end(&collected));
  CHECK_INT(1, collected.calls);
  collected_free(&collected);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  return delay;
}

/* Every try must close; within 100 ms in the best of several, for a machine that is busy. */
static void cancels_at_once(const char *scenario, How how) {
  double best = 1e9;
  for (int i = 0; i < 6 && best > 0.1; i++) {
    double delay = cancel_once(scenario, how);
    CHECK(delay > -0.01 && delay < 5);
    if (delay < best) best = delay;
  }
  if (best > 0.1) printf("  %s: the server saw the close after %.3f s at best\n", scenario, best);
  CHECK(best <= 0.1);
}

TEST(before_the_answer) { cancels_at_once("hang-before", TASK_CANCEL); }
TEST(within_the_answers_head) { cancels_at_once("hang-head", TASK_CANCEL); }
TEST(within_the_answer) { cancels_at_once("hang-midstream", TASK_CANCEL); }
TEST(a_stream_that_stands) { cancels_at_once("hang-midstream", STREAM_RELEASE); }
TEST(a_stream_that_flows) { cancels_at_once("slow-stream?chunks=2000&delay=0.01", STREAM_RELEASE); }

TEST(nothing_is_left_alive) { CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny)); }

MAIN()
