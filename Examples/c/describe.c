/*
 * describe PICTURE [PROMPT] - asks the default model about a picture and prints the answer as it
 * comes, then what was sent and what it cost.
 *
 * From the repository's root, after scripts/build:
 *
 *   cc -std=c11 Examples/c/describe.c -o .build/describe -I.build/openfm/include \
 *     -L.build/openfm/lib -lFoundationModels -lpthread -Wl,-rpath,"$PWD/.build/openfm/lib"
 */
#include <OpenFM.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the callback and the main thread share. */
typedef struct Answer {
  pthread_mutex_t lock;
  pthread_cond_t done;
  bool finished;
  int status;
  size_t printed; /* bytes of the answer that are on the terminal */
} Answer;

/*
 * Runs on a thread of the library. Each call brings the whole answer so far; the last one has no
 * content, or a status that is not 0 and a description.
 */
static void on_snapshot(int status, const char *content, size_t length, void *user_info) {
  Answer *answer = user_info;
  if (status == FMStatusSuccess && content != NULL) {
    fwrite(content + answer->printed, 1, length - answer->printed, stdout);
    fflush(stdout);
    answer->printed = length;
    return;
  }
  if (status != FMStatusSuccess) {
    fprintf(stderr, "describe: %s (%s)\n", content, FMStatusName(status));
  }
  pthread_mutex_lock(&answer->lock);
  answer->finished = true;
  answer->status = status;
  pthread_cond_signal(&answer->done);
  pthread_mutex_unlock(&answer->lock);
}

static int fail(const char *what) {
  fprintf(stderr, "describe: %s: %s\n", what, FMLastErrorDescription());
  return EXIT_FAILURE;
}

/* The number after the names in turn, e.g. "output", "total"; -1 where it is not known. */
static long number(const char *json, const char *outer, const char *inner) {
  char name[64];
  snprintf(name, sizeof name, "\"%s\":", outer);
  json = strstr(json, name);
  if (json == NULL) return -1;
  snprintf(name, sizeof name, "\"%s\":", inner);
  json = strstr(json, name);
  if (json == NULL) return -1;
  char *end;
  long value = strtol(json + strlen(name), &end, 10);
  return end == json + strlen(name) ? -1 : value;
}

/* Not every server counts. */
static void print_tokens(const char *what, long count) {
  if (count < 0) {
    printf("%s unknown", what);
  } else {
    printf("%s %ld", what, count);
  }
}

static void print_cost(FMLanguageModelSessionRef session) {
  char *usage = FMLanguageModelSessionCopyUsageJSON(session);
  if (usage == NULL) return;
  const char *last = strstr(usage, "\"last_response\":");
  if (last != NULL) {
    printf("sent %ldx%ld of %ldx%ld, %ld bytes", number(last, "images", "width"),
           number(last, "images", "height"), number(last, "images", "original_width"),
           number(last, "images", "original_height"), number(last, "images", "byte_count"));
    print_tokens("; tokens in", number(last, "input", "total"));
    print_tokens(", out", number(last, "output", "total"));
    printf("\n");
  }
  FMFreeString(usage);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: describe PICTURE [PROMPT]\n");
    return 2;
  }
  const char *question = argc > 2 ? argv[2] : "Describe the image.";

  FMSystemLanguageModelRef model = FMSystemLanguageModelGetDefault();
  if (!FMSystemLanguageModelIsAvailable(model, NULL)) {
    char *why = FMLanguageModelCopyUnavailableExplanation(model);
    fprintf(stderr, "describe: %s\n", why != NULL ? why : "no model");
    FMFreeString(why);
    FMRelease(model);
    return EXIT_FAILURE;
  }

  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  if (!FMComposedPromptAddImage(prompt, argv[1], NULL)) {
    FMRelease(prompt);
    FMRelease(model);
    return fail("cannot send the picture");
  }
  FMComposedPromptAddText(prompt, question);

  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMLanguageModelSessionResponseStreamRef stream = FMLanguageModelSessionStreamResponse(
      session, prompt, "{\"sampling\": {\"mode\": \"greedy\"}, \"maximum_response_tokens\": 100}");
  /* The request has its own copy of the prompt. */
  FMRelease(prompt);
  FMRelease(model);
  if (stream == NULL) {
    FMRelease(session);
    return fail("cannot ask");
  }

  Answer answer = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
  FMLanguageModelSessionResponseStreamIterate(stream, &answer, on_snapshot);
  pthread_mutex_lock(&answer.lock);
  while (!answer.finished) pthread_cond_wait(&answer.done, &answer.lock);
  pthread_mutex_unlock(&answer.lock);
  if (answer.printed > 0) printf("\n");

  if (answer.status == FMStatusSuccess) print_cost(session);
  FMRelease(stream);
  FMRelease(session);
  return answer.status == FMStatusSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
