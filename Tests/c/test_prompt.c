/* Prompts and pictures: each kind of bad input has its own code, before anything is sent. */
#include "harness.h"

/* Attaches with the error channel; returns the code, 0 for success. Checks what failure writes. */
static int attach(const char *path, const char *label, int orientation, const char *sha256,
                  const char *part) {
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  int code = 0;
  char *description = NULL;
  bool ok = FMComposedPromptAddAttachmentWithOrientation(prompt, path, label, orientation, sha256,
                                                         &code, &description);
  CHECK(ok == (code == 0));
  CHECK(ok == (description == NULL));
  if (part != NULL) CHECK_HAS(part, description);
  FMFreeString(description);
  FMRelease(prompt);
  return code;
}

TEST(each_bad_picture_has_its_code_and_names_the_file) {
  static const struct {
    const char *name;
    int code;
  } cases[] = {
      {"missing.jpg", FMStatusImageNotFound},
      {"folder.jpg", FMStatusImageNotAFile},
      {"empty.jpg", FMStatusImageEmpty},
      {"text.jpg", FMStatusNotAnImage},
      {"page.png", FMStatusNotAnImage},
      {"scan.tiff", FMStatusUnsupportedImageFormat},
      {"cut-in-header.jpg", FMStatusCorruptImage},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *path = picture(cases[i].name);
    CHECK_INT(cases[i].code, attach(path, NULL, 0, NULL, cases[i].name));

    /* The reference's function says 3, and the thread's last error the rest. */
    FMComposedPromptRef prompt = FMComposedPromptInitialize();
    FMComposedPromptAddImageError error = FMComposedPromptAddImageErrorNone;
    CHECK(!FMComposedPromptAddAttachment(prompt, path, NULL, &error));
    CHECK_INT(FMComposedPromptAddImageErrorUnknown, error);
    CHECK_INT(cases[i].code, FMLastErrorCode());
    CHECK_HAS(cases[i].name, FMLastErrorDescription());
    char *details = FMLastErrorCopyDetailsJSON();
    CHECK_HAS("\"path\"", details);
    FMFreeString(details);
    CHECK(!FMComposedPromptAddImage(prompt, path, NULL));
    CHECK(!FMComposedPromptAddIdentifiedImage(prompt, path, "A", NULL));
    FMRelease(prompt);

    FMImageInfo info;
    int code = 0;
    CHECK(!FMImageInspect(path, 0, &info, &code, NULL));
    CHECK_INT(cases[i].code, code);
  }
}

TEST(a_picture_cut_in_its_scan_data_is_refused) {
  int code = 0;
  char *description = NULL;
  CHECK(FMImagePrepare(picture("cut-in-scan.jpg"), 0, NULL, NULL, &code, &description) == NULL);
  CHECK_INT(FMStatusCorruptImage, code);
  CHECK_HAS("cut-in-scan.jpg", description);
  FMFreeString(description);

  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("look");
  if (FMComposedPromptAddImage(prompt, picture("cut-in-scan.jpg"), NULL)) {
    Collected collected;
    respond(session, prompt, NULL, &collected);
    CHECK_INT(FMStatusCorruptImage, collected.status);
    CHECK_HAS("cut-in-scan.jpg", last_text(&collected));
    collected_free(&collected);
  } else {
    CHECK_INT(FMStatusCorruptImage, FMLastErrorCode());
  }
  FMRelease(prompt);
  FMRelease(session);
}

TEST(paths_and_labels_that_cannot_be) {
  CHECK_INT(FMStatusInvalidImagePath, attach("", NULL, 0, NULL, NULL));
  CHECK_INT(FMStatusInvalidArgument, attach(NULL, NULL, 0, NULL, NULL));
  CHECK_INT(FMStatusInvalidLabel, attach(picture("good.jpg"), "", 0, NULL, NULL));
  CHECK_INT(FMStatusInvalidLabel, attach(picture("good.jpg"), "a\nb", 0, NULL, NULL));
  CHECK_INT(0, attach(picture("good.jpg"), "photo [1]", 0, NULL, NULL));
  CHECK_INT(FMStatusInvalidLabel, attach(picture("good.jpg"), "\xff", 0, NULL, NULL));
  CHECK_INT(0, attach(picture("good.jpg"), "Zürich ☃", 0, NULL, NULL));
  CHECK_INT(0, attach(picture("naïve name ☃.jpg"), NULL, 0, NULL, NULL));
}

TEST(a_label_names_one_picture_of_a_prompt) {
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  CHECK(FMComposedPromptAddIdentifiedImage(prompt, picture("good.jpg"), "A", NULL));
  CHECK(!FMComposedPromptAddIdentifiedImage(prompt, picture("good.png"), "A", NULL));
  CHECK_INT(FMStatusDuplicateLabel, FMLastErrorCode());
  CHECK_HAS("A", FMLastErrorDescription());
  CHECK(FMComposedPromptAddIdentifiedImage(prompt, picture("good.png"), "B", NULL));
  FMRelease(prompt);
}

