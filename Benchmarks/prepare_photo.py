"""One 12-megapixel photo, stored sideways, made ready for a model.

Ours, OpenCV, pyvips and Pillow start from the file and end with upright JPEG bytes of quality
85, long edge 1568. The floor is C over libjpeg-turbo alone: RGB decode at 1/2 and encode of
that, without reading the file, a resize or a turn. The photos are made here from a fixed seed:
smooth gradients with detail at every scale, orientation 6, once as a lens in bright light gives it
(1 MB) and once with the grain of a phone in a room (4 MB). Ours, OpenCV, Pillow and the floor work
on one thread; pyvips takes all there are, and is measured with one too. Wanted: at most 1.3 times
the floor; OpenCV 1.35, pyvips 2 and Pillow 5 times ours.
"""

from __future__ import annotations

import io
import math
import tempfile
from pathlib import Path

import numpy as np
import openfm as fm
from floor import Floor
from harness import alternate, report
from PIL import Image, ImageOps

EDGE, QUALITY = 1568, 85


def make_photo(path: Path, width: int = 4032, height: int = 3024, grain: float = 0) -> None:
    """A JPEG of quality 90; `grain` is the deviation of a pixel's brightness, in levels of 255."""
    random = np.random.default_rng(7)
    picture = np.zeros((height, width, 3), np.float32)
    for size in (4, 16, 64, 256, 1024):
        noise = random.random((size * 3 // 4, size, 3), np.float32)
        layer = [
            Image.fromarray(noise[:, :, c]).resize((width, height), Image.Resampling.BICUBIC)
            for c in range(3)
        ]
        picture += np.dstack([np.asarray(c) for c in layer]) / math.sqrt(size)
    picture = (picture - picture.min()) / (picture.max() - picture.min()) * 255
    if grain:
        picture += random.normal(0, grain, (height, width, 1)).astype(np.float32)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(path, quality=90, exif=exif)


def with_pillow(path: Path) -> bytes:
    with Image.open(path) as image:
        image.draft("RGB", (EDGE, EDGE))
        upright = ImageOps.exif_transpose(image)
        upright.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        upright.convert("RGB").save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def with_ours(path: Path) -> bytes:
    fm.image_cache_clear()
    return fm.prepare_image(path).data


def main() -> None:
    for grain in (0, 6):
        measure(grain)


def measure(grain: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photo.jpg")
        make_photo(path, grain=grain)
        size = path.stat().st_size
        tasks = {"openfm": lambda: with_ours(path), "Pillow": lambda: with_pillow(path)}
        try:
            import pyvips
        except (ImportError, OSError):
            print("pyvips is not installed: left out")
        else:

            def vips() -> bytes:
                image = pyvips.Image.thumbnail(str(path), EDGE, height=EDGE, size="down")
                data = image.jpegsave_buffer(Q=QUALITY, keep="none")
                assert isinstance(data, bytes)
                return data

            def vips_alone() -> bytes:
                pyvips.vips_lib.vips_concurrency_set(1)
                try:
                    return vips()
                finally:
                    pyvips.vips_lib.vips_concurrency_set(threads)

            threads = pyvips.vips_lib.vips_concurrency_get()
            pyvips.cache_set_max(0)
            tasks["pyvips"] = vips
            tasks["pyvips on one thread"] = vips_alone
        try:
            import cv2
        except ImportError:
            print("OpenCV is not installed: left out")
        else:
            cv2.setNumThreads(1)

            def opencv() -> bytes:
                # Turns by the EXIF orientation itself.
                pixels = cv2.imread(str(path), cv2.IMREAD_REDUCED_COLOR_2)
                height, width = pixels.shape[:2]
                scale = EDGE / max(width, height)
                small = cv2.resize(
                    pixels,
                    (round(width * scale), round(height * scale)),
                    interpolation=cv2.INTER_AREA,
                )
                done, data = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
                assert done
                return data.tobytes()

            tasks["OpenCV"] = opencv
        print(f"4032x3024, {size:,} bytes, orientation 6, grain {grain}")
        for name, task in tasks.items():
            data = task()
            with Image.open(io.BytesIO(data)) as image:
                print(f"{name:24} {len(data):9,} bytes, {image.width}x{image.height}")
        with Floor("photo", path, "2", str(QUALITY)) as floor:
            tasks["C floor"] = floor.run
            report(alternate(tasks, repeats=15), "openfm")


if __name__ == "__main__":
    main()
