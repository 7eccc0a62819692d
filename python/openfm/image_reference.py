"""Pictures that a model names."""

from __future__ import annotations

from typing import Any

from ._ctypes_bindings import lib
from ._native import Handle, encode, last_error, take_json
from .errors import ImageReferenceError
from .generable_utils import generable
from .generation_guide import guide
from .prompt import ImageAttachment

__all__ = ["ImageReference"]


@generable("One of the attached pictures.")
class ImageReference:
    """A picture that a model names by its label, in a guided answer or in a tool's arguments.

    While an answer is guided, only labels that are really attached can be named: in this prompt, in
    an earlier one, or in the instructions. A schema that asks for a reference where no attached
    picture has a label raises UnsupportedGuideError. ::

        @fm.generable
        class Choice:
            picture: fm.ImageReference
            reason: str

        choice = await session.respond(
            ["Which is sharper?", fm.ImageAttachment("a.jpg", "first"),
             fm.ImageAttachment("b.jpg", "second")], generating=Choice)
        print(choice.picture.resolved(session).path)
    """

    attachment_label: str = guide("The label of the picture.")

    def resolved(self, transcript: Any) -> ImageAttachment:
        """The newest attachment of that label in a session, or in its transcript. Raises
        ImageReferenceError, which has the ``labels`` there are."""
        label = encode(self.attachment_label, "the label", ImageReferenceError)
        details = take_json(
            lib.FMLanguageModelSessionCopyAttachmentJSON(_session(transcript), label, None, None)
        )
        if details is None:
            raise last_error()
        path = details["path"]
        if path is None:
            raise ImageReferenceError(
                f"the picture {self.attachment_label!r} was attached without a path",
                details={"label": self.attachment_label},
            )
        return ImageAttachment(path, self.attachment_label)


ImageReference._generable_json_names = {  # type: ignore[attr-defined]
    "attachment_label": "attachmentLabel"
}


def _session(transcript: Any) -> int:
    """The C library's session of a session or transcript, borrowed."""
    handle = getattr(transcript, "_handle", None)
    if isinstance(handle, Handle):
        return handle.address
    pointer = getattr(transcript, "session_ptr", None)
    if isinstance(pointer, Handle):
        return pointer.address
    if isinstance(pointer, int):
        return pointer
    raise TypeError(
        f"resolved() takes a LanguageModelSession or a Transcript, not {type(transcript).__name__}"
    )
