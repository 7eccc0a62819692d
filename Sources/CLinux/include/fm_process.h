/*
 * A child process that lives no longer than its parent, and the machine's facts that Swift's Glibc
 * module does not carry.
 */
#ifndef OPENFM_PROCESS_H
#define OPENFM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A child and the parent's ends of what connects the two. All descriptors are close-on-exec. */
typedef struct fm_child {
  pid_t pid;
  int pidfd;  /* readable once the child has ended; -1 where the kernel has none */
  int input;  /* write end of the child's standard input, of which it sees the end when this closes */
  int output; /* non-blocking read end of its standard output and error */
} fm_child;

/*
 * Starts the program at `path` (no search) in a session of its own, with default signal handling, an
 * empty signal mask and no descriptor but 0 to 2. Comes back when it runs, or could not: 0, or the
 * errno, and then there is no child and nothing to close.
 *
 * The kernel kills the child when the CALLING THREAD ends: call from a thread that outlives it.
 * The descriptors are the caller's, to close with close(); the child is ended with fm_reap().
 */
int fm_spawn(const char *path, char *const *argv, char *const *envp, fm_child *child);

/* Signals the child, never a process that got its number later; false when it is gone. */
bool fm_signal(const fm_child *child, int signal);

/* The same for it and all that it started, as far as they stayed in its process group. */
bool fm_signal_group(const fm_child *child, int signal);

typedef enum fm_exit_kind {
  fm_exit_unknown = 0, /* the host ignores SIGCHLD, or waited for the child itself */
  fm_exit_code = 1,
  fm_exit_signal = 2,
} fm_exit_kind;

/*
 * Waits until the child has ended, kills what it left behind in its process group, and takes it out
 * of the process table. `*value` is the exit code or the signal.
 */
fm_exit_kind fm_reap(const fm_child *child, int *value);

/* Fills `bytes` from the kernel's random generator; false where that fails. */
bool fm_random_bytes(void *bytes, size_t count);

/* Processors this process may run on, at least 1. */
int fm_processor_count(void);

/* The process's environment; the pointer is good until someone changes the environment. */
char *const *fm_environment(void);

#endif
