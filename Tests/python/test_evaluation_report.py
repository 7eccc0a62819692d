"""Results as people see them: notebooks, files in a real browser, tables, figures."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from browser import Browser
from openfm.evaluation import EvaluationError, EvaluationResult, compare, exact
from PIL import Image

Models = Callable[..., fm.ChatCompletionsLanguageModel]

HOSTILE = (
    '<script>window.hacked=1</script><img src=x onerror="window.hacked=2">'
    "<svg onload=window.hacked=3>\"'><iframe srcdoc='<script>parent.hacked=4</script>'></iframe>"
    '</td></table></textarea></style></script><a href="javascript:window.hacked=5">x</a>'
    '<img src="http://127.0.0.1:{port}/leak"><link rel=stylesheet href="http://127.0.0.1:{port}/l">'
    '<meta http-equiv=refresh content="0;url=http://127.0.0.1:{port}/m">$$\\href{{javascript:1}}$$'
)


def evaluate(*arguments: Any, **more: Any) -> EvaluationResult:
    return fm.evaluate(*arguments, **{"progress": False, **more})


class Listener:
    """Counts who connects: nobody should."""

    def __enter__(self) -> Listener:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def _count(self) -> None:
        while True:
            try:
                self._socket.accept()[0].close()
            except OSError:
                return
            self.connections += 1

    def __exit__(self, *_: object) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture
def hostile(
    model: Models, tmp_path: Path, picture: Path, listener: Listener
) -> tuple[EvaluationResult, str]:
    """A run where answers, cases, labels, scorers' words and error messages are all hostile."""
    words = HOSTILE.format(port=listener.port)
    bad = tmp_path / "<img src=x onerror=window.hacked=6>.jpg"
    bad.write_bytes(picture.read_bytes())
    cases = [
        {"image": str(bad), "expected": words},
        {"image": str(bad), "expected": words + "!", "label": words},
        {"image": str(tmp_path / "<script>window.hacked=7<script>.jpg"), "expected": words},
    ]

    def scorer(answer: str, case: dict[str, str]) -> float:
        raise ValueError(words)

    scorers = {"exact": exact(), f"<b>{words}": scorer}
    return evaluate(cases, words.replace("{", "{{").replace("}", "}}") + "{image}",
                    model=model("text", text=words), scorers=scorers), words  # fmt: skip


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.handlers: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def tags(html: str) -> Tags:
    parser = Tags()
    parser.feed(html)
    return parser


def test_hostile_words_are_only_words_in_a_notebook(
    hostile: tuple[EvaluationResult, str], listener: Listener, browser: Browser, tmp_path: Path
) -> None:
    result, words = hostile
    for shown in (
        result._repr_html_(),
        compare(result, result)._repr_html_(),
        result.confusion_matrix("exact")._repr_html_(),
    ):
        seen = tags(shown)
        assert not seen.found & {"script", "svg", "iframe", "a", "link", "meta", "form"}
        assert seen.handlers == []
        page = tmp_path / "page.html"
        # Without any policy that would help.
        page.write_text(f"<!DOCTYPE html><meta charset=utf-8>{shown}", encoding="utf-8")
        browser.open(page)
        assert (
            browser.evaluate("new Promise(r => setTimeout(() => r(window.hacked ?? 0), 100))") == 0
        )
        assert browser.requests() == []
    assert words[:40] in tags(result._repr_html_()).text
    assert listener.connections == 0


def test_hostile_words_are_only_words_in_the_report(
    hostile: tuple[EvaluationResult, str], listener: Listener, browser: Browser, tmp_path: Path
) -> None:
    result, words = hostile
    report = result.to_html(tmp_path / "report.html")
    browser.open(report)
    assert browser.evaluate("new Promise(r => setTimeout(() => r(window.hacked ?? 0), 200))") == 0
    assert browser.evaluate("document.body.innerText.includes('window.hacked=1')") is True
    assert browser.evaluate("document.querySelectorAll('script').length") == 1
    assert browser.requests() == [] and browser.complaints() == []
    assert listener.connections == 0
    # Even what gets past the escaping would not run or load. (A policy forbids no refresh.)
    words = re.sub("<meta[^>]*>", "", words)
    browser.evaluate(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(words)})")
    assert browser.evaluate("new Promise(r => setTimeout(() => r(window.hacked ?? 0), 200))") == 0
    assert listener.connections == 0


