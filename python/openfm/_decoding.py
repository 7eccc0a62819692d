"""Objects of generable classes from JSON values, by code that is written for each class once.

Walking over shapes costs a call for every value. What is written here reads a whole object in one
function, as ``dataclasses`` does for ``__init__``. It only knows valid answers: for any other the
shapes are walked over, which finds the place that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["Reader", "Unfit", "Writer"]

#: Reads the value; the second argument is the content's id.
Reader = Callable[[Any, Any], Any]

_MISSING: Final = object()


class Unfit(Exception):
    """The value is not what the written code takes."""


_UNFIT: Final = Unfit()


class Writer:
    """Gathers the lines of one function, and the objects that they name.

    ``trusts``: the values were found valid by the schema of the very shape that writes, as the
    library finds every answer; then only what JSON leaves open is looked at.
    """

    def __init__(self, trusts: bool = False) -> None:
        self.trusts = trusts
        self.names: dict[str, Any] = {"UNFIT": _UNFIT, "MISSING": _MISSING}
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def begin(self, text: str) -> None:
        """A line that a block follows; ``end`` ends it."""
        self.line(text)
        self._depth += 1

    def end(self) -> None:
        self._depth -= 1

    def demand(self, condition: str) -> None:
        """Has the function refuse a value for which that is not so."""
        if not self.trusts:
            self.line(f"if not ({condition}): raise UNFIT")

    def new(self, prefix: str = "v") -> str:
        """A name that is not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, value: Any) -> str:
        """The name by which the code reaches an object."""
        name = self.new("o")
        self.names[name] = value
        return name

    def function(self, result: str) -> Reader:
        """The function of the lines, which returns that expression of ``value`` and ``id``."""
        body = "\n".join([*self._lines, f"    return {result}"])
        exec(f"def read(value, id):\n{body}", self.names)  # noqa: S102  # of our own words alone
        reader: Reader = self.names.pop("read")
        return reader
