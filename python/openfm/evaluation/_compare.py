"""Two runs on the same cases: what differs, and whether it could be chance."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .._html import escape, quote
from ._errors import EvaluationError
from ._markdown import cell
from ._result import EvaluationResult
from ._row import Row
from ._statistics import PairedTest, paired_test
from ._values import dumps, plain

__all__ = ["Change", "Comparison", "compare"]


@dataclass(frozen=True)
class Change:
    """A case that the two runs answered differently."""

    index: int
    first: Row
    second: Row
    #: Each scorer's second score less the first; None where one run has none.
    differences: Mapping[str, float | None]

    @property
    def improved(self) -> bool | None:
        """Whether the scores went up; None where they did not move, or not all one way."""
        moved = [value for value in self.differences.values() if value]
        if moved and all(value > 0 for value in moved):
            return True
        if moved and all(value < 0 for value in moved):
            return False
        return None


class Comparison:
    """Two runs, paired by case. ``tests`` has a PairedTest for each scorer that both have.

    Repeats of a case are averaged first: they are no independent cases. Cases that failed in a run
    have no score there and take no part in the tests; ``failed`` counts them for each run.
    """

    def __init__(
        self, first: EvaluationResult, second: EvaluationResult, scorers: Sequence[str]
    ) -> None:
        self.first = first
        self.second = second
        self.scorers = list(scorers)
        self._pairs = _pairs(first, second)
        shared = len(self._pairs)
        if not shared:
            raise EvaluationError("the two runs have no case in common, so nothing can be compared")
        #: Cases that only one of the runs has.
        self.only_first = len({row.key for row in first}) - shared
        self.only_second = len({row.key for row in second}) - shared
        self.failed = (len(first.failed), len(second.failed))

    @cached_property
    def tests(self) -> dict[str, PairedTest]:
        """The test of each scorer; those without a case that both runs scored are left out."""
        found: dict[str, PairedTest] = {}
        for name in self.scorers:
            before: list[float] = []
            after: list[float] = []
            for _, rows, others in self._pairs:
                a, b = _mean(rows, name), _mean(others, name)
                if a is not None and b is not None:
                    before.append(a)
                    after.append(b)
            test = paired_test(before, after)
            if test is not None:
                found[name] = test
        return found

    @cached_property
    def changed(self) -> list[Change]:
        """The rows whose answer, error or scores differ, in the order of the cases."""
        changes = []
        for _, rows, others in self._pairs:
            by_repeat = {row.repeat: row for row in others}
            for row in rows:
                other = by_repeat.get(row.repeat)
                if other is None or (_answer(row) == _answer(other) and self._same(row, other)):
                    continue
                differences = {}
                for name in self.scorers:
                    a, b = row.score(name), other.score(name)
                    differences[name] = None if a is None or b is None else b - a
                changes.append(Change(row.index, row, other, differences))
        return changes

    def _same(self, row: Row, other: Row) -> bool:
        return all(row.score(name) == other.score(name) for name in self.scorers)

    def to_markdown(self, rows: int | None = 20) -> str:
        """The tests and the first ``rows`` changed rows (None for all) as Markdown."""
        lines = [f"- {cell(line)}" for line in self._lines()]
        lines += ["", "| # | case | first | second | change |", "|---|---|---|---|---|"]
        shown = self.changed if rows is None else self.changed[:rows]
        for change in shown:
            lines.append(
                f"| {change.index} | {cell(change.first.prompt)} | {cell(_shown(change.first))} | "
                f"{cell(_shown(change.second))} | {cell(_difference(change))} |"
            )
        if len(shown) < len(self.changed):
            lines += ["", f"{len(self.changed) - len(shown)} more changed rows"]
        return "\n".join(lines) + "\n"

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes one file with the tests and all changed rows, with small pictures. Like
        ``EvaluationResult.to_html``."""
        from ._report import write_comparison

        return write_comparison(self, Path(os.fsdecode(os.fspath(path))))

    def _lines(self) -> list[str]:
        lines = [f"{len(self._pairs)} cases in both, {len(self.changed)} rows changed"]
        if self.only_first or self.only_second:
            lines.append(f"only in the first: {self.only_first}, in the second: {self.only_second}")
        if any(self.failed):
            lines.append(
                f"failed rows: {self.failed[0]} in the first, {self.failed[1]} in the second"
            )
        for name, test in self.tests.items():
            line = f"{name}: {test.difference:+.3f}"
            if test.interval is not None:
                line += f" [{test.interval.low:+.3f}, {test.interval.high:+.3f}]"
            lines.append(
                f"{line}, {test.better} better, {test.worse} worse of {test.count}, "
                f"p={test.p:.3g} ({test.method})"
            )
        return lines

    def _repr_html_(self) -> str:
        from ._report import thumbnails

        lines = "".join(f"<li>{escape(line)}</li>" for line in self._lines())
        body = []
        for change in self.changed[:50]:
            body.append(
                f"<tr><td>{change.index}</td><td>{thumbnails(change.first)}</td>"
                f"<td>{quote(_shown(change.first))}</td><td>{quote(_shown(change.second))}</td>"
                f"<td>{escape(_difference(change))}</td></tr>"
            )
        return (
            f"<ul>{lines}</ul><table><tr><th>#</th><th>picture</th><th>first</th><th>second</th>"
            f"<th>change</th></tr>{''.join(body)}</table>"
        )

    def __repr__(self) -> str:
        return f"<Comparison: {'; '.join(self._lines())}>"


def compare(
    first: EvaluationResult, second: EvaluationResult, scorer: str | None = None
) -> Comparison:
    """Pairs two runs by case: two prompts or two models on the same cases.

    ``scorer`` None compares all scorers that both runs have. Raises EvaluationError where the runs
    share no case, or one lacks the scorer.
    """
    for result in (first, second):
        if not isinstance(result, EvaluationResult):
            raise TypeError(f"compare() takes two results, not {type(result).__name__}")
    names = [name for name in first.scorers if name in second.scorers]
    if scorer is not None:
        if scorer not in names:
            raise EvaluationError(
                f"not both runs have the scorer {scorer!r}; both have: {', '.join(names) or 'none'}"
            )
        names = [scorer]
    return Comparison(first, second, names)


def _pairs(
    first: EvaluationResult, second: EvaluationResult
) -> list[tuple[str, list[Row], list[Row]]]:
    rows: dict[str, list[Row]] = {}
    for row in first:
        rows.setdefault(row.key, []).append(row)
    others: dict[str, list[Row]] = {}
    for row in second:
        others.setdefault(row.key, []).append(row)
    return [(key, rows[key], others[key]) for key in rows if key in others]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [value for row in rows if (value := row.score(name)) is not None]
    return statistics.fmean(values) if values else None


def _answer(row: Row) -> Any:
    return ("error", row.error.kind) if row.error is not None else dumps(plain(row.answer))


def _shown(row: Row) -> str:
    if row.error is not None:
        return f"{row.error.kind}: {row.error.message}"
    return row.answer if isinstance(row.answer, str) else dumps(plain(row.answer))


def _difference(change: Change) -> str:
    return ", ".join(f"{name} {value:+.3g}" for name, value in change.differences.items() if value)
