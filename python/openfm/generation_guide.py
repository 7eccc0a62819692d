"""Constraints of a generable's fields."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

__all__ = ["GenerationGuide", "GuideType", "guide"]


class GuideType(str, Enum):
    """The kinds of guides."""

    anyOf = "enum"
    constant = "constant"
    count = "count"  # type: ignore[assignment]  # a method of str
    element = "element"
    maxItems = "maxItems"
    maximum = "maximum"
    minItems = "minItems"
    minimum = "minimum"
    range = "range"
    regex = "regex"


class GenerationGuide:
    """One constraint. Made by the class methods; bounds are inclusive.

    Whether a guide suits the field's type shows when the schema is made: an
    InvalidGenerationSchemaError or UnsupportedGuideError that names the field.
    """

    __slots__ = ("guide_type", "value")

    def __init__(self, guide_type: GuideType, value: Any = None) -> None:
        if not isinstance(guide_type, GuideType):
            raise ValueError(f"guide_type must be a GuideType, not {type(guide_type).__name__}")
        self.guide_type = guide_type
        self.value = _CHECKS[guide_type](value)

    @classmethod
    def anyOf(cls, values: Sequence[str]) -> GenerationGuide:
        """A string, or each of a list of strings: one of these."""
        return cls(GuideType.anyOf, values)

    @classmethod
    def constant(cls, value: str) -> GenerationGuide:
        """A string: this one."""
        return cls(GuideType.constant, value)

    @classmethod
    def count(cls, count: int) -> GenerationGuide:
        """A list: exactly so many items."""
        return cls(GuideType.count, count)

    @classmethod
    def element(cls, guide: GenerationGuide) -> GenerationGuide:
        """A list: the guide is about each item."""
        return cls(GuideType.element, guide)

    @classmethod
    def max_items(cls, count: int) -> GenerationGuide:
        """A list: at most so many items."""
        return cls(GuideType.maxItems, count)

    @classmethod
    def maximum(cls, value: float) -> GenerationGuide:
        """A number: at most this."""
        return cls(GuideType.maximum, value)

    @classmethod
    def min_items(cls, count: int) -> GenerationGuide:
        """A list: at least so many items."""
        return cls(GuideType.minItems, count)

    @classmethod
    def minimum(cls, value: float) -> GenerationGuide:
        """A number: at least this."""
        return cls(GuideType.minimum, value)

    @classmethod
    def range(cls, bounds: tuple[float, float]) -> GenerationGuide:
        """A number: from the first to the second."""
        return cls(GuideType.range, bounds)

    @classmethod
    def regex(cls, pattern: str) -> GenerationGuide:
        """A string in which the regular expression (ECMA-262 with the flag u, no references back)
        matches somewhere; anchor it with ^ and $."""
        return cls(GuideType.regex, pattern)

    def to_declaration(self) -> list[Any]:
        """The guide as the library's declaration JSON has it."""
        if self.guide_type is GuideType.element:
            return ["element", self.value.to_declaration()]
        if self.guide_type is GuideType.anyOf:
            return ["anyOf", self.value]
        if self.guide_type is GuideType.constant:
            return ["anyOf", [self.value]]
        if self.guide_type is GuideType.regex:
            return ["pattern", self.value]
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return [self.guide_type.value, value]

    def convert_to_c(self, prop_ptr: int, wrapped: bool = False) -> None:
        """Adds the guide to a property of the C library's schema builder."""
        from ._ctypes_bindings import lib

        prefix = "FMGenerationSchemaPropertyAdd"
        kind, value = self.guide_type, self.value
        if kind is GuideType.element:
            value.convert_to_c(prop_ptr, wrapped=True)
        elif kind in (GuideType.anyOf, GuideType.constant):
            texts = [value] if kind is GuideType.constant else value
            choices = (ctypes.c_char_p * len(texts))(*(text.encode("utf-8") for text in texts))
            getattr(lib, f"{prefix}AnyOfGuide")(prop_ptr, choices, len(texts), wrapped)
        elif kind is GuideType.regex:
            getattr(lib, f"{prefix}Regex")(prop_ptr, value.encode("utf-8"), wrapped)
        elif kind is GuideType.range:
            getattr(lib, f"{prefix}RangeGuide")(prop_ptr, value[0], value[1], wrapped)
        elif kind is GuideType.minItems:
            getattr(lib, f"{prefix}MinItemsGuide")(prop_ptr, value)
        elif kind is GuideType.maxItems:
            getattr(lib, f"{prefix}MaxItemsGuide")(prop_ptr, value)
        else:
            name = {"count": "Count", "minimum": "Minimum", "maximum": "Maximum"}[kind.value]
            getattr(lib, f"{prefix}{name}Guide")(prop_ptr, value, wrapped)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GenerationGuide):
            return NotImplemented
        return (self.guide_type, self.value) == (other.guide_type, other.value)

    def __hash__(self) -> int:
        return hash((self.guide_type, repr(self.value)))

    def __repr__(self) -> str:
        return f"GenerationGuide({self.guide_type}, {self.value!r})"


