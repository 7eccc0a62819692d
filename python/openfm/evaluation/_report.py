"""Results as HTML: for a notebook, and as one file that opens offline.

Whatever a model, a case or a file's name says is escaped on its way in. The file forbids itself
everything else as well: its content security policy lets run only the one script whose hash it
names, shows pictures only from within, and opens no connection.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .._html import escape, quote
from ..errors import FoundationModelsError
from ..imaging import ImagePolicy, prepare_image
from ._errors import EvaluationError, UnwritableError
from ._files import writing
from ._markdown import summary_lines
from ._row import Row
from ._values import dumps, plain

if TYPE_CHECKING:
    from ._compare import Change, Comparison
    from ._result import EvaluationResult

__all__ = ["notebook_html", "thumbnails", "write_comparison", "write_report"]

# Pixels. A picture of this size is some 3 kB.
_THUMBNAIL: Final = 96
_NOTEBOOK_ROWS: Final = 30
_ERROR_EXAMPLES: Final = 5


# ---- Pictures


@lru_cache(maxsize=256)
def _thumbnail(path: str, modified_ns: int, orientation: int | None) -> str:
    """A data URL; raises FoundationModelsError."""
    policy = ImagePolicy(max_long_edge=_THUMBNAIL, quality=70)
    picture = prepare_image(path, orientation, policy)
    return f"data:{picture.mime_type};base64,{base64.b64encode(picture.data).decode()}"


def thumbnails(row: Row) -> str:
    """The row's pictures, small and upright; made now, since the row keeps their paths only."""
    shown = []
    for image in row.images:
        path = image["path"]
        name = escape(image.get("label") or os.path.basename(path))
        try:
            url = _thumbnail(path, os.stat(path).st_mtime_ns, image.get("orientation"))
        except (OSError, FoundationModelsError):
            shown.append(f'<span title="{escape(path)}">[{name}: no such picture any more]</span>')
            continue
        shown.append(
            f'<img src="{url}" alt="{name}" title="{escape(path)}" '
            f'style="max-width:{_THUMBNAIL}px;max-height:{_THUMBNAIL}px">'
        )
    return " ".join(shown)


# ---- Pieces of both


def _value(value: Any) -> str:
    if value is None:
        return ""
    return quote(value if isinstance(value, str) else dumps(plain(value)))


def _answer(row: Row) -> str:
    if row.error is not None:
        return f'<b style="color:#b00020">{escape(row.error.kind)}</b> {quote(row.error.message)}'
    return _value(row.answer)


def _score(row: Row, name: str) -> str:
    if name in row.score_errors:
        return f'<span title="{escape(row.score_errors[name])}" style="color:#b00020">failed</span>'
    score = row.scores.get(name)
    if score is None or score.value is None:
        return ""
    title = f' title="{escape(score.reason)}"' if score.reason else ""
    return f"<span{title}>{score.value:.3g}</span>"


def _summary(result: EvaluationResult) -> str:
    # Errors have a part of their own.
    lines = summary_lines(result)[: -len(result.errors) or None]
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _errors(result: EvaluationResult) -> str:
    parts = []
    for kind, rows in result.errors.items():
        examples = "".join(
            f"<li>row {row.index}: {escape(row.error.message)}</li>"
            for row in rows[:_ERROR_EXAMPLES]
            if row.error is not None
        )
        more = len(rows) - _ERROR_EXAMPLES
        rest = f"<li>and {more} more</li>" if more > 0 else ""
        parts.append(
            f"<details><summary>{len(rows)} &times; {escape(kind)}</summary>"
            f"<ul>{examples}{rest}</ul></details>"
        )
    return "".join(parts)


def _matrices(result: EvaluationResult, most: int = 20) -> str:
    parts = []
    for name in result.scorers:
        try:
            matrix = result.confusion_matrix(name)
        except EvaluationError:
            continue
        if 2 <= len(matrix.labels) <= most:
            parts.append(f"<h3>{escape(name)}</h3>{matrix._repr_html_()}")
    return "".join(parts)


