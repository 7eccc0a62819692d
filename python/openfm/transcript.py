"""What was said in a session."""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._ctypes_bindings import lib
from ._native import Handle, last_error, take_string
from .errors import DecodingFailureError

if TYPE_CHECKING:
    from .session import LanguageModelSession

__all__ = ["Transcript"]


class Transcript:
    """The transcript of a session: instructions and tools from the start, each turn once it is
    complete, nothing of a failed or cancelled one.

    Get it from ``session.transcript``, or read one with ``from_dict``; go on with it in
    ``LanguageModelSession.from_transcript``.
    """

    def __init__(self, session_ptr: Handle) -> None:
        """For the library's own use."""
        self._handle = session_ptr
        self._owner: weakref.ref[LanguageModelSession] | None = None

    @property
    def session_ptr(self) -> int:
        """The library's reference to the session that holds the transcript."""
        return self._handle.address

    def _update_session_ptr(self, session_ptr: Handle) -> None:
        self._handle = session_ptr

    async def to_dict(self) -> dict[str, Any]:
        """The transcript as it is exported: ``{"version", "type", "transcript": {"entries"}}``."""
        members: dict[str, Any] = json.loads(self.to_json())
        return members

    @classmethod
    async def from_dict(cls, data: Mapping[str, Any]) -> Transcript:
        """Reads an exported transcript, of this library or the reference. Pictures are read from
        their files or data; one that is gone is an error of the request that sends it. Raises
        DecodingFailureError with the place that is wrong."""
        if not isinstance(data, Mapping):
            raise TypeError(f"a transcript is read from a dict, not {type(data).__name__}")
        try:
            text = json.dumps(dict(data))
        except (TypeError, ValueError, RecursionError) as error:
            raise DecodingFailureError(f"the transcript is no JSON: {error}") from None
        return cls.from_json(text)

    def to_json(self, *, embed_attachments: bool = False) -> str:
        """The JSON text of ``to_dict``. Pictures are told by URL and SHA-256; with
        ``embed_attachments`` the files' bytes are in it, with their metadata, so that it stands
        without them."""
        text = take_string(
            lib.FMLanguageModelSessionCopyTranscriptJSON(
                self._handle.address, embed_attachments, None, None
            )
        )
        if text is None:
            raise last_error()
        return text

    @classmethod
    def from_json(cls, text: str | bytes) -> Transcript:
        """``from_dict`` for a JSON text, also for a file's bytes."""
        if not isinstance(text, (str, bytes, bytearray)):
            raise TypeError(f"a transcript is read from a JSON text, not {type(text).__name__}")
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        if b"\0" in data:
            raise DecodingFailureError("the transcript is no JSON: it holds a NUL")
        return cls(Handle(lib.FMTranscriptCreateFromJSONString(data, None, None)))

    def _repr_html_(self) -> str:
        """For notebooks: who said what. All of it stays text."""
        from ._html import escape, quote

        rows = []
        for entry in json.loads(self.to_json())["transcript"]["entries"]:
            said = [quote(_said(content)) for content in entry.get("contents") or ()]
            said += [
                quote(f"{call.get('name')}({call.get('arguments')})")
                for call in entry.get("toolCalls") or ()
            ]
            who = escape(entry.get("toolName") or entry.get("role"))
            rows.append(
                f'<tr><th style="vertical-align:top">{who}</th>'
                f'<td style="text-align:left">{"".join(said)}</td></tr>'
            )
        return f"<table>{''.join(rows)}</table>"

    def __repr__(self) -> str:
        return f"<Transcript of {len(json.loads(self.to_json())['transcript']['entries'])} entries>"


def _said(content: Mapping[str, Any]) -> str:
    """A segment of a transcript as text; a picture is told by its label or its address."""
    if content.get("type") == "text":
        return str(content.get("text", ""))
    if content.get("type") == "structure":
        value = (content.get("structure") or {}).get("content")
        return json.dumps(value, ensure_ascii=False)
    url = (content.get("attachment") or {}).get("url") or content.get("type")
    return f"[image: {content.get('label') or str(url).rpartition('/')[2]}]"
