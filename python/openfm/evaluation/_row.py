"""One row of a result: a case, asked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import FoundationModelsError
from ._scorers import Score
from ._values import plain

__all__ = ["Row", "RowError", "TokenCounts"]


@dataclass(frozen=True)
class RowError:
    """Why a row has no answer: the error's class and message, and the library's status code."""

    kind: str
    message: str
    code: int | None = None

    @classmethod
    def of(cls, error: BaseException) -> RowError:
        code = error.code if isinstance(error, FoundationModelsError) else None
        return cls(type(error).__name__, str(error) or type(error).__name__, code)


@dataclass(frozen=True)
class TokenCounts:
    """Tokens as the server counted them; None where it did not."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None


@dataclass
class Row:
    """What became of a case. ``answer`` is text or a structured value; None where ``error`` is not.

    ``key`` and ``repeat`` tell it from the others; ``index`` is the case's place, from 0.
    ``scores`` are by the scorers' names; a scorer that failed on the row is in ``score_errors``.
    ``seconds`` is the time of the attempt that was answered, waiting for a turn not included;
    ``images`` tells the pictures' paths, identity and size. ``cached``: nothing was sent for it.
    """

    key: str
    index: int
    case: Mapping[str, Any]
    repeat: int = 0
    seed: int | None = None
    prompt: str | None = None
    images: list[dict[str, Any]] = field(default_factory=list)
    answer: Any = None
    error: RowError | None = None
    scores: dict[str, Score] = field(default_factory=dict)
    score_errors: dict[str, str] = field(default_factory=dict)
    tokens: TokenCounts = field(default_factory=TokenCounts)
    finish_reason: str | None = None
    model: str | None = None
    seconds: float | None = None
    attempts: int = 0
    cached: bool = False
    #: The fingerprints of the scorers that gave the scores, by name.
    scored_with: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.error is not None

    def score(self, name: str) -> float | None:
        """The value of a score; None where there is none."""
        found = self.scores.get(name)
        return None if found is None else found.value

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON values, as the journal holds it."""
        members: dict[str, Any] = {
            "key": self.key,
            "index": self.index,
            "repeat": self.repeat,
            "seed": self.seed,
            "case": plain(self.case),
            "prompt": self.prompt,
            "images": self.images,
            "answer": plain(self.answer, "the answer"),
            "error": None if self.error is None else vars(self.error),
            "scores": {
                name: {
                    member: plain(value)
                    for member, value in vars(score).items()
                    if member == "value" or value not in (None, {})
                }
                for name, score in self.scores.items()
            },
            "score_errors": self.score_errors,
            "tokens": vars(self.tokens),
            "finish_reason": self.finish_reason,
            "model": self.model,
            "seconds": self.seconds,
            "attempts": self.attempts,
            "cached": self.cached,
            "scored_with": self.scored_with,
        }
        return members

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> Row:
        """Raises KeyError, TypeError or ValueError for what ``to_dict`` did not write."""
        error = members["error"]
        return cls(
            key=str(members["key"]),
            index=int(members["index"]),
            case=dict(members["case"]),
            repeat=int(members["repeat"]),
            seed=members.get("seed"),
            prompt=members.get("prompt"),
            images=list(members.get("images") or ()),
            answer=members["answer"],
            error=None if error is None else RowError(**error),
            scores={name: Score(**score) for name, score in members["scores"].items()},
            score_errors=dict(members.get("score_errors") or {}),
            tokens=TokenCounts(**members["tokens"]),
            finish_reason=members.get("finish_reason"),
            model=members.get("model"),
            seconds=members.get("seconds"),
            attempts=int(members.get("attempts", 1)),
            cached=bool(members.get("cached")),
            scored_with=dict(members.get("scored_with") or {}),
        )
