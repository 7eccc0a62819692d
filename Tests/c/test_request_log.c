/* What is told of requests: a callback, a list, a file. */
#include "harness.h"

#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls;
static char last_line[1024], last_json[4096];

static void note(const char *line, const char *json, void *user_info) {
  pthread_mutex_lock(&lock);
  CHECK(user_info == &calls);
  calls++;
  snprintf(last_line, sizeof last_line, "%s", line);
  snprintf(last_json, sizeof last_json, "%s", json);
  pthread_mutex_unlock(&lock);
}

static void ask(const char *scenario) {
  FMLanguageModelSessionRef session = scenario_session(scenario);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK(wait_for_end(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(the_callback_gets_a_line_and_an_object) {
  calls = 0;
  FMRequestLogSetCallback(note, &calls);
  ask("text?text=fine");
  CHECK_INT(1, calls);
  CHECK_HAS("POST http://127.0.0.1:", last_line);
  CHECK_HAS("status=200", last_line);
  CHECK(strchr(last_line, '\n') == NULL);
  CHECK_HAS("\"status\":200", last_json);
  CHECK_HAS("\"failure\":null", last_json);
  ask("error?status=400");
  CHECK_INT(2, calls);
  CHECK_HAS("failure=server", last_line);
  FMRequestLogSetCallback(NULL, NULL);
  ask("text?text=fine");
  CHECK_INT(2, calls);
}

TEST(the_list_is_taken_once) {
  FMRequestLogKeep(true);
  ask("text?text=fine");
  char *json = FMRequestLogTakeJSON();
  CHECK_HAS("\"line\":\"POST http", json);
  FMFreeString(json);
  json = FMRequestLogTakeJSON();
  CHECK_TEXT("[]", json);
  FMFreeString(json);
  FMRequestLogKeep(false);
  ask("text?text=fine");
  json = FMRequestLogTakeJSON();
  CHECK_TEXT("[]", json);
  FMFreeString(json);
}

TEST(requests_are_recorded) {
  char path[] = P_tmpdir "/openfm-record-XXXXXX";
  close(mkstemp(path));
  CHECK(FMRequestLogRecord(path, NULL, NULL));
  ask("text?text=fine");
  CHECK(FMRequestLogRecord(NULL, NULL, NULL));
  ask("text?text=fine");
  FILE *file = fopen(path, "r");
  char text[16384];
  size_t length = fread(text, 1, sizeof text - 1, file);
  text[length] = 0;
  fclose(file);
  unlink(path);
  CHECK_HAS("\"request\":{\"model\":\"scenario:text?text=fine\"", text);
  CHECK(strchr(text, '\n') == text + length - 1);
}

TEST(a_file_that_cannot_be_opened_is_an_error) {
  int code = 0;
  char *description = NULL;
  CHECK(!FMRequestLogRecord("/nowhere/at/all", &code, &description));
  CHECK_INT(FMStatusInvalidArgument, code);
  CHECK_HAS("/nowhere/at/all", description);
  FMFreeString(description);
}

MAIN()
