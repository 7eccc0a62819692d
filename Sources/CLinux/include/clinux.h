#ifndef OPENFM_CLINUX_H
#define OPENFM_CLINUX_H
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

/* Names the calling thread, as debuggers and /proc show it; at most 15 bytes. */
void fm_linux_name_thread(const char *name);

/*
 * The file that this code was loaded from, as the loader was told it: the library, or the program that
 * it is linked into. NULL where the loader does not know. Not to be freed.
 */
const char *fm_linux_own_path(void);

#endif
