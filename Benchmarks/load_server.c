/*
 * A chat-completions server that costs next to nothing, for measuring clients.
 *
 * Listens on a free loopback port and prints it; ends at the end of its input. What a request gets is
 * in its body: "load:KEY=N,KEY=N..." anywhere (the model's name is a good place):
 *   chunks    events of the answer (default 1000)
 *   interval  microseconds between two writes; 0 = as fast as they are taken (default 0)
 *   burst     events of one such write, at most 64 (default 1)
 *   start     microseconds before the first one (default 0)
 * Each event is about 200 bytes, and its text ends in the moment of its sending: CLOCK_MONOTONIC in
 * nanoseconds, 20 digits. One thread, epoll, chunked encoding, connections are kept.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_DESCRIPTORS = 16384, HEAD_LIMIT = 65536, BATCH = 64 };

struct connection {
  int descriptor;
  /* The request: its head and the start of its body, as far as it is kept. */
  char head[HEAD_LIMIT];
  size_t head_length;
  long body_left; /* -1 while the head is read */
  char options[256];
  /* The answer. */
  long chunks, sent, burst;
  int64_t interval, due;
  int answering;
  int heap_index;
  char out[BATCH * 512];
  size_t out_length, out_offset;
};

static struct connection *connections[MAX_DESCRIPTORS];
static struct connection *heap[MAX_DESCRIPTORS + 1]; /* by `due`, from 1 */
static int heap_count;
static int poller;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void place(int index, struct connection *one) {
  heap[index] = one;
  one->heap_index = index;
}

static void heap_move(int index) {
  struct connection *one = heap[index];
  while (index > 1 && heap[index / 2]->due > one->due) {
    place(index, heap[index / 2]);
    index /= 2;
  }
  for (;;) {
    int child = 2 * index;
    if (child > heap_count) break;
    if (child < heap_count && heap[child + 1]->due < heap[child]->due) child++;
    if (heap[child]->due >= one->due) break;
    place(index, heap[child]);
    index = child;
  }
  place(index, one);
}

static void schedule(struct connection *one, int64_t due) {
  one->due = due;
  if (!one->heap_index) {
    place(++heap_count, one);
  }
  heap_move(one->heap_index);
}

static void unschedule(struct connection *one) {
  int index = one->heap_index;
  if (!index) return;
  one->heap_index = 0;
  struct connection *last = heap[heap_count--];
  if (last != one) {
    place(index, last);
    heap_move(index);
  }
}

static void finish(struct connection *one) {
  unschedule(one);
  connections[one->descriptor] = NULL;
  close(one->descriptor);
  free(one);
}

static long option(const struct connection *one, const char *name, long otherwise) {
  const char *found = strstr(one->options, name);
  return found && found[strlen(name)] == '=' ? atol(found + strlen(name) + 1) : otherwise;
}

static void append(struct connection *one, const char *text, size_t length) {
  one->out_length += sprintf(one->out + one->out_length, "%zx\r\n", length);
  memcpy(one->out + one->out_length, text, length);
  one->out_length += length;
  memcpy(one->out + one->out_length, "\r\n", 2);
  one->out_length += 2;
}

static void append_event(struct connection *one) {
  char text[400];
  int length = sprintf(text,
                       "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
                       "\"created\":1700000000,\"model\":\"load\",\"choices\":[{\"index\":0,"
                       "\"delta\":{\"content\":\" word %020lld\"},\"finish_reason\":null}]}\n\n",
                       (long long)now());
  append(one, text, (size_t)length);
}

static void append_end(struct connection *one) {
  static const char end[] =
      "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
      "\"model\":\"load\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],"
      "\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}\n\n"
      "data: [DONE]\n\n";
  append(one, end, sizeof end - 1);
  memcpy(one->out + one->out_length, "0\r\n\r\n", 5);
  one->out_length += 5;
}

/* Sends what is waiting; 0 when the connection is gone. */
static int flush(struct connection *one) {
  while (one->out_offset < one->out_length) {
    ssize_t count = send(one->descriptor, one->out + one->out_offset,
                         one->out_length - one->out_offset, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EAGAIN) return 1;
      finish(one);
      return 0;
    }
    one->out_offset += (size_t)count;
  }
  one->out_offset = one->out_length = 0;
  return 1;
}

static void watch(struct connection *one, int writes) {
  struct epoll_event event = {.events = EPOLLIN | (writes ? EPOLLOUT : 0),
                              .data.fd = one->descriptor};
  epoll_ctl(poller, EPOLL_CTL_MOD, one->descriptor, &event);
}