def notebook_html(result: EvaluationResult) -> str:
    """A summary, errors by kind, and the first rows; no script."""
    rows = result.rows[:_NOTEBOOK_ROWS]
    names = result.scorers
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    with_pictures = any(row.images for row in rows)
    body = []
    for row in rows:
        cells = [f"<td>{row.index}</td>"]
        if with_pictures:
            cells.append(f"<td>{thumbnails(row)}</td>")
        cells += [
            f'<td style="text-align:left">{_value(row.prompt)}</td>',
            f'<td style="text-align:left">{_value(row.case.get("expected"))}</td>',
            f'<td style="text-align:left">{_answer(row)}</td>',
            *(f"<td>{_score(row, name)}</td>" for name in names),
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    more = len(result) - len(rows)
    return (
        f"<div>{_summary(result)}{_errors(result)}{_matrices(result)}"
        f"<table><tr><th>#</th>{'<th>picture</th>' if with_pictures else ''}<th>prompt</th>"
        f"<th>expected</th><th>answer</th>{head}</tr>{''.join(body)}</table>"
        + (f"<p>{more:,} more rows; to_html(path) shows all</p>" if more else "")
        + "</div>"
    )


# ---- The file

_STYLE: Final = """
:root { color-scheme: light dark; font: 14px/1.45 system-ui, sans-serif; }
body { margin: 1.5rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; }
th, td { border: 1px solid #8884; padding: .3rem .5rem; vertical-align: top; text-align: left; }
thead th { position: sticky; top: 0; background: Canvas; }
thead button { all: unset; cursor: pointer; font-weight: bold; }
thead button:focus-visible { outline: 2px solid; }
thead [aria-sort="ascending"] button::after { content: " \\25B2"; }
thead [aria-sort="descending"] button::after { content: " \\25BC"; }
tr.failed { background: #b0002014; } tr.wrong { background: #ffb30022; }
form { display: flex; gap: 1rem; margin: 1rem 0; flex-wrap: wrap; align-items: center; }
td div { max-width: 40rem; max-height: 20rem; overflow: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dd { margin: 0; }
"""

_SCRIPT: Final = """
"use strict";
const table = document.getElementById("rows");
const body = table.tBodies[0];
const rows = Array.from(body.rows);
const text = document.getElementById("text");
const kind = document.getElementById("kind");
const count = document.getElementById("count");
function filter() {
  const wanted = text.value.toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const visible = (kind.value === "" || row.dataset.kind === kind.value) &&
      (wanted === "" || row.textContent.toLowerCase().includes(wanted));
    row.hidden = !visible;
    shown += visible;
  }
  count.textContent = shown + " of " + rows.length + " rows";
}
function sort(header, index) {
  const descending = header.getAttribute("aria-sort") === "ascending";
  for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const value = row => row.cells[index].dataset.sort ?? row.cells[index].textContent.trim();
  const numeric = rows.every(row => value(row) === "" || !isNaN(Number(value(row))));
  const order = (a, b) => {
    const x = value(a), y = value(b);
    // What has no value comes last, whichever way.
    if (x === "" || y === "") return (x === "") - (y === "");
    const sign = descending ? -1 : 1;
    return sign * (numeric ? Number(x) - Number(y) : x.localeCompare(y));
  };
  body.append(...rows.slice().sort(order));
}
Array.from(table.tHead.rows[0].cells).forEach((header, index) => {
  header.querySelector("button")?.addEventListener("click", () => sort(header, index));
});
text.addEventListener("input", filter);
kind.addEventListener("change", filter);
document.querySelector("form").addEventListener("submit", event => event.preventDefault());
filter();
"""


def _page(title: str, parts: Iterable[str]) -> Iterable[str]:
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n"
    )
    yield from parts
    yield f"<script>{_SCRIPT}</script>\n</body></html>\n"


def _write(path: Path, pieces: Iterable[str]) -> Path:
    try:
        with writing(path) as file:
            for piece in pieces:
                file.write(piece.encode("utf-8", "replace"))
    except OSError as error:
        raise UnwritableError(f"cannot write the report {path}: {error.strerror}") from None
    return path


