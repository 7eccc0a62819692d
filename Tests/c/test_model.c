/* Models: where they come from, what they say of themselves, why they are not there. */
#include "harness.h"

#include <sys/stat.h>
#include <unistd.h>

TEST(without_server_engine_or_model_the_default_is_unavailable) {
  FMSystemLanguageModelRef model = FMSystemLanguageModelGetDefault();
  CHECK(model != NULL);
  FMSystemLanguageModelUnavailableReason reason = FMSystemLanguageModelUnavailableReasonUnknown;
  CHECK(!FMSystemLanguageModelIsAvailable(model, &reason));
  CHECK_INT(FMSystemLanguageModelUnavailableReasonModelNotReady, reason);
  CHECK(!FMSystemLanguageModelIsAvailable(model, NULL));
  char *why = FMLanguageModelCopyUnavailableExplanation(model);
  CHECK_HAS("OPENFM_BASE_URL", why);
  FMFreeString(why);
  char *description = FMLanguageModelCopyDescriptionJSON(model);
  CHECK_HAS("\"unavailable\"", description);
  FMFreeString(description);

  FMLanguageModelSessionRef session = FMLanguageModelSessionCreateDefault();
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(FMStatusAssetsUnavailable, collected.status);
  CHECK_HAS("OPENFM_", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
}

TEST(odd_use_cases_and_guardrails_still_give_a_model) {
  FMSystemLanguageModelRef model = FMSystemLanguageModelCreate(
      FMSystemLanguageModelUseCaseContentTagging,
      FMSystemLanguageModelGuardrailsPermissiveContentTransformations);
  CHECK(model != NULL);
  FMRelease(model);
  model = FMSystemLanguageModelCreate((FMSystemLanguageModelUseCase)77,
                                      (FMSystemLanguageModelGuardrails)-3);
  CHECK(model != NULL);
  FMRelease(model);
}

TEST(the_environment_names_a_server) {
  setenv("OPENFM_BASE_URL", server_url(), 1);
  setenv("OPENFM_MODEL", "scenario:text?text=from+the+environment", 1);
  setenv("OPENFM_API_KEY", "sk-very-secret", 1);
  FMSystemLanguageModelRef model = FMSystemLanguageModelGetDefault();
  CHECK(FMSystemLanguageModelIsAvailable(model, NULL));
  CHECK(FMLanguageModelCopyUnavailableExplanation(model) == NULL);
  char *description = FMLanguageModelCopyDescriptionJSON(model);
  CHECK_HAS("\"chat-completions\"", description);
  CHECK_HAS(server_url(), description);
  CHECK(description != NULL && strstr(description, "sk-very-secret") == NULL);
  FMFreeString(description);
  CHECK_INT(4096, FMSystemLanguageModelGetContextSize(model));

  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, "Be brief.", NULL, 0);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  CHECK_TEXT("from the environment", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  unsetenv("OPENFM_BASE_URL");
  unsetenv("OPENFM_MODEL");
  unsetenv("OPENFM_API_KEY");
}

TEST(instructions_go_first) {
  FMSystemLanguageModelRef model = scenario_model("echo-json");
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, "Be brief.", NULL, 0);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_HAS("\"role\": \"system\", \"parts\": [{\"text\": \"Be brief.\"}]", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  /* Instructions that are no UTF-8 make no session; tools are not there yet. */
  CHECK(FMLanguageModelSessionCreateFromSystemLanguageModel(model, "\xff", NULL, 0) == NULL);
  FMBridgedToolRef tools[1] = {model};
  CHECK(FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, tools, 1) == NULL);
  FMRelease(model);
}

static int create(const char *url, const char *name, const char *key, const char *options) {
  int code = 0;
  char *description = NULL;
  FMSystemLanguageModelRef model =
      FMLanguageModelCreateChatCompletions(url, name, key, options, &code, &description);
  CHECK((model == NULL) == (code != 0));
  CHECK((model == NULL) == (description != NULL));
  if (description != NULL) CHECK(strlen(description) > 10);
  FMFreeString(description);
  FMRelease(model);
  return code;
}