/* Sends what is due. */
static void advance(struct connection *one) {
  while (one->answering) {
    if (!flush(one)) return;
    if (one->out_length) {
      unschedule(one);
      watch(one, 1);
      return;
    }
    if (one->sent == one->chunks) {
      append_end(one);
      one->answering = 0;
      one->sent = one->chunks = 0;
      unschedule(one);
      if (flush(one) && one->out_length) watch(one, 1);
      return;
    }
    if (one->interval) {
      int64_t moment = now();
      if (moment < one->due) {
        schedule(one, one->due);
        return;
      }
      for (int i = 0; i < one->burst && one->sent < one->chunks; i++, one->sent++) append_event(one);
      schedule(one, one->due + one->interval);
    } else {
      for (int i = 0; i < BATCH && one->sent < one->chunks; i++, one->sent++) append_event(one);
    }
  }
  flush(one);
}

static void answer(struct connection *one) {
  one->chunks = option(one, "chunks", 1000);
  one->interval = option(one, "interval", 0) * 1000;
  one->burst = option(one, "burst", 1);
  if (one->burst > BATCH) one->burst = BATCH;
  one->due = now() + option(one, "start", 0) * 1000;
  one->sent = 0;
  one->answering = 1;
  one->head_length = 0;
  one->body_left = -1;
  one->out_length = (size_t)sprintf(one->out,
                                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                    "Transfer-Encoding: chunked\r\n\r\n");
  one->out_offset = 0;
  advance(one);
}

static void take_body(struct connection *one, const char *bytes, size_t length) {
  char *found = one->options[0] ? NULL : memmem(bytes, length, "load:", 5);
  if (found) {
    size_t count = 0;
    const char *at = found + 5;
    while (at < bytes + length && *at != '"' && count < sizeof one->options - 1)
      one->options[count++] = *at++;
    one->options[count] = 0;
  }
}

static void receive(struct connection *one) {
  static char buffer[1 << 18];
  for (;;) {
    ssize_t count = recv(one->descriptor, buffer, sizeof buffer, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
      finish(one);
      return;
    }
    if (count < 0) return;
    const char *bytes = buffer;
    size_t length = (size_t)count;
    if (one->body_left < 0) {
      size_t before = one->head_length;
      size_t room = HEAD_LIMIT - 1 - before;
      size_t taken = length < room ? length : room;
      memcpy(one->head + before, bytes, taken);
      one->head_length += taken;
      one->head[one->head_length] = 0;
      char *end = strstr(one->head, "\r\n\r\n");
      if (!end) continue;
      char *field = strcasestr(one->head, "\r\ncontent-length:");
      one->body_left = field && field < end ? atol(field + 17) : 0;
      one->options[0] = 0;
      /* What of these bytes was still the head. */
      size_t rest = (size_t)(end + 4 - one->head) - before;
      bytes += rest;
      length -= rest;
    }
    take_body(one, bytes, length);
    one->body_left -= (long)length;
    if (one->body_left <= 0) {
      answer(one);
      return;
    }
  }
}

static void accept_all(int listener) {
  for (;;) {
    int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) return;
    if (descriptor >= MAX_DESCRIPTORS) {
      close(descriptor);
      continue;
    }
    int one = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct connection *connection = calloc(1, sizeof *connection);
    connection->descriptor = descriptor;
    connection->body_left = -1;
    connections[descriptor] = connection;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event);
  }
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  struct rlimit limit = {MAX_DESCRIPTORS, MAX_DESCRIPTORS};
  setrlimit(RLIMIT_NOFILE, &limit);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) ||
      listen(listener, 4096) || getsockname(listener, (struct sockaddr *)&address, &size)) {
    perror("load_server");
    return 1;
  }
  poller = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
  event.data.fd = 0;
  epoll_ctl(poller, EPOLL_CTL_ADD, 0, &event);
  /* epoll_wait counts milliseconds; events are due to the microsecond. */
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  event.data.fd = timer;
  epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);

  for (;;) {
    struct itimerspec due = {0};
    if (heap_count) {
      int64_t moment = heap[1]->due > 1 ? heap[1]->due : 1;
      due.it_value.tv_sec = moment / 1000000000;
      due.it_value.tv_nsec = moment % 1000000000;
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &due, NULL);
    struct epoll_event events[256];
    int count = epoll_wait(poller, events, 256, -1);
    for (int i = 0; i < count; i++) {
      int descriptor = events[i].data.fd;
      if (descriptor == listener) {
        accept_all(listener);
      } else if (descriptor == timer) {
        uint64_t expirations;
        if (read(timer, &expirations, sizeof expirations) < 0) continue;
      } else if (descriptor == 0) {
        char byte;
        if (read(0, &byte, 1) <= 0) return 0;
      } else if (connections[descriptor]) {
        struct connection *one = connections[descriptor];
        if (events[i].events & EPOLLOUT) {
          watch(one, 0);
          advance(one);
        }
        if (connections[descriptor] == one && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
          receive(one);
      }
    }
    while (heap_count && heap[1]->due <= now()) advance(heap[1]);
  }
}
