/* What a C program does with the installed files alone: one answer about a picture. */
#include <OpenFM.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int done;

static void on_answer(int status, const char *text, size_t length, void *user_info) {
  (void)user_info;
  printf("%s: %.*s\n", FMStatusName(status), (int)length, text ? text : "");
  done = 1;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  char *problem = NULL;
  int code = 0;
  FMSystemLanguageModelRef model =
      FMLanguageModelCreateChatCompletions(argv[1], "any", NULL, NULL, &code, &problem);
  if (!model) {
    printf("%s: %s\n", FMStatusName(code), problem);
    return 1;
  }
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  if (!FMComposedPromptAddImage(prompt, argv[2], NULL)) {
    printf("%s\n", FMLastErrorDescription());
    return 1;
  }
  FMComposedPromptAddText(prompt, "What is this?");
  FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, NULL, on_answer);
  for (int i = 0; i < 30000 && !done; i++) usleep(1000);
  FMRelease(task);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  return !done;
}
