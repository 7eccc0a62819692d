"""What a picture costs that needs no new pixels.

A 12-megapixel JPEG within the policy, passed through without and with verification, and turned
without loss. Peers: libjpeg-turbo's own decode at 1/8 for the verification, and its decode and
encode for the turn, both straight in C from memory. Wanted: 1 ms a megabyte unverified,
verified at most 1.3 times the decode at 1/8, the turn at most 1 / 1.5 of decode and encode.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import openfm as fm
from floor import Floor
from harness import alternate, report
from prepare_photo import make_photo

WHOLE = 8192


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photo.jpg")
        make_photo(path)
        size = path.stat().st_size / 1e6

        def prepare(orientation: int, *, verify: bool = True) -> fm.PreparedImage:
            fm.image_cache_clear()
            policy = fm.ImagePolicy(max_long_edge=WHOLE, verify=verify)
            return fm.prepare_image(path, orientation, policy)

        assert prepare(1).action == "passthrough"
        assert prepare(6).action == "lossless-turn"
        print(f"4032x3024, {size:.2f} MB")
        unverified = alternate({"unverified": lambda: prepare(1, verify=False)}, repeats=25)
        report(unverified, "unverified", "ms a MB", 1e3 / size)
        with Floor("eighth", path) as eighth:
            tasks = {"verified": lambda: prepare(1), "1/8 decode in C": eighth.run}
            report(alternate(tasks, repeats=15), "verified")
        with Floor("turned", path, "90") as turned:
            tasks = {"lossless turn": lambda: prepare(6), "decode + encode in C": turned.run}
            report(alternate(tasks, repeats=9), "lossless turn")


main()
