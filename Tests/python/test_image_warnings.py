"""Oddities that harm nothing are passed over and counted; damage is an error, never a count."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import icc
import pytest
from openfm.imaging import ImagePolicy, prepare_image
from pictures import (
    encoded,
    exif,
    farthest,
    iccp,
    jpeg_segment,
    natural,
    png_chunk,
    tiff,
    with_jpeg_segments,
    with_png_chunks,
)
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FM = Path(os.environ.get("OPENFM_BUILD_DIR", ROOT / ".build" / "openfm")).absolute() / "bin" / "fm"

BROKEN_TIFF = b"MM\0*\xff\xff\xff\xff"
BROKEN_PROFILE = b"\0" * 200


def jpeg(*segments: bytes, mode: str = "RGB") -> bytes:
    return with_jpeg_segments(encoded(natural(96, 64).convert(mode), "JPEG", quality=90), *segments)


def png(*chunks: bytes) -> bytes:
    return with_png_chunks(encoded(natural(96, 64), "PNG"), *chunks)


def place() -> bytes:
    """EXIF whose main directory only leads to the one of the position."""
    block = Image.Exif()
    block.get_ifd(0x8825)[1] = "N"
    return block.tobytes()


def icc_segment(profile: bytes) -> bytes:
    return jpeg_segment(0xE2, b"ICC_PROFILE\0\1\1" + profile)


def with_loose_bytes(data: bytes) -> bytes:
    """Bytes of no segment before the quantisation table, which every decoder skips."""
    at = data.index(b"\xff\xdb")
    return data[:at] + b"\0" * 5 + data[at:]


ODD: dict[str, tuple[int, Callable[[], bytes]]] = {
    "jpeg": (0, jpeg),
    "jpeg with exif": (0, lambda: jpeg(jpeg_segment(0xE1, exif(1)))),
    "jpeg with a place alone": (0, lambda: jpeg(jpeg_segment(0xE1, place()))),
    "jpeg with a profile": (0, lambda: jpeg(icc_segment(icc.display_p3()))),
    "jpeg with exif that leads nowhere": (
        1,
        lambda: jpeg(jpeg_segment(0xE1, b"Exif\0\0" + BROKEN_TIFF)),
    ),
    "jpeg with exif cut short": (1, lambda: jpeg(jpeg_segment(0xE1, b"Exif\0\0"))),
    "jpeg with orientation 9": (1, lambda: jpeg(jpeg_segment(0xE1, exif(9)))),
    "jpeg with a broken profile": (1, lambda: jpeg(icc_segment(BROKEN_PROFILE))),
    "gray jpeg with the profile of a printer": (
        1,
        lambda: jpeg(icc_segment(icc.cmyk_profile()), mode="L"),
    ),
    "jpeg with loose bytes": (1, lambda: with_loose_bytes(jpeg())),
    "jpeg of a later JFIF": (
        1,
        lambda: jpeg().replace(b"JFIF\0\1", b"JFIF\0\2", 1),
    ),
    "jpeg with all of it": (
        3,
        lambda: with_loose_bytes(
            jpeg(jpeg_segment(0xE1, b"Exif\0\0" + BROKEN_TIFF), icc_segment(BROKEN_PROFILE))
        ),
    ),
    "png": (0, png),
    "png with exif and profile": (
        0,
        lambda: png(png_chunk(b"eXIf", tiff(1)), iccp(icc.adobe_rgb())),
    ),
    "png with broken exif": (1, lambda: png(png_chunk(b"eXIf", BROKEN_TIFF))),
    "png with a broken profile": (1, lambda: png(iccp(BROKEN_PROFILE))),
    "png with a profile that is not packed": (
        1,
        lambda: png(png_chunk(b"iCCP", b"test\0\0no stream of zlib")),
    ),
    "webp": (0, lambda: encoded(natural(96, 64), "WEBP", lossless=True)),
    "webp with a broken profile and exif": (
        2,
        lambda: encoded(
            natural(96, 64), "WEBP", lossless=True, icc_profile=BROKEN_PROFILE, exif=BROKEN_TIFF
        ),
    ),
}


@pytest.mark.parametrize("edge", [1568, 48], ids=["whole", "scaled"])
@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_counted(tmp_path: Path, name: str, edge: int) -> None:
    count, make = ODD[name]
    path = tmp_path / "odd"
    path.write_bytes(make())
    image = prepare_image(path, policy=ImagePolicy(max_long_edge=edge))
    assert image.warning_count == count


@pytest.mark.parametrize("orientation", [2, 6])
def test_a_lossless_turn_counts_too(tmp_path: Path, orientation: int) -> None:
    path = tmp_path / "odd.jpg"
    path.write_bytes(with_loose_bytes(jpeg(icc_segment(BROKEN_PROFILE))))
    image = prepare_image(path, orientation)
    assert (image.action, image.warning_count) == ("lossless-turn", 2)


def test_what_is_odd_changes_no_pixel(tmp_path: Path) -> None:
    plain, odd = tmp_path / "plain.jpg", tmp_path / "odd.jpg"
    plain.write_bytes(jpeg())
    odd.write_bytes(ODD["jpeg with all of it"][1]())
    for edge in (1568, 48):
        policy = ImagePolicy(max_long_edge=edge)
        first, second = (prepare_image(path, policy=policy) for path in (plain, odd))
        assert farthest(first, second) == 0


def test_the_count_is_remembered_with_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "odd.jpg"
    path.write_bytes(with_loose_bytes(jpeg()))
    assert [prepare_image(path).warning_count for _ in range(2)] == [1, 1]


def test_the_command_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "odd.jpg"
    path.write_bytes(with_loose_bytes(jpeg()))

    def run(*words: str) -> str:
        return subprocess.run(
            [FM, "image", path, *words], check=True, capture_output=True, text=True
        ).stdout

    assert json.loads(run("--json"))["sent"]["warning_count"] == 1
    assert "odd:     1" in run()
    path.write_bytes(jpeg())
    assert json.loads(run("--json"))["sent"]["warning_count"] == 0
    assert "odd:" not in run()
