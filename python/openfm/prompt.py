"""What a prompt is made of: text and attachments, in order."""

from __future__ import annotations

import asyncio
import os
import re
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Union

from ._ctypes_bindings import lib
from ._native import Handle, encode, last_error
from .errors import EmptyPromptError, InvalidLabelError, InvalidPromptTextError, PromptTypeError

if TYPE_CHECKING:
    # Loaded with the first picture: prompts of text alone do not wait for it.
    from .imaging import ImageInfo, ImagePolicy, PreparedImage

__all__ = [
    "Attachment",
    "ComposedPrompt",
    "ImageAttachment",
    "Prompt",
    "PromptComponent",
]


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Attachment(ABC):
    """Something that is not text in a prompt. A subclass says what it adds."""

    __slots__ = ()

    @abstractmethod
    def add_to_composed_prompt(self, composed_prompt: ComposedPrompt) -> None:
        """Adds this to a prompt that is being composed.

        Called once for each request, on a worker thread; what it raises, the request raises.
        """


PromptComponent = Union[str, Attachment]  # noqa: UP007


class ComposedPrompt:
    """The library's side of a prompt, while it is put together."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle = Handle(lib.FMComposedPromptInitialize())

    def add_text(self, text: str) -> None:
        """Appends text. Raises InvalidPromptTextError."""
        data = encode_text(text)
        if not lib.FMComposedPromptAddTextBytes(self.handle.address, data, len(data), None, None):
            raise last_error()

    def add_image(
        self,
        path: str | os.PathLike[str],
        label: str | None = None,
        *,
        orientation: int | None = None,
        policy: ImagePolicy | None = None,
        expected_sha256: str | None = None,
    ) -> None:
        """Appends the picture at ``path``: reads it, checks it, keeps its bytes.

        ``policy`` goes over that of the model it is sent to. ``expected_sha256`` makes it an
        ImageChangedError when the file holds other bytes. Raises an ImagePromptError.
        """
        from .imaging import check_orientation, encode_path, encode_policy

        if not lib.FMComposedPromptAddAttachmentWithPolicy(
            self.handle.address,
            encode_path(path),
            encode_label(label),
            check_orientation(orientation),
            encode_policy(policy),
            None if expected_sha256 is None else expected_sha256.encode("ascii"),
            None,
            None,
        ):
            raise last_error()


class ImageAttachment(Attachment):
    """A picture file in a prompt.

    The file is read and checked now: an ImagePromptError tells what is wrong with it. Only its path
    and identity are kept; the bytes are read again for each request, and a file that is gone or
    changed by then is an error of the request.

    ``label`` is a name by which the prompt and the model can refer to the picture. ``orientation``,
    an EXIF orientation from 1 to 8, replaces the file's own. ``policy`` goes over that of the model
    it is sent to. In a notebook it shows itself: a small picture and the facts.
    """

    __slots__ = ("_absolute", "_info", "_label", "_orientation", "_path", "_policy")

    def __init__(
        self,
        path: str | os.PathLike[str],
        label: str | None = None,
        *,
        orientation: int | None = None,
        policy: ImagePolicy | None = None,
    ) -> None:
        from .imaging import encode_policy, inspect_image, path_text

        text = path_text(path)
        encode_label(label)
        encode_policy(policy)
        self._policy = policy
        self._path = Path(text)
        self._label = label
        self._orientation = orientation
        self._info = inspect_image(text, orientation)
        # The working directory may be another one when the request is made.
        self._absolute = str(self._path.absolute())

    @property
    def path(self) -> Path:
        """The path as given."""
        return self._path

    @property
    def label(self) -> str | None:
        return self._label

    @property
    def info(self) -> ImageInfo:
        """What the file's header said when it was attached."""
        return self._info

    @property
    def width(self) -> int:
        """In pixels, upright."""
        return self._info.width

    @property
    def height(self) -> int:
        """In pixels, upright."""
        return self._info.height

    @property
    def orientation(self) -> int:
        """The EXIF orientation that holds: the given one, else the file's, else 1."""
        return self._info.orientation

    @property
    def mime_type(self) -> str:
        """By the file's first bytes, e.g. "image/jpeg"."""
        return self._info.mime_type

    @property
    def policy(self) -> ImagePolicy | None:
        """What was set for this picture over its model's policy."""
        return self._policy

    def prepare(self, policy: ImagePolicy | None = None) -> PreparedImage:
        """What a model would be sent: by ``policy`` (such as ``model.image_policy``) in place of
        the attachment's own, over the default.

        Reads the file again; one that has changed since is an ImageChangedError. Decodes and
        encodes, unless the same was prepared before: some 50 ms for a 12-megapixel photo.
        """
        from .imaging import prepare_image

        return prepare_image(
            self._absolute,
            self._orientation,
            self._policy if policy is None else policy,
            expected_sha256=self._info.sha256,
        )

    def add_to_composed_prompt(self, composed_prompt: ComposedPrompt) -> None:
        composed_prompt.add_image(
            self._absolute,
            self._label,
            orientation=self._orientation,
            policy=self._policy,
            expected_sha256=self._info.sha256,
        )

    def _key(self) -> tuple[object, ...]:
        return (
            self._absolute,
            self._label,
            self._orientation,
            self._policy,
            self._info.sha256,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ImageAttachment):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        parts = [repr(str(self._path))]
        if self._label is not None:
            parts.append(f"label={self._label!r}")
        if self._orientation is not None:
            parts.append(f"orientation={self._orientation}")
        if self._policy is not None:
            parts.append(f"policy={self._policy!r}")
        return f"ImageAttachment({', '.join(parts)})"

    def _repr_png_(self) -> bytes:
        from .imaging import ImagePolicy

        return self.prepare(ImagePolicy(max_long_edge=_THUMBNAIL_EDGE, formats=("png",))).data

    def _repr_html_(self) -> str:
        from html import escape

        from .imaging import ImagePolicy

        info = self._info
        small, sent = self.prepare(ImagePolicy(max_long_edge=_THUMBNAIL_EDGE)), self.prepare()
        facts = {
            "File": str(self._path),
            "Label": self._label,
            "Stored": f"{info.stored_width} x {info.stored_height} {info.mime_type},"
            f" {info.byte_count:,} bytes, orientation {info.orientation}",
            "Sent": f"{sent.width} x {sent.height} {sent.mime_type}, {len(sent.data):,} bytes,"
            f" scale {sent.scale:.3g}, {sent.action}",
            "SHA-256": info.sha256,
        }
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in facts.items()
            if text is not None
        )
        source = f"data:{small.mime_type};base64,{b64encode(small.data).decode('ascii')}"
        return (
            f'<img src="{source}" width="{small.width}" height="{small.height}"'
            f' alt="{escape(self._path.name)}"><table>{rows}</table>'
        )


