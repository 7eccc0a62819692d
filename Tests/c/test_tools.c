/* Tools in C: when they are called, how a call ends, what becomes of one that never does. */
#include "harness.h"

#define PARAMETERS                                                                          \
  "{\"type\": \"object\", \"properties\": {\"word\": {\"type\": \"string\"}},"              \
  " \"required\": [\"word\"], \"additionalProperties\": false}"
/* {"name": "probe", "arguments": {"word": "x"}}, twice, encoded for a scenario. */
#define CALL "%7B%22name%22%3A%22probe%22%2C%22arguments%22%3A%7B%22word%22%3A%22x%22%7D%7D"
#define ONE_CALL "tools?calls=%5B" CALL "%5D"
#define TWO_CALLS "tools?calls=%5B" CALL "%2C" CALL "%5D"

typedef struct Probe {
  FMBridgedToolRef tool;
  pthread_mutex_t mutex;
  int called;
  int cancelled;
  char arguments[256];
  enum { AtOnce, Never, AsError } how;
} Probe;

static void probe(FMGeneratedContentRef arguments, unsigned int call, void *info) {
  Probe *self = info;
  char *json = FMGeneratedContentGetJSONString(arguments);
  FMRelease(arguments);
  pthread_mutex_lock(&self->mutex);
  self->called++;
  snprintf(self->arguments, sizeof self->arguments, "%s", json);
  pthread_mutex_unlock(&self->mutex);
  FMFreeString(json);
  char output[64];
  snprintf(output, sizeof output, "output %u", call);
  if (self->how == AtOnce) {
    /* Before this function has returned, and twice: the second time counts for nothing. */
    FMBridgedToolFinishCall(self->tool, call, output);
    FMBridgedToolFinishCall(self->tool, call, "once more");
  } else if (self->how == AsError) {
    FMBridgedToolFinishCallWithError(self->tool, call, "it is broken");
  }
}

static void cancelled(unsigned int call, void *info) {
  Probe *self = info;
  (void)call;
  pthread_mutex_lock(&self->mutex);
  self->cancelled++;
  pthread_mutex_unlock(&self->mutex);
}

static FMLanguageModelSessionRef tool_session(Probe *self, const char *scenario) {
  char name[512];
  pthread_mutex_init(&self->mutex, NULL);
  self->tool = FMBridgedToolCreateFromJSON("probe", "Probes.", PARAMETERS, probe, cancelled, self,
                                           NULL, NULL);
  CHECK(self->tool != NULL);
  snprintf(name, sizeof name, "scenario:%s", scenario);
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      server_url(), name, NULL, "{\"supports_tools\": true, \"server\": \"llama.cpp\"}", NULL, NULL);
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, &self->tool, 1);
  FMRelease(model);
  return session;
}

TEST(a_call_may_be_finished_before_its_callable_returns) {
  Probe self = {.how = AtOnce};
  FMLanguageModelSessionRef session = tool_session(&self, TWO_CALLS);
  FMComposedPromptRef prompt = text_prompt("Go");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  CHECK_HAS("output 1", last_text(&collected));
  CHECK_HAS("output 2", last_text(&collected));
  CHECK(strstr(last_text(&collected), "once more") == NULL);
  CHECK_INT(2, self.called);
  CHECK_TEXT("{\"word\":\"x\"}", self.arguments);
  collected_free(&collected);
  char *transcript = FMLanguageModelSessionGetTranscriptJSONString(session, NULL, NULL);
  CHECK_HAS("\"toolCalls\"", transcript);
  CHECK_HAS("\"toolCallID\"", transcript);
  FMFreeString(transcript);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(self.tool);
}

/* The reference's tools have no userInfo: what they need is global. */
static FMBridgedToolRef plain_tool;

static void plain(FMGeneratedContentRef arguments, unsigned int call) {
  int code = 0;
  char *word = FMGeneratedContentGetPropertyValue(arguments, "word", &code, NULL);
  CHECK(FMGeneratedContentIsComplete(arguments));
  CHECK(FMGeneratedContentGetPropertyValue(arguments, "other", &code, NULL) == NULL);
  CHECK_INT(255, code);
  FMRelease(arguments);
  FMBridgedToolFinishCall(plain_tool, call, word);
  FMFreeString(word);
}

TEST(a_tool_of_a_built_schema) {
  FMGenerationSchemaRef schema = FMGenerationSchemaCreate("Arguments", NULL);
  FMGenerationSchemaPropertyRef word =
      FMGenerationSchemaPropertyCreate("word", "to say", "string", false);
  const char *choices[] = {"x", "y"};
  FMGenerationSchemaPropertyAddAnyOfGuide(word, choices, 2, false);
  FMGenerationSchemaAddProperty(schema, word);
  plain_tool = FMBridgedToolCreate("probe", "Probes.", schema, plain, NULL, NULL);
  CHECK(plain_tool != NULL);
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      server_url(), "scenario:" ONE_CALL, NULL,
      "{\"supports_tools\": true, \"server\": \"llama.cpp\"}", NULL, NULL);
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, &plain_tool, 1);
  FMComposedPromptRef prompt = text_prompt("Go");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  collected_free(&collected);
  char *transcript = FMLanguageModelSessionGetTranscriptJSONString(session, NULL, NULL);
  CHECK_HAS("\"role\":\"tool\"", transcript);
  FMFreeString(transcript);

  /* A bad schema is known when the tool is made. */
  int code = 0;
  char *description = NULL;
  FMGenerationSchemaPropertyAddMinimumGuide(word, 1, false);
  CHECK(FMBridgedToolCreate("probe", "Probes.", schema, plain, &code, &description) == NULL);
  CHECK_INT(FMStatusUnsupportedGuide, code);
  CHECK_HAS("word", description);
  FMFreeString(description);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  FMRelease(plain_tool);
  FMRelease(word);
  FMRelease(schema);
}