def guide(
    description: str | None = None,
    *,
    anyOf: Sequence[str] | None = None,
    constant: str | None = None,
    count: int | None = None,
    element: GenerationGuide | None = None,
    max_items: int | None = None,
    maximum: float | None = None,
    min_items: int | None = None,
    minimum: float | None = None,
    range: tuple[float, float] | None = None,
    regex: str | None = None,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
) -> Any:
    """A field of a generable: what it means, and its constraints.

    With a default the model may leave the field out. ::

        @fm.generable
        class Cat:
            name: str = fm.guide("a short name")
            age: int = fm.guide("in years", range=(0, 25))
            tags: list[str] = fm.guide(max_items=3, default_factory=list)
    """
    if description is not None and not isinstance(description, str):
        raise ValueError(f"description must be a str, not {type(description).__name__}")
    given = {
        GuideType.anyOf: anyOf,
        GuideType.constant: constant,
        GuideType.count: count,
        GuideType.element: element,
        GuideType.maxItems: max_items,
        GuideType.maximum: maximum,
        GuideType.minItems: min_items,
        GuideType.minimum: minimum,
        GuideType.range: range,
        GuideType.regex: regex,
    }
    guides = [GenerationGuide(kind, value) for kind, value in given.items() if value is not None]
    metadata = {"description": description, "guides": guides}
    if default is not dataclasses.MISSING:
        return dataclasses.field(default=default, metadata=metadata)
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(metadata=metadata)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise ValueError("anyOf must be a list of at least one str")
    if not all(isinstance(item, str) for item in value):
        raise ValueError("anyOf must hold nothing but str")
    return list(value)


def _string(name: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a str, not {type(value).__name__}")
        return value

    return check


def _count(name: str, least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")
        return value

    return check


def _number(name: str) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise ValueError(f"{name} must be a finite number, not {value!r}")
        return float(value) if isinstance(value, float) else value

    return check


def _bounds(value: Any) -> tuple[float, float]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError("range must be a tuple of two numbers")
    low, high = (_number("range")(bound) for bound in value)
    if low > high:
        raise ValueError(f"range must go upwards, not from {low} to {high}")
    return low, high


def _guide(value: Any) -> GenerationGuide:
    if not isinstance(value, GenerationGuide):
        raise ValueError(f"element must be a GenerationGuide, not {type(value).__name__}")
    return value


_CHECKS: dict[GuideType, Callable[[Any], Any]] = {
    GuideType.anyOf: _strings,
    GuideType.constant: _string("constant"),
    GuideType.count: _count("count", 1),
    GuideType.element: _guide,
    GuideType.maxItems: _count("max_items", 0),
    GuideType.maximum: _number("maximum"),
    GuideType.minItems: _count("min_items", 0),
    GuideType.minimum: _number("minimum"),
    GuideType.range: _bounds,
    GuideType.regex: _string("regex"),
}