def _controls(kinds: Sequence[tuple[str, str]]) -> str:
    options = "".join(
        f'<option value="{escape(value)}">{escape(name)}</option>' for value, name in kinds
    )
    return (
        '<form><label>Filter <input id="text" type="search" autocomplete="off"></label>'
        f'<label>Show <select id="kind"><option value="">all</option>{options}</select></label>'
        '<output id="count"></output></form>\n'
    )


def _header(names: Iterable[str]) -> str:
    cells = "".join(f'<th><button type="button">{escape(name)}</button></th>' for name in names)
    return f'<table id="rows"><thead><tr>{cells}</tr></thead><tbody>\n'


def write_report(result: EvaluationResult, path: Path) -> Path:
    return _write(path, _page("Evaluation", _report_parts(result)))


def _report_parts(result: EvaluationResult) -> Iterable[str]:
    yield _summary(result)
    yield _run_list(result)
    if result.errors:
        yield f"<h2>Errors</h2>{_errors(result)}\n"
    matrices = _matrices(result)
    if matrices:
        yield f"<h2>Labels</h2>{matrices}\n"
    yield "<h2>Rows</h2>\n"
    yield _controls([("right", "right"), ("wrong", "wrong"), ("failed", "failed")])
    names = result.scorers
    yield _header(
        ["#", "picture", "prompt", "expected", "answer", *names, "seconds", "tokens", "attempts"]
    )
    for row in result:
        scores = "".join(
            f'<td data-sort="{_number(row.score(name))}">{_score(row, name)}</td>' for name in names
        )
        yield (
            f'<tr class="{_kind(row, names)}" data-kind="{_kind(row, names)}">'
            f'<td data-sort="{row.index}.{row.repeat:03}">{row.index}'
            f"{f' ({row.repeat})' if row.repeat else ''}</td>"
            f"<td>{thumbnails(row)}</td><td>{_value(row.prompt)}</td>"
            f"<td>{_value(row.case.get('expected'))}</td><td>{_answer(row)}</td>{scores}"
            f"<td>{'' if row.seconds is None else f'{row.seconds:.2f}'}</td>"
            f"<td>{'' if row.tokens.output is None else row.tokens.output}</td>"
            f"<td>{'cached' if row.cached else row.attempts}</td></tr>\n"
        )
    yield "</tbody></table>\n"


def _run_list(result: EvaluationResult) -> str:
    run = result.run
    shown = ("model", "prompt", "instructions", "options", "versions", "started_at")
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{_value(run[name])}</dd>"
        for name in shown
        if run.get(name) is not None
    )
    return f"<details><summary>How it was run</summary><dl>{items}</dl></details>\n"


def _kind(row: Row, names: Sequence[str]) -> str:
    if row.failed:
        return "failed"
    values = [value for name in names if (value := row.score(name)) is not None]
    if not values:
        return ""
    return "right" if min(values) >= 1 else "wrong"


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def write_comparison(comparison: Comparison, path: Path) -> Path:
    return _write(path, _page("Comparison", _comparison_parts(comparison)))


def _comparison_parts(comparison: Comparison) -> Iterable[str]:
    lines = "".join(f"<li>{escape(line)}</li>" for line in comparison._lines())
    yield f"<ul>{lines}</ul>\n"
    for name, result in (("first", comparison.first), ("second", comparison.second)):
        yield f"<h2>The {name} run</h2>{_run_list(result)}"
    yield "<h2>Changed rows</h2>\n"
    yield _controls([("better", "better"), ("worse", "worse")])
    yield _header(["#", "picture", "prompt", "expected", "first", "second", *comparison.scorers])
    for change in comparison.changed:
        first, second = change.first, change.second
        differences = "".join(
            f"<td>{'' if (d := change.differences[name]) is None else f'{d:+.3g}'}</td>"
            for name in comparison.scorers
        )
        yield (
            f'<tr class="{_direction(change)}" data-kind="{_direction(change)}">'
            f"<td>{change.index}</td><td>{thumbnails(second)}</td><td>{_value(second.prompt)}</td>"
            f"<td>{_value(second.case.get('expected'))}</td><td>{_answer(first)}</td>"
            f"<td>{_answer(second)}</td>{differences}</tr>\n"
        )
    yield "</tbody></table>\n"


def _direction(change: Change) -> str:
    return {True: "better", False: "worse", None: ""}[change.improved]
