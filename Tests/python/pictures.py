"""Pictures to try, and how near two of them are; for all tests of pictures."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import Image, ImageCms, ImageOps

if TYPE_CHECKING:
    # Seeds of the fuzz targets are made without the library.
    from openfm.imaging import PreparedImage

Pixels = np.ndarray[Any, np.dtype[np.float64]]


def tiff(orientation: int, big: bool = False) -> bytes:
    """A TIFF block whose only entry is the orientation."""
    order = ">" if big else "<"
    return (b"MM\0*" if big else b"II*\0") + struct.pack(
        order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0
    )


def exif(orientation: int, big: bool = False) -> bytes:
    return b"Exif\0\0" + tiff(orientation, big)


def natural(width: int, height: int, seed: int = 1) -> Image.Image:
    """Smooth noise of three sizes: no two corners are alike."""
    random = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for size, weight in ((64, 0.5), (16, 0.3), (5, 0.2)):
        grid = random.uniform(0, 255, (height // size + 3, width // size + 3, 3)).astype(np.uint8)
        big = Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC)
        total += weight * np.asarray(big, float)
    return Image.fromarray(total.clip(0, 255).astype(np.uint8))


def pixels(image: Image.Image | PreparedImage) -> Pixels:
    if not isinstance(image, Image.Image):
        image = Image.open(io.BytesIO(image.data))
    return np.asarray(image.convert("RGB"), np.float64)


def farthest(a: Image.Image | PreparedImage, b: Image.Image | PreparedImage) -> float:
    """The largest difference of one sample, in levels of 255."""
    first, second = pixels(a), pixels(b)
    assert first.shape == second.shape
    return float(np.abs(first - second).max())


def psnr(a: Image.Image | PreparedImage, b: Image.Image | PreparedImage) -> float:
    first, second = pixels(a), pixels(b)
    assert first.shape == second.shape
    return float(10 * np.log10(255**2 / max(((first - second) ** 2).mean(), 1e-9)))


def pillow_jpeg(image: Image.Image, subsampling: str = "4:2:0", quality: int = 85) -> Image.Image:
    """What Pillow makes of the same pixels at the same quality."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, subsampling=subsampling)
    return Image.open(buffer)


def on_white(image: Image.Image) -> Image.Image:
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def to_srgb(image: Image.Image) -> Image.Image:
    """The picture in sRGB, as ImageCms has it; alpha is kept."""
    icc = image.info.get("icc_profile")
    if not icc:
        return image
    alpha = image.getchannel("A") if "A" in image.getbands() else None
    base = image.convert("RGB") if alpha or image.mode == "P" else image
    converted = cast(
        Image.Image,
        ImageCms.profileToProfile(
            base,
            ImageCms.ImageCmsProfile(io.BytesIO(icc)),
            ImageCms.createProfile("sRGB"),
            outputMode="RGB",
        ),
    )
    if alpha:
        converted.putalpha(alpha)
    return converted


def oracle(path: Any) -> Image.Image:
    """What Pillow alone makes of the file: upright, sRGB, on white."""
    with Image.open(path) as source:
        return on_white(to_srgb(ImageOps.exif_transpose(source)))


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_png_chunks(png: bytes, *chunks: bytes) -> bytes:
    """The PNG with chunks right after its header."""
    return png[:33] + b"".join(chunks) + png[33:]


def iccp(profile: bytes) -> bytes:
    return png_chunk(b"iCCP", b"test\0\0" + zlib.compress(profile))


def jpeg_segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def with_jpeg_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """The JPEG with segments right after its first marker."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def passed_through(image: PreparedImage) -> bool:
    """Whether the stored pixels are sent bit for bit."""
    return image.action == "passthrough"


def with_adobe_marker(jpeg: bytes, transform: int | None) -> bytes:
    """The JPEG with that number in Adobe's segment, or without the segment."""
    start = jpeg.index(b"\xff\xee")
    (length,) = struct.unpack_from(">H", jpeg, start + 2)
    segment = jpeg[start : start + 2 + length]
    segment = b"" if transform is None else segment[:-1] + bytes([transform])
    return jpeg[:start] + segment + jpeg[start + 2 + length :]
