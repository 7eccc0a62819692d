/* Streams: cumulative snapshots, one end, cancelled by their release. */
#include "harness.h"

static FMLanguageModelSessionResponseStreamRef start(FMLanguageModelSessionRef session,
                                                     const char *text, Collected *collected) {
  FMComposedPromptRef prompt = text_prompt(text);
  FMLanguageModelSessionResponseStreamRef stream =
      FMLanguageModelSessionStreamResponse(session, prompt, NULL);
  FMRelease(prompt);
  CHECK(stream != NULL);
  collected_init(collected, true);
  FMLanguageModelSessionResponseStreamIterate(stream, collected, collect);
  return stream;
}

TEST(snapshots_grow_and_one_call_ends) {
  FMLanguageModelSessionRef session = scenario_session("slow-stream?chunks=40&delay=0.005");
  Collected collected;
  FMLanguageModelSessionResponseStreamRef stream = start(session, "hello", &collected);
  CHECK(wait_for_end(&collected));
  CHECK_INT(1, collected.ends);
  CHECK(collected.calls > 5 && collected.calls < COLLECTED_MAX);
  for (int i = 0; i + 1 < collected.calls; i++) {
    CHECK_INT(0, collected.statuses[i]);
    CHECK(collected.texts[i] != NULL);
    CHECK_INT(strlen(collected.texts[i]), collected.lengths[i]);
    if (i == 0) continue;
    /* Each holds the one before it whole. */
    CHECK(collected.lengths[i] >= collected.lengths[i - 1]);
    CHECK(strncmp(collected.texts[i - 1], collected.texts[i], collected.lengths[i - 1]) == 0);
  }
  int last = collected.calls - 1;
  CHECK_INT(0, collected.statuses[last]);
  CHECK(collected.texts[last] == NULL);
  CHECK_INT(0, collected.lengths[last]);
  CHECK_HAS("The quick brown fox", collected.texts[last - 1]);
  CHECK_HAS("東京 🦊", collected.texts[last - 1]);
  collected_free(&collected);
  FMRelease(stream);
  FMRelease(session);
}

TEST(snapshots_never_split_a_character) {
  FMLanguageModelSessionRef session = scenario_session("slow-stream?chunks=32&split=7&delay=0");
  Collected collected;
  FMLanguageModelSessionResponseStreamRef stream = start(session, "hello", &collected);
  CHECK(wait_for_end(&collected));
  CHECK_INT(0, collected.status);
  for (int i = 0; i + 1 < collected.calls && i < COLLECTED_MAX; i++) {
    FMComposedPromptRef prompt = FMComposedPromptInitialize();
    CHECK(FMComposedPromptAddTextBytes(prompt, collected.texts[i], collected.lengths[i], NULL,
                                       NULL));
    FMRelease(prompt);
  }
  collected_free(&collected);
  FMRelease(stream);
  FMRelease(session);
}

TEST(a_failure_is_one_call_and_the_last) {
  static const struct {
    const char *scenario;
    int code;
  } cases[] = {
      {"error?status=500", FMStatusServer},
      {"rate-limit", FMStatusRateLimited},
      {"midstream-error", FMStatusServer},
      {"broken-off", FMStatusEndedEarly},
      {"refusal", FMStatusRefusal},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FMLanguageModelSessionRef session = scenario_session(cases[i].scenario);
    Collected collected;
    FMLanguageModelSessionResponseStreamRef stream = start(session, "hello", &collected);
    CHECK(wait_for_end(&collected));
    if (collected.status != cases[i].code) printf("  %s:\n", cases[i].scenario);
    CHECK_INT(cases[i].code, collected.status);
    CHECK_INT(1, collected.ends);
    CHECK(strlen(last_text(&collected)) > 10);
    CHECK(!FMLanguageModelSessionIsResponding(session));
    collected_free(&collected);
    FMRelease(stream);
    FMRelease(session);
  }
}

TEST(bad_options_give_no_stream) {
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("hello");
  CHECK(FMLanguageModelSessionStreamResponse(session, prompt, "{") == NULL);
  CHECK_INT(FMStatusUnknown, FMLastErrorCode());
  CHECK(FMLanguageModelSessionStreamResponse(session, prompt, "[]") == NULL);
  FMLanguageModelSessionResponseStreamRef stream =
      FMLanguageModelSessionStreamResponse(session, prompt, "");
  CHECK(stream != NULL);
  FMRelease(stream);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(a_stream_that_is_not_iterated_sends_nothing) {
  FMLanguageModelSessionRef session = scenario_session("echo-json");
  FMComposedPromptRef prompt = text_prompt("unsent");
  FMLanguageModelSessionResponseStreamRef stream =
      FMLanguageModelSessionStreamResponse(session, prompt, NULL);
  CHECK(!FMLanguageModelSessionIsResponding(session));
  FMRelease(stream);
  FMRelease(prompt);
  prompt = text_prompt("sent");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  CHECK(strstr(last_text(&collected), "unsent") == NULL);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(a_stream_iterates_once) {
  FMLanguageModelSessionRef session = scenario_session("text?text=once");
  Collected collected, second;
  FMLanguageModelSessionResponseStreamRef stream = start(session, "hello", &collected);
  CHECK(wait_for_end(&collected));
  CHECK_INT(0, collected.status);
  collected_init(&second, true);
  FMLanguageModelSessionResponseStreamIterate(stream, &second, collect);
  CHECK(wait_for_end(&second));
  CHECK_INT(1, second.calls);
  CHECK(second.status != 0);
  collected_free(&collected);
  collected_free(&second);
  FMRelease(stream);
  FMRelease(session);
}

TEST(release_cancels) {
  FMLanguageModelSessionRef session = scenario_session("hang-midstream");
  Collected collected;
  FMLanguageModelSessionResponseStreamRef stream = start(session, "hello", &collected);
  CHECK(wait_for_calls(&collected, 1));
  CHECK_INT(0, collected.status);
  CHECK(FMLanguageModelSessionIsResponding(session));
  double started = seconds_now();
  FMRelease(stream);
  CHECK(wait_for_end(&collected));
  CHECK(seconds_now() - started < 1);
  CHECK_INT(FMStatusUnknown, collected.status);
  CHECK_HAS("cancel", last_text(&collected));
  CHECK_INT(1, collected.ends);
  CHECK(!FMLanguageModelSessionIsResponding(session));
  collected_free(&collected);
  FMRelease(session);
}

TEST(the_session_outlives_its_reference_while_it_streams) {
  FMLanguageModelSessionRef session = scenario_session("slow-stream?chunks=10&delay=0.01");
  Collected collected;
  FMLanguageModelSessionResponseStreamRef stream = start(session, "hello", &collected);
  FMRelease(session);
  CHECK(wait_for_end(&collected));
  CHECK_INT(0, collected.status);
  collected_free(&collected);
  FMRelease(stream);
}

TEST(nothing_is_left_alive) { CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny)); }

MAIN()
