"""Every format and every form of it, held against Pillow: upright, sRGB, on white."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import icc
import numpy as np
import openfm as fm
import pytest
from openfm.imaging import ImagePolicy, inspect_image, prepare_image
from pictures import (
    encoded,
    exif,
    farthest,
    jpeg_segment,
    natural,
    on_white,
    oracle,
    passed_through,
    pillow_jpeg,
    pixels,
    png_chunk,
    psnr,
    tiff,
    with_adobe_marker,
    with_jpeg_segments,
    with_png_chunks,
)
from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parents[2]
# High enough that encoding changes next to nothing: what differs is the decoding.
BEST = ImagePolicy(quality=100)
ORIENTATIONS = range(1, 9)


def program(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


# ---- PNG ---------------------------------------------------------------------------------------

Samples = np.ndarray[Any, np.dtype[np.int64]]
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # fmt: skip # noqa: E501


def png(samples: Samples, color: int, bits: int, interlaced: bool, *chunks: bytes) -> bytes:
    """A PNG of height x width x channels samples, written from the specification."""
    height, width = samples.shape[:2]

    def packed(part: Samples) -> bytes:
        rows = b""
        for row in part:
            values = row.reshape(-1)
            if bits == 16:
                line = values.astype(">u2").tobytes()
            elif bits == 8:
                line = values.astype(np.uint8).tobytes()
            else:
                digits = "".join(format(int(value), f"0{bits}b") for value in values)
                digits += "0" * (-len(digits) % 8)
                line = int(digits, 2).to_bytes(len(digits) // 8, "big")
            rows += b"\0" + line
        return rows

    parts = [samples[y::dy, x::dx] for x, y, dx, dy in PASSES] if interlaced else [samples]
    data = b"".join(packed(part) for part in parts if part.size)
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + b"".join(chunks)
        + png_chunk(b"IDAT", zlib.compress(data))
        + png_chunk(b"IEND", b"")
    )


PNG_FORMS = [
    *((0, bits) for bits in (1, 2, 4, 8, 16)),
    *((2, bits) for bits in (8, 16)),
    *((3, bits) for bits in (1, 2, 4, 8)),
    *((4, bits) for bits in (8, 16)),
    *((6, bits) for bits in (8, 16)),
]


@pytest.mark.parametrize("transparent", [False, True], ids=["", "tRNS"])
@pytest.mark.parametrize("interlaced", [False, True], ids=["", "interlaced"])
@pytest.mark.parametrize(("color", "bits"), PNG_FORMS)
@pytest.mark.parametrize("size", [(33, 21), (3, 2)])
def test_png(
    tmp_path: Path,
    color: int,
    bits: int,
    interlaced: bool,
    transparent: bool,
    size: tuple[int, int],
) -> None:
    """Against arithmetic: Pillow reads 16 bits a sample as 8, cut off instead of rounded."""
    if transparent and color in (4, 6):
        pytest.skip("pictures with an alpha channel have no tRNS")
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    most = 2**bits - 1
    random = np.random.default_rng(7)
    samples = random.integers(0, most + 1, (size[1], size[0], channels))
    chunks: list[bytes] = []
    alpha = np.ones(samples.shape[:2])
    if color == 3:
        palette = random.integers(0, 256, (2**bits, 3))
        chunks.append(png_chunk(b"PLTE", palette.astype(np.uint8).tobytes()))
        rgb = palette[samples[..., 0]] / 255
        if transparent:
            opacity = random.integers(0, 256, 2**bits)
            chunks.append(png_chunk(b"tRNS", opacity.astype(np.uint8).tobytes()))
            alpha = opacity[samples[..., 0]] / 255
    else:
        values = samples / most
        rgb = values[..., :3] if channels >= 3 else values[..., :1].repeat(3, -1)
        if color in (4, 6):
            alpha = values[..., -1]
        if transparent:
            key = samples[1, 1]
            chunks.append(png_chunk(b"tRNS", key.astype(">u2").tobytes()))
            alpha = (samples != key).any(-1).astype(float)
    expected = (rgb * alpha[..., None] + 1 - alpha[..., None]) * 255
    path = tmp_path / "form.png"
    path.write_bytes(png(samples, color, bits, interlaced, *chunks))
    image = prepare_image(path)
    assert image.mime_type == "image/png"
    assert np.abs(pixels(image) - expected).max() <= 0.501
    if bits <= 8 and not transparent:
        assert farthest(image, oracle(path)) <= 1


def test_animated_png(tmp_path: Path) -> None:
    path = tmp_path / "animated.png"
    frames = [natural(48, 32, seed=seed) for seed in (1, 2, 3)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=100)
    image = prepare_image(path)
    assert b"acTL" not in image.data
    assert b"fdAT" not in image.data
    assert farthest(image, frames[0]) == 0


# ---- JPEG --------------------------------------------------------------------------------------


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize(
    "sampling", ["1x1,1x1,1x1", "2x1,1x1,1x1", "1x2,1x1,1x1", "2x2,1x1,1x1", "4x1,1x1,1x1"]
)
@pytest.mark.parametrize("process", ["baseline", "progressive", "arithmetic"])
def test_jpeg_processes(tmp_path: Path, process: str, sampling: str, orientation: int) -> None:
    source, path = tmp_path / "source.ppm", tmp_path / "picture.jpg"
    natural(97, 65).save(source)
    options = {"baseline": [], "progressive": ["-progressive"], "arithmetic": ["-arithmetic"]}
    program(
        "cjpeg", "-quality", "95", "-sample", sampling, *options[process], "-outfile", path, source
    )  # noqa: E501
    path.write_bytes(with_jpeg_segments(path.read_bytes(), jpeg_segment(0xE1, exif(orientation))))
    image = prepare_image(path, policy=BEST)
    # No server decodes arithmetic coding; the rest is as it was.
    plain = process != "arithmetic" and orientation == 1
    assert (passed_through(image)) == plain
    if process == "arithmetic":
        # Pillow's own libjpeg may lack it: the same pixels from a Huffman file.
        twin = tmp_path / "twin.jpg"
        program("cjpeg", "-quality", "95", "-sample", sampling, "-outfile", twin, source)
        with Image.open(twin) as decoded:
            upright = decoded.transpose(Image.Transpose.ROTATE_270) if orientation == 6 else decoded
            expected = upright.convert("RGB")
    else:
        expected = oracle(path)
    if plain:
        assert farthest(image, expected) == 0
    else:
        assert psnr(image, expected) > 34


@pytest.mark.parametrize("marker", [None, 0, 2], ids=["no Adobe marker", "CMYK", "YCCK"])
@pytest.mark.parametrize("orientation", [1, 8])
def test_jpeg_of_four_inks(tmp_path: Path, marker: int | None, orientation: int) -> None:
    """The same samples under each of the three spellings; Pillow takes all of them inverted."""
    path = tmp_path / "inks.jpg"
    data = with_adobe_marker(encoded(natural(96, 64).convert("CMYK"), "JPEG", quality=95), marker)
    path.write_bytes(with_jpeg_segments(data, jpeg_segment(0xE1, exif(orientation))))
    image = prepare_image(path, policy=BEST)
    assert not passed_through(image)
    assert psnr(image, oracle(path)) > 38


# ---- WebP --------------------------------------------------------------------------------------


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"], ids=["bare", "prefixed"])
def test_webp_orientation(tmp_path: Path, orientation: int, prefix: bytes) -> None:
    path = tmp_path / "turned.webp"
    natural(65, 41).save(path, lossless=True, exif=prefix + tiff(orientation, big=True))
    image = prepare_image(path)
    assert (image.width, image.height) == ((41, 65) if orientation > 4 else (65, 41))
    assert farthest(image, oracle(path)) == 0
    assert inspect_image(path).orientation == orientation


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 80}], ids=str)
@pytest.mark.parametrize("profile", [None, "p3"])
def test_webp(tmp_path: Path, mode: str, options: dict[str, Any], profile: str | None) -> None:
    path = tmp_path / "picture.webp"
    image = natural(97, 65).convert(mode)
    if mode == "RGBA":
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    image.save(path, **options, icc_profile=icc.display_p3() if profile else None)
    prepared = prepare_image(path, policy=BEST)
    expected = oracle(path)
    assert (prepared.width, prepared.height) == (97, 65)
    if prepared.mime_type == "image/png":
        assert farthest(prepared, expected) <= (2 if profile else 1)
    else:
        assert psnr(prepared, expected) > 40


def test_webp_from_the_command_line_tool(tmp_path: Path) -> None:
    source, path = tmp_path / "source.png", tmp_path / "picture.webp"
    natural(160, 90).save(source)
    program("cwebp", "-quiet", "-q", "90", source, "-o", path)
    assert path.read_bytes()[12:16] == b"VP8 "
    assert psnr(prepare_image(path, policy=BEST), oracle(path)) > 38


@pytest.mark.parametrize("lossless", [True, False])
def test_animated_webp(tmp_path: Path, lossless: bool) -> None:
    path = tmp_path / "animated.webp"
    frames = [natural(48, 32, seed=seed) for seed in (1, 2, 3)]
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=100, lossless=lossless, quality=90
    )
    with Image.open(path) as source:
        first = source.convert("RGB")
    assert farthest(prepare_image(path), first) <= 1


def test_a_small_first_frame_of_webp(tmp_path: Path) -> None:
    """What a frame does not cover is transparent."""
    path = tmp_path / "small.webp"
    bitstream = encoded(Image.new("RGB", (10, 6), (200, 0, 0)), "WEBP", lossless=True)[12:]

    def chunk(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    def three(value: int) -> bytes:
        return struct.pack("<I", value)[:3]

    frame = three(2) + three(1) + three(9) + three(5) + three(100) + b"\0" + bitstream
    body = b"WEBP" + chunk(b"VP8X", b"\x12\0\0\0" + three(29) + three(19))
    body += chunk(b"ANIM", b"\0" * 6) + chunk(b"ANMF", frame)
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    expected = np.full((20, 30, 3), 255.0)
    expected[2:8, 4:14] = (200, 0, 0)
    assert (pixels(prepare_image(path)) == expected).all()


# ---- GIF and BMP -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (97, 65), (300, 200)])
@pytest.mark.parametrize("colors", [2, 16, 256])
@pytest.mark.parametrize("interlace", [0, 1])
def test_gif(tmp_path: Path, size: tuple[int, int], colors: int, interlace: int) -> None:
    path = tmp_path / "picture.gif"
    natural(*size).quantize(colors).save(path, interlace=interlace)
    image = prepare_image(path, policy=BEST)
    if image.mime_type == "image/png":
        assert farthest(image, oracle(path)) == 0
    else:
        assert psnr(image, oracle(path)) > 40


def test_gif_of_one_gray_ramp(tmp_path: Path) -> None:
    path = tmp_path / "gray.gif"
    Image.linear_gradient("L").save(path)
    image = prepare_image(path)
    assert Image.open(io.BytesIO(image.data)).mode == "L"
    assert farthest(image, oracle(path)) == 0


def test_animated_gif_with_transparency(tmp_path: Path) -> None:
    path = tmp_path / "animated.gif"
    frames = []
    for seed in (1, 2):
        frame = natural(64, 48, seed=seed).quantize(64)
        frame.info["transparency"] = 5
        frames.append(frame)
    frames[0].save(path, save_all=True, append_images=frames[1:], transparency=5, disposal=2)
    with Image.open(path) as source:
        first = on_white(source)
    assert farthest(prepare_image(path), first) == 0


def test_a_small_first_frame_of_gif(tmp_path: Path) -> None:
    """A frame within the canvas, and one beyond it, which makes the canvas larger."""
    path = tmp_path / "small.gif"
    data = encoded(Image.new("P", (10, 6), 0), "GIF")
    start = data.index(b"\x2c" + struct.pack("<HHHH", 0, 0, 10, 6))
    place = struct.pack("<HHHH", 4, 2, 10, 6)
    moved = data[: start + 1] + place + data[start + 9 :]
    path.write_bytes(moved[:6] + struct.pack("<HH", 30, 20) + moved[10:])
    image = prepare_image(path)
    expected = np.full((20, 30, 3), 255.0)
    expected[2:8, 4:14] = 0
    assert (pixels(image) == expected).all()
    path.write_bytes(moved[:6] + struct.pack("<HH", 3, 3) + moved[10:])
    image = prepare_image(path)
    assert (image.width, image.height) == (14, 8)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("size", [(1, 1), (33, 21), (96, 64)])
def test_bmp(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    path = tmp_path / "picture.bmp"
    image = natural(*size)
    if mode == "RGBA":
        image.putalpha(Image.linear_gradient("L").resize(size))
    (image.quantize(50) if mode == "P" else image.convert(mode)).save(path)
    assert farthest(prepare_image(path, policy=BEST), oracle(path)) <= 1


def bmp(header: bytes, tables: bytes, data: bytes) -> bytes:
    offset = 14 + len(header) + len(tables)
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + header + tables + data


def bmp_header(width: int, height: int, bits: int, method: int, colors: int = 0) -> bytes:
    return struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, method, 0, 0, 0, colors, 0)


PALETTE4 = b"".join(bytes([40 * i % 256, 80 * i % 256, 17 * i, 0]) for i in range(16))
BMP_FORMS: dict[str, bytes] = {
    "555": bmp(bmp_header(5, -2, 16, 0), b"", struct.pack("<12H", *range(0, 32760, 2730))),
    "565": bmp(bmp_header(5, 2, 16, 3), struct.pack("<III", 0xF800, 0x7E0, 0x1F),
               struct.pack("<12H", *range(0, 65520, 5460))),
    "4 bits": bmp(bmp_header(5, 3, 4, 0), PALETTE4, bytes(range(0x10, 0x1C))),
    "top down": bmp(bmp_header(3, -2, 24, 0), b"", bytes(range(24))),
    "core": bmp(struct.pack("<IHHHH", 12, 2, 2, 1, 24), b"", bytes(range(16))),
    "runs of 8": bmp(
        bmp_header(6, 3, 8, 1, 16), PALETTE4,
        bytes([6, 3, 0, 0, 2, 1, 0, 4, 5, 6, 7, 8, 0, 0, 0, 3, 9, 10, 11, 0, 3, 2, 0, 1])),
    "runs of 4": bmp(
        bmp_header(6, 2, 4, 2), PALETTE4,
        bytes([6, 0x12, 0, 0, 0, 5, 0x34, 0x56, 0x70, 0, 1, 8, 0, 1])),
}  # fmt: skip


@pytest.mark.parametrize("name", BMP_FORMS)
def test_rare_forms_of_bmp(tmp_path: Path, name: str) -> None:
    path = tmp_path / "rare.bmp"
    path.write_bytes(BMP_FORMS[name])
    assert farthest(prepare_image(path), oracle(path)) <= 1


def test_runs_of_bmp_that_skip(tmp_path: Path) -> None:
    """Pixels that nothing is written to have the first colour."""
    path = tmp_path / "skips.bmp"
    runs = bytes([2, 5, 0, 2, 1, 1, 2, 6, 0, 1])
    path.write_bytes(bmp(bmp_header(6, 3, 8, 1, 16), PALETTE4, runs))
    indices = np.zeros((3, 6), int)
    indices[2, :2] = 5
    indices[1, 3:5] = 6
    table = np.frombuffer(PALETTE4, np.uint8).reshape(16, 4)[:, 2::-1]
    assert (pixels(prepare_image(path)) == table[indices]).all()


# ---- HEIC and AVIF -----------------------------------------------------------------------------


def heif(path: Path, image: Image.Image, *options: str) -> None:
    source = path.with_suffix(".png")
    image.save(
        source,
        **({"icc_profile": image.info["icc_profile"]} if "icc_profile" in image.info else {}),
    )  # noqa: E501
    program("heif-enc", *options, "-o", path, source)


@pytest.fixture(params=["heic", "avif"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    missing: dict[str, str] = fm.build_info()["missing_image_formats"]
    if name in missing:
        pytest.skip(missing[name])
    return name


def with_turns(data: bytes, *properties: bytes) -> bytes:
    """The file with irot and imir boxes for its primary item."""
    meta = data.index(b"meta") - 4
    iprp, ipco, ipma = (data.index(name) - 4 for name in (b"iprp", b"ipco", b"ipma"))

    def length(at: int) -> int:
        return int(struct.unpack_from(">I", data, at)[0])

    container = data[ipco : ipco + length(ipco)]
    count, position = 0, 8
    while position < len(container):
        position += struct.unpack_from(">I", container, position)[0]
        count += 1
    added = b"".join(properties)
    association = bytearray(data[ipma : ipma + length(ipma)])
    assert association[8:12] == b"\0\0\0\0", "one byte a property, short item numbers"
    numbers = bytes(0x80 | (count + 1 + index) for index in range(len(properties)))
    # The first entry is the primary item's; its count of properties is at 18.
    old = association[18]
    association[18] = old + len(numbers)
    association[19 + old : 19 + old] = numbers
    growth = len(added) + len(numbers)

    def sized(at: int, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + body[4:]

    new_container = sized(ipco, container + added)
    new_association = sized(ipma, bytes(association))
    assert ipma == ipco + length(ipco)
    new_iprp = struct.pack(">I", length(iprp) + growth) + b"iprp" + new_container + new_association
    result = bytearray(data[:iprp] + new_iprp + data[iprp + length(iprp) :])
    struct.pack_into(">I", result, meta, length(meta) + growth)
    # Offsets in iloc count from the file's start and lie behind meta: every one moves.
    iloc = data.index(b"iloc") - 4
    version, sizes = data[iloc + 8], data[iloc + 12]
    assert version in (0, 1)
    assert sizes == 0x44
    items = struct.unpack_from(">H", data, iloc + 14)[0]
    base = data[iloc + 13] >> 4
    position = iloc + 16
    for _ in range(items):
        position += 2 + (2 if version == 1 else 0) + 2 + base
        extents = struct.unpack_from(">H", result, position)[0]
        position += 2
        for _ in range(extents):
            offset = struct.unpack_from(">I", result, position)[0]
            struct.pack_into(">I", result, position, offset + growth)
            position += 8
    return bytes(result)


def irot(quarters: int) -> bytes:
    return struct.pack(">I", 9) + b"irot" + bytes([quarters])


def imir(axis: int) -> bytes:
    return struct.pack(">I", 9) + b"imir" + bytes([axis])


TURNS: dict[str, tuple[list[bytes], list[Image.Transpose], int]] = {
    "90": ([irot(1)], [Image.Transpose.ROTATE_90], 8),
    "180": ([irot(2)], [Image.Transpose.ROTATE_180], 3),
    "270": ([irot(3)], [Image.Transpose.ROTATE_270], 6),
    "top and bottom": ([imir(0)], [Image.Transpose.FLIP_TOP_BOTTOM], 4),
    "left and right": ([imir(1)], [Image.Transpose.FLIP_LEFT_RIGHT], 2),
    "both": (
        [irot(1), imir(1)],
        [Image.Transpose.ROTATE_90, Image.Transpose.FLIP_LEFT_RIGHT],
        7,
    ),
    "the other way": (
        [irot(3), imir(1)],
        [Image.Transpose.ROTATE_270, Image.Transpose.FLIP_LEFT_RIGHT],
        5,
    ),
}


def test_heif(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"picture.{kind}"
    image = natural(96, 64)
    heif(path, image, "-q", "95", *(["-A"] if kind == "avif" else []))
    prepared = prepare_image(path, policy=BEST)
    assert inspect_image(path).mime_type == f"image/{kind}"
    assert prepared.mime_type in ("image/jpeg", "image/png")
    assert psnr(prepared, image) > 30


@pytest.mark.parametrize("turn", TURNS)
def test_turns_of_heif_are_applied_once(tmp_path: Path, kind: str, turn: str) -> None:
    """irot and imir turn the picture; an EXIF orientation beside them changes nothing more."""
    properties, steps, orientation = TURNS[turn]
    path, plain = tmp_path / f"turned.{kind}", tmp_path / f"plain.{kind}"
    image = natural(96, 64)
    image.save(tmp_path / "plain.png", exif=tiff(6))
    program(
        "heif-enc",
        "-q",
        "95",
        *(["-A"] if kind == "avif" else []),
        "-o",
        plain,
        tmp_path / "plain.png",
    )  # noqa: E501
    data = plain.read_bytes()
    path.write_bytes(with_turns(data, *properties))
    expected = image
    for step in steps:
        expected = expected.transpose(step)
    prepared = prepare_image(path, policy=BEST)
    assert (prepared.width, prepared.height) == expected.size
    assert psnr(prepared, expected) > 30
    assert inspect_image(path).orientation == orientation
    # Given explicitly, an orientation replaces the file's turns.
    assert psnr(prepare_image(path, orientation=1, policy=BEST), image) > 30


def test_heif_with_alpha_and_profile(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"clear.{kind}"
    image = natural(96, 64)
    alpha = Image.linear_gradient("L").resize((96, 64))
    image.putalpha(alpha)
    image.info["icc_profile"] = icc.display_p3()
    heif(path, image, "-q", "95", *(["-A"] if kind == "avif" else []))
    reference = tmp_path / "reference.png"
    image.save(reference, icc_profile=icc.display_p3())
    assert psnr(prepare_image(path, policy=BEST), oracle(reference)) > 28


def test_damaged_heif(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"picture.{kind}"
    heif(path, natural(96, 64), "-q", "90", *(["-A"] if kind == "avif" else []))
    data = path.read_bytes()
    for length in range(16, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:length])
        with pytest.raises((fm.CorruptImageError, fm.UnsupportedImageFormatError)) as caught:
            prepare_image(path)
        assert str(path) in str(caught.value)


ASK = """
import json, sys
import openfm as fm
from openfm.imaging import prepare_image
answers = {"formats": fm.build_info()["image_formats"]}
for path in sys.argv[1:]:
    try:
        image = prepare_image(path)
        answers[path] = [image.width, image.height]
    except fm.UnsupportedImageFormatError as error:
        answers[path] = str(error)