def test_hostile_words_are_only_words_where_an_answer_shows_itself(model: Models) -> None:
    words = HOSTILE.format(port=9)

    async def ask() -> str:
        session = fm.LanguageModelSession(model=model("text", text=words))
        return (await session.respond_full("Say it"))._repr_html_()

    seen = tags(asyncio.run(ask()))
    assert seen.found == {"div", "small"} and seen.handlers == []
    assert words[:60] in seen.text and "tokens out: " in seen.text


def test_a_transcript_shows_who_said_what(model: Models, picture: Path) -> None:
    words = HOSTILE.format(port=9)

    async def talk() -> str:
        session = fm.LanguageModelSession(words, model("text", text=words))
        await session.respond([fm.ImageAttachment(picture, "A"), words])
        return session.transcript._repr_html_()

    seen = tags(asyncio.run(talk()))
    assert seen.found == {"table", "tr", "th", "td", "div"} and seen.handlers == []
    # Instructions, question and answer; the picture by its label.
    assert seen.text.count(words[:60]) == 3 and "[image: A]" in seen.text


def test_the_report_shows_sorts_and_filters(
    model: Models, browser: Browser, tmp_path: Path, picture: Path
) -> None:
    photo = tmp_path / "photo.jpg"
    Image.effect_noise((1600, 1200), 80).convert("RGB").save(photo, quality=95)
    cases = [
        {"image": str(photo if index == 3 else picture), "expected": "yes" if index % 2 else "no"}
        for index in range(20)
    ]
    cases.append({"image": str(tmp_path / "missing.jpg"), "expected": "no"})
    result = evaluate(cases, "Is it?", model=model("text", text="yes"))
    report = result.to_html(tmp_path / "report.html")
    browser.open(report)
    assert browser.complaints() == [] and browser.requests() == []
    sizes = browser.evaluate(
        "Promise.all(Array.from(document.querySelectorAll('#rows img'), i => i.decode().then(() => "
        "[i.naturalWidth, i.naturalHeight, i.src.length])))"
    )
    assert len(sizes) == 20
    # Upright, small, and no more than 20 kB.
    assert sizes[0][:2] == [48, 64] and sizes[3][:2] == [96, 72]
    assert all(length * 3 / 4 < 20_000 for _, _, length in sizes)

    visible = (
        "Array.from(document.querySelectorAll('#rows tbody tr')).filter(r => !r.hidden)"
        ".map(r => r.cells[0].textContent.trim())"
    )
    click = (
        "Array.from(document.querySelectorAll('#rows th button')).find(b => b.textContent === {})"
    )
    assert browser.evaluate(visible) == [str(index) for index in range(21)]
    browser.evaluate(click.format("'exact'") + ".click()")
    order = browser.evaluate(visible)
    assert order[:10] == [str(i) for i in range(0, 20, 2)] and order[-1] == "20"
    browser.evaluate(click.format("'exact'") + ".click()")
    assert browser.evaluate(visible)[:10] == [str(i) for i in range(1, 20, 2)]
    assert browser.evaluate(visible)[-1] == "20"
    browser.evaluate(click.format("'#'") + ".click()")
    choose = (
        "(() => {{ const s = document.getElementById('kind'); s.value = '{}';"
        " s.dispatchEvent(new Event('change')); }})()"
    )
    for kind, wanted in [("wrong", range(0, 20, 2)), ("right", range(1, 20, 2)), ("failed", [20])]:
        browser.evaluate(choose.format(kind))
        assert browser.evaluate(visible) == [str(index) for index in wanted]
    browser.evaluate(choose.format(""))
    browser.evaluate(
        "(() => { const t = document.getElementById('text'); t.value = 'MISSING.jpg';"
        " t.dispatchEvent(new Event('input')); })()"
    )
    assert browser.evaluate(visible) == ["20"]
    assert browser.evaluate("document.getElementById('count').textContent") == "1 of 21 rows"
    assert "ImageNotFoundError" in browser.evaluate("document.body.innerText")


