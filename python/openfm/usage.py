"""What a request cost, as the server counted it. A count that nobody gave is None, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

__all__ = [
    "Attempt",
    "InputUsage",
    "OutputUsage",
    "Response",
    "ResponseMetadata",
    "ResponseWarning",
    "SentImage",
    "Usage",
]

_Content = TypeVar("_Content")


@dataclass(frozen=True)
class InputUsage:
    """Tokens of the prompt; ``cached`` of them came from the server's cache."""

    total: int | None
    cached: int | None


@dataclass(frozen=True)
class OutputUsage:
    """Tokens of the answer; ``reasoning`` of them were thought and not said."""

    total: int | None
    reasoning: int | None


@dataclass(frozen=True)
class Usage:
    """Token counts of one response, or of a session so far."""

    input: InputUsage
    output: OutputUsage


@dataclass(frozen=True)
class SentImage:
    """A picture as it was sent, in the words of ``PreparedImage``. Sizes are upright, in pixels."""

    label: str | None
    original_width: int
    original_height: int
    width: int
    height: int
    scale: float
    orientation: int
    byte_count: int
    mime_type: str
    action: str


@dataclass(frozen=True)
class Attempt:
    """One attempt of a request. ``seconds`` until the head of its answer, or its failure; ``error``
    names the kind of failure, None for the attempt that was answered; ``delay`` is the wait before
    the next attempt, in seconds."""

    seconds: float
    http_status: int | None
    error: str | None
    message: str | None
    delay: float | None


class ResponseWarning(UserWarning):
    """An answer is complete, but something about it looks wrong."""


@dataclass(frozen=True)
class ResponseMetadata:
    """What is known about a response beside its content."""

    usage: Usage
    finish_reason: str | None
    images: tuple[SentImage, ...]
    #: The served model's name, where the server tells it.
    model: str | None = None
    #: Seconds from the start of the request to the first piece of text; None without any text.
    first_text_seconds: float | None = None
    total_seconds: float | None = None
    #: What the server told beside the answer: ``id``, ``model``, ``timings`` and the like.
    server: Mapping[str, Any] = field(default_factory=dict)
    #: All attempts of the request; the last one was answered.
    attempts: tuple[Attempt, ...] = ()
    #: The headers in which the server told how much may still be asked for, names in lower case.
    rate_limits: Mapping[str, str] = field(default_factory=dict)
    #: What looks wrong though the answer is complete: that the server seems to have read only a
    #: part of the prompt. Each is also given to Python's ``warnings``, as a ``ResponseWarning``.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Response(Generic[_Content]):
    """An answer with what is known about it: what ``LanguageModelSession.respond_full`` returns."""

    content: _Content
    metadata: ResponseMetadata

    @property
    def usage(self) -> Usage:
        """Tokens, as the server counted them."""
        return self.metadata.usage

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended: "stop", "length" and the like; None where nobody told."""
        return self.metadata.finish_reason

    def _repr_html_(self) -> str:
        """For notebooks: the answer, and what it cost. What the model said stays text."""
        from ._html import escape, quote

        known = {
            "model": self.metadata.model,
            "tokens in": self.usage.input.total,
            "tokens out": self.usage.output.total,
            "finish reason": self.finish_reason,
        }
        facts = ", ".join(f"{name}: {value}" for name, value in known.items() if value is not None)
        return f"{quote(self.content)}<small>{escape(facts)}</small>"


def usage_from(members: Mapping[str, Any]) -> Usage:
    incoming, outgoing = members["input"], members["output"]
    return Usage(
        InputUsage(incoming["total"], incoming["cached"]),
        OutputUsage(outgoing["total"], outgoing["reasoning"]),
    )


def metadata_from(members: Mapping[str, Any]) -> ResponseMetadata:
    return ResponseMetadata(
        usage=usage_from(members["usage"]),
        finish_reason=members.get("finish_reason"),
        images=tuple(
            SentImage(
                label=image.get("label"),
                original_width=image["original_width"],
                original_height=image["original_height"],
                width=image["width"],
                height=image["height"],
                scale=image["scale"],
                orientation=image["orientation"],
                byte_count=image["byte_count"],
                mime_type=image["mime_type"],
                action=image["action"],
            )
            for image in members.get("images") or ()
        ),
        model=members.get("model"),
        first_text_seconds=members["seconds"]["first_text"],
        total_seconds=members["seconds"]["total"],
        server=members["server"],
        attempts=attempts_from(members),
        rate_limits=members["rate_limits"],
        warnings=tuple(members["warnings"]),
    )


def attempts_from(members: Mapping[str, Any]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            seconds=attempt["seconds"],
            http_status=attempt["http_status"],
            error=attempt["error"],
            message=attempt["message"],
            delay=attempt["delay"],
        )
        for attempt in members.get("attempts") or ()
    )
