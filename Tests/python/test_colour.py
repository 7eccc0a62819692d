"""Colour profiles, inks and depth: what is sent is sRGB, held against Pillow's ImageCms."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import icc
import numpy as np
import pytest
from openfm.imaging import ImagePolicy, prepare_image
from pictures import (
    encoded,
    exif,
    farthest,
    iccp,
    jpeg_segment,
    natural,
    oracle,
    passed_through,
    pillow_jpeg,
    pixels,
    png_chunk,
    psnr,
    tiff,
    with_jpeg_segments,
    with_png_chunks,
)
from PIL import Image, ImageCms

RGB_PROFILES = {"p3": icc.display_p3(), "adobe": icc.adobe_rgb()}


def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.mark.parametrize("name", RGB_PROFILES)
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
@pytest.mark.parametrize("orientation", [1, 5])
def test_jpeg_with_a_wide_profile(
    tmp_path: Path, name: str, subsampling: str, orientation: int
) -> None:
    path = tmp_path / "wide.jpg"
    natural(97, 65).save(
        path,
        quality=95,
        subsampling=subsampling,
        icc_profile=RGB_PROFILES[name],
        exif=exif(orientation),
    )
    expected = oracle(path)
    with Image.open(path) as source:
        changed = pixels(source).mean() - pixels(expected).mean()
    image = prepare_image(path)
    assert not passed_through(image)
    assert b"ICC_PROFILE" not in image.data
    # As near as Pillow comes after encoding once more; leaving the values alone is far off.
    assert psnr(image, expected) > psnr(pillow_jpeg(expected, subsampling), expected) - 1
    assert abs(pixels(image).mean() - pixels(expected).mean()) < min(0.5, abs(changed) / 2 + 0.3)


@pytest.mark.parametrize("name", RGB_PROFILES)
def test_saturated_colours(tmp_path: Path, name: str) -> None:
    """The colours that suffer most: what is pure red in P3 is no red that sRGB has."""
    path = tmp_path / "pure.png"
    steps = np.array([0, 64, 128, 192, 255], np.uint8)
    grid = np.stack(np.meshgrid(steps, steps, steps), -1).reshape(5, 25, 3)
    Image.fromarray(grid).save(path, icc_profile=RGB_PROFILES[name])
    expected = oracle(path)
    assert np.abs(pixels(expected) - grid).max() > 20
    assert farthest(prepare_image(path), expected) <= 1


def test_scaled_then_converted(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    natural(640, 427).save(path, quality=95, icc_profile=icc.display_p3(), exif=exif(6))
    image = prepare_image(path, policy=ImagePolicy(max_long_edge=200))
    expected = oracle(path).resize((image.width, image.height), Image.Resampling.LANCZOS)
    assert psnr(image, expected) > psnr(pillow_jpeg(expected), expected) - 2.5


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_profile_that_says_srgb_changes_nothing(tmp_path: Path, kind: str) -> None:
    for name, profile in (
        ("lcms", srgb_profile()),
        ("matrix", icc.matrix_profile(
            ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.7141))
        )),
    ):  # fmt: skip
        path = tmp_path / name
        natural(96, 64).save(path, kind, icc_profile=profile)
        image = prepare_image(path)
        assert passed_through(image)
        with Image.open(path) as source:
            assert (pixels(image) == pixels(source)).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("profile", [icc.gray_profile(1.0), icc.gray_profile(1.8)])
def test_gray_profiles(tmp_path: Path, kind: str, profile: bytes) -> None:
    path = tmp_path / "gray"
    ramp = Image.fromarray(np.arange(256, dtype=np.uint8)[None].repeat(16, 0))
    ramp.save(path, kind, icc_profile=profile, **({"quality": 100} if kind == "JPEG" else {}))
    image = prepare_image(path, policy=ImagePolicy(quality=100))
    expected = oracle(path)
    assert Image.open(io.BytesIO(image.data)).mode == "L"
    assert farthest(image, expected) <= (3 if kind == "JPEG" else 1)


def test_gray_with_the_profile_of_a_colour_picture(tmp_path: Path) -> None:
    path = tmp_path / "gray.png"
    ramp = Image.fromarray(np.arange(256, dtype=np.uint8)[None].repeat(16, 0))
    path.write_bytes(with_png_chunks(encoded(ramp, "PNG"), iccp(icc.adobe_rgb())))
    colours = tmp_path / "same.png"
    ramp.convert("RGB").save(colours, icc_profile=icc.adobe_rgb())
    image = prepare_image(path)
    assert Image.open(io.BytesIO(image.data)).mode == "L"
    assert farthest(image, oracle(colours)) <= 1


def test_cmyk_profile(tmp_path: Path) -> None:
    path = tmp_path / "inks.jpg"
    natural(96, 64).convert("CMYK").save(path, quality=95, icc_profile=icc.cmyk_profile())
    expected = oracle(path)
    with Image.open(path) as source:
        assert psnr(source.convert("RGB"), expected) < 25
    image = prepare_image(path)
    assert psnr(image, expected) > psnr(pillow_jpeg(expected, "4:4:4"), expected) - 1


@pytest.mark.parametrize("deep", [False, True], ids=["8 bits", "16 bits"])
def test_alpha_is_composited_after_the_conversion(tmp_path: Path, deep: bool) -> None:
    path, plain = tmp_path / "clear.png", tmp_path / "plain.png"
    image = natural(48, 40)
    alpha = Image.linear_gradient("L").resize((48, 40))
    alpha.paste(0, (0, 0, 48, 4))
    image.putalpha(alpha)
    image.save(plain, icc_profile=icc.display_p3())
    expected = oracle(plain)
    if deep:
        samples = np.asarray(image).astype(">u2") * np.uint16(257)
        rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
        header = bytes([0, 0, 0, 48, 0, 0, 0, 40, 16, 6, 0, 0, 0])
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + png_chunk(b"IHDR", header)
            + iccp(icc.display_p3())
            + png_chunk(b"IDAT", zlib.compress(rows))
            + png_chunk(b"IEND", b"")
        )
    else:
        path = plain
    prepared = prepare_image(path)
    assert farthest(prepared, expected) <= 2
    # Nothing of the colours under alpha 0 is left.
    assert (pixels(prepared)[:4] == 255).all()


def test_gray_alpha_with_a_profile(tmp_path: Path) -> None:
    path, reference = tmp_path / "gray.png", tmp_path / "reference.png"
    gray = natural(64, 48).convert("L")
    gray.save(reference, icc_profile=icc.gray_profile(1.8))
    alpha = Image.linear_gradient("L").resize((64, 48))
    image = gray.copy().convert("LA")
    image.putalpha(alpha)
    image.save(path, icc_profile=icc.gray_profile(1.8))
    colours = oracle(reference)
    colours.putalpha(alpha)
    expected = Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours)
    assert farthest(prepare_image(path), expected) <= 1


def damaged_profiles() -> dict[str, bytes]:
    good = icc.display_p3()
    return {
        "empty": b"",
        "short": good[:100],
        "cut": good[: len(good) // 2],
        "no magic": good[:36] + b"xxxx" + good[40:],
        "of CMYK": icc.cmyk_profile(),
        "of gray": icc.gray_profile(1.8),
        "noise": bytes(range(256)) * 4,
        "no tags": good[:128] + b"\0\0\0\0",
        "tags far away": good[:136] + b"\xff" * 200 + good[336:],
    }


@pytest.mark.parametrize("name", damaged_profiles())
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_bad_profile_never_fails_a_good_picture(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "picture"
    plain = encoded(natural(96, 64), kind)
    profile = damaged_profiles()[name]
    if kind == "JPEG":
        segment = jpeg_segment(0xE2, b"ICC_PROFILE\0\x01\x01" + profile)
        path.write_bytes(with_jpeg_segments(plain, segment))
    else:
        path.write_bytes(with_png_chunks(plain, iccp(profile)))
    image = prepare_image(path)
    assert passed_through(image)
    assert (pixels(image) == pixels(Image.open(io.BytesIO(plain)))).all()


def test_profiles_in_pieces(tmp_path: Path) -> None:
    plain = encoded(natural(96, 64), "JPEG", quality=95)
    profile = icc.display_p3()
    pieces = [profile[:200], profile[200:300], profile[300:]]

    def write(name: str, order: list[int], total: int = 3) -> Path:
        segments = [
            jpeg_segment(0xE2, b"ICC_PROFILE\0" + bytes([number, total]) + pieces[number - 1])
            for number in order
        ]
        path = tmp_path / name
        path.write_bytes(with_jpeg_segments(plain, *segments))
        return path

    expected = oracle(write("ordered.jpg", [1, 2, 3]))
    floor = psnr(pillow_jpeg(expected), expected) - 1
    assert psnr(prepare_image(tmp_path / "ordered.jpg"), expected) > floor
    assert psnr(prepare_image(write("shuffled.jpg", [3, 1, 2])), expected) > floor
    # A piece that is missing, twice there, or counted wrongly: taken as sRGB.
    for order, total in (([1, 3], 3), ([1, 2, 2], 3), ([1, 2, 3], 4), ([1, 2, 3], 0)):
        assert passed_through(prepare_image(write("bad.jpg", order, total)))


def test_profile_chunks_of_png_are_bounded(tmp_path: Path) -> None:
    """A profile that unpacks to gigabytes is not unpacked."""
    path = tmp_path / "bomb.png"
    plain = encoded(natural(96, 64), "PNG")
    path.write_bytes(with_png_chunks(plain, iccp(b"\0" * (64 << 20))))
    assert passed_through(prepare_image(path))
    cut = iccp(icc.display_p3())
    for payload in (b"", b"name", b"name\0", b"name\0\x07" + cut[14:-4], b"n" * 90 + b"\0\0"):
        path.write_bytes(with_png_chunks(plain, png_chunk(b"iCCP", payload)))
        assert passed_through(prepare_image(path))


def test_the_srgb_chunk_overrules_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "both.png"
    plain = encoded(natural(96, 64), "PNG")
    path.write_bytes(with_png_chunks(plain, png_chunk(b"sRGB", b"\0"), iccp(icc.display_p3())))
    assert passed_through(prepare_image(path))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_profile_and_orientation_together(tmp_path: Path, orientation: int) -> None:
    path = tmp_path / "turned.png"
    natural(65, 41).save(path, exif=tiff(orientation), icc_profile=icc.adobe_rgb())
    assert farthest(prepare_image(path), oracle(path)) <= 1
