// The `fm` command. Everything is in the library, so that one Swift runtime, one TLS stack and one
// curl serve C programs, Python and the shell alike.
#include "OpenFM.h"

int main(int argc, char **argv) {
  return FMCommandMain(argc, argv);
}