TEST(orientation_is_1_to_8_or_the_files_own) {
  CHECK_INT(FMStatusInvalidOrientation, attach(picture("good.jpg"), NULL, 9, NULL, NULL));
  CHECK_INT(FMStatusInvalidOrientation, attach(picture("good.jpg"), NULL, -1, NULL, NULL));
  FMImageInfo info;
  for (int orientation = 0; orientation <= 8; orientation++) {
    CHECK(FMImageInspect(picture("turned.jpg"), orientation, &info, NULL, NULL));
    int effective = orientation == 0 ? 6 : orientation;
    CHECK_INT(effective, info.orientation);
    CHECK_INT(64, info.storedWidth);
    CHECK_INT(48, info.storedHeight);
    CHECK_INT(effective >= 5 ? 48 : 64, info.width);
    CHECK_INT(effective >= 5 ? 64 : 48, info.height);
  }
  CHECK_TEXT("image/jpeg", info.mimeType);
  CHECK_INT(64, strlen(info.sha256));
  CHECK(info.byteCount > 100);
  CHECK(FMImageInspect(picture("good.png"), 0, &info, NULL, NULL));
  CHECK_TEXT("image/png", info.mimeType);
  CHECK_INT(1, info.orientation);
}

TEST(a_changed_file_is_seen) {
  FMImageInfo info, other;
  CHECK(FMImageInspect(picture("good.jpg"), 0, &info, NULL, NULL));
  CHECK(FMImageInspect(picture("good.png"), 0, &other, NULL, NULL));
  CHECK_INT(0, attach(picture("good.jpg"), NULL, 0, info.sha256, NULL));
  CHECK_INT(FMStatusImageChanged, attach(picture("good.jpg"), NULL, 0, other.sha256, "good.jpg"));
  CHECK_INT(FMStatusInvalidArgument, attach(picture("good.jpg"), NULL, 0, "abc", NULL));
}

TEST(text_must_be_utf8) {
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  int code = 0;
  char *description = NULL;
  CHECK(!FMComposedPromptAddTextBytes(prompt, "caf\xe9", 4, &code, &description));
  CHECK_INT(FMStatusInvalidPromptText, code);
  CHECK(description != NULL);
  FMFreeString(description);
  /* Overlong, a surrogate, beyond the last code point, cut off. */
  CHECK(!FMComposedPromptAddTextBytes(prompt, "\xc0\xaf", 2, NULL, NULL));
  CHECK(!FMComposedPromptAddTextBytes(prompt, "\xed\xa0\x80", 3, NULL, NULL));
  CHECK(!FMComposedPromptAddTextBytes(prompt, "\xf4\x90\x80\x80", 4, NULL, NULL));
  CHECK(!FMComposedPromptAddTextBytes(prompt, "\xe2\x98", 2, NULL, NULL));
  CHECK(FMComposedPromptAddTextBytes(prompt, "caf\xc3\xa9", 5, &code, NULL));
  FMRelease(prompt);

  /* The reference's function has no error channel: the request fails. */
  FMLanguageModelSessionRef session = scenario_session("echo");
  prompt = text_prompt("caf\xe9");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusInvalidPromptText, collected.status);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(an_empty_prompt_is_refused) {
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusEmptyPrompt, collected.status);
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(a_prepared_image_is_upright_and_within_the_policy) {
  FMPreparedImageRef image = FMImagePrepare(picture("turned.jpg"), 0, NULL, NULL, NULL, NULL);
  size_t length = 0;
  const uint8_t *bytes = FMPreparedImageGetBytes(image, &length);
  CHECK(bytes != NULL && length > 100);
  CHECK(bytes != NULL && bytes[0] == 0xFF && bytes[1] == 0xD8);
  FMPreparedImageInfo info;
  CHECK(FMPreparedImageGetInfo(image, &info));
  CHECK_INT(48, info.width);
  CHECK_INT(64, info.height);
  CHECK_INT(48, info.originalWidth);
  CHECK_INT(64, info.originalHeight);
  CHECK_INT(6, info.orientation);
  CHECK(info.scale == 1.0);
  CHECK_INT((int)length, (int)info.byteCount);
  CHECK_TEXT("image/jpeg", info.mimeType);
  CHECK(strcmp(info.action, "passthrough") != 0);
  CHECK_INT(64, (int)strlen(info.sha256));
  CHECK_INT(0, info.warningCount);
  FMRelease(image);

  image = FMImagePrepare(picture("odd.jpg"), 0, NULL, NULL, NULL, NULL);
  CHECK(FMPreparedImageGetInfo(image, &info));
  CHECK_INT(1, info.warningCount);
  CHECK_TEXT("image/jpeg", info.mimeType);
  FMRelease(image);

  image = FMImagePrepare(picture("large.jpg"), 0, "{\"max_long_edge\": 500}", NULL, NULL, NULL);
  CHECK(FMPreparedImageGetInfo(image, &info));
  CHECK_INT(500, info.width);
  CHECK_INT(375, info.height);
  CHECK_INT(2000, info.originalWidth);
  CHECK(info.scale == 0.25);
  CHECK_TEXT("re-encoded", info.action);
  FMRelease(image);

  int code = 0;
  CHECK(FMImagePrepare(picture("good.jpg"), 0, "{\"quality\": 0}", NULL, &code, NULL) == NULL);
  CHECK_INT(FMStatusInvalidArgument, code);
}

