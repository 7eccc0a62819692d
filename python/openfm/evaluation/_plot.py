"""Results as a matplotlib figure."""

from __future__ import annotations

import io
import statistics
from typing import TYPE_CHECKING, Any

from ._errors import EvaluationError
from ._result import _module
from ._scorers import member
from ._statistics import bootstrap_mean

if TYPE_CHECKING:
    from ._result import EvaluationResult

__all__ = ["plot_result"]


def plot_result(result: EvaluationResult, by: str | None) -> Any:
    """The mean of each score, by a member of the cases where ``by`` names one, with its interval;
    how long answers took; how many tokens they have. What is unknown has no panel."""
    figure_module = _module("matplotlib.figure", "plot()")
    seconds = [row.seconds for row in result if row.seconds is not None]
    tokens = [row.tokens.output for row in result if row.tokens.output is not None]
    panels = [bool(result.scorers), bool(seconds), bool(tokens)]
    if not any(panels):
        raise EvaluationError("there is nothing to plot: no scores, no times, no token counts")
    figure = _figure_class(figure_module)(figsize=(5 * sum(panels), 3.6), layout="constrained")
    axes = iter([figure.add_subplot(1, sum(panels), i + 1) for i in range(sum(panels))])
    if panels[0]:
        _scores(next(axes), result, by)
    if panels[1]:
        _histogram(next(axes), seconds, "seconds to the answer")
    if panels[2]:
        _histogram(next(axes), tokens, "tokens of the answer")
    return figure


def _figure_class(module: Any) -> Any:
    """A Figure that a notebook shows. Not one of pyplot, which would keep every figure and choose a
    window system."""

    class Figure(module.Figure):  # type: ignore[misc]
        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png")
            return out.getvalue()

    return Figure


def _scores(axis: Any, result: EvaluationResult, by: str | None) -> None:
    groups: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in result:
        found = "all" if by is None else member(row.case, by)
        group = "(none)" if found is None else str(found)
        for name in result.scorers:
            value = row.score(name)
            if value is not None:
                by_case = groups.setdefault(group, {}).setdefault(name, {})
                by_case.setdefault(row.key, []).append(value)
    names = sorted(groups)
    width = 0.8 / max(len(result.scorers), 1)
    for number, scorer in enumerate(result.scorers):
        places, means, below, above = [], [], [], []
        for index, group in enumerate(names):
            cases = list(groups[group].get(scorer, {}).values())
            if not cases:
                continue
            mean = statistics.fmean(value for case in cases for value in case)
            interval = bootstrap_mean(cases)
            assert interval is not None
            places.append(index + (number - (len(result.scorers) - 1) / 2) * width)
            means.append(mean)
            below.append(max(0.0, mean - interval.low))
            above.append(max(0.0, interval.high - mean))
        axis.bar(places, means, width * 0.9, yerr=[below, above], capsize=3, label=_literal(scorer))
    axis.set_xticks(range(len(names)), [_literal(name) for name in names], rotation=30, ha="right")
    axis.set_ylabel("mean score")
    axis.set_title("scores" if by is None else f"scores by {_literal(by)}")
    if len(result.scorers) > 1:
        axis.legend()


def _histogram(axis: Any, values: list[Any], title: str) -> None:
    axis.hist(values, bins=min(30, max(5, len(set(values)))))
    axis.set_title(title)
    axis.set_ylabel("rows")


def _literal(text: str) -> str:
    """matplotlib takes what stands between dollar signs for mathematics, and fails on what is
    none."""
    return text.replace("$", r"\$")
