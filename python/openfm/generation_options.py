"""How an answer is sampled, and how long it may get."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

__all__ = ["GenerationOptions", "SamplingMode", "SamplingModeType"]

_MAX_SEED: Final = 2**64 - 1
_MAX_INT: Final = 2**31 - 1


class SamplingModeType(str, Enum):
    """The kinds of sampling."""

    GREEDY = "greedy"
    RANDOM = "random"


@dataclass
class SamplingMode:
    """How the next token is chosen. Made by ``SamplingMode.greedy()`` or ``.random(...)``.

    ``top`` is top-k, a number of tokens; ``probability_threshold`` is top-p, 0 to 1; they exclude
    each other. ``seed`` makes random sampling repeatable where the server honours it.
    """

    mode_type: SamplingModeType
    top: int | None = None
    probability_threshold: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        self.validate()

    @classmethod
    def greedy(cls) -> SamplingMode:
        """Always the most likely token."""
        return cls(SamplingModeType.GREEDY)

    @classmethod
    def random(
        cls,
        top: int | None = None,
        probability_threshold: float | None = None,
        seed: int | None = None,
    ) -> SamplingMode:
        """A token by chance: among the ``top`` most likely, or among the most likely ones that
        together have ``probability_threshold``, or (neither given) as the server has it."""
        return cls(SamplingModeType.RANDOM, top, probability_threshold, seed)

    def validate(self) -> None:
        """Raises TypeError or ValueError for what no server could take."""
        if not isinstance(self.mode_type, SamplingModeType):
            raise TypeError(
                f"mode_type must be a SamplingModeType, not {type(self.mode_type).__name__}"
            )
        _check_integer("top", self.top, 1, _MAX_INT)
        _check_number("probability_threshold", self.probability_threshold, 0, 1)
        _check_integer("seed", self.seed, 0, _MAX_SEED)
        if self.top is not None and self.probability_threshold is not None:
            raise ValueError("top and probability_threshold exclude each other; give one of them")
        if self.mode_type is SamplingModeType.GREEDY and (
            self.top is not None or self.probability_threshold is not None or self.seed is not None
        ):
            raise ValueError(
                "greedy sampling takes no top, probability_threshold or seed; use "
                "SamplingMode.random(...)"
            )

    def to_dict(self) -> dict[str, Any]:
        """The members of the library's options JSON."""
        self.validate()
        members = {
            "mode": self.mode_type.value,
            "top_k": self.top,
            "top_p": self.probability_threshold,
            "seed": self.seed,
        }
        return {name: value for name, value in members.items() if value is not None}


@dataclass
class GenerationOptions:
    """What one request asks for; None leaves it to the server.

    ``temperature`` is a number of at least 0; ``maximum_response_tokens`` cuts the answer.
    ``tool_choice``: whether the model may call tools, must call one before it answers, or may not.
    ``reasoning_level``: how much the model thinks before it answers: "light", "moderate", "deep",
    or a word of the model's own; a model without ``capabilities.reasoning`` refuses the request.

    For guided answers: ``include_schema_in_prompt`` tells the model the schema in the prompt too
    (None: it does), and ``repair_attempts`` is how often (0 to 3) a model whose answer is not valid
    is told why and asked again, within the same request.
    """

    sampling: SamplingMode | None = None
    temperature: float | None = None
    maximum_response_tokens: int | None = None
    include_schema_in_prompt: bool | None = None
    repair_attempts: int | None = None
    tool_choice: Literal["allowed", "required", "disallowed"] | None = None
    reasoning_level: str | None = None

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raises TypeError or ValueError for what no server could take."""
        if self.sampling is not None:
            if not isinstance(self.sampling, SamplingMode):
                raise TypeError(
                    f"sampling must be a SamplingMode, not {type(self.sampling).__name__}; use "
                    "SamplingMode.greedy() or SamplingMode.random(...)"
                )
            self.sampling.validate()
        _check_number("temperature", self.temperature, 0, None)
        _check_integer("maximum_response_tokens", self.maximum_response_tokens, 1, _MAX_INT)
        _check_integer("repair_attempts", self.repair_attempts, 0, 3)
        include = self.include_schema_in_prompt
        if include is not None and not isinstance(include, bool):
            raise TypeError(
                f"include_schema_in_prompt must be a bool, not {type(include).__name__}"
            )
        if self.tool_choice not in (None, "allowed", "required", "disallowed"):
            raise ValueError(
                'tool_choice must be "allowed", "required", "disallowed" or None, not '
                f"{self.tool_choice!r}"
            )
        level = self.reasoning_level
        if level is not None and not isinstance(level, str):
            raise TypeError(f"reasoning_level must be a str, not {type(level).__name__}")
        if level == "":
            raise ValueError('reasoning_level must not be empty; use "light", "moderate" or "deep"')

    def to_dict(self) -> dict[str, Any]:
        """The library's options JSON as a dict, without what is None. Checks the values again,
        since the fields can be assigned to."""
        self.validate()
        members = {
            "sampling": None if self.sampling is None else self.sampling.to_dict(),
            "temperature": self.temperature,
            "maximum_response_tokens": self.maximum_response_tokens,
            "include_schema_in_prompt": self.include_schema_in_prompt,
            "repair_attempts": self.repair_attempts,
            "tool_choice": self.tool_choice,
            "reasoning_level": self.reasoning_level,
        }
        return {name: value for name, value in members.items() if value is not None}


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if value is None:
        return
    # bool is an int to Python, and never a count to anybody.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {_shortened(value)}")


def _check_number(name: str, value: object, least: float, most: float | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    try:
        fits = math.isfinite(value) and value >= least and (most is None or value <= most)
    except OverflowError:
        # A whole number beyond all floats.
        fits = False
    if not fits:
        limit = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be {limit}, not {_shortened(value)}")


def _shortened(value: float) -> str:
    # A whole number can have more digits than Python writes out.
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return str(value)