print(json.dumps(answers))
"""


def without_system_library(tmp_path: Path, *paths: Path, site: bool = False) -> dict[str, Any]:
    """What a process says whose loader finds a broken libheif first; without installed packages
    unless ``site``."""
    hidden = tmp_path / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "libheif.so.1").write_bytes(b"no library")
    done = subprocess.run(
        [sys.executable, *([] if site else ["-S"]), "-c", ASK, *map(str, paths)],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(hidden),
            "PYTHONPATH": str(ROOT / "python"),
        },
        check=True,
        capture_output=True,
    )
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


HEIC_START = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
AVIF_START = b"\0\0\0\x18ftypavif\0\0\0\0mif1avif"


def test_without_libheif_the_package_is_named(tmp_path: Path) -> None:
    heic, avif = tmp_path / "a.heic", tmp_path / "a.avif"
    heic.write_bytes(HEIC_START)
    avif.write_bytes(AVIF_START)
    answers = without_system_library(tmp_path, heic, avif)
    assert answers["formats"] == ["jpeg", "png", "webp", "gif", "bmp"]
    for path, words in ((heic, ["libheif1", "pi-heif"]), (avif, ["libheif1", "AV1"])):
        assert answers[str(path)].startswith(f"{path}: ")
        assert all(word in answers[str(path)] for word in words)


def test_the_library_of_pi_heif(tmp_path: Path) -> None:
    """It reads HEIC and no AVIF, and the two are reported apart."""
    heic, avif = tmp_path / "a.heic", tmp_path / "a.avif"
    heif(heic, natural(96, 64))
    avif.write_bytes(AVIF_START)
    answers = without_system_library(tmp_path, heic, avif, site=True)
    assert answers["formats"] == ["jpeg", "png", "webp", "gif", "bmp", "heic"]
    assert answers[str(heic)] == [96, 64]
    assert "AV1" in answers[str(avif)]


def test_pictures_of_kinds_that_are_not_read(tmp_path: Path) -> None:
    starts: dict[str, tuple[bytes, type[fm.ImagePromptError]]] = {
        "PDF": (b"%PDF-1.7\n", fm.NotAnImageError),
        "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", fm.NotAnImageError),
        "JPEG XL": (b"\xff\x0a\xfa\x7f\x01\x90", fm.UnsupportedImageFormatError),
        "TIFF": (b"II*\0\x08\0\0\0" + b"\0" * 32, fm.UnsupportedImageFormatError),
        "CR2": (b"II*\0\x10\0\0\0CR\x02\0" + b"\0" * 16, fm.UnsupportedImageFormatError),
        "MP4": (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", fm.NotAnImageError),
        "ICO": (
            b"\0\0\1\0\1\0\x10\x10\0\0\1\0\x20\0\x30\0\0\0\x16\0\0\0",
            fm.UnsupportedImageFormatError,
        ),
    }
    for name, (start, error) in starts.items():
        path = tmp_path / "picture.jpg"
        path.write_bytes(start)
        with pytest.raises(error, match=name) as caught:
            prepare_image(path)
        assert str(path) in str(caught.value)
        if error is fm.UnsupportedImageFormatError:
            assert "convert it to JPEG or PNG" in str(caught.value)


# ---- Damage ------------------------------------------------------------------------------------

SOURCES: dict[str, Callable[[], bytes]] = {
    "webp lossy": lambda: encoded(natural(40, 30), "WEBP", quality=80),
    "webp lossless": lambda: encoded(natural(40, 30), "WEBP", lossless=True),
    "webp alpha": lambda: encoded(natural(40, 30).convert("RGBA"), "WEBP", exif=tiff(6)),
    "gif": lambda: encoded(natural(40, 30).quantize(64), "GIF", interlace=1),
    "bmp": lambda: encoded(natural(20, 15), "BMP"),
    "bmp runs": lambda: BMP_FORMS["runs of 8"],
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_cut_is_found(tmp_path: Path, name: str) -> None:
    data = SOURCES[name]()
    # Bytes that may lack: a GIF's end of data and trailer, the padding of a WebP's last chunk, the
    # end mark of run lengths that filled every row.
    spare = {"gif": 4, "bmp runs": 2}.get(name, 1)
    path = tmp_path / "cut"
    for length in range(0, len(data) - spare, max(1, len(data) // 150)):
        path.write_bytes(data[:length])
        with pytest.raises(fm.ImagePromptError) as caught:
            prepare_image(path)
        assert type(caught.value) in (
            fm.CorruptImageError,
            fm.EmptyImageError,
            fm.NotAnImageError,
        )
        assert str(path) in str(caught.value)


def big_headers() -> dict[str, bytes]:
    webp = struct.pack("<I", 16383 | 16383 << 14)
    body = b"WEBPVP8L" + struct.pack("<I", 40) + b"\x2f" + webp + b"\0" * 35
    huge = struct.pack("<I", 0xFFFFFF)[:3]
    extended = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + huge + huge + b"\0" * 40
    return {
        "gif": b"GIF89a" + struct.pack("<HH", 65535, 65535) + b"\x80\0\0" + b"\0" * 40,
        "bmp": bmp(bmp_header(60000, 60000, 24, 0), b"", b"\0" * 16),
        "webp": b"RIFF" + struct.pack("<I", len(extended)) + extended,
        "webp plain": b"RIFF" + struct.pack("<I", len(body)) + body,
    }


@pytest.mark.parametrize("name", ["gif", "bmp", "webp"])
def test_limits_come_before_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(big_headers()[name])
    with pytest.raises(fm.ImageTooLargeError, match=r"\d+ x \d+"):
        inspect_image(path)


def test_formats_are_listed() -> None:
    info = fm.build_info()
    listed = {*info["image_formats"], *info["missing_image_formats"]}
    assert listed == {"jpeg", "png", "webp", "gif", "bmp", "heic", "avif"}
    assert {"jpeg", "png", "webp", "gif", "bmp"} <= set(info["image_formats"])
    for name, sentence in info["missing_image_formats"].items():
        assert name.upper() in sentence
        assert "libheif1" in sentence
    json.dumps(info)


def test_code_points_of_colour(tmp_path: Path) -> None:
    path, twin = tmp_path / "numbers.png", tmp_path / "profile.png"
    plain = encoded(natural(48, 32), "PNG")
    path.write_bytes(with_png_chunks(plain, png_chunk(b"cICP", bytes([12, 13, 0, 1]))))
    natural(48, 32).save(twin, icc_profile=icc.display_p3())
    assert farthest(prepare_image(path), oracle(twin)) <= 2
    # sRGB by numbers, and light for other screens, stay as they are.
    for numbers in ([1, 13, 0, 1], [9, 16, 0, 1], [2, 2, 0, 1], [9]):
        path.write_bytes(with_png_chunks(plain, png_chunk(b"cICP", bytes(numbers))))
        assert passed_through(prepare_image(path))


def test_upright_pictures_are_held_to_exif_transpose(tmp_path: Path) -> None:
    """Every container's orientation against Pillow's own turn."""
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True})):
        for orientation in ORIENTATIONS:
            path = tmp_path / "turned"
            natural(37, 23).save(path, kind, exif=tiff(orientation), **options)
            with Image.open(path) as source:
                expected = ImageOps.exif_transpose(source).convert("RGB")
            assert farthest(prepare_image(path), expected) == 0


def test_pillow_encodes_as_well(tmp_path: Path) -> None:
    """A lossy WebP becomes a JPEG as good as Pillow's own."""
    path = tmp_path / "photo.webp"
    natural(400, 300).save(path, quality=90)
    image, expected = prepare_image(path), oracle(path)
    assert image.mime_type == "image/jpeg"
    assert psnr(image, expected) > psnr(pillow_jpeg(expected), expected) - 0.5


def test_limits_are_options(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    natural(40, 30).save(path)
    size = path.stat().st_size
    try:
        fm.set_image_limits(max_pixels=1199)
        with pytest.raises(fm.ImageTooLargeError, match="40 x 30"):
            inspect_image(path)
        fm.set_image_limits(max_pixels=1200, max_file_bytes=size - 1)
        with pytest.raises(fm.ImageTooLargeError, match=str(size)):
            inspect_image(path)
        fm.set_image_limits(max_pixels=1200, max_file_bytes=size)
        assert inspect_image(path).width == 40
    finally:
        fm.set_image_limits()
    for wrong in (0, -1, 2**63):
        with pytest.raises(ValueError, match="max_pixels"):
            fm.set_image_limits(max_pixels=wrong)
    with pytest.raises(TypeError, match="max_file_bytes"):
        fm.set_image_limits(max_file_bytes=1.5)  # type: ignore[arg-type]
