#ifndef OPENFM_CLINUX_H
#define OPENFM_CLINUX_H
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

/* Names the calling thread, as debuggers and /proc show it; at most 15 bytes. */
void fm_linux_name_thread(const char *name);

#endif
