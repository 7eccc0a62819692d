"""How many tokens something costs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["TokenCount"]


class TokenCount(int):
    """A number of tokens that knows how it came about.

    ``is_exact``: whatever runs the model counted; otherwise it is an estimate. ``parts``: what it
    was made of, by name; of a part that was counted alone, "request" and "without" it.
    """

    is_exact: bool
    parts: Mapping[str, int]

    def __new__(cls, value: int, is_exact: bool, parts: Mapping[str, int]) -> TokenCount:
        count = super().__new__(cls, value)
        count.is_exact = is_exact
        count.parts = MappingProxyType(dict(parts))
        return count

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> TokenCount:
        return cls(members["count"], members["exact"], members["parts"])

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenCount, (int(self), self.is_exact, dict(self.parts))

    def __repr__(self) -> str:
        return f"TokenCount({int(self)}, {'exact' if self.is_exact else 'estimated'})"

    __str__ = int.__repr__
