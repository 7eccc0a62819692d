/* FMShutdown: what runs is cancelled and still called back; what comes after is refused. */
#include "harness.h"

TEST(shutdown_cancels_what_runs_and_refuses_what_follows) {
  enum { COUNT = 8 };
  static Collected running[COUNT];
  FMComposedPromptRef prompt = text_prompt("hello");
  for (int i = 0; i < COUNT; i++) {
    FMLanguageModelSessionRef session = scenario_session("hang-midstream");
    collected_init(&running[i], false);
    FMRelease(FMLanguageModelSessionRespond(session, prompt, NULL, &running[i], collect));
    FMRelease(session);
  }
  sleep_ms(200);
  double start = seconds_now();
  FMShutdown();
  CHECK(seconds_now() - start < 3);
  for (int i = 0; i < COUNT; i++) {
    CHECK_INT(1, running[i].calls);
    CHECK(running[i].status == FMStatusUnknown || running[i].status == FMStatusShutDown);
    collected_free(&running[i]);
  }

  FMLanguageModelSessionRef session = scenario_session("echo");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusShutDown, collected.status);
  collected_free(&collected);
  FMShutdown();
  FMRelease(session);
  FMRelease(prompt);
  CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny));
}

MAIN()
