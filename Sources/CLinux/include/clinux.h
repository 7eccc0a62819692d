#ifndef OPENFM_CLINUX_H
#define OPENFM_CLINUX_H
#include <sys/eventfd.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#endif
