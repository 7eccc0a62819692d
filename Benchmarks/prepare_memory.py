"""The peak memory of a preparation, beyond the process as it was before and beyond the file.

Each picture in a fresh process that has prepared a small one of its kind. Wanted: under 40 MB for
a 12-megapixel photo, under 120 MB for a baseline JPEG of 108 megapixels; for the other kinds, of
12 megapixels each, what docs/ARCHITECTURE.md states for a stored pixel. Kinds whose encoder is not
on this machine are left out.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from prepare_photo import make_photo

CHILD = """
import sys, openfm as fm
def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) << 10
fm.prepare_image(sys.argv[2])
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
fm.prepare_image(sys.argv[1])
print(status("VmHWM") - before)
"""

Maker = Callable[[Path, Path], None]


def pillow(kind: str, **options: object) -> Maker:
    def make(source: Path, target: Path) -> None:
        with Image.open(source) as image:
            image.save(target, kind, **options)

    return make


def png(bits: int, interlaced: bool = False) -> Maker:
    """RGB of 8 or 16 bits; Pillow writes neither 16 bits of colour nor interlaced rows."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    def make(source: Path, target: Path) -> None:
        with Image.open(source) as image:
            samples = np.asarray(image.convert("RGB")).astype(">u2" if bits == 16 else "u1")
        samples = samples * samples.dtype.type(257 if bits == 16 else 1)
        height, width = samples.shape[:2]
        # PNG specification, section 8.2: first column, first row and steps of the seven passes.
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                  (1, 0, 2, 2), (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]  # fmt: skip
        rows = b"".join(
            b"\0" + row.tobytes()
            for left, top, across, down in passes
            for row in samples[top::down, left::across]
            if row.size
        )
        header = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, interlaced)
        target.write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
        )  # fmt: skip

    return make


def heif(*options: str, bits: int = 8) -> Maker:
    def make(source: Path, target: Path) -> None:
        between = source.with_suffix(".png")
        # heif-enc writes more than 8 bits of a PNG that has them.
        png(16 if bits > 8 else 8)(source, between)
        words = ["heif-enc", *options, "-b", str(bits), "-o", target, between]
        subprocess.run(words, check=True, capture_output=True)

    return make


KINDS: dict[str, tuple[str, Maker, int]] = {
    "progressive JPEG": (".jpg", pillow("JPEG", quality=90, progressive=True), 16),
    "PNG": (".png", png(8), 16),
    "interlaced PNG": (".png", png(8, interlaced=True), 16),
    "interlaced PNG of 16 bits": (".png", png(16, interlaced=True), 16),
    "WebP": (".webp", pillow("WEBP", quality=80, method=0), 16),
    "lossless WebP": (".webp", pillow("WEBP", lossless=True, quality=0, method=0), 16),
    "HEIC": (".heic", heif("-q", "50", "-p", "preset=ultrafast"), 16),
    "HEIC of 10 bits": (".heic", heif("-q", "50", "-p", "preset=ultrafast", bits=10), 24),
    "AVIF": (".avif", heif("-A", "-q", "50", "-p", "speed=9"), 16),
}


def measure(path: Path, small: Path) -> float:
    """Bytes beyond the file."""
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(small)],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(run.stdout) - path.stat().st_size


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, photo = folder / "small.jpg", folder / "12.jpg"
        make_photo(small, 64, 48)
        make_photo(photo)
        for path, width, height, wanted in (
            (photo, 4032, 3024, 40),
            (folder / "108.jpg", 12000, 9000, 120),
        ):
            if path != photo:
                make_photo(path, width, height)
            size = path.stat().st_size / 1e6
            print(
                f"{width * height / 1e6:4.0f} megapixels {'JPEG':26}"
                f" {measure(path, small) / 1e6:7.1f} MB beyond the file of {size:.1f} MB"
                f" (under {wanted} wanted)"
            )
        for kind, (suffix, make, wanted) in KINDS.items():
            path, little = folder / f"kind{suffix}", folder / f"little{suffix}"
            try:
                make(small, little)
                make(photo, path)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"  12 megapixels {kind:26} cannot be made here: {error}")
                continue
            beyond = measure(path, little)
            print(
                f"  12 megapixels {kind:26} {beyond / 1e6:7.1f} MB beyond the file of"
                f" {path.stat().st_size / 1e6:.1f} MB, {beyond / (4032 * 3024):.1f} bytes a pixel"
                f" (at most {wanted} stated)"
            )


main()
