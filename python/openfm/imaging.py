"""Picture files: what they are, and what a model would be sent for them."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ._ctypes_bindings import FMImageCacheInfo, FMImageInfo, FMPreparedImageInfo, lib
from ._heif import offer_libraries
from ._native import Handle, encode, last_error
from .errors import InvalidArgumentError, InvalidImagePathError, InvalidOrientationError

__all__ = [
    "ImageCacheInfo",
    "ImageInfo",
    "ImagePolicy",
    "PreparedImage",
    "image_cache_clear",
    "image_cache_info",
    "inspect_image",
    "prepare_image",
    "set_image_limits",
]

_LIMITS: Final = ("max_long_edge", "max_short_edge", "max_pixels", "max_bytes")
_RANGES: Final = {
    **dict.fromkeys(_LIMITS, (0, 2**62)),
    "side_multiple": (1, 1024),
    "quality": (1, 100),
}
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
    mime_type: str
    sha256: str


@dataclass(frozen=True)
class ImagePolicy:
    """What a model may be sent. None keeps what is beneath: an attachment's policy goes over its
    model's, a model's over the one that suits its name, and that over the default.

    ``max_long_edge``, ``max_short_edge``, ``max_pixels`` (width times height): a larger picture is
    made smaller, a smaller one is never enlarged. ``max_bytes``: of the encoded file; the quality
    is lowered as far as this demands, then the size. For these four, 0 is no limit.
    ``side_multiple``: pixels; both sides become multiples of it where a picture is scaled.
    ``formats``: which of "jpeg" and "png" may be sent. ``quality``: of JPEG, 1 to 100.
    ``background``: "#RRGGBB", what shows through transparency. ``metadata``: "strip", or "keep"
    for EXIF, XMP, IPTC and comments. ``verify``: whether a picture that can be passed through is
    checked to its last pixel first; without that, bytes hidden between the pixels go along.
    ``preset``: the policy of a family of models, such as "claude" or "qwen2-vl", that the other
    members change; InvalidArgumentError names them all.
    """

    max_long_edge: int | None = None
    max_short_edge: int | None = None
    max_pixels: int | None = None
    max_bytes: int | None = None
    side_multiple: int | None = None
    formats: Sequence[str] | None = None
    quality: int | None = None
    background: str | None = None
    metadata: str | None = None
    verify: bool | None = None
    preset: str | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if not least <= value <= most:
                raise ValueError(f"{name} must be from {least} to {most}, not {value}")
        if self.formats is not None:
            if isinstance(self.formats, str) or not isinstance(self.formats, Sequence):
                raise TypeError(f"formats must be a list, not {type(self.formats).__name__}")
            if not self.formats or not all(name in ("jpeg", "png") for name in self.formats):
                raise ValueError(f'formats must hold "jpeg", "png" or both, not {self.formats!r}')
            object.__setattr__(self, "formats", tuple(self.formats))
        for name in ("background", "metadata", "preset"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be a str, not {type(value).__name__}")
        if self.background is not None and not _COLOUR.match(self.background):
            raise ValueError(f'background must look like "#RRGGBB", not {self.background!r}')
        if self.metadata not in (None, "strip", "keep"):
            raise ValueError(f'metadata must be "strip" or "keep", not {self.metadata!r}')
        if self.verify is not None and not isinstance(self.verify, bool):
            raise TypeError(f"verify must be a bool, not {type(self.verify).__name__}")
        if self.preset is not None:
            _check_preset(self.preset)

    def to_dict(self) -> dict[str, Any]:
        """The library's policy JSON as a dict, without what is None."""
        return {
            name: list(value) if name == "formats" else value
            for name, value in vars(self).items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> ImagePolicy:
        """The policy of a model's description, where a limit of None is none at all."""
        known: dict[str, Any] = {
            name: 0 if value is None and name in _LIMITS else value
            for name, value in members.items()
        }
        return cls(**known)


@dataclass(frozen=True)
class PreparedImage:
    """A picture as a model is sent it: upright, without transparency and metadata.

    ``data`` is the encoded file, ``sha256`` its hash. ``original_width`` and ``original_height``
    are upright too, and ``scale`` is the number of sent pixels for one of the original.
    ``orientation`` is the one that was found, which the pixels have taken over. ``action`` tells
    what was done: "passthrough" kept the stored pixels, "lossless-turn" kept and turned them,
    "re-encoded" did not keep them. ``warning_count`` counts oddities of the file that were passed
    over because they harm nothing: bytes between a JPEG's segments, markers that contradict each
    other, EXIF or a colour profile that cannot be read. Damage to the picture itself is an error.
    """

    data: bytes = field(repr=False)
    mime_type: str
    width: int
    height: int
    original_width: int
    original_height: int
    scale: float
    orientation: int
    action: str
    sha256: str
    warning_count: int = 0

    def __repr__(self) -> str:
        return (
            f"PreparedImage({self.mime_type}, {self.width}x{self.height} from "
            f"{self.original_width}x{self.original_height}, {len(self.data)} bytes, {self.action})"
        )

    def __len__(self) -> int:
        return len(self.data)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        text = {"text/plain": repr(self)}
        if self.mime_type not in ("image/jpeg", "image/png"):
            return text
        return {**text, self.mime_type: base64.b64encode(self.data).decode("ascii")}


@dataclass(frozen=True)
class ImageCacheInfo:
    """What the memory of prepared pictures holds, and has done since it was last cleared.

    ``hits`` are preparations that were not needed, ``misses`` those that were made, ``evictions``
    pictures dropped to stay within ``byte_limit``.
    """

    count: int
    byte_count: int
    byte_limit: int
    hits: int
    misses: int
    evictions: int


def prepare_image(
    path: str | os.PathLike[str],
    orientation: int | None = None,
    policy: ImagePolicy | None = None,
    *,
    expected_sha256: str | None = None,
) -> PreparedImage:
    """What a model would be sent for the picture at ``path``, by ``policy`` over the default.

    ``orientation`` 1 to 8 replaces the file's own. ``expected_sha256`` makes it an
    ImageChangedError when the file holds other bytes. Raises an ImagePromptError. Reads, decodes
    and encodes: some 50 ms for a 12-megapixel photo, during which other threads run; the same
    picture again costs reading it.
    """
    with Handle(
        lib.FMImagePrepare(
            encode_path(path),
            check_orientation(orientation),
            encode_policy(policy),
            None if expected_sha256 is None else expected_sha256.encode("ascii"),
            None,
            None,
        )
    ) as image:
        length = ctypes.c_size_t()
        address = lib.FMPreparedImageGetBytes(image.address, ctypes.byref(length))
        info = FMPreparedImageInfo()
        if not address or not lib.FMPreparedImageGetInfo(image.address, ctypes.byref(info)):
            raise last_error()
        return PreparedImage(
            data=ctypes.string_at(address, length.value),
            mime_type=info.mimeType.decode("ascii"),
            width=info.width,
            height=info.height,
            original_width=info.originalWidth,
            original_height=info.originalHeight,
            scale=info.scale,
            orientation=info.orientation,
            action=info.action.decode("ascii"),
            sha256=info.sha256.decode("ascii"),
            warning_count=info.warningCount,
        )


def image_cache_info() -> ImageCacheInfo:
    """What the memory of prepared pictures holds and has done."""
    info = FMImageCacheInfo()
    if not lib.FMImageCacheGetInfo(ctypes.byref(info)):
        raise last_error()
    return ImageCacheInfo(
        count=info.count,
        byte_count=info.byteCount,
        byte_limit=info.byteLimit,
        hits=info.hits,
        misses=info.misses,
        evictions=info.evictions,
    )


def image_cache_clear() -> None:
    """Forgets every prepared picture and sets the counters to zero."""
    lib.FMImageCacheClear()


def _check_preset(name: str) -> None:
    """Raises InvalidArgumentError for a name that is no preset.

    The library has their table, and looks at the policy before the path. No file is opened: an
    empty path is none.
    """
    policy = json.dumps({"preset": name}).encode("ascii")
    if not lib.FMImagePrepare(b"", 0, policy, None, None, None):
        error = last_error()
        if isinstance(error, InvalidArgumentError):
            raise error


def encode_policy(policy: ImagePolicy | None, name: str = "policy") -> bytes | None:
    """The policy as the library takes it."""
    if policy is None:
        return None
    if not isinstance(policy, ImagePolicy):
        raise TypeError(f"{name} must be an ImagePolicy, not {type(policy).__name__}")
    return json.dumps(policy.to_dict()).encode()


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
        mime_type=info.mimeType.decode("ascii"),
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
        # Another text would be the path of another file.
        remedy = "the name is not in UTF-8: rename the file"
        return encode(text, f"the path {text!r}", InvalidImagePathError, remedy)
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
