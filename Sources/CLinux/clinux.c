/* dladdr */
#define _GNU_SOURCE

#include "clinux.h"

#include <dlfcn.h>
#include <sys/prctl.h>

void fm_linux_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

const char *fm_linux_own_path(void) {
  Dl_info info;
  return dladdr((const void *)fm_linux_own_path, &info) ? info.dli_fname : NULL;
}
