/*
 * Keeps the processors from going idle, until stdin ends: one thread each, which runs only where
 * nothing else would (SCHED_IDLE). Waking an idle virtual processor can cost more than what is
 * measured.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static void *spin(void *argument) {
  (void)argument;
  struct sched_param none = {0};
  if (sched_setscheduler(0, SCHED_IDLE, &none)) return NULL;
  for (;;) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

int main(void) {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  for (long i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, spin, NULL)) return 1;
  }
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}
