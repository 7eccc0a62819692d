/*
 * The shortest way from a socket to an event loop in Python: a thread reads the socket into a buffer
 * and counts an eventfd up; the loop takes the buffer. No HTTP, no JSON, no runtime.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char buffer[1 << 20];
static size_t length;
static int event, connection;

static void *read_all(void *argument) {
  int connection = (int)(intptr_t)argument;
  char chunk[1 << 16];
  ssize_t count;
  while ((count = recv(connection, chunk, sizeof chunk, 0)) > 0) {
    pthread_mutex_lock(&mutex);
    if (length + (size_t)count <= sizeof buffer) {
      memcpy(buffer + length, chunk, (size_t)count);
      length += (size_t)count;
    }
    pthread_mutex_unlock(&mutex);
    eventfd_write(event, 1);
  }
  return NULL;
}

/* Sends a request and returns the eventfd; -1 on failure. */
int raw_start(int port, const char *request, size_t size) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  length = 0;
  if (connect(connection, (struct sockaddr *)&address, sizeof address) ||
      send(connection, request, size, 0) != (ssize_t)size)
    return -1;
  pthread_t thread;
  if (pthread_create(&thread, NULL, read_all, (void *)(intptr_t)connection)) return -1;
  pthread_detach(thread);
  return event;
}

/* Takes what has come. */
size_t raw_take(char *into, size_t capacity) {
  eventfd_t count;
  eventfd_read(event, &count);
  pthread_mutex_lock(&mutex);
  size_t taken = length < capacity ? length : capacity;
  memcpy(into, buffer, taken);
  length = 0;
  pthread_mutex_unlock(&mutex);
  return taken;
}

void raw_end(void) { shutdown(connection, SHUT_RDWR); }