# Of what a notebook shows of a picture; pixels of the longer side.
_THUMBNAIL_EDGE: Final = 256


# A list at run time. To a type checker a Sequence, because a list[str] is no list[PromptComponent],
# and among several kinds of list it finds none for a literal that mixes text and pictures.
Prompt = Union[str, Attachment, Sequence[PromptComponent]]  # noqa: UP007


def encode_text(text: str) -> bytes:
    """A text of a prompt in UTF-8; InvalidPromptTextError where it could not be sent whole."""
    return encode(text, "the text of the prompt", InvalidPromptTextError)


def encode_label(label: str | None) -> bytes | None:
    if label is None:
        return None
    if not isinstance(label, str):
        raise TypeError(f"label must be a str, not {type(label).__name__}")
    try:
        if not label:
            raise InvalidLabelError("the label of a picture is empty; leave it out to have none")
        text = encode(label, f"the label {label!r}", InvalidLabelError)
        if _CONTROL.search(label):
            raise InvalidLabelError(f"the label {label!r} holds control characters; use plain text")
        return text
    except InvalidLabelError as error:
        error.details["label"] = label
        raise


def check_prompt(prompt: Any) -> list[PromptComponent]:
    """The components of a prompt. Raises a PromptError for what is none.

    Reads no file. Nothing but a list is taken apart: the keys of a dict, the numbers in bytes and
    what a generator still holds are no prompts.
    """
    components = prompt if isinstance(prompt, list) else [prompt]
    for index, component in enumerate(components):
        if isinstance(component, str):
            encode_text(component)
        elif not isinstance(component, Attachment):
            if isinstance(prompt, list):
                what = f"item {index} of the prompt must be a str or an Attachment"
            else:
                what = "a prompt is a str, an Attachment or a list of those"
            raise PromptTypeError(f"{what}, not {type(component).__name__}{_hint(component)}")
    if not any(isinstance(c, Attachment) or c for c in components):
        raise EmptyPromptError("the prompt is empty: it holds no text and no attachment")
    return list(components)


def _hint(component: object) -> str:
    if isinstance(component, os.PathLike):
        return "; wrap the path in ImageAttachment(...)"
    if isinstance(component, (bytes, bytearray)):
        return "; decode it to str first"
    if isinstance(component, (tuple, set, frozenset)) or hasattr(component, "__next__"):
        return "; make it a list"
    return ""


async def compose(components: Sequence[PromptComponent]) -> Handle:
    """The composed prompt, owned by the caller.

    Where files are read, that happens on a worker thread: the loop goes on meanwhile. When the
    caller is cancelled then, the thread's result is released as soon as it is there.
    """
    if any(isinstance(component, Attachment) for component in components):
        return await asyncio.to_thread(compose_now, components)
    return compose_now(components)


def compose_now(components: Sequence[PromptComponent]) -> Handle:
    """The same without a thread: reads the files here."""
    composed = ComposedPrompt()
    try:
        for component in components:
            if isinstance(component, str):
                composed.add_text(component)
            else:
                component.add_to_composed_prompt(composed)
    except BaseException:
        composed.handle.release()
        raise
    return composed.handle
