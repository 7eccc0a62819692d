"""How fast a picture becomes base64 in a request's body, compared with Python's own encoder.

Compiles the library's encoder alone and runs it on 8 MB, into a body that is new each time.
Wanted: 2 GB of picture a second.
"""

from __future__ import annotations

import base64
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAIN = """
import Glibc
@main struct Main {
  static func main() {
    let bytes = (0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 7) }
    for _ in 0..<25 {
      var start = timespec()
      var end = timespec()
      clock_gettime(CLOCK_MONOTONIC, &start)
      var body: [UInt8] = []
      Base64.append(bytes, to: &body)
      clock_gettime(CLOCK_MONOTONIC, &end)
      precondition(body.count == 11_184_812)
      let seconds = end.tv_sec - start.tv_sec
      print(Double(seconds) + Double(end.tv_nsec - start.tv_nsec) / 1e9)
    }
  }
}
"""


def main() -> None:
    module = ROOT / "Sources/CBase64"
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "module.modulemap").write_text(
            f'module CBase64 {{ header "{module}/include/cbase64.h" export * }}\n'
        )
        (here / "measure.swift").write_text(MAIN)
        vectors, program = here / "vectors.o", here / "measure"
        subprocess.run(
            ["cc", "-O2", "-c", str(module / "cbase64.c"), f"-I{module}/include", "-o", vectors],
            check=True,
        )
        subprocess.run(
            ["swiftc", "-O", "-parse-as-library", "-package-name", "openfm", "-I", here,
             here / "measure.swift", ROOT / "Sources/FMWire/Base64.swift", vectors, "-o", program],
            check=True,
        )  # fmt: skip
        run = subprocess.run([program], check=True, capture_output=True, text=True)
    ours = statistics.median(float(line) for line in run.stdout.split())
    data, peer = os.urandom(8 << 20), []
    for _ in range(25):
        start = time.perf_counter()
        base64.b64encode(data)
        peer.append(time.perf_counter() - start)
    for name, seconds in (("openfm", ours), ("Python's base64", statistics.median(peer))):
        print(f"{name:24} {(8 << 20) / seconds / 1e9:6.2f} GB/s")


main()
