"""What users of other clients ran into, one test each: photos sideways, text revealed, GPS sent."""

from __future__ import annotations

import asyncio
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

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
    passed_through,
    pixels,
    png_chunk,
    psnr,
    tiff,
    with_adobe_marker,
    with_jpeg_segments,
    with_png_chunks,
)
from PIL import Image, ImageDraw, ImageOps
from scripted_server import ScriptedServer

RED, GREEN, BLUE = (230, 20, 20), (20, 200, 40), (20, 40, 220)


def bars(width: int = 640, height: int = 480) -> Image.Image:
    """A red bar on the left, a green one at the bottom."""
    image = Image.new("RGB", (width, height), (128, 128, 128))
    image.paste(GREEN, (0, height - height // 6, width, height))
    image.paste(RED, (0, 0, width // 6, height))
    return image


def colour(
    image: fm.PreparedImage, x: float, y: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:  # noqa: E501
    """At a place given in parts of the width and the height."""
    all_pixels = pixels(image)
    at: np.ndarray[tuple[int], np.dtype[np.float64]] = all_pixels[
        int(y * all_pixels.shape[0]), int(x * all_pixels.shape[1])
    ]
    return at


def near(
    value: np.ndarray[tuple[int], np.dtype[np.float64]], expected: tuple[int, int, int]
) -> bool:  # noqa: E501
    return bool((np.abs(value - expected) < 12).all())


@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_1_a_phone_photo_is_sent_upright(tmp_path: Path, orientation: int, big: bool) -> None:
    path = tmp_path / "phone.jpg"
    bars().save(path, quality=95, exif=exif(orientation, big))
    image = prepare_image(path)
    turned = orientation > 4
    assert (image.width, image.height) == ((480, 640) if turned else (640, 480))
    # Where the stored left side and bottom are when the picture is upright.
    left, bottom = {
        1: ("left", "bottom"), 2: ("right", "bottom"), 3: ("right", "top"), 4: ("left", "top"),
        5: ("top", "right"), 6: ("top", "left"), 7: ("bottom", "left"), 8: ("bottom", "right"),
    }[orientation]  # fmt: skip
    places = {"left": (0.05, 0.5), "right": (0.95, 0.5), "top": (0.5, 0.05), "bottom": (0.5, 0.95)}
    assert near(colour(image, *places[left]), RED), f"the red bar is at the {left}"
    assert near(colour(image, *places[bottom]), GREEN), f"the green bar is at the {bottom}"
    with Image.open(path) as source:
        assert psnr(image, ImageOps.exif_transpose(source)) > 38


@pytest.mark.parametrize("orientation", range(1, 9))
def test_2_preparing_twice_turns_once(tmp_path: Path, orientation: int) -> None:
    path, again = tmp_path / "once.jpg", tmp_path / "twice.jpg"
    bars(96, 64).save(path, quality=95, exif=exif(orientation))
    first = prepare_image(path)
    again.write_bytes(first.data)
    assert inspect_image(again).orientation == 1
    second = prepare_image(again)
    assert second.data == first.data


@pytest.mark.parametrize("metadata", [None, exif(1), b"Exif\0\0", b"Exif\0\0MM\0*\xff\xff\xff\xff"])
def test_3_what_needs_nothing_is_not_touched(tmp_path: Path, metadata: bytes | None) -> None:
    path = tmp_path / "fine.jpg"
    plain = encoded(bars(96, 64), "JPEG", quality=90)
    path.write_bytes(with_jpeg_segments(plain, jpeg_segment(0xE1, metadata)) if metadata else plain)
    image = prepare_image(path)
    assert passed_through(image)
    scan = plain[plain.index(b"\xff\xda") :]
    assert image.data.endswith(scan)


def test_4_sizes_are_those_after_the_turn(tmp_path: Path) -> None:
    """Token counts follow from them: a portrait's grid is not that of a landscape."""
    path = tmp_path / "portrait.jpg"
    bars().save(path, exif=exif(8))
    info, image = inspect_image(path), prepare_image(path)
    assert (info.width, info.height) == (480, 640) == (image.width, image.height)
    assert (info.stored_width, info.stored_height) == (640, 480)


def test_5_servers_get_jpeg_or_png_only(tmp_path: Path) -> None:
    """Some servers drop WebP, HEIC or AVIF without a word."""
    kinds: list[tuple[str, str]] = [("WEBP", "webp"), ("GIF", "gif"), ("BMP", "bmp")]
    for kind, suffix in kinds:
        path = tmp_path / f"picture.{suffix}"
        bars(96, 64).save(path, kind)
        image = prepare_image(path)
        assert image.mime_type in ("image/jpeg", "image/png")
        assert image.data.startswith((b"\xff\xd8\xff", b"\x89PNG"))
    path = tmp_path / "picture.jxl"
    path.write_bytes(b"\xff\x0a\xfa\x7f\x01\x90")
    with pytest.raises(fm.UnsupportedImageFormatError, match="JPEG XL") as caught:
        prepare_image(path)
    assert caught.value.path == str(path)


def test_6_the_bytes_decide_not_the_name(tmp_path: Path) -> None:
    for kind, name in (("JPEG", "a.png"), ("PNG", "a.jpg"), ("WEBP", "a.gif")):
        path = tmp_path / name
        bars(96, 64).save(path, kind)
        image = prepare_image(path)
        starts = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG"}
        assert image.data.startswith(starts[image.mime_type])
        assert inspect_image(path).mime_type == f"image/{kind.lower()}"


def test_7_what_is_no_picture_never_reaches_a_server(
    tmp_path: Path, model: Callable[..., fm.ChatCompletionsLanguageModel], server: ScriptedServer
) -> None:
    jpeg = encoded(bars(96, 64), "JPEG")
    cases: dict[str, tuple[bytes, type[fm.ImagePromptError]]] = {
        "empty.png": (b"", fm.EmptyImageError),
        "text.png": (b"just words\n" * 9, fm.NotAnImageError),
        "header.jpg": (jpeg[:40], fm.CorruptImageError),
        "scan.jpg": (jpeg[: len(jpeg) - 200], fm.CorruptImageError),
    }
    for name, (data, error) in cases.items():
        path = tmp_path / name
        path.write_bytes(data)

        async def ask(path: Path = path) -> None:
            session = fm.LanguageModelSession(model=model("echo"))
            await session.respond([fm.ImageAttachment(path)])

        with pytest.raises(error, match=name):
            asyncio.run(ask())
    assert [entry for entry in server.log() if entry.get("method") == "POST"] == []


@pytest.mark.parametrize("marker", [None, 0, 2], ids=["no Adobe marker", "CMYK", "YCCK"])
def test_8_four_inks_stay_light(tmp_path: Path, marker: int | None) -> None:
    """The means of stored samples that another decoder turned nearly black."""
    path = tmp_path / "inks.jpg"
    stored = (171, 214, 143, 210)
    inks = Image.new("CMYK", (64, 64), tuple(255 - value for value in stored))
    if marker == 2:
        # Y, Cb and Cr of the inks; Pillow stores all four inverted, which K alone has to be.
        *coloured, black = inks.split()
        others = Image.merge("RGB", coloured).convert("YCbCr").split()
        inks = Image.merge("CMYK", (*(ImageOps.invert(band) for band in others), black))
    path.write_bytes(with_adobe_marker(encoded(inks, "JPEG", quality=100), marker))
    mean = pixels(prepare_image(path)).mean()
    with Image.open(path) as source:
        assert abs(mean - pixels(source).mean()) < 2
    assert 140 < mean < 190, "nearly black in decoders that forget that the inks are inverted"


def hidden_text() -> Image.Image:
    image = Image.new("L", (120, 40), 255)
    ImageDraw.Draw(image).text((10, 12), "SECRET", fill=0)
    return image


@pytest.mark.parametrize("form", ["RGBA", "LA", "P", "L", "RGB", "WebP", "GIF"])
def test_9_hidden_text_stays_hidden(tmp_path: Path, form: str) -> None:
    """Text whose pixels are all transparent must not be readable in what is sent."""
    path = tmp_path / "hidden"
    text = hidden_text()
    clear = Image.new("L", text.size, 0)
    if form in ("RGBA", "WebP"):
        image = Image.merge("RGBA", (text, text, text, clear))
        image.save(path, "WEBP" if form == "WebP" else "PNG", lossless=True, exact=True)
    elif form == "LA":
        Image.merge("LA", (text, clear)).save(path, "PNG")
    elif form in ("P", "GIF"):
        palette = text.point(lambda value: value > 128).convert("L")
        image = Image.new("P", text.size)
        image.putpalette([0, 0, 0, 255, 255, 255])
        image.putdata([int(value > 0) for value in palette.tobytes()])
        # Both colours are transparent in the PNG; the text's in the GIF, on white.
        image.save(
            path, form if form == "GIF" else "PNG", transparency=0 if form == "GIF" else b"\0\0"
        )  # noqa: E501
    else:
        # Only one colour can be transparent: that of the text.
        text.point(lambda value: 0 if value < 255 else 255).convert(form).save(
            path, "PNG", transparency=0 if form == "L" else (0, 0, 0)
        )
    assert (pixels(prepare_image(path)) == 255).all()


def test_10_sixteen_bits(tmp_path: Path) -> None:
    """Transparent becomes white, half a red pink, and a ramp stays a ramp."""

    def write(color: int, samples: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Path:
        path = tmp_path / "deep.png"
        height, width = samples.shape[:2]
        rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
        header = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + png_chunk(b"IHDR", header)
            + png_chunk(b"IDAT", zlib.compress(rows))
            + png_chunk(b"IEND", b"")
        )
        return path

    both = np.array([[[9, 9, 9, 0], [65535, 0, 0, 32768]]])
    assert pixels(prepare_image(write(6, both))).tolist() == [[[255] * 3, [255, 127, 127]]]
    ramp = np.linspace(0, 65535, 256).round().astype(np.int64)[None, :, None].repeat(4, 0)
    assert (pixels(prepare_image(write(0, ramp)))[0, :, 0] == np.arange(256)).all()


def test_11_mpo_is_its_first_frame(tmp_path: Path) -> None:
    path = tmp_path / "camera.jpg"
    first = bars(96, 64)
    second = Image.new("RGB", (96, 64), BLUE)
    first.save(path, "MPO", save_all=True, append_images=[second], exif=exif(6), quality=95)
    assert path.read_bytes().count(b"\xff\xd8\xff") > 1
    image = prepare_image(path)
    assert (image.width, image.height) == (64, 96)
    assert near(colour(image, 0.5, 0.05), RED)
    assert image.data.count(b"\xff\xd8\xff") == 1
    assert not (np.abs(pixels(image) - BLUE).max(-1) < 40).any(), "nothing of the second frame"


def test_12_no_gps_and_nothing_else_about_the_taker(tmp_path: Path) -> None:
    place = Image.Exif()
    place[0x010F] = "CameraMaker"
    place.get_ifd(0x8825)[1] = "N"
    place.get_ifd(0x8825)[2] = (48.0, 8.0, 14.0)
    jpeg = encoded(bars(96, 64), "JPEG", exif=place, comment=b"secret comment")
    extra = [
        jpeg_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta>secret</x:xmpmeta>"),
        jpeg_segment(0xED, b"Photoshop 3.0\08BIM\x04\x04secret"),
        jpeg_segment(0xEB, b"JP\0\0jumb c2pa secret"),
    ]
    png = with_png_chunks(
        encoded(bars(96, 64), "PNG"),
        png_chunk(b"tEXt", b"Comment\0secret"),
        png_chunk(b"eXIf", tiff(1)),
        png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0secret"),
    )
    webp = encoded(bars(96, 64), "WEBP", exif=place, xmp=b"<x:xmpmeta>secret</x:xmpmeta>")
    files = {
        "a.jpg": with_jpeg_segments(jpeg, *extra) + b"secret after the end",
        "a.png": png + b"secret after the end",
        "a.webp": webp,
    }
    for name, data in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert b"secret" in data
        for policy in (ImagePolicy(), ImagePolicy(max_long_edge=40)):
            sent = prepare_image(path, policy=policy).data
            for word in (
                b"Exif",
                b"eXIf",
                b"tEXt",
                b"iTXt",
                b"secret",
                b"CameraMaker",
                b"xmp",
                b"8BIM",
            ):  # noqa: E501
                assert word not in sent, (name, word)


def test_13_huge_photos_are_made_smaller_without_being_asked(tmp_path: Path) -> None:
    path = tmp_path / "huge.jpg"
    Image.new("RGB", (6000, 4000), RED).save(path)
    image = prepare_image(path)
    assert max(image.width, image.height) <= 2048
    assert abs(image.width / image.height - 1.5) < 0.01


def test_14_both_sizes_are_told_and_nothing_is_enlarged(tmp_path: Path) -> None:
    path = tmp_path / "small.jpg"
    bars(64, 48).save(path)
    image = prepare_image(path, policy=ImagePolicy(max_long_edge=1000))
    assert (image.width, image.height) == (64, 48)
    smaller = prepare_image(path, policy=ImagePolicy(max_long_edge=32))
    info = inspect_image(path)
    assert (smaller.width, smaller.height) == (32, 24)
    assert (smaller.original_width, smaller.original_height) == (64, 48)
    assert (image.scale, smaller.scale) == (1.0, 0.5)
    assert (info.width, info.height) == (64, 48)


def test_15_a_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + b"\0" * 64)
    with pytest.raises(fm.ImageTooLargeError, match="60000 x 60000") as caught:
        inspect_image(path)
    assert str(path) in str(caught.value)


def test_16_a_body_too_large_is_said_so(
    tmp_path: Path, model: Callable[..., fm.ChatCompletionsLanguageModel]
) -> None:
    path = tmp_path / "picture.jpg"
    bars(96, 64).save(path)

    async def ask() -> None:
        session = fm.LanguageModelSession(model=model("too-large"))
        await session.respond([fm.ImageAttachment(path)])

    with pytest.raises(fm.RequestTooLargeError):
        asyncio.run(ask())


def test_every_orientation_looks_alike(tmp_path: Path) -> None:
    """Eight files of one picture, each stored as its tag says: all come out the same."""
    upright = natural(96, 64)
    inverse = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}
    for orientation, undo in inverse.items():
        stored = upright.copy()
        stored.getexif()[0x0112] = undo
        stored = ImageOps.exif_transpose(
            Image.open(io.BytesIO(encoded(upright, "PNG", exif=tiff(undo))))
        )  # noqa: E501
        path = tmp_path / f"{orientation}.png"
        stored.save(path, exif=tiff(orientation))
        assert farthest(prepare_image(path), upright) == 0
