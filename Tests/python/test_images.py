"""What a model is sent for a picture, held against Pillow pixel by pixel."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import openfm as fm
import pytest
from openfm.imaging import ImagePolicy, inspect_image, prepare_image
from pictures import exif, natural, on_white, pillow_jpeg, pixels, psnr, tiff
from PIL import Image, ImageDraw, ImageOps

SUBSAMPLINGS = ["4:4:4", "4:2:2", "4:2:0"]


def assert_bare(data: bytes) -> None:
    """No metadata: a JPEG's segments are those decoding needs, a PNG's chunks the critical ones."""
    if data.startswith(b"\x89PNG"):
        position, types = 8, []
        while position < len(data):
            (length,) = struct.unpack_from(">I", data, position)
            types.append(data[position + 4 : position + 8])
            position += 12 + length
        assert position == len(data)
        assert set(types) <= {b"IHDR", b"PLTE", b"IDAT", b"IEND"}
        return
    position = 2
    while data[position + 1] != 0xDA:
        marker = data[position + 1]
        (length,) = struct.unpack_from(">H", data, position + 2)
        assert marker not in {0xFE, *range(0xE1, 0xEE), 0xEF}
        position += 2 + length
    assert data.endswith(b"\xff\xd9")
    assert b"Exif" not in data


@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_jpeg_orientation(tmp_path: Path, orientation: int, big: bool, subsampling: str) -> None:
    path = tmp_path / "turned.jpg"
    natural(97, 65).save(path, quality=95, subsampling=subsampling, exif=exif(orientation, big))
    with Image.open(path) as source:
        expected = ImageOps.exif_transpose(source).convert("RGB")
    image = prepare_image(path)
    assert (image.width, image.height) == expected.size
    assert (image.original_width, image.original_height) == expected.size
    assert image.mime_type == "image/jpeg"
    assert_bare(image.data)
    if orientation == 1:
        assert image.action == "passthrough"
        assert (pixels(image) == pixels(expected)).all()
    else:
        # As near as Pillow itself comes after encoding once more.
        floor = psnr(pillow_jpeg(expected, subsampling), expected)
        assert psnr(image, expected) > floor - 0.7
    explicit = prepare_image(path, orientation=1)
    with Image.open(path) as source:
        assert (pixels(explicit) == pixels(source)).all()


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("size", [(97, 65), (96, 64), (640, 427)])
@pytest.mark.parametrize("edge", [90, 60, 33])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_jpeg_scaled(
    tmp_path: Path, orientation: int, size: tuple[int, int], edge: int, mode: str
) -> None:
    path = tmp_path / "large.jpg"
    natural(*size).convert(mode).save(path, quality=95, exif=exif(orientation))
    image = prepare_image(path, policy=ImagePolicy(max_long_edge=edge))
    with Image.open(path) as source:
        upright = ImageOps.exif_transpose(source)
    assert (image.original_width, image.original_height) == upright.size
    assert max(image.width, image.height) == edge
    assert abs(image.width / image.height - upright.width / upright.height) < 0.06
    expected = upright.resize((image.width, image.height), Image.Resampling.LANCZOS)
    # DCT scaling and one Lanczos pass are within 2.5 dB of Pillow's full decode and Lanczos.
    floor = psnr(pillow_jpeg(expected), expected)
    assert psnr(image, expected) > min(floor, 36) - 2.5
    assert Image.open(io.BytesIO(image.data)).mode == mode


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_pass_through_is_exact(tmp_path: Path, progressive: bool, mode: str) -> None:
    path = tmp_path / "plain.jpg"
    natural(97, 65).convert(mode).save(
        path,
        quality=90,
        progressive=progressive,
        comment=b"secret",
        exif=exif(1),
        icc_profile=None,
        restart_marker_rows=1,
    )
    image = prepare_image(path)
    assert image.action == "passthrough"
    assert b"secret" not in image.data
    assert_bare(image.data)
    with Image.open(path) as source:
        assert (pixels(image) == pixels(source)).all()
    scan = path.read_bytes().partition(b"\xff\xda")[2]
    assert image.data.endswith(scan)


@pytest.mark.parametrize("orientation", [1, 6])
def test_jpeg_stored_as_rgb(tmp_path: Path, orientation: int) -> None:
    path = tmp_path / "rgb.jpg"
    natural(97, 65).save(path, quality=95, keep_rgb=True, subsampling=0, exif=exif(orientation))
    image = prepare_image(path)
    with Image.open(path) as source:
        expected = ImageOps.exif_transpose(source).convert("RGB")
    if orientation == 1:
        assert image.action == "passthrough"
        assert (pixels(image) == pixels(expected)).all()
    else:
        assert psnr(image, expected) > psnr(pillow_jpeg(expected, "4:4:4"), expected) - 0.5


def test_cmyk(tmp_path: Path) -> None:
    path = tmp_path / "inks.jpg"
    natural(96, 64).convert("CMYK").save(path, quality=95)
    light = tmp_path / "light.jpg"
    Image.new("CMYK", (64, 64), (20, 10, 5, 0)).save(light, quality=95)
    bare = tmp_path / "bare.jpg"
    data = path.read_bytes()
    start = data.index(b"\xff\xee")
    (length,) = struct.unpack_from(">H", data, start + 2)
    bare.write_bytes(data[:start] + data[start + 2 + length :])
    for file in (path, light, bare):
        image = prepare_image(file)
        assert image.action == "re-encoded"
        with Image.open(file) as source:
            expected = source.convert("RGB")
        assert psnr(image, expected) > 33
    assert (pixels(prepare_image(light)).mean((0, 1)) > (230, 240, 245)).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_png_orientation_is_exact(tmp_path: Path, orientation: int) -> None:
    path = tmp_path / "turned.png"
    natural(65, 41).save(path, exif=tiff(orientation))
    with Image.open(path) as source:
        expected = ImageOps.exif_transpose(source)
    image = prepare_image(path)
    assert image.mime_type == "image/png"
    assert image.action == ("passthrough" if orientation == 1 else "re-encoded")
    assert_bare(image.data)
    assert (pixels(image) == pixels(expected)).all()


def transparent(kind: str, path: Path) -> None:
    if kind == "P":
        image = Image.new("P", (40, 40), 0)
        image.putpalette([255, 0, 255, 0, 0, 255] + [0] * 762)
        image.paste(1, (20, 0, 40, 40))
        image.save(path, transparency=0)
    elif kind in ("L", "RGB"):
        image = Image.new(kind, (40, 40), 10 if kind == "L" else (10, 20, 30))
        image.paste(200 if kind == "L" else (1, 2, 3), (20, 0, 40, 40))
        image.save(path, transparency=10 if kind == "L" else (10, 20, 30))
    else:
        image = natural(40, 40).convert(kind)
        image.putalpha(Image.linear_gradient("L").resize((40, 40)))
        image.save(path)


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P", "L", "RGB"])
def test_transparency_becomes_white(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "transparent.png"
    transparent(kind, path)
    image = prepare_image(path)
    with Image.open(path) as source:
        expected = on_white(source)
    assert np.abs(pixels(image) - pixels(expected)).max() <= 1
    assert Image.open(io.BytesIO(image.data)).mode in ("RGB", "L")


def test_hidden_text_and_background(tmp_path: Path) -> None:
    path = tmp_path / "hidden.png"
    image = Image.new("RGBA", (120, 40), (255, 255, 255, 0))
    ImageDraw.Draw(image).text((10, 12), "hidden", fill=(0, 0, 0, 0))
    image.save(path)
    assert (pixels(prepare_image(path)) == 255).all()
    blue = prepare_image(path, policy=ImagePolicy(background="#0000FF"))
    assert (pixels(blue) == (0, 0, 255)).all()


def png16(path: Path, color: int, samples: np.ndarray[Any, np.dtype[np.uint16]]) -> None:
    height, width = samples.shape[:2]
    raw = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(raw))
        + chunk(b"IEND", b"")
    )


def test_16_bits(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    random = np.random.default_rng(5)
    samples = random.integers(0, 65536, (16, 24, 4), dtype=np.uint16)
    png16(path, 6, samples)
    alpha = samples[..., 3:].astype(float) / 65535
    exact = (samples[..., :3] / 65535 * alpha + 1 - alpha) * 255
    assert np.abs(pixels(prepare_image(path)) - exact).max() <= 0.501
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16)[None].repeat(8, 0)
    png16(path, 0, ramp)
    assert (pixels(prepare_image(path))[0, :, 0] == np.arange(256)).all()


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_few_colours(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "few.png"
    natural(61, 33).quantize(1 << bits).save(path, bits=bits)
    with Image.open(path) as source:
        expected = source.convert("RGB")
    assert (pixels(prepare_image(path)) == pixels(expected)).all()


def test_first_frame_only(tmp_path: Path) -> None:
    path = tmp_path / "frames.jpg"
    first = natural(96, 64)
    first.save(path, "MPO", save_all=True, append_images=[Image.new("RGB", (96, 64), "blue")])
    image = prepare_image(path)
    assert image.action == "passthrough"
    assert image.data.count(b"\xff\xd8\xff") == 1
    with Image.open(path) as source:
        assert (pixels(image) == pixels(source)).all()


def test_bytes_decide_the_type_and_odd_names_work(tmp_path: Path) -> None:
    path = tmp_path / "a picture, ünïcode #1.png"
    natural(40, 30).save(path, "JPEG")
    assert prepare_image(path).mime_type == "image/jpeg"
    info = inspect_image(path)
    assert (info.width, info.height, info.mime_type) == (40, 30, "image/jpeg")


def test_broken_exif_never_fails_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "broken.jpg"
    natural(96, 64).save(path, exif=b"Exif\0\0II*\0\xff\xff\xff\x7fgarbage")
    image = prepare_image(path)
    assert image.action == "passthrough"
    assert_bare(image.data)


def bad_files(folder: Path) -> dict[str, type[fm.ImagePromptError]]:
    buffer = io.BytesIO()
    natural(96, 64).save(buffer, "JPEG", progressive=True)
    jpeg = buffer.getvalue()
    buffer = io.BytesIO()
    natural(96, 64).save(buffer, "PNG")
    png = bytearray(buffer.getvalue())
    (folder / "cut_in_scan.jpg").write_bytes(jpeg[: len(jpeg) * 2 // 3])
    (folder / "cut_in_header.jpg").write_bytes(jpeg[:60])
    (folder / "cut.png").write_bytes(png[: len(png) // 2])
    png[len(png) // 2] ^= 1
    (folder / "damaged.png").write_bytes(png)
    (folder / "text.jpg").write_bytes(b"just words\n" * 50)
    (folder / "page.png").write_bytes(b"<!doctype html><html><body>404</body></html>")
    natural(20, 20).save(folder / "named.jpg", "TIFF")
    natural(20, 20).save(folder / "icon.jpg", "ICO")
    header = struct.pack(">IIBBBBB", 50000, 50000, 8, 2, 0, 0, 0)
    (folder / "bomb.png").write_bytes(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
        + header
        + struct.pack(">I", zlib.crc32(b"IHDR" + header))
        + b"\0" * 32
    )
    return {
        "cut_in_scan.jpg": fm.CorruptImageError,
        "cut_in_header.jpg": fm.CorruptImageError,
        "cut.png": fm.CorruptImageError,
        "damaged.png": fm.CorruptImageError,
        "text.jpg": fm.NotAnImageError,
        "page.png": fm.NotAnImageError,
        "named.jpg": fm.UnsupportedImageFormatError,
        "icon.jpg": fm.UnsupportedImageFormatError,
        "bomb.png": fm.ImageTooLargeError,
        "missing.jpg": fm.ImageNotFoundError,
    }


def test_bad_files_have_errors_of_their_own(tmp_path: Path) -> None:
    for name, error in bad_files(tmp_path).items():
        with pytest.raises(error) as caught:
            prepare_image(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert caught.value.path == str(tmp_path / name)


def test_a_photo_stored_as_png_becomes_jpeg(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    natural(400, 300).save(path, exif=tiff(6))
    image = prepare_image(path)
    assert image.mime_type == "image/jpeg"
    with Image.open(path) as source:
        expected = ImageOps.exif_transpose(source)
    assert psnr(image, expected) > psnr(pillow_jpeg(expected), expected) - 0.5


def test_same_input_same_output(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    natural(300, 200).save(path, exif=exif(6))
    policy = ImagePolicy(max_long_edge=111)
    assert prepare_image(path, policy=policy).data == prepare_image(path, policy=policy).data
