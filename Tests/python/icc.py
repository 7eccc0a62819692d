"""Small ICC profiles made from numbers, for tests of colour.

Source of the layout: ICC.1:2022. Colorants are those that the profiles of these names publish,
adapted to D50.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

D50: Final = (0.9642, 1.0, 0.8249)
DISPLAY_P3: Final = (
    (0.51512, 0.24120, -0.00105),
    (0.29198, 0.69225, 0.04189),
    (0.15710, 0.06657, 0.78407),
)
ADOBE_RGB: Final = (
    (0.60974, 0.31111, 0.01947),
    (0.20528, 0.62567, 0.06087),
    (0.14919, 0.06322, 0.74457),
)
# Function type 3 of a parametric curve: sRGB's own.
SRGB_CURVE: Final = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)


def fixed(value: float) -> bytes:
    return struct.pack(">i", round(value * 65536))


def xyz(values: tuple[float, float, float]) -> bytes:
    return b"XYZ \0\0\0\0" + b"".join(map(fixed, values))


def gamma(value: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256)) + b"\0\0"


def parametric(values: tuple[float, ...]) -> bytes:
    return b"para\0\0\0\0" + struct.pack(">HH", 3, 0) + b"".join(map(fixed, values))


def profile(kind: bytes, space: bytes, connection: bytes, tags: dict[bytes, bytes]) -> bytes:
    text = b"".join(bytes([0, letter]) for letter in b"test")
    name = b"mluc\0\0\0\0" + struct.pack(">II2s2sII", 1, 12, b"en", b"US", len(text), 28) + text
    tags = {b"desc": name, b"cprt": name, b"wtpt": xyz(D50), **tags}
    offset = 128 + 4 + 12 * len(tags)
    table, body = struct.pack(">I", len(tags)), b""
    for tag, data in tags.items():
        table += struct.pack(">4sII", tag, offset + len(body), len(data))
        body += data + b"\0" * (-len(data) % 4)
    header = struct.pack(
        ">I4sI4s4s4s12s4s4sIIIQI12s4s44s",
        offset + len(body), b"\0\0\0\0", 0x04200000, kind, space, connection, b"\0" * 12,
        b"acsp", b"\0\0\0\0", 0, 0, 0, 0, 0, b"".join(map(fixed, D50)), b"\0\0\0\0", b"\0" * 44,
    )  # fmt: skip
    return header + table + body


def matrix_profile(
    colorants: tuple[tuple[float, float, float], ...], curve: bytes | None = None
) -> bytes:
    curve = curve or parametric(SRGB_CURVE)
    tags = dict(zip((b"rXYZ", b"gXYZ", b"bXYZ"), map(xyz, colorants), strict=True))
    return profile(
        b"mntr", b"RGB ", b"XYZ ", {**tags, b"rTRC": curve, b"gTRC": curve, b"bTRC": curve}
    )


def display_p3() -> bytes:
    return matrix_profile(DISPLAY_P3)


def adobe_rgb() -> bytes:
    return matrix_profile(ADOBE_RGB, gamma(563 / 256))


def gray_profile(exponent: float) -> bytes:
    return profile(b"mntr", b"GRAY", b"XYZ ", {b"kTRC": gamma(exponent)})


def cmyk_profile() -> bytes:
    """Inks that mix like filters, each with a tint of its own: a table of 5 steps an ink."""
    steps = np.linspace(0, 1, 5)
    c, m, y, k = np.meshgrid(steps, steps, steps, steps, indexing="ij")
    lightness = 100 * (1 - 0.45 * c) * (1 - 0.55 * m) * (1 - 0.1 * y) * (1 - 0.9 * k)
    a = (-35 * c + 70 * m - 5 * y) * (1 - k)
    b = (-50 * c - 5 * m + 90 * y) * (1 - k)
    lab = np.stack([lightness * 2.55, a + 128, b + 128], -1).round().clip(0, 255).astype(np.uint8)
    line = bytes(range(256))
    matrix = b"".join(fixed(value) for value in (1, 0, 0, 0, 1, 0, 0, 0, 1))
    table = b"mft1\0\0\0\0" + bytes([4, 3, 5, 0]) + matrix + line * 4 + lab.tobytes() + line * 3
    return profile(b"prtr", b"CMYK", b"Lab ", {b"A2B0": table})
