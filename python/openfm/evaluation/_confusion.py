"""Which label was taken for which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._html import escape
from ._scorers import normal

__all__ = ["ConfusionMatrix"]


@dataclass(frozen=True)
class ConfusionMatrix:
    """``counts[i][j]``: how often ``labels[i]`` was expected and ``labels[j]`` was answered.

    Labels that were answered but never expected come last.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, pairs: Sequence[tuple[Any, Any]]) -> ConfusionMatrix:
        """From (expected, answered) pairs."""
        named = [(_name(wanted), _name(got)) for wanted, got in pairs]
        wanted = sorted({wanted for wanted, _ in named})
        labels = (*wanted, *sorted({got for _, got in named} - set(wanted)))
        counts = Counter(named)
        return cls(labels, tuple(tuple(counts[row, column] for column in labels) for row in labels))

    @property
    def total(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float | None:
        right = sum(self.counts[i][i] for i in range(len(self.labels)))
        return right / self.total if self.total else None

    @property
    def recall(self) -> dict[str, float | None]:
        """Of each label, the share of its cases that were answered with it: accuracy per class.
        None for a label that was never expected."""
        return {
            label: self.counts[i][i] / sum(self.counts[i]) if sum(self.counts[i]) else None
            for i, label in enumerate(self.labels)
        }

    @property
    def precision(self) -> dict[str, float | None]:
        """Of each label, the share of its answers that were right. None for one never answered."""
        result: dict[str, float | None] = {}
        for i, label in enumerate(self.labels):
            answered = sum(row[i] for row in self.counts)
            result[label] = self.counts[i][i] / answered if answered else None
        return result

    def to_markdown(self) -> str:
        """A table: expected down, answered across."""
        from ._markdown import cell

        lines = [
            "| expected \\ answered | " + " | ".join(map(cell, self.labels)) + " | recall |",
            "|---" * (len(self.labels) + 2) + "|",
        ]
        for label, row in zip(self.labels, self.counts, strict=True):
            numbers = " | ".join(str(count) for count in row)
            lines.append(f"| {cell(label)} | {numbers} | {share(self.recall[label])} |")
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        most = max((count for row in self.counts for count in row), default=0) or 1
        cells = []
        for i, (label, row) in enumerate(zip(self.labels, self.counts, strict=True)):
            tds = []
            for j, count in enumerate(row):
                # Right is green, wrong is red; the more, the darker.
                hue = 140 if i == j else 0
                shade = f"hsla({hue},60%,45%,{count / most * 0.6:.2f})"
                tds.append(f'<td style="background:{shade};text-align:right">{count or ""}</td>')
            cells.append(
                f"<tr><th>{escape(label)}</th>{''.join(tds)}<td>{share(self.recall[label])}</td></tr>"
            )
        head = "".join(f"<th>{escape(label)}</th>" for label in self.labels)
        return (
            '<table class="fm-confusion"><caption>expected down, answered across</caption>'
            f"<tr><th></th>{head}<th>recall</th></tr>{''.join(cells)}</table>"
        )


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _name(value: Any) -> str:
    value = normal(value, False)
    if value is None:
        return "(none)"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
