"""Text as HTML. Everything that a model or a file said goes through here before a notebook shows
it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["escape", "quote"]

# Control characters, lone surrogates, and those that turn the direction of what follows.
_UNSHOWN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def escape(text: object) -> str:
    """The text for between tags and in quoted attributes: no character of it is markup, and no
    control character reaches the page."""
    result = str(text)
    for character, written in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("'", "&#39;"),
        # Notebooks look for mathematics between these.
        ("$", "&#36;"),
    ):
        result = result.replace(character, written)
    return _UNSHOWN.sub("\ufffd", result)


def quote(text: object) -> str:
    """A model's words as a block that keeps their line breaks."""
    return f'<div style="white-space:pre-wrap;overflow-wrap:anywhere">{escape(text)}</div>'
