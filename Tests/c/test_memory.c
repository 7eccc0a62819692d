/* Ownership, and references that are none: defined errors, never a crash. */
#include "harness.h"

TEST(version_and_build_info_are_there) {
  CHECK(strlen(FMVersion()) >= 5);
  char *info = FMCopyBuildInfoJSON();
  CHECK_HAS(FMVersion(), info);
  FMFreeString(info);
}

TEST(null_is_ignored_by_retain_release_and_free) {
  FMRetain(NULL);
  FMRelease(NULL);
  FMFreeString(NULL);
}

TEST(retain_and_release_balance) {
  int64_t before = FMDebugLiveObjects(FMObjectKindComposedPrompt);
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  CHECK_INT(before + 1, FMDebugLiveObjects(FMObjectKindComposedPrompt));
  FMRetain(prompt);
  FMRelease(prompt);
  CHECK_INT(before + 1, FMDebugLiveObjects(FMObjectKindComposedPrompt));
  FMComposedPromptAddText(prompt, "still alive");
  FMRelease(prompt);
  CHECK_INT(before, FMDebugLiveObjects(FMObjectKindComposedPrompt));
}

TEST(release_twice_is_an_error_and_nothing_else) {
  FMComposedPromptRef kept = FMComposedPromptInitialize();
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  int64_t before = FMDebugLiveObjects(FMObjectKindAny);
  FMRelease(prompt);
  FMRelease(prompt);
  FMRetain(prompt);
  CHECK_INT(before - 1, FMDebugLiveObjects(FMObjectKindAny));
  CHECK_INT(FMStatusInvalidArgument, FMLastErrorCode());
  CHECK(FMLastErrorDescription() != NULL && strlen(FMLastErrorDescription()) > 10);
  /* A new object does not come back under the old reference. */
  FMComposedPromptRef next = FMComposedPromptInitialize();
  CHECK(next != prompt);
  FMRelease(prompt);
  CHECK_INT(before, FMDebugLiveObjects(FMObjectKindAny));
  FMRelease(next);
  FMRelease(kept);
}

TEST(a_released_reference_is_refused_everywhere) {
  FMComposedPromptRef prompt = text_prompt("gone");
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMRelease(prompt);
  FMComposedPromptAddText(prompt, "more");
  CHECK_INT(FMStatusInvalidArgument, FMLastErrorCode());
  FMComposedPromptAddImageError error = FMComposedPromptAddImageErrorNone;
  CHECK(!FMComposedPromptAddImage(prompt, picture("good.jpg"), &error));
  CHECK_INT(FMComposedPromptAddImageErrorUnknown, error);

  Collected collected;
  collected_init(&collected, false);
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, &collected, collect);
  CHECK(wait_for_end(&collected));
  CHECK_INT(1, collected.calls);
  CHECK_INT(FMStatusInvalidArgument, collected.status);
  CHECK(strlen(last_text(&collected)) > 10);
  FMRelease(task);
  collected_free(&collected);
  FMRelease(session);
}