def test_a_comparison_as_a_file(model: Models, browser: Browser, tmp_path: Path) -> None:
    cases = [{"text": str(index), "expected": str(index)} for index in range(8)]
    first = evaluate(cases, "{text}", model=model("text", text="5"))
    second = evaluate(cases, "{text}", model=model())
    browser.open(compare(first, second).to_html(tmp_path / "comparison.html"))
    assert browser.complaints() == []
    assert browser.evaluate("document.querySelectorAll('#rows tbody tr.better').length") == 7
    assert "p=0.0156" in browser.evaluate("document.body.innerText")


def test_thumbnails_are_made_when_they_are_seen(
    model: Models, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    real = fm.imaging.prepare_image

    def counted(*arguments: Any) -> fm.PreparedImage:
        made.append(arguments)
        return real(*arguments)

    monkeypatch.setattr("openfm.evaluation._report.prepare_image", counted)
    result = evaluate([{"image": str(picture)}] * 40, "What?", model=model())
    assert made == []
    shown = result._repr_html_()
    assert len(made) <= 1 and shown.count("<img") == 30 and "10 more rows" in shown
    picture.unlink()
    assert "no such picture any more" in result._repr_html_()


def test_a_report_that_cannot_be_written_says_so(model: Models, tmp_path: Path) -> None:
    result = evaluate([{"text": "a"}], "{text}", model=model())
    with pytest.raises(EvaluationError, match="cannot write the report"):
        result.to_html(tmp_path / "no" / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def mixed(model: Models, picture: Path) -> EvaluationResult:
    """Texts and structured answers, a failed row, cases of different members."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 2}}}
    cases: list[dict[str, Any]] = [
        {"text": "a", "kind": "x", "expected": 2, "structured": True},
        {"text": "b", "kind": "y$", "expected": "b", "score": 1.5},
        {"image": str(picture.parent / "none.jpg"), "text": "c", "kind": "x", "expected": 1},
    ]
    return evaluate(
        cases, "{text}", model=model(),
        schema=lambda case: schema if case.get("structured") else None,
        scorers=[exact("n"), lambda answer, case: len(str(answer))],
    )  # fmt: skip


def test_as_a_table_of_pandas_and_polars(mixed: EvaluationResult) -> None:
    pandas_frame, polars_frame = mixed.to_pandas(), mixed.to_polars()
    assert len(pandas_frame) == len(polars_frame) == 3
    assert list(pandas_frame.columns) == polars_frame.columns
    assert pandas_frame["answer"][0] == {"n": 2}
    assert polars_frame["answer"].to_list() == ['{"n":2}', "b", None]
    assert list(pandas_frame["score.<lambda>"])[:2] == [8.0, 1.0]
    assert polars_frame["error_type"].to_list() == [None, None, "ImageNotFoundError"]
    assert polars_frame["case.score"].to_list() == [None, 1.5, None]
    assert pandas_frame["output_tokens"].notna().tolist() == [True, True, False]


def test_as_markdown(mixed: EvaluationResult) -> None:
    text = mixed.to_markdown()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 5
    # Every row has as many cells as the head; what Markdown would act on is escaped.
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in rows}
    assert counts == {7}
    assert "ImageNotFoundError" in text
    assert "&lt;lambda&gt;" in text
    assert "2 more rows" in mixed.to_markdown(1)


def test_as_a_figure(mixed: EvaluationResult, tmp_path: Path) -> None:
    figure = mixed.plot(by="kind")
    assert [axis.get_title() for axis in figure.axes] == [
        "scores by kind", "seconds to the answer", "tokens of the answer",
    ]  # fmt: skip
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["x", r"y\$"]
    figure.savefig(tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width > 1000
    # What a notebook asks for.
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_what_is_not_installed_is_named(
    mixed: EvaluationResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for module, method in [
        ("pandas", mixed.to_pandas),
        ("polars", mixed.to_polars),
        ("matplotlib.figure", mixed.plot),
    ]:
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=f"pip install {module.partition('.')[0]}$"):
            method()
