/* Whole answers: one callback, whatever happens. */
#include "harness.h"

TEST(an_answer_comes_once_and_on_another_thread) {
  FMLanguageModelSessionRef session = scenario_session("text?text=Zürich");
  FMComposedPromptRef prompt = text_prompt("Where?");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  CHECK_TEXT("Zürich", last_text(&collected));
  CHECK_INT(strlen("Zürich"), collected.lengths[0]);
  CHECK(!pthread_equal(pthread_self(), collected.thread));
  CHECK(!FMLanguageModelSessionIsResponding(session));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(a_task_knows_what_its_answer_cost) {
  FMLanguageModelSessionRef session = scenario_session("text?text=a%20b&prompt_tokens=17");
  FMComposedPromptRef prompt = text_prompt("Where?");
  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  CHECK(wait_for_end(&collected));
  char *json = FMTaskCopyResponseJSON(task);
  CHECK_HAS("\"total\":17", json);
  CHECK_HAS("\"finish_reason\":\"stop\"", json);
  CHECK_HAS("\"model\":\"scripted\"", json);
  FMFreeString(json);
  FMRelease(task);
  collected_free(&collected);

  collected_init(&collected, false);
  task = FMLanguageModelSessionRespond(session, prompt, "[]", &collected, collect);
  CHECK(wait_for_end(&collected));
  CHECK_INT(FMStatusUnknown, collected.status);
  CHECK(FMTaskCopyResponseJSON(task) == NULL);
  FMRelease(task);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(the_prompt_may_be_released_or_changed_at_once) {
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("captured");
  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  FMComposedPromptAddText(prompt, " too late");
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(task);
  CHECK(wait_for_end(&collected));
  CHECK_TEXT("captured", last_text(&collected));
  collected_free(&collected);
}

TEST(turns_are_remembered_and_failed_ones_are_not) {
  FMLanguageModelSessionRef session = scenario_session("echo-json");
  FMComposedPromptRef prompt = text_prompt("one");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  collected_free(&collected);
  FMRelease(prompt);
  prompt = text_prompt("two");
  respond(session, prompt, "[1]", &collected);
  CHECK_INT(FMStatusUnknown, collected.status);
  collected_free(&collected);
  FMRelease(prompt);
  prompt = text_prompt("three");
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  CHECK_HAS("one", last_text(&collected));
  CHECK_HAS("three", last_text(&collected));
  CHECK(strstr(last_text(&collected), "two") == NULL);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(options_reach_the_server) {
  FMLanguageModelSessionRef session = scenario_session("echo-json");
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt,
          "{\"sampling\": {\"mode\": \"random\", \"top_k\": 7, \"seed\": 18446744073709551615},"
          " \"temperature\": 0.25, \"maximum_response_tokens\": 33}",
          &collected);
  CHECK_INT(0, collected.status);
  CHECK_HAS("18446744073709551615", last_text(&collected));
  CHECK_HAS("0.25", last_text(&collected));
  CHECK_HAS("33", last_text(&collected));
  CHECK_HAS("\"top_k\": 7", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(bad_options_are_code_255) {
  static const char *const options[] = {"{", "[]", "\"text\"", "{\"temperature\": }", "\xff"};
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("hello");
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    Collected collected;
    respond(session, prompt, options[i], &collected);
    CHECK_INT(FMStatusUnknown, collected.status);
    CHECK(strlen(last_text(&collected)) > 0);
    collected_free(&collected);
  }
  FMRelease(prompt);
  FMRelease(session);
}

TEST(each_failure_of_a_server_has_its_code) {
  static const struct {
    const char *scenario;
    int code;
  } cases[] = {
      {"error?status=500", FMStatusServer},
      {"error?status=400", FMStatusServer},
      {"unauthorized", FMStatusAuthentication},
      {"forbidden", FMStatusAuthentication},
      {"no-model", FMStatusNotFound},
      {"no-endpoint", FMStatusNotFound},
      {"too-large", FMStatusRequestTooLarge},
      {"rate-limit", FMStatusRateLimited},
      {"overflow", FMStatusExceededContextWindowSize},
      {"overflow?which=vllm-maximum", FMStatusExceededContextWindowSize},
      {"no-images", FMStatusUnsupportedCapability},
      {"ok-with-error", FMStatusServer},
      {"midstream-error", FMStatusServer},
      {"refusal", FMStatusRefusal},
      {"empty", FMStatusEmptyResponse},
      {"eof", FMStatusEndedEarly},
      {"broken-off", FMStatusEndedEarly},
      {"html", FMStatusInvalidResponse},
      {"garbage", FMStatusInvalidResponse},
      {"bad-chunk", FMStatusInvalidResponse},
      {"not-http", FMStatusInvalidResponse},
  };
  FMComposedPromptRef prompt = text_prompt("hello");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FMLanguageModelSessionRef session = scenario_session(cases[i].scenario);
    Collected collected;
    respond(session, prompt, NULL, &collected);
    if (collected.status != cases[i].code) printf("  %s:\n", cases[i].scenario);
    CHECK_INT(cases[i].code, collected.status);
    CHECK(strlen(last_text(&collected)) > 10);
    collected_free(&collected);
    FMRelease(session);
  }
  FMRelease(prompt);
}

TEST(no_server_is_a_connect_error_that_names_the_url) {
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      "http://127.0.0.1:9", "m", "secret-key", NULL, NULL, NULL);
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMRelease(model);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusConnect, collected.status);
  CHECK_HAS("127.0.0.1:9", last_text(&collected));
  CHECK(strstr(last_text(&collected), "secret-key") == NULL);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(cancel_calls_back_once_with_255) {
  FMLanguageModelSessionRef session = scenario_session("hang-midstream");
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  CHECK(FMLanguageModelSessionIsResponding(session));
  sleep_ms(100);
  CHECK_INT(0, collected.calls);
  double start = seconds_now();
  FMTaskCancel(task);
  FMTaskCancel(task);
  CHECK(wait_for_end(&collected));
  CHECK(seconds_now() - start < 1);
  CHECK_INT(1, collected.calls);
  CHECK_INT(FMStatusUnknown, collected.status);
  CHECK_HAS("cancel", last_text(&collected));
  CHECK(!FMLanguageModelSessionIsResponding(session));
  FMTaskCancel(task);
  FMRelease(task);
  collected_free(&collected);

  /* The session is free for the next request. */
  respond(session, prompt, "{}{", &collected);
  CHECK_INT(FMStatusUnknown, collected.status);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(cancel_at_once_calls_back_once) {
  FMComposedPromptRef prompt = text_prompt("hello");
  for (int i = 0; i < 100; i++) {
    FMLanguageModelSessionRef session = scenario_session("slow-stream?delay=0.01");
    Collected collected;
    collected_init(&collected, false);
    FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
    if (i % 2 == 1) sleep_ms(i % 20);
    FMTaskCancel(task);
    FMRelease(task);
    FMRelease(session);
    CHECK(collected_wait(&collected, &collected.ends, 1, 20));
    CHECK_INT(1, collected.calls);
    CHECK_INT(FMStatusUnknown, collected.status);
    collected_free(&collected);
  }
  FMRelease(prompt);
}

TEST(one_request_a_session) {
  FMLanguageModelSessionRef session = scenario_session("slow-stream?chunks=20");
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected first, second;
  collected_init(&first, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &first, collect);
  respond(session, prompt, NULL, &second);
  CHECK_INT(FMStatusConcurrentRequests, second.status);
  CHECK(wait_for_end(&first));
  CHECK_INT(0, first.status);
  FMRelease(task);
  collected_free(&first);
  collected_free(&second);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(a_schema_gives_content) {
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("Which way?");
  const char *schema =
      "{\"title\": \"Way\", \"type\": \"object\", \"properties\": {\"direction\": {\"type\": "
      "\"string\", \"enum\": [\"up\", \"down\"]}}, \"required\": [\"direction\"], "
      "\"additionalProperties\": false}";
  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespondWithSchemaFromJSON(session, prompt, schema, NULL,
                                                                   &collected, collect_content);
  CHECK(wait_for_end(&collected));
  CHECK_INT(1, collected.calls);
  CHECK_INT(0, collected.status);
  CHECK_HAS("\"up\"", last_text(&collected));
  FMRelease(task);
  collected_free(&collected);
  FMRelease(session);

  /* An answer that does not match is no content. */
  session = scenario_session("text?text=nonsense");
  collected_init(&collected, false);
  task = FMLanguageModelSessionRespondWithSchemaFromJSON(session, prompt, schema, NULL, &collected,
                                                         collect_content);
  CHECK(wait_for_end(&collected));
  CHECK_INT(FMStatusDecodingFailure, collected.status);
  CHECK(strlen(last_text(&collected)) > 5);
  FMRelease(task);
  collected_free(&collected);

  /* A schema that is none. */
  collected_init(&collected, false);
  task = FMLanguageModelSessionRespondWithSchemaFromJSON(session, prompt, "{\"type\": ", NULL,
                                                         &collected, collect_content);
  CHECK(wait_for_end(&collected));
  CHECK_INT(1, collected.calls);
  CHECK_INT(FMStatusInvalidSchema, collected.status);
  FMRelease(task);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(usage_is_the_servers) {
  FMLanguageModelSessionRef session = scenario_session("text?text=Hello&cached=2");
  FMComposedPromptRef prompt = text_prompt("one two three");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  collected_free(&collected);
  char *usage = FMLanguageModelSessionCopyUsageJSON(session);
  /* Three words and 4 around the message, by the scripted server's count. */
  CHECK_HAS("\"total\":7", usage);
  CHECK_HAS("\"finish_reason\":\"stop\"", usage);
  FMFreeString(usage);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(many_sessions_at_once) {
  enum { COUNT = 64 };
  static Collected collected[COUNT];
  FMTaskRef tasks[COUNT];
  FMLanguageModelSessionRef sessions[COUNT];
  for (int i = 0; i < COUNT; i++) {
    char text[32];
    snprintf(text, sizeof text, "number %d", i);
    sessions[i] = scenario_session("echo");
    FMComposedPromptRef prompt = text_prompt(text);
    collected_init(&collected[i], false);
    tasks[i] = FMLanguageModelSessionRespond(sessions[i], prompt, NULL, &collected[i], collect);
    FMRelease(prompt);
  }
  for (int i = 0; i < COUNT; i++) {
    char text[32];
    snprintf(text, sizeof text, "number %d", i);
    CHECK(collected_wait(&collected[i], &collected[i].ends, 1, 30));
    CHECK_INT(0, collected[i].status);
    CHECK_TEXT(text, last_text(&collected[i]));
    CHECK_INT(1, collected[i].calls);
    FMRelease(tasks[i]);
    FMRelease(sessions[i]);
    collected_free(&collected[i]);
  }
}

TEST(nothing_is_left_alive) { CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny)); }

MAIN()