TEST(urls_and_options_are_checked_at_once) {
  CHECK_INT(0, create("http://127.0.0.1:1", "m", NULL, NULL));
  CHECK_INT(0, create("https://example.invalid/v1", "m", "key", ""));
  CHECK_INT(FMStatusInvalidURL, create("ftp://127.0.0.1", "m", NULL, NULL));
  CHECK_INT(FMStatusInvalidURL, create("not a url", "m", NULL, NULL));
  CHECK_INT(FMStatusInvalidURL, create("", "m", NULL, NULL));
  CHECK_INT(FMStatusInvalidURL, create("http://", "m", NULL, NULL));
  CHECK_INT(FMStatusInvalidURL, create("file:///etc/passwd", "m", NULL, NULL));
  CHECK_INT(FMStatusInvalidArgument, create(NULL, "m", NULL, NULL));
  CHECK_INT(FMStatusInvalidArgument, create("http://127.0.0.1:1", NULL, NULL, NULL));
  CHECK_INT(FMStatusInvalidArgument, create("http://127.0.0.1:1", "m", "bad\nkey", NULL));
  CHECK_INT(FMStatusInvalidArgument, create("http://127.0.0.1:1", "m", NULL, "{"));
  CHECK_INT(FMStatusInvalidArgument, create("http://127.0.0.1:1", "m", NULL, "[]"));
  CHECK_INT(FMStatusInvalidArgument,
            create("http://127.0.0.1:1", "m", NULL, "{\"timeout\": {\"connect\": -1}}"));
  CHECK_INT(FMStatusInvalidArgument,
            create("http://127.0.0.1:1", "m", NULL, "{\"image\": {\"quality\": 101}}"));
  CHECK_INT(FMStatusInvalidArgument,
            create("http://127.0.0.1:1", "m", NULL, "{\"headers\": {\"X\": \"a\\r\\nb\"}}"));
  CHECK_INT(FMStatusInvalidArgument,
            create("http://127.0.0.1:1", "m", NULL, "{\"max_retries\": -1}"));
  CHECK_INT(FMStatusInvalidArgument,
            create("http://127.0.0.1:1", "m", NULL, "{\"max_retries\": 101}"));
  CHECK_INT(FMStatusInvalidArgument,
            create("http://127.0.0.1:1", "m", NULL, "{\"max_retries\": 0.5}"));
  CHECK_INT(FMStatusInvalidArgument, create("http://127.0.0.1:1", "m", NULL, "{\"proxy\": 1}"));
  CHECK_INT(0, create("http://127.0.0.1:1", "m", NULL,
                      "{\"max_retries\": 0, \"proxy\": \"\","
                      " \"certificate_file\": \"/etc/ssl/cert.pem\"}"));
  CHECK_INT(0, create("http://127.0.0.1:1", "m", NULL,
                      "{\"headers\": {\"X-Team\": \"a\"}, \"timeout\": {\"connect\": 1.5},"
                      " \"context_size\": 100, \"supports_images\": false,"
                      " \"image\": {\"max_long_edge\": 512, \"background\": \"#00ff00\"},"
                      " \"extra_body\": {\"user\": \"x\"}}"));
}

TEST(a_model_that_sees_nothing_is_sent_no_picture) {
  char url[512];
  snprintf(url, sizeof url, "%s/p/blind", server_url());
  const char *urls[2] = {url, server_url()};
  const char *options[2] = {NULL, "{\"supports_images\": false}"};
  for (int i = 0; i < 2; i++) {
    FMSystemLanguageModelRef model =
        FMLanguageModelCreateChatCompletions(urls[i], "m", NULL, options[i], NULL, NULL);
    FMLanguageModelSessionRef session =
        FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
    FMComposedPromptRef prompt = text_prompt("look");
    CHECK(FMComposedPromptAddImage(prompt, picture("good.jpg"), NULL));
    Collected collected;
    respond(session, prompt, NULL, &collected);
    CHECK_INT(FMStatusUnsupportedCapability, collected.status);
    collected_free(&collected);
    FMRelease(prompt);
    FMRelease(session);
    FMRelease(model);
  }
}

