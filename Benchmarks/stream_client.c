/*
 * Streams answers through the C library and tells what it cost.
 *   stream_client BASE_URL MODEL REPEATS
 * prints "SNAPSHOTS CPU_SECONDS WALL_SECONDS" a repeat, of the whole process, after one unmeasured.
 */
#include <OpenFM.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static int is_over, failed;
static long snapshots;
static size_t length;

static void take(int status, const char *content, size_t count, void *info) {
  (void)info;
  if (status == 0 && content) {
    snapshots++;
    length = count;
    return;
  }
  pthread_mutex_lock(&mutex);
  if (status != 0) {
    fprintf(stderr, "status %d: %s\n", status, content);
    failed = 1;
  }
  is_over = 1;
  pthread_cond_signal(&over);
  pthread_mutex_unlock(&mutex);
}

static double cpu(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double wall(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  FMSystemLanguageModelRef model =
      FMLanguageModelCreateChatCompletions(argv[1], argv[2], NULL, NULL, NULL, NULL);
  if (!model) {
    fprintf(stderr, "%s\n", FMLastErrorDescription());
    return 1;
  }
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  FMComposedPromptAddText(prompt, "Write.");
  for (int repeat = 0; repeat <= atoi(argv[3]) && !failed; repeat++) {
    FMLanguageModelSessionRef session =
        FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
    double cpu_start = cpu(), wall_start = wall();
    snapshots = 0;
    is_over = 0;
    FMLanguageModelSessionResponseStreamRef stream =
        FMLanguageModelSessionStreamResponse(session, prompt, NULL);
    FMLanguageModelSessionResponseStreamIterate(stream, NULL, take);
    pthread_mutex_lock(&mutex);
    while (!is_over) pthread_cond_wait(&over, &mutex);
    pthread_mutex_unlock(&mutex);
    if (repeat) printf("%ld %.6f %.6f\n", snapshots, cpu() - cpu_start, wall() - wall_start);
    FMRelease(stream);
    FMRelease(session);
  }
  FMRelease(prompt);
  FMRelease(model);
  return failed;
}
