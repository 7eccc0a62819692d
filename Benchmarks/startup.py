"""What it costs to load the library and to start the command.

dlopen      fresh C processes open libraries; their own clock, around dlopen(3). In turn with ours:
            the machine's libcurl, which does a part of what ours does, and what ours needs
fm --help   whole processes, from fork to exit, in turn with /bin/true and a bare interpreter
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import alternate

BUILT = Path(__file__).resolve().parents[1] / ".build/openfm"
LIBRARY = BUILT / "lib/libFoundationModels.so.1"
REPEATS = 60
PROBE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 1; i < argc; i++)
    if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL)) return puts(dlerror()), 1;
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("%.9f\n", (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
  return 0;
}
"""


def output(*command: object) -> str:
    return subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, text=True
    ).stdout


def line(name: str, values: list[float], note: str = "") -> None:
    low, median, high = (value * 1e3 for value in statistics.quantiles(values, n=4))
    print(f"{name:32} {median:7.2f} ms  (quartiles {low:.2f} to {high:.2f}, n={len(values)}){note}")


def main() -> None:
    dynamic = output("readelf", "-d", "-W", LIBRARY)
    beside = [
        name
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        if not re.match(r"lib[cm]\.so|ld-", name)
    ]
    libraries: dict[str, list[str]] = {
        "ours": [str(LIBRARY)],
        "what ours needs": beside,
        "libcurl.so.4": ["libcurl.so.4"],
    }
    with tempfile.TemporaryDirectory() as folder:
        source, probe = Path(folder) / "probe.c", Path(folder) / "probe"
        source.write_text(PROBE)
        output("cc", "-O2", source, "-o", probe)
        taken: dict[str, list[float]] = {name: [] for name in libraries}
        for number in range(REPEATS + 1):
            for name, names in libraries.items():
                seconds = float(output(probe, *names))
                # The first time it may come from the disk.
                if number:
                    taken[name].append(seconds)
    for name, values in taken.items():
        line(f"dlopen {name}", values, " (at most 5 wanted)" if name == "ours" else "")

    def start(*command: object) -> None:
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)

    seconds = alternate(
        {
            "fm --help": lambda: start(BUILT / "bin/fm", "--help"),
            "/bin/true": lambda: start("/bin/true"),
            "python -I -S -c pass": lambda: start(sys.executable, "-I", "-S", "-c", "pass"),
        },
        REPEATS,
    )
    for name, values in seconds.items():
        line(name, values, " (at most 15 wanted)" if name == "fm --help" else "")


main()
