"""The peak memory of a preparation, beyond the process as it was before and beyond the file.

Each picture in a fresh process: a 12-megapixel photo (under 40 MB wanted) and a 108-megapixel
baseline JPEG (under 120 MB wanted).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from prepare_photo import make_photo

CHILD = """
import sys, openfm as fm
def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) << 10
fm.inspect_image(sys.argv[2])
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
fm.prepare_image(sys.argv[1])
print(status("VmHWM") - before)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder, "tiny.jpg")
        make_photo(tiny, 64, 48)
        for megapixels, width, height in ((12, 4032, 3024), (108, 12000, 9000)):
            path = Path(folder, f"{megapixels}.jpg")
            make_photo(path, width, height)
            run = subprocess.run(
                [sys.executable, "-c", CHILD, str(path), str(tiny)],
                check=True,
                capture_output=True,
                text=True,
            )
            size = path.stat().st_size
            print(
                f"{megapixels:4} megapixels  {(int(run.stdout) - size) / 1e6:7.1f} MB beyond the"
                f" file of {size / 1e6:.1f} MB"
            )


main()