TEST(an_error_is_status_165_or_output) {
  Probe self = {.how = AsError};
  FMLanguageModelSessionRef session = tool_session(&self, ONE_CALL);
  FMComposedPromptRef prompt = text_prompt("Go");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusToolCall, collected.status);
  CHECK_HAS("it is broken", last_text(&collected));
  collected_free(&collected);
  CHECK(FMLanguageModelSessionConfigure(session, "{\"tool_errors\": \"output\"}", NULL, NULL));
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  CHECK_HAS("Tool error: it is broken", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(self.tool);
}

TEST(a_call_that_never_ends_is_cancelled_with_its_request) {
  Probe self = {.how = Never};
  FMLanguageModelSessionRef session = tool_session(&self, ONE_CALL);
  FMComposedPromptRef prompt = text_prompt("Go");
  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  for (int i = 0; i < 500 && self.called == 0; i++) sleep_ms(10);
  CHECK_INT(1, self.called);
  FMTaskCancel(task);
  CHECK(wait_for_end(&collected));
  CHECK_INT(FMStatusUnknown, collected.status);
  CHECK_INT(1, self.cancelled);
  /* Too late, and unknown: nothing happens. */
  FMBridgedToolFinishCall(self.tool, 1, "late");
  FMBridgedToolFinishCall(self.tool, 99, "unknown");
  collected_free(&collected);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(self.tool);
}

TEST(a_session_keeps_its_tools) {
  Probe self = {.how = AtOnce};
  FMLanguageModelSessionRef session = tool_session(&self, ONE_CALL);
  FMRetain(self.tool);
  FMRelease(self.tool);
  CHECK_INT(1, FMDebugLiveObjects(FMObjectKindTool));
  FMComposedPromptRef prompt = text_prompt("Go");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  collected_free(&collected);
  FMRelease(self.tool);
  CHECK_INT(1, FMDebugLiveObjects(FMObjectKindTool));
  FMRelease(prompt);
  FMRelease(session);
  CHECK_INT(0, live_objects_after_a_while(FMObjectKindTool));
}

TEST(bad_tools_are_refused) {
  int code = 0;
  char *description = NULL;
  CHECK(FMBridgedToolCreateFromJSON("a b", "x", PARAMETERS, probe, NULL, NULL, &code,
                                    &description) == NULL);
  CHECK_INT(FMStatusInvalidArgument, code);
  CHECK_HAS("64 letters", description);
  FMFreeString(description);
  CHECK(FMBridgedToolCreateFromJSON("a", "x", "{", probe, NULL, NULL, &code, NULL) == NULL);
  CHECK_INT(FMStatusInvalidSchema, code);
  CHECK(FMBridgedToolCreateFromJSON("a", "x", PARAMETERS, NULL, NULL, NULL, &code, NULL) == NULL);
  CHECK_INT(FMStatusInvalidArgument, code);
  FMBridgedToolRef tool =
      FMBridgedToolCreateFromJSON("a", "x", PARAMETERS, probe, NULL, NULL, NULL, NULL);
  FMBridgedToolRef twice[] = {tool, tool};
  CHECK(FMLanguageModelSessionCreateFromSystemLanguageModel(NULL, NULL, twice, 2) == NULL);
  CHECK_HAS("Two tools", FMLastErrorDescription());
  CHECK(FMLanguageModelSessionCreateFromSystemLanguageModel(NULL, NULL, NULL, 2) == NULL);
  FMRelease(tool);
}

/* Without an event queue there is nobody to hear of the call. */
TEST(a_queue_tool_needs_a_queue) {
  FMBridgedToolRef tool = FMBridgedToolCreateForQueue("probe", "Probes.", PARAMETERS, NULL, NULL);
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      server_url(), "scenario:" ONE_CALL, NULL,
      "{\"supports_tools\": true, \"server\": \"llama.cpp\"}", NULL, NULL);
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, &tool, 1);
  FMComposedPromptRef prompt = text_prompt("Go");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusToolCall, collected.status);
  CHECK_HAS("event queue", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  FMRelease(tool);
}

/* ---- Counts and transcripts -------------------------------------------------------------- */

typedef struct Count {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int calls, status, count;
  char error[256];
} Count;

