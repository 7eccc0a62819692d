"""Picture files: what they are, and what a model would be sent for them."""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ._ctypes_bindings import FMImageInfo, lib
from ._heif import offer_libraries
from ._native import Handle, encode, last_error, take_json
from .errors import InvalidImagePathError, InvalidOrientationError

__all__ = [
    "ImageInfo",
    "ImagePolicy",
    "PreparedImage",
    "inspect_image",
    "prepare_image",
    "set_image_limits",
]

_COLOUR: Final = re.compile(r"#[0-9A-Fa-f]{6}\Z")


@dataclass(frozen=True)
class ImageInfo:
    """What a picture's header says. ``width`` and ``height`` are upright: after the turn that
    ``orientation`` asks for. ``sha256`` is of the file's bytes."""

    width: int
    height: int
    stored_width: int
    stored_height: int
    orientation: int
    byte_count: int
    media_type: str
    sha256: str


@dataclass(frozen=True)
class ImagePolicy:
    """What a model may be sent; None keeps the library's default.

    ``max_long_edge``: pixels; a longer picture is made smaller, a smaller one is never enlarged.
    ``quality``: of JPEG, 1 to 100. ``background``: "#RRGGBB", what shows through transparency.
    ``verify``: whether a picture that can be passed through is checked to its last pixel first.
    """

    max_long_edge: int | None = None
    quality: int | None = None
    background: str | None = None
    verify: bool | None = None

    def __post_init__(self) -> None:
        for name, most in (("max_long_edge", 2**31 - 1), ("quality", 100)):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if not 1 <= value <= most:
                raise ValueError(f"{name} must be from 1 to {most}, not {value}")
        if self.background is not None:
            if not isinstance(self.background, str):
                raise TypeError(f"background must be a str, not {type(self.background).__name__}")
            if not _COLOUR.match(self.background):
                raise ValueError(f'background must look like "#RRGGBB", not {self.background!r}')
        if self.verify is not None and not isinstance(self.verify, bool):
            raise TypeError(f"verify must be a bool, not {type(self.verify).__name__}")

    def to_dict(self) -> dict[str, Any]:
        """The library's policy JSON as a dict, without what is None."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class PreparedImage:
    """A picture as a model is sent it: upright, without transparency and metadata.

    ``data`` is the encoded file. ``route`` tells what was done: "passThrough" kept the stored
    pixels bit for bit, "reencoded" did not. The source size is upright too.
    """

    data: bytes
    width: int
    height: int
    source_width: int
    source_height: int
    media_type: str
    route: str

    def __repr__(self) -> str:
        return (
            f"PreparedImage({self.media_type}, {self.width}x{self.height} from "
            f"{self.source_width}x{self.source_height}, {len(self.data)} bytes, {self.route})"
        )


def prepare_image(
    path: str | os.PathLike[str],
    orientation: int | None = None,
    policy: ImagePolicy | None = None,
) -> PreparedImage:
    """What a model would be sent for the picture at ``path``.

    ``orientation`` 1 to 8 replaces the file's own. Raises an ImagePromptError. Reads, decodes and
    encodes: some 50 ms for a 12-megapixel photo, during which other threads run.
    """
    if policy is not None and not isinstance(policy, ImagePolicy):
        raise TypeError(f"policy must be an ImagePolicy, not {type(policy).__name__}")
    policy_json = None if policy is None else json.dumps(policy.to_dict()).encode()
    with Handle(
        lib.FMPreparedImageCreate(
            encode_path(path), check_orientation(orientation), policy_json, None, None
        )
    ) as image:
        length = ctypes.c_size_t()
        address = lib.FMPreparedImageGetBytes(image.address, ctypes.byref(length))
        info: Mapping[str, Any] = take_json(lib.FMPreparedImageCopyInfoJSON(image.address))
        return PreparedImage(
            data=ctypes.string_at(address, length.value) if address else b"",
            width=info["width"],
            height=info["height"],
            source_width=info["source_width"],
            source_height=info["source_height"],
            media_type=info["media_type"],
            route=info["route"],
        )


def inspect_image(path: str | os.PathLike[str], orientation: int | None = None) -> ImageInfo:
    """Reads and checks a picture file and tells what it is. Raises an ImagePromptError.

    Decodes no pixels, but reads the whole file: the cost is that of its SHA-256.
    """
    info = FMImageInfo()
    if not lib.FMImageInspect(
        encode_path(path), check_orientation(orientation), ctypes.byref(info), None, None
    ):
        raise last_error()
    return ImageInfo(
        width=info.width,
        height=info.height,
        stored_width=info.storedWidth,
        stored_height=info.storedHeight,
        orientation=info.orientation,
        byte_count=info.byteCount,
        media_type=info.mediaType.decode("ascii"),
        sha256=info.sha256.decode("ascii"),
    )


def set_image_limits(*, max_file_bytes: int | None = None, max_pixels: int | None = None) -> None:
    """How large a picture file may be for the rest of the process; None is the library's default.

    ``max_file_bytes`` is its size (256 MB), ``max_pixels`` its stored width x height (512 million).
    Both are checked before anything but the file is in memory; a larger one is an
    ImageTooLargeError.
    """
    for name, value in (("max_file_bytes", max_file_bytes), ("max_pixels", max_pixels)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, not {type(value).__name__}")
        if not 1 <= value < 2**63:
            raise ValueError(f"{name} must be from 1 to {2**63 - 1}, not {value}")
    if not lib.FMImageSetLimits(max_file_bytes or 0, max_pixels or 0, None, None):
        raise last_error()


def path_text(path: str | os.PathLike[str]) -> str:
    """The path as text. TypeError for anything but a str or an os.PathLike of one."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise TypeError(
            f"a picture is given by its path, a str or os.PathLike, not {type(path).__name__}; "
            "write bytes or a PIL image to a file first"
        )
    return text


def encode_path(path: str | os.PathLike[str]) -> bytes:
    """The path as the library takes it. Every picture comes by here, so HEIC is made ready too."""
    offer_libraries()
    text = path_text(path)
    if not text:
        raise InvalidImagePathError("the path of a picture is empty", text)
    try:
        return encode(text, f"the path {text!r}", InvalidImagePathError)
    except InvalidImagePathError as error:
        error.details["path"] = text
        raise


def check_orientation(orientation: int | None) -> int:
    """The orientation as the library takes it: 0 for the file's own."""
    if orientation is None:
        return 0
    if isinstance(orientation, bool) or not isinstance(orientation, int):
        raise TypeError(f"orientation must be an int, not {type(orientation).__name__}")
    if not 1 <= orientation <= 8:
        raise InvalidOrientationError(
            f"orientation must be an EXIF orientation from 1 to 8, not {orientation}"
        )
    return orientation