TEST(foreign_and_wrong_references_are_refused) {
  char on_stack[64] = {0};
  FMSystemLanguageModelRef model = scenario_model("echo");
  const void *references[] = {NULL, on_stack, (const void *)1, (const void *)UINTPTR_MAX, model};
  for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
    const void *bad = references[i];
    FMComposedPromptAddText(bad, "text");
    CHECK(!FMComposedPromptAddAttachment(bad, picture("good.jpg"), NULL, NULL));
    CHECK(!FMLanguageModelSessionIsResponding(bad));
    FMLanguageModelSessionReset(bad);
    FMTaskCancel(bad);
    CHECK(!FMGeneratedContentIsComplete(bad));
    CHECK(FMGeneratedContentGetJSONString(bad) == NULL);
    int code = 0;
    char *description = NULL;
    CHECK(FMGeneratedContentGetPropertyValue(bad, "name", &code, &description) == NULL);
    CHECK_INT(FMStatusInvalidArgument, code);
    CHECK(description != NULL);
    FMFreeString(description);
    CHECK(FMLanguageModelSessionStreamResponse(bad, bad, NULL) == NULL);
    CHECK_INT(FMStatusInvalidArgument, FMLastErrorCode());
    CHECK(FMLanguageModelSessionCopyUsageJSON(bad) == NULL);
    CHECK_INT(-1, FMEventQueueGetFileDescriptor(bad));
    size_t length = 1, needed = 1;
    CHECK(FMPreparedImageGetBytes(bad, &length) == NULL);
    FMPreparedImageInfo info;
    CHECK(!FMPreparedImageGetInfo(bad, &info));
    uint64_t buffer[8];
    CHECK_INT(0, FMEventQueueDrain(bad, buffer, sizeof buffer, &needed));
    if (bad != model) {
      FMRetain(bad);
      FMRelease(bad);
      CHECK(!FMSystemLanguageModelIsAvailable(bad, NULL));
      CHECK_INT(0, FMSystemLanguageModelGetContextSize(bad));
      CHECK(FMLanguageModelCopyDescriptionJSON(bad) == NULL);
    }
    if (bad != model && bad != NULL) {
      CHECK(FMLanguageModelSessionCreateFromSystemLanguageModel(bad, NULL, NULL, 0) == NULL);
    }
  }
  FMRelease(model);
}

TEST(a_bad_session_still_calls_back_once) {
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(NULL, prompt, NULL, &collected);
  CHECK_INT(FMStatusInvalidArgument, collected.status);
  collected_free(&collected);

  collected_init(&collected, true);
  FMLanguageModelSessionResponseStreamIterate(NULL, &collected, collect);
  CHECK(wait_for_end(&collected));
  CHECK_INT(1, collected.calls);
  CHECK_INT(FMStatusInvalidArgument, collected.status);
  collected_free(&collected);
  FMRelease(prompt);
}

TEST(generated_content_comes_and_goes) {
  int code = 0;
  char *description = NULL;
  FMGeneratedContentRef content = FMGeneratedContentCreateFromJSON(
      "{\"z\": \"last\", \"a\": [1, 2.5, \"\\u00e9\"], \"n\": null}", &code, &description);
  CHECK(content != NULL);
  CHECK(FMGeneratedContentIsComplete(content));
  char *json = FMGeneratedContentGetJSONString(content);
  CHECK_HAS("\"z\"", json);
  CHECK(json != NULL && strstr(json, "\"z\"") < strstr(json, "\"a\""));
  FMFreeString(json);
  char *value = FMGeneratedContentGetPropertyValue(content, "z", &code, &description);
  CHECK_TEXT("last", value);
  FMFreeString(value);
  CHECK_INT(0, code);
  CHECK(FMGeneratedContentGetPropertyValue(content, "a", &code, &description) == NULL);
  CHECK_INT(FMStatusUnknown, code);
  FMFreeString(description);
  CHECK(FMGeneratedContentGetPropertyValue(content, "missing", NULL, NULL) == NULL);
  FMRelease(content);

  description = NULL;
  CHECK(FMGeneratedContentCreateFromJSON("{\"a\": \"\\ud800\" ]", &code, &description) == NULL);
  CHECK_INT(FMStatusUnknown, code);
  CHECK(description != NULL);
  FMFreeString(description);
  CHECK(FMGeneratedContentCreateFromJSON(NULL, &code, NULL) == NULL);
  CHECK_INT(0, FMDebugLiveObjects(FMObjectKindGeneratedContent));
}

TEST(nothing_is_left_alive) {
  for (FMObjectKind kind = FMObjectKindAny; kind <= FMObjectKindPreparedImage; kind++) {
    CHECK_INT(0, live_objects_after_a_while(kind));
  }
}

MAIN()