static void counted(int status, int count, const char *error, void *info) {
  Count *self = info;
  pthread_mutex_lock(&self->mutex);
  self->calls++;
  self->status = status;
  self->count = count;
  snprintf(self->error, sizeof self->error, "%s", error != NULL ? error : "");
  pthread_cond_signal(&self->condition);
  pthread_mutex_unlock(&self->mutex);
}

static Count finished(Count *self, FMTaskRef task) {
  pthread_mutex_lock(&self->mutex);
  while (self->calls == 0) pthread_cond_wait(&self->condition, &self->mutex);
  pthread_mutex_unlock(&self->mutex);
  FMRelease(task);
  Count result = *self;
  self->calls = 0;
  return result;
}

TEST(tokens_are_counted_of_everything) {
  Count count = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      server_url(), "scenario:echo", NULL,
      "{\"supports_tools\": true, \"server\": \"llama.cpp\"}", NULL, NULL);
  FMBridgedToolRef tool = FMBridgedToolCreateForQueue("probe", "Probes.", PARAMETERS, NULL, NULL);
  FMComposedPromptRef prompt = text_prompt("one two three");
  Count seen = finished(
      &count, FMSystemLanguageModelTokenCountForPrompt(model, prompt, &count, counted));
  CHECK_INT(0, seen.status);
  CHECK(seen.count >= 3);
  seen = finished(&count, FMSystemLanguageModelTokenCountForInstructions(model, "Be brief.", &count,
                                                                         counted));
  CHECK(seen.count >= 2);
  seen = finished(&count,
                  FMSystemLanguageModelTokenCountForTools(model, &tool, 1, &count, counted));
  CHECK(seen.count > 0);
  seen = finished(&count,
                  FMSystemLanguageModelTokenCountForTools(model, NULL, 0, &count, counted));
  CHECK_INT(0, seen.count);
  FMGenerationSchemaRef schema = FMGenerationSchemaCreate("City", "A city.");
  FMGenerationSchemaPropertyRef name = FMGenerationSchemaPropertyCreate("name", NULL, "string", false);
  FMGenerationSchemaAddProperty(schema, name);
  seen = finished(&count, FMSystemLanguageModelTokenCountForSchema(model, schema, &count, counted));
  CHECK_INT(0, seen.status);
  CHECK(seen.count > 0);
  /* What is wrong with it comes through the callback: the schema is built inside the task. */
  FMGenerationSchemaPropertyAddMinimumGuide(name, 1, false);
  seen = finished(&count, FMSystemLanguageModelTokenCountForSchema(model, schema, &count, counted));
  CHECK_INT(FMStatusUnsupportedGuide, seen.status);
  CHECK_INT(0, seen.count);
  FMRelease(name);
  FMRelease(schema);
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, "Be brief.", NULL, 0);
  seen = finished(&count,
                  FMSystemLanguageModelTokenCountForTranscript(model, session, &count, counted));
  CHECK(seen.count >= 2);
  /* What is wrong comes through the callback, once. */
  seen = finished(&count,
                  FMSystemLanguageModelTokenCountForPrompt(model, session, &count, counted));
  CHECK_INT(FMStatusInvalidArgument, seen.status);
  CHECK_INT(0, seen.count);
  CHECK_HAS("another kind", seen.error);
  CHECK_INT(1, seen.calls);
  FMRelease(session);
  FMRelease(prompt);
  FMRelease(tool);
  FMRelease(model);
}

TEST(a_transcript_goes_on_in_another_session) {
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("Hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  collected_free(&collected);
  char *json = FMLanguageModelSessionGetTranscriptJSONString(session, NULL, NULL);
  CHECK_HAS("\"type\":\"FoundationModels.Transcript\"", json);
  FMLanguageModelSessionRef read = FMTranscriptCreateFromJSONString(json, NULL, NULL);
  char *again = FMLanguageModelSessionGetTranscriptJSONString(read, NULL, NULL);
  CHECK_TEXT(json, again);
  FMFreeString(again);
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      server_url(), "scenario:echo-json", NULL, NULL, NULL, NULL);
  FMLanguageModelSessionRef next = FMLanguageModelSessionCreateFromTranscript(read, model, NULL, 0);
  FMRelease(prompt);
  prompt = text_prompt("And now?");
  respond(next, prompt, NULL, &collected);
  CHECK_HAS("Hello", last_text(&collected));
  collected_free(&collected);
  again = FMLanguageModelSessionGetTranscriptJSONString(read, NULL, NULL);
  CHECK_TEXT(json, again);
  FMFreeString(again);
  FMFreeString(json);
  int code = 0;
  char *description = NULL;
  CHECK(FMTranscriptCreateFromJSONString("{}", &code, &description) == NULL);
  CHECK_INT(FMStatusDecodingFailure, code);
  CHECK_HAS("transcript", description);
  FMFreeString(description);
  CHECK(FMTranscriptCreateFromJSONString("\xff", &code, NULL) == NULL);
  CHECK_INT(FMStatusDecodingFailure, code);
  FMRelease(prompt);
  FMRelease(next);
  FMRelease(read);
  FMRelease(model);
  FMRelease(session);
}

MAIN()
