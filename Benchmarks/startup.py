"""What it costs to load the library and to start the command.

dlopen      fresh C processes open the library alone; their own clock, around dlopen(3)
fm --help   whole processes, from fork to exit, against /bin/true in turn
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from harness import alternate

BUILT = Path(__file__).resolve().parents[1] / ".build/openfm"
PROBE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv) {
  struct timespec a, b;
  (void)argc;
  clock_gettime(CLOCK_MONOTONIC, &a);
  if (!dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) return puts(dlerror()), 1;
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("%.9f\n", (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
  return 0;
}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, probe = Path(folder) / "probe.c", Path(folder) / "probe"
        source.write_text(PROBE)
        subprocess.run(["cc", "-O2", source, "-o", probe], check=True)
        library = BUILT / "lib/libFoundationModels.so.1"
        taken = [
            float(subprocess.run([probe, library], check=True, capture_output=True).stdout)
            for _ in range(30)
        ]
    print(f"dlopen                  {statistics.median(taken) * 1e3:7.2f} ms (at most 5 wanted)")

    def start(*command: object) -> None:
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)

    seconds = alternate(
        {"fm": lambda: start(BUILT / "bin/fm", "--help"), "true": lambda: start("/bin/true")}, 40
    )
    fm, nothing = (statistics.median(values) * 1e3 for values in seconds.values())
    print(f"fm --help               {fm:7.2f} ms (at most 15 wanted; /bin/true {nothing:.2f} ms)")


main()
