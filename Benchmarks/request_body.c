/*
 * Sends a large prompt and reads a short answer, over one kept connection: through plain libcurl, or
 * through the library.
 *   request_body curl|openfm|prompt BASE_URL MODEL BYTES REPEATS
 * prints seconds a request, after one unmeasured. `curl` is given the finished body and `openfm` the
 * prompt before the clock runs; with `prompt`, making the prompt of the text counts too.
 */
#include <OpenFM.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double wall(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static size_t received;

static size_t count_bytes(char *bytes, size_t size, size_t count, void *info) {
  (void)bytes, (void)info;
  received += size * count;
  return size * count;
}

static int with_curl(const char *base, const char *model, const char *text, int repeats) {
  char url[256];
  snprintf(url, sizeof url, "%s/chat/completions", base);
  size_t capacity = strlen(text) + 1024;
  char *body = malloc(capacity);
  int length = snprintf(body, capacity,
                        "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
                        "\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
                        model, text);
  CURL *easy = curl_easy_init();
  struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Accept: text/event-stream");
  headers = curl_slist_append(headers, "Expect:");
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)length);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
  for (int repeat = 0; repeat <= repeats; repeat++) {
    double start = wall();
    CURLcode code = curl_easy_perform(easy);
    if (code != CURLE_OK || !received) {
      fprintf(stderr, "%s\n", curl_easy_strerror(code));
      return 1;
    }
    if (repeat) printf("%.6f\n", wall() - start);
  }
  curl_easy_cleanup(easy);
  curl_slist_free_all(headers);
  free(body);
  return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static int is_over, failed;

static void take(int status, const char *content, size_t count, void *info) {
  (void)info, (void)count;
  pthread_mutex_lock(&mutex);
  if (status != 0) {
    fprintf(stderr, "status %d: %s\n", status, content);
    failed = 1;
  }
  is_over = 1;
  pthread_cond_signal(&over);
  pthread_mutex_unlock(&mutex);
}

static int with_openfm(const char *base, const char *model_name, const char *text, int repeats,
                       int counts_prompt) {
  FMSystemLanguageModelRef model =
      FMLanguageModelCreateChatCompletions(base, model_name, NULL, NULL, NULL, NULL);
  for (int repeat = 0; repeat <= repeats && !failed; repeat++) {
    FMLanguageModelSessionRef session =
        FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
    double before = wall();
    FMComposedPromptRef prompt = FMComposedPromptInitialize();
    FMComposedPromptAddText(prompt, text);
    double start = counts_prompt ? before : wall();
    is_over = 0;
    FMTaskRef task = FMLanguageModelSessionRespond(session, prompt, NULL, NULL, take);
    pthread_mutex_lock(&mutex);
    while (!is_over) pthread_cond_wait(&over, &mutex);
    pthread_mutex_unlock(&mutex);
    if (repeat) printf("%.6f\n", wall() - start);
    FMRelease(task);
    FMRelease(prompt);
    FMRelease(session);
  }
  FMRelease(model);
  return failed;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  size_t size = (size_t)atol(argv[4]);
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; i++) text[i] = i % 8 == 7 ? ' ' : (char)('a' + i % 26);
  text[size] = 0;
  int result = !strcmp(argv[1], "curl") ? with_curl(argv[2], argv[3], text, atoi(argv[5]))
                                        : with_openfm(argv[2], argv[3], text, atoi(argv[5]),
                                                      !strcmp(argv[1], "prompt"));
  free(text);
  return result;
}