TEST(policies_are_checked_and_applied) {
  const char *bad[] = {
      "{\"max_long_edge\": -1}", "{\"formats\": []}",         "{\"formats\": [\"webp\"]}",
      "{\"metadata\": \"some\"}", "{\"preset\": \"nobody\"}", "{\"max_edge\": 5}",
      "{\"side_multiple\": 0}",  "[]",                        "{"};
  for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
    int code = 0;
    char *description = NULL;
    CHECK(FMImagePrepare(picture("good.jpg"), 0, bad[index], NULL, &code, &description) == NULL);
    CHECK_INT(FMStatusInvalidArgument, code);
    CHECK_HAS("image p", description); /* "image policy", "image preset" */
    FMFreeString(description);
  }
  FMPreparedImageRef image = FMImagePrepare(
      picture("large.jpg"), 0, "{\"preset\": \"llava\", \"formats\": [\"png\"]}", NULL, NULL, NULL);
  FMPreparedImageInfo info;
  CHECK(FMPreparedImageGetInfo(image, &info));
  CHECK_INT(672, info.width);
  CHECK_TEXT("image/png", info.mimeType);
  FMRelease(image);

  FMSystemLanguageModelRef plain =
      FMLanguageModelCreateChatCompletions("http://127.0.0.1:9", "llava:7b", NULL, NULL, NULL, NULL);
  FMSystemLanguageModelRef model =
      FMLanguageModelCreateWithImagePolicy(plain, "{\"quality\": 70}", NULL, NULL);
  char *description = FMLanguageModelCopyDescriptionJSON(model);
  CHECK_HAS("\"max_long_edge\":672", description);
  CHECK_HAS("\"quality\":70", description);
  FMFreeString(description);
  FMRelease(model);
  FMRelease(plain);
}

TEST(a_picture_costs_what_its_model_asks) {
  bool exact = false;
  CHECK_INT(576, (int)FMImageEstimateTokens("llava:7b", 4000, 30, &exact, NULL, NULL));
  CHECK(exact);
  int code = 0;
  CHECK_INT(-1, (int)FMImageEstimateTokens("llava:7b", 0, 30, &exact, &code, NULL));
  CHECK_INT(FMStatusInvalidArgument, code);
}

TEST(prepared_pictures_are_remembered) {
  FMImageCacheInfo before, after;
  FMImageCacheClear();
  CHECK(FMImageCacheGetInfo(&before));
  CHECK_INT(0, (int)(before.count + before.byteCount + before.hits + before.misses));
  for (int round = 0; round < 3; round++) {
    FMRelease(FMImagePrepare(picture("good.jpg"), 0, NULL, NULL, NULL, NULL));
  }
  CHECK(FMImageCacheGetInfo(&after));
  CHECK_INT(1, (int)after.count);
  CHECK_INT(1, (int)after.misses);
  CHECK_INT(2, (int)after.hits);
  CHECK(after.byteCount > 0 && after.byteCount <= after.byteLimit);
}

TEST(the_server_gets_texts_and_pictures_in_order) {
  FMLanguageModelSessionRef session = scenario_session("echo-json");
  FMComposedPromptRef prompt = text_prompt("first");
  CHECK(FMComposedPromptAddIdentifiedImage(prompt, picture("good.jpg"), "A", NULL));
  FMComposedPromptAddText(prompt, "second");
  CHECK(FMComposedPromptAddImage(prompt, picture("turned.jpg"), NULL));
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  const char *text = last_text(&collected);
  CHECK_HAS("first", text);
  CHECK_HAS("\"media_type\": \"image/jpeg\"", text);
  const char *parts = strstr(text, "\"parts\"");
  CHECK(parts != NULL);
  if (parts != NULL) {
    const char *first = strstr(parts, "first");
    const char *wide = strstr(parts, "\"width\": 64");
    const char *second = strstr(parts, "second");
    const char *tall = strstr(parts, "\"width\": 48");
    CHECK(first != NULL && wide != NULL && second != NULL && tall != NULL);
    CHECK(first < wide && wide < second && second < tall);
  }
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(nothing_is_left_alive) { CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny)); }

MAIN()
