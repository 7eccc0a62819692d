"""What a picture costs that needs no new pixels.

A 12-megapixel JPEG within the policy, passed through without and with verification, and turned
without loss. Peers: libjpeg-turbo's own decode at 1/8 for the verification, and its decode and
encode for the turn, both straight in C from memory. Wanted: 1 ms a megabyte unverified,
verified at most 1.3 times the decode at 1/8, the turn at most 1 / 1.5 of decode and encode.

Passing through is what FMImagePrepare adds to FMImageInspect, which reads and hashes the file as
every attachment does. The turn is measured twice: of a file with JPEG's standard tables, as most
cameras write, and of one packed with tables of its own.
"""

from __future__ import annotations

import ctypes
import statistics
import tempfile
from pathlib import Path

import openfm as fm
from floor import Floor
from harness import alternate, report
from openfm._ctypes_bindings import FMImageInfo, lib
from PIL import Image
from prepare_photo import make_photo

WHOLE = 8192


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photo.jpg")
        make_photo(path, grain=6)
        size = path.stat().st_size / 1e6

        def prepare(orientation: int, *, verify: bool = True) -> fm.PreparedImage:
            fm.image_cache_clear()
            policy = fm.ImagePolicy(max_long_edge=WHOLE, verify=verify)
            return fm.prepare_image(path, orientation, policy)

        assert prepare(1).action == "passthrough"
        assert prepare(6).action == "lossless-turn"
        print(f"4032x3024, {size:.2f} MB")
        name, info = str(path).encode(), FMImageInfo()
        policy = b'{"max_long_edge": 8192, "verify": false}'

        def inspect() -> None:
            assert lib.FMImageInspect(name, 1, ctypes.byref(info), None, None)

        def unverified() -> None:
            lib.FMImageCacheClear()
            image = lib.FMImagePrepare(name, 1, policy, None, None, None)
            assert image
            lib.FMRelease(image)

        seconds = alternate({"inspect": inspect, "inspect and pass": unverified}, repeats=101)
        report(seconds, "inspect", "ms a MB", 1e3 / size)
        first, both = (statistics.median(values) for values in seconds.values())
        print(f"{'passed through':24} {(both - first) * 1e3 / size:9.2f} ms a MB")
        with Floor("eighth", path) as eighth:
            tasks = {"verified": lambda: prepare(1), "1/8 decode in C": eighth.run}
            report(alternate(tasks, repeats=15), "verified")
        for tables in ("standard", "own"):
            if tables == "own":
                with Image.open(path) as image:
                    image.save(path, quality="keep", optimize=True)
            with Floor("turned", path, "90") as turned:
                tasks = {"lossless turn": lambda: prepare(6), "decode + encode in C": turned.run}
                print(f"{tables} tables")
                report(alternate(tasks, repeats=9), "lossless turn")


main()
