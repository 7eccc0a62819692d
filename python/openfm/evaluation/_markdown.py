"""Results as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._values import dumps, plain

if TYPE_CHECKING:
    from ._result import EvaluationResult

__all__ = ["cell", "result_markdown", "summary_lines"]

_LONGEST = 120


def cell(value: Any) -> str:
    """A value for a table: one line, without anything that Markdown or HTML would act on."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else dumps(plain(value))
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    for character, written in (
        ("\\", "\\\\"),
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "\\|"),
        ("`", "\\`"),
        ("*", "\\*"),
        ("_", "\\_"),
        ("[", "\\["),
        ("]", "\\]"),
    ):
        text = text.replace(character, written)
    return text


def summary_lines(result: EvaluationResult) -> list[str]:
    """What a run came to, in a few plain lines."""
    lines = [
        f"{len(result)} rows, {len(result.answered)} answered, {len(result.failed)} failed"
        + (f", {cached} from the cache" if (cached := sum(row.cached for row in result)) else "")
    ]
    lines += [str(aggregate) for aggregate in result.aggregates.values()]
    for name in result.scorers:
        unscored = [row for row in result if name in row.score_errors]
        if unscored:
            message = unscored[0].score_errors[name]
            lines.append(
                f"{name} failed on {len(unscored)} of {len(result.answered)} answers, first on row "
                f"{unscored[0].index}: {message}"
            )
    tokens = result.tokens
    if tokens.input is not None or tokens.output is not None:
        lines.append(f"tokens: {_count(tokens.input)} in, {_count(tokens.output)} out")
    for kind, rows in result.errors.items():
        first = rows[0].error
        assert first is not None
        lines.append(f"{len(rows)} x {kind}: {first.message}")
    return lines


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def result_markdown(result: EvaluationResult, rows: int | None) -> str:
    lines = [f"- {cell(line)}" for line in summary_lines(result)]
    names = result.scorers
    lines += [
        "",
        "| # | prompt | expected | answer | " + "".join(f"{cell(name)} | " for name in names),
        "|---" * (4 + len(names)) + "|",
    ]
    shown = result.rows if rows is None else result.rows[:rows]
    for row in shown:
        answer = f"{row.error.kind}: {row.error.message}" if row.error else row.answer
        scores = "".join(f"{_score(row.score(name))} | " for name in names)
        lines.append(
            f"| {row.index} | {cell(row.prompt)} | {cell(row.case.get('expected'))} | "
            f"{cell(answer)} | {scores}".rstrip()
        )
    if len(shown) < len(result):
        lines += ["", f"{len(result) - len(shown)} more rows"]
    return "\n".join(lines) + "\n"


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
