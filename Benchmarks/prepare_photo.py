"""One 12-megapixel photo, stored sideways, made ready for a model: ours, Pillow, pyvips.

Each starts from the file and ends with upright JPEG bytes of quality 85, long edge 1568. The photo
is made here from a fixed seed: smooth gradients with detail at every scale, orientation 6. The
closeness of each result to a full decode with Lanczos by Pillow is printed as PSNR.
"""

from __future__ import annotations

import io
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import openfm as fm
from harness import alternate, report
from PIL import Image, ImageOps

EDGE, QUALITY = 1568, 85


def make_photo(path: Path) -> None:
    random = np.random.default_rng(7)
    picture = np.zeros((3024, 4032, 3), np.float32)
    for size in (4, 16, 64, 256, 1024):
        noise = random.random((size * 3 // 4, size, 3), np.float32)
        layer = [
            Image.fromarray(noise[:, :, c]).resize((4032, 3024), Image.Resampling.BICUBIC)
            for c in range(3)
        ]
        picture += np.dstack([np.asarray(c) for c in layer]) / math.sqrt(size)
    picture = (picture - picture.min()) / (picture.max() - picture.min()) * 255
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(picture.astype(np.uint8)).save(path, quality=90, exif=exif)


def with_pillow(path: Path) -> bytes:
    with Image.open(path) as image:
        image.draft("RGB", (EDGE, EDGE))
        upright = ImageOps.exif_transpose(image)
        upright.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        upright.convert("RGB").save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def reference(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image)
    upright.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS)
    return np.asarray(upright.convert("RGB"), np.float32)


def psnr(data: bytes, wanted: np.ndarray) -> float:
    with Image.open(io.BytesIO(data)) as image:
        got = np.asarray(image.convert("RGB"), np.float32)
    return 10 * math.log10(255**2 / float(np.mean((got - wanted) ** 2)))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photo.jpg")
        make_photo(path)
        size = path.stat().st_size
        # Ours remembers what it prepared; a byte that is never read makes each file a new one.
        original, counter = path.read_bytes(), iter(range(1 << 30))

        def ours() -> bytes:
            path.write_bytes(original + next(counter).to_bytes(4, "big"))
            return fm.prepare_image(path).data

        def pillow() -> bytes:
            path.write_bytes(original + next(counter).to_bytes(4, "big"))
            return with_pillow(path)

        tasks = {"openfm": ours, "Pillow": pillow}
        try:
            import pyvips
        except (ImportError, OSError):
            print("pyvips is not installed: left out")
        else:

            def vips() -> bytes:
                path.write_bytes(original + next(counter).to_bytes(4, "big"))
                image = pyvips.Image.thumbnail(str(path), EDGE, height=EDGE, size="down")
                data = image.jpegsave_buffer(Q=QUALITY, keep="none")
                assert isinstance(data, bytes)
                return data

            pyvips.cache_set_max(0)
            tasks["pyvips"] = vips
        print(f"4032x3024, {size:,} bytes, orientation 6; Python {sys.version.split()[0]}")
        wanted = reference(path)
        for name, task in tasks.items():
            data = task()
            print(f"{name:24} {len(data):9,} bytes, PSNR {psnr(data, wanted):.2f} dB")
        report(alternate(tasks, repeats=15), "openfm")


if __name__ == "__main__":
    main()
