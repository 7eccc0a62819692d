/* In a child of fork() every call is an error, at once; the parent goes on. */
#include "harness.h"

#include <signal.h>
#include <sys/wait.h>

static Collected in_child;

/* What the child sees, as a bit for each thing that was not as it must be. */
static int child(FMLanguageModelSessionRef session, FMComposedPromptRef prompt) {
  int wrong = 0;
  alarm(10);
  FMComposedPromptAddText(prompt, "more");
  if (FMLastErrorCode() != FMStatusUsedAfterFork) wrong |= 1;
  if (FMComposedPromptAddImage(prompt, picture("good.jpg"), NULL)) wrong |= 2;
  if (FMLastErrorCode() != FMStatusUsedAfterFork) wrong |= 4;

  collected_init(&in_child, false);
  FMLanguageModelSessionRespond(session, prompt, NULL, &in_child, collect);
  if (!collected_wait(&in_child, &in_child.ends, 1, 5)) wrong |= 8;
  if (in_child.status != FMStatusUsedAfterFork) wrong |= 16;
  if (!strstr(last_text(&in_child), "forked")) wrong |= 64;
  if (FMLanguageModelSessionStreamResponse(session, prompt, NULL) != NULL) wrong |= 32;
  FMRelease(prompt);
  FMRelease(session);
  FMShutdown();
  return wrong;
}

TEST(a_child_gets_errors_and_the_parent_answers) {
  FMLanguageModelSessionRef session = scenario_session("echo");
  FMComposedPromptRef prompt = text_prompt("hello");
  Collected collected;
  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  collected_free(&collected);

  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) _exit(child(session, prompt));
  int status = 0;
  CHECK_INT(pid, waitpid(pid, &status, 0));
  CHECK(WIFEXITED(status));
  CHECK_INT(0, WEXITSTATUS(status));

  respond(session, prompt, NULL, &collected);
  CHECK_INT(0, collected.status);
  CHECK_TEXT("hello", last_text(&collected));
  collected_free(&collected);
  FMRelease(prompt);
  FMRelease(session);
}

TEST(nothing_is_left_alive) { CHECK_INT(0, live_objects_after_a_while(FMObjectKindAny)); }

MAIN()
