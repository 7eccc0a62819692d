#define _GNU_SOURCE
#include "fm_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The same numbers on every architecture; older headers lack the names. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char **environ;

static void close_both(const int pair[2]) {
  if (pair[0] >= 0) close(pair[0]);
  if (pair[1] >= 0) close(pair[1]);
}

/*
 * A close-on-exec pipe with both ends above the standard descriptors: a host may have closed those,
 * and an end that lands there would be overwritten in the child. Returns 0 or the errno.
 */
static int make_pipe(int pair[2]) {
  if (pipe2(pair, O_CLOEXEC) != 0) {
    int error = errno;
    pair[0] = pair[1] = -1;
    return error;
  }
  for (int i = 0; i < 2; i++) {
    if (pair[i] > STDERR_FILENO) continue;
    int moved = fcntl(pair[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0) {
      int error = errno;
      close_both(pair);
      pair[0] = pair[1] = -1;
      return error;
    }
    close(pair[i]);
    pair[i] = moved;
  }
  return 0;
}

static void close_from(unsigned first) {
  if (syscall(SYS_close_range, first, UINT_MAX, 0) == 0) return;
  struct rlimit limit;
  rlim_t end = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
  if (end > 1 << 20) end = 1 << 20;
  for (rlim_t fd = first; fd < end; fd++) close((int)fd);
}

/* What the child needs, in one place, since it may touch nothing else. */
struct start {
  const char *path;
  char *const *argv;
  char *const *envp;
  pid_t parent;
  int input;
  int output;
  int failure;
};

/*
 * The child's side. It runs in the parent's memory (vfork): system calls only, no allocation, no
 * lock, no return.
 */
__attribute__((noinline, noreturn)) static void run_child(const struct start *start) {
  enum { failure = STDERR_FILENO + 1 };
  if (dup2(start->input, STDIN_FILENO) < 0 || dup2(start->output, STDOUT_FILENO) < 0 ||
      dup2(start->output, STDERR_FILENO) < 0) {
    goto fail;
  }
  if (start->failure == failure) {
    /* Stays where it is, close-on-exec as it was made. */
  } else if (dup3(start->failure, failure, O_CLOEXEC) < 0) {
    goto fail;
  }
  close_from(failure + 1);

  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) goto fail_moved;
  /* The parent may have ended before the kernel knew of our wish. */
  if (getppid() != start->parent) _exit(127);
  /* A session of its own: Ctrl-C at the host's terminal is the host's to handle. */
  setsid();

  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &action, NULL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);

  execve(start->path, start->argv, start->envp);

  int error;
fail_moved:
  error = errno;
  while (write(failure, &error, sizeof error) < 0 && errno == EINTR) {
  }
  _exit(127);
fail:
  error = errno;
  while (write(start->failure, &error, sizeof error) < 0 && errno == EINTR) {
  }
  _exit(127);
}

int fm_spawn(const char *path, char *const *argv, char *const *envp, fm_child *child) {
  int input[2] = {-1, -1}, output[2] = {-1, -1}, failure[2] = {-1, -1};
  int error = make_pipe(input);
  if (error == 0) error = make_pipe(output);
  if (error == 0) error = make_pipe(failure);
  if (error == 0 && fcntl(output[0], F_SETFL, O_NONBLOCK) != 0) error = errno;
  if (error != 0) goto out;

  struct start start = {path, argv, envp, getpid(), input[0], output[1], failure[1]};
  /* No handler of the host's may run in the child while it shares our memory. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = vfork();
  if (pid == 0) run_child(&start);
  if (pid < 0) error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error != 0) goto out;

  close(failure[1]);
  failure[1] = -1;
  ssize_t count;
  do {
    count = read(failure[0], &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count != sizeof error) error = 0; /* the end of the file: the program runs */
  if (error != 0) {
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    goto out;
  }

  child->pid = pid;
  child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  child->input = input[1];
  child->output = output[0];
  input[1] = output[0] = -1;

out:
  close_both(input);
  close_both(output);
  close_both(failure);
  return error;
}

bool fm_signal(const fm_child *child, int signal) {
  if (child->pidfd >= 0) {
    return syscall(SYS_pidfd_send_signal, child->pidfd, signal, NULL, 0) == 0;
  }
  return kill(child->pid, signal) == 0;
}

bool fm_signal_group(const fm_child *child, int signal) {
  /* While the child is there, even as a zombie, its number names no other group. */
  if (!fm_signal(child, 0)) return false;
  return kill(-child->pid, signal) == 0;
}

fm_exit_kind fm_reap(const fm_child *child, int *value) {
  siginfo_t info;
  int result;
  do {
    memset(&info, 0, sizeof info);
    result = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    *value = 0;
    return fm_exit_unknown;
  }
  kill(-child->pid, SIGKILL);
  do {
    result = waitid(P_PID, (id_t)child->pid, NULL, WEXITED);
  } while (result != 0 && errno == EINTR);
  *value = info.si_status;
  return info.si_code == CLD_EXITED ? fm_exit_code : fm_exit_signal;
}

bool fm_random_bytes(void *bytes, size_t count) {
  char *next = bytes;
  while (count > 0) {
    ssize_t got = getrandom(next, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    count -= (size_t)got;
  }
  return true;
}

int fm_processor_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

char *const *fm_environment(void) { return environ; }
