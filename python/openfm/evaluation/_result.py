"""What an evaluation found: its rows, and what they come to."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._confusion import ConfusionMatrix
from ._errors import EvaluationError
from ._journal import read_journal
from ._row import Row, TokenCounts
from ._statistics import Interval, bootstrap_mean

if TYPE_CHECKING:
    from ._compare import Comparison

__all__ = ["Aggregate", "EvaluationResult"]


@dataclass(frozen=True)
class Aggregate:
    """A scorer over all rows.

    ``mean`` is of the ``count`` rows that have a score, with its bootstrap ``interval``, which
    draws cases; ``mean_with_failures`` counts rows without an answer, and those that the scorer
    failed on, as 0, so that it cannot be raised by failing. None where there is nothing.
    """

    name: str
    count: int
    mean: float | None
    interval: Interval | None
    mean_with_failures: float | None
    failed: int

    def __str__(self) -> str:
        if self.mean is None:
            return f"{self.name}: no scores"
        text = f"{self.name}: {self.mean:.3f}"
        if self.interval is not None:
            text += f" [{self.interval.low:.3f}, {self.interval.high:.3f}]"
        return f"{text}, n={self.count}" + (f", {self.failed} failed" if self.failed else "")


class EvaluationResult(Sequence[Row]):
    """The rows of an evaluation, in the order of the cases, repeats side by side.

    ``run`` records what was asked of what: model, prompt, options, versions. In a notebook it shows
    itself with the pictures.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        run: Mapping[str, Any],
        scorers: Sequence[str],
        out: Path | None = None,
    ) -> None:
        self.rows = list(rows)
        self.run = dict(run)
        self.scorers = list(scorers)
        self.out = out

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvaluationResult:
        """Reads the file of a run (``out=``), also of one that is under way or was cut off. Raises
        EvaluationError."""
        where = Path(os.fsdecode(os.fspath(path)))
        run, rows = read_journal(where)
        names = [str(scorer["name"]) for scorer in run.get("scorers") or ()]
        for row in rows:
            names += [name for name in row.scored_with if name not in names]
        return cls(rows, run, names, out=where)

    # -- A sequence of rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def answered(self) -> list[Row]:
        return [row for row in self.rows if not row.failed]

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row.failed]

    @cached_property
    def errors(self) -> dict[str, list[Row]]:
        """Failed rows by the class of their error, the most frequent first."""
        counts = Counter(row.error.kind for row in self.rows if row.error is not None)
        return {
            kind: [row for row in self.rows if row.error is not None and row.error.kind == kind]
            for kind, _ in counts.most_common()
        }

    # -- What the rows come to

    @cached_property
    def aggregates(self) -> dict[str, Aggregate]:
        """Each scorer over all rows, by name. Costs up to 0.3 s a scorer for 2,000 cases."""
        return {name: self._aggregate(name) for name in self.scorers}

    def _aggregate(self, name: str) -> Aggregate:
        groups: dict[str, list[float]] = {}
        total = failed = 0
        for row in self.rows:
            value = row.score(name)
            if value is not None:
                groups.setdefault(row.key, []).append(value)
                total += 1
            elif row.failed or name in row.score_errors:
                failed += 1
        values = [value for group in groups.values() for value in group]
        counted = total + failed
        return Aggregate(
            name=name,
            count=total,
            mean=statistics.fmean(values) if values else None,
            interval=bootstrap_mean(list(groups.values())),
            mean_with_failures=sum(values) / counted if counted else None,
            failed=failed,
        )

    @property
    def tokens(self) -> TokenCounts:
        """The sums over all rows that were counted, those of earlier, interrupted runs included;
        what came from the cache cost nothing and does not count. None where no row has the
        count."""
        sums: dict[str, int | None] = {}
        for name in ("input", "cached", "output", "reasoning"):
            counts = [getattr(row.tokens, name) for row in self.rows if not row.cached]
            known = [count for count in counts if count is not None]
            sums[name] = sum(known) if known else None
        return TokenCounts(**sums)

    def confusion_matrix(self, scorer: str | None = None) -> ConfusionMatrix:
        """How often each expected label was answered with each other, by a scorer that compares
        labels: ``exact`` or ``label_match``. None: the first that does. Raises EvaluationError."""
        names = [scorer] if scorer is not None else self.scorers
        for name in names:
            pairs = [
                (found.wanted, found.got)
                for row in self.rows
                if (found := row.scores.get(name)) is not None and found.value is not None
            ]
            if pairs and all(_is_label(wanted) for wanted, _ in pairs):
                return ConfusionMatrix.of(pairs)
        which = f"the scorer {scorer!r}" if scorer is not None else "no scorer"
        raise EvaluationError(
            f'{which} compares labels; score with exact("field") or label_match() for a confusion '
            f"matrix (scorers: {', '.join(self.scorers) or 'none'})"
        )

    def compare(self, other: EvaluationResult, scorer: str | None = None) -> Comparison:
        """This run against another one on the same cases: ``compare(self, other)``."""
        from ._compare import compare

        return compare(self, other, scorer)

    # -- Other forms

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dict a row, for tables: the case's members as ``case.NAME``, the scores as
        ``score.NAME``."""
        table = []
        for row in self.rows:
            members: dict[str, Any] = {
                "index": row.index,
                "repeat": row.repeat,
                **{f"case.{name}": value for name, value in row.case.items()},
                "prompt": row.prompt,
                "images": [image["path"] for image in row.images],
                "answer": row.answer,
                "error_type": row.error.kind if row.error is not None else None,
                "error": row.error.message if row.error is not None else None,
                **{f"score.{name}": row.score(name) for name in self.scorers},
                "input_tokens": row.tokens.input,
                "cached_tokens": row.tokens.cached,
                "output_tokens": row.tokens.output,
                "reasoning_tokens": row.tokens.reasoning,
                "finish_reason": row.finish_reason,
                "seconds": row.seconds,
                "attempts": row.attempts,
                "seed": row.seed,
                "cached": row.cached,
            }
            table.append(members)
        # A member that only some cases have is a column all the same.
        names = list(dict.fromkeys(name for members in table for name in members))
        return [{name: members.get(name) for name in names} for members in table]

    def to_pandas(self) -> Any:
        """A pandas DataFrame, one line a row. Needs pandas."""
        return _module("pandas", "to_pandas()").DataFrame(self.to_dicts())

    def to_polars(self) -> Any:
        """A polars DataFrame, one line a row; answers and case members that are not all of one kind
        are JSON text. Needs polars."""
        from ._values import dumps, plain

        polars = _module("polars", "to_polars()")
        table = self.to_dicts()
        columns: dict[str, list[Any]] = {}
        for name in table[0] if table else ():
            values = [members[name] for members in table]
            kinds = {type(value) for value in values if value is not None}
            if kinds == {int, float}:
                values = [None if value is None else float(value) for value in values]
            elif (len(kinds) > 1 or dict in kinds or list in kinds) and name != "images":
                values = [
                    value if value is None or isinstance(value, str) else dumps(plain(value))
                    for value in values
                ]
            columns[name] = values
        return polars.DataFrame(columns)

    def to_markdown(self, rows: int | None = 20) -> str:
        """The summary and the first ``rows`` rows (None for all) as Markdown."""
        from ._markdown import result_markdown

        return result_markdown(self, rows)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes one file that shows everything, with small pictures, sorting and filtering. It
        opens offline, asks nobody for anything, and nothing that a model said can run in it.

        Prepares a thumbnail a picture: some 40 ms for a 12-megapixel photo. Raises EvaluationError
        where the file cannot be written.
        """
        from ._report import write_report

        return write_report(self, Path(os.fsdecode(os.fspath(path))))

    def plot(self, by: str | None = None) -> Any:
        """A matplotlib figure: scores by a member of the cases, latency, tokens. Needs
        matplotlib."""
        from ._plot import plot_result

        return plot_result(self, by)

    def _repr_html_(self) -> str:
        from ._report import notebook_html

        return notebook_html(self)

    def __repr__(self) -> str:
        parts = [f"{len(self.rows)} rows"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        parts += [str(aggregate) for aggregate in self.aggregates.values()]
        return f"<EvaluationResult: {'; '.join(parts)}>"


def _is_label(value: Any) -> bool:
    return isinstance(value, (str, bool, int))


def _module(name: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"{what} needs {package}; install it with: pip install {package}"
        ) from error