TEST(engine_defaults_are_checked) {
  int code = 0;
  char *description = NULL;
  CHECK(!FMEngineSetDefaults("{", &code, &description));
  CHECK_INT(FMStatusInvalidArgument, code);
  FMFreeString(description);
  CHECK(!FMEngineSetDefaults("[]", NULL, NULL));
  CHECK(!FMEngineSetDefaults("{\"command\": \"text\"}", NULL, NULL));
  CHECK(!FMEngineSetDefaults("{\"command\": []}", NULL, NULL));
  CHECK(!FMEngineSetDefaults("{\"model_path\": 7}", NULL, NULL));
  CHECK(!FMEngineSetDefaults(NULL, NULL, NULL));
  CHECK(FMEngineSetDefaults("{}", NULL, NULL));
}

TEST(an_engine_that_cannot_start_says_so) {
  setenv("OPENFM_ENGINE", "/nonexistent/llama-server", 1);
  setenv("OPENFM_MODEL_PATH", picture("good.jpg"), 1);
  FMSystemLanguageModelRef model = FMSystemLanguageModelGetDefault();
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK(collected.status == FMStatusEngineNotStarted ||
        collected.status == FMStatusAssetsUnavailable);
  CHECK_HAS("/nonexistent/llama-server", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  unsetenv("OPENFM_ENGINE");
  unsetenv("OPENFM_MODEL_PATH");
}

/* A folder with a python3 that has the engine's package and writes a file when it is started. */
static void write_file(const char *path, const char *text, mode_t mode) {
  FILE *file = fopen(path, "w");
  CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, mode) == 0);
}

TEST(whether_it_is_available_starts_nothing) {
  char folder[200], path[256], text[512], marker[256];
  snprintf(folder, sizeof folder, "%s/XXXXXX", need_env("OPENFM_TEST_PICTURES"));
  CHECK(mkdtemp(folder) != NULL);
  static const char *const folders[] = {"bin", "lib", "lib/python3.11",
                                        "lib/python3.11/site-packages",
                                        "lib/python3.11/site-packages/xllamacpp"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
    CHECK_INT(0, mkdir(path, 0755));
  }
  snprintf(marker, sizeof marker, "%s/marker", folder);
  snprintf(path, sizeof path, "%s/pyvenv.cfg", folder);
  write_file(path, "home = /usr/bin\n", 0644);
  snprintf(text, sizeof text, "#!/bin/sh\necho started > %s\nexit 1\n", marker);
  snprintf(path, sizeof path, "%s/bin/python3", folder);
  write_file(path, text, 0755);
  /* The first bytes of a GGUF file with nothing in it. */
  snprintf(path, sizeof path, "%s/model.gguf", folder);
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL);
  CHECK_INT(24, fwrite("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 1, 24, file));
  fclose(file);
  setenv("OPENFM_MODEL_PATH", path, 1);
  char *search = strdup(getenv("PATH"));
  snprintf(path, sizeof path, "%s/bin", folder);
  setenv("PATH", path, 1);

  FMSystemLanguageModelRef model = FMSystemLanguageModelGetDefault();
  CHECK(FMSystemLanguageModelIsAvailable(model, NULL));
  CHECK(FMLanguageModelCopyUnavailableExplanation(model) == NULL);
  char *description = FMLanguageModelCopyDescriptionJSON(model);
  CHECK_HAS("/bin/python3", description);
  FMFreeString(description);
  description = FMCopyBuildInfoJSON();
  CHECK_HAS("/bin/python3", description);
  FMFreeString(description);
  CHECK(access(marker, F_OK) != 0);

  /* The request starts it, and says what came of that. */
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK(access(marker, F_OK) == 0);
  CHECK_INT(FMStatusAssetsUnavailable, collected.status);
  CHECK_HAS("/bin/python3 has xllamacpp and does not run", last_text(&collected));
  CHECK(!FMSystemLanguageModelIsAvailable(model, NULL));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  unsetenv("OPENFM_MODEL_PATH");
  setenv("PATH", search, 1);
  free(search);
  static const char *const all[] = {"marker",     "pyvenv.cfg", "bin/python3",
                                    "model.gguf", "bin",        "lib/python3.11/site-packages/xllamacpp",
                                    "lib/python3.11/site-packages", "lib/python3.11", "lib", "."};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, all[i]);
    if (strcmp(all[i], ".") == 0) snprintf(path, sizeof path, "%s", folder);
    CHECK_INT(0, remove(path));
  }
}

TEST(nothing_is_left_alive) { CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny)); }

MAIN()
