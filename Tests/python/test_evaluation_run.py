"""A run over the scripted server: what is sent, what is tried again, and what is kept."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import openfm as fm
import pytest
from conftest import ROOT
from counting_server import CountingServer
from openfm.evaluation import (
    Cache,
    EvaluationError,
    EvaluationResult,
    Progress,
    Score,
    compare,
    exact,
    fields_f1,
    label_match,
    llm_judge,
)
from openfm.evaluation._markdown import summary_lines
from scripted_server import ScriptedServer

Models = Callable[..., fm.ChatCompletionsLanguageModel]


def evaluate(*arguments: Any, **more: Any) -> EvaluationResult:
    return fm.evaluate(*arguments, **{"progress": False, **more})


def texts(count: int) -> list[dict[str, str]]:
    return [{"text": f"number {index}", "expected": f"number {index}"} for index in range(count)]


def bodies(server: ScriptedServer) -> list[dict[str, Any]]:
    return [entry["body"] for entry in server.log() if entry["method"] == "POST"]


def last_texts(server: ScriptedServer) -> list[str]:
    found = []
    for body in bodies(server):
        content = body["messages"][-1]["content"]
        found.append(content if isinstance(content, str) else content[-1]["text"])
    return found


# ---- What is asked


def test_rows_come_back_in_order_with_all_that_is_known(model: Models, picture: Path) -> None:
    cases = [{"image": picture, "expected": f"[1: image/jpeg {n}"} for n in range(12)]
    cases.append({"image": picture, "expected": "What?"})
    result = evaluate(cases, "What?", model=model(), max_concurrency=5)
    assert [row.index for row in result] == list(range(13))
    row = result[0]
    assert row.answer.startswith("What?\n[1: image/jpeg 48x64")
    assert row.prompt == "[image: arrow.jpg]\nWhat?"
    assert row.images[0]["path"] == str(picture)
    assert (row.images[0]["width"], row.images[0]["height"]) == (48, 64)
    assert row.tokens.input is not None and row.tokens.output is not None
    assert (row.finish_reason, row.attempts, row.error, row.cached) == ("stop", 1, None, False)
    assert row.seconds is not None and row.seconds > 0
    assert result.tokens.input == sum(row.tokens.input for row in result)
    run = result.run
    assert run["model"]["base_url"].startswith("http://127.0.0.1")
    assert run["options"] == [{"sampling": {"mode": "greedy"}}]
    assert run["versions"]["openfm"] == fm.__version__
    assert len(run["prompt_sha256"]) == 64


def test_each_row_has_a_session_of_its_own(model: Models, server: ScriptedServer) -> None:
    evaluate(texts(4), "Say {text}", model=model(), instructions="Be brief.", max_concurrency=2)
    for body in bodies(server):
        assert [message["role"] for message in body["messages"]] == ["system", "user"]


def test_a_session_of_the_callers_making(model: Models, server: ScriptedServer) -> None:
    shared = fm.LanguageModelSession("Remember.", model())
    evaluate(texts(3), "Say {text}", session=lambda case: shared, max_concurrency=1)
    assert [len(body["messages"]) for body in bodies(server)] == [2, 4, 6]
    with pytest.raises(EvaluationError, match="session= makes the sessions"):
        evaluate(texts(1), "x", session=lambda case: shared, instructions="y")


def test_structured_answers_and_a_schema_of_the_case(model: Models) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    cases = [{"text": "a", "expected": "red"}, {"text": "b", "expected": "blue"}]
    result = evaluate(cases, "{text}", model=model(), schema=schema)
    # The server answers with the smallest instance; the one property is what is compared.
    assert [row.answer for row in result] == [{"colour": "red"}, {"colour": "red"}]
    assert [row.score("exact colour") for row in result] == [1, 0]
    matrix = result.confusion_matrix()
    assert (matrix.labels, matrix.counts) == (("blue", "red"), ((0, 1), (0, 1)))
    each = evaluate(cases, "{text}", model=model(), schema=lambda case: schema if case["text"] == "a" else None)  # fmt: skip # noqa: E501
    assert [row.answer for row in each] == [{"colour": "red"}, "b"]


@fm.generable
class Draft:
    shop: str
    total: int


def test_typed_answers(model: Models) -> None:
    seen = []

    def score(answer: Draft, case: dict[str, Any]) -> float:
        seen.append(answer)
        return float(answer.total == case["expected"]["total"])

    cases = [{"text": "a", "expected": {"shop": "x", "total": 0}}]
    result = evaluate(
        cases, "{text}", model=model(), generating=Draft, scorers=[score, fields_f1()]
    )
    assert not result.failed, result.errors
    assert result[0].answer == {"shop": "x", "total": 0}
    assert [row.score(name) for row in result for name in result.scorers] == [1, 1]
    assert seen == [Draft(shop="x", total=0)]
    words = evaluate(cases, "{text}", model=model(), generating=Literal["red", "blue"], scorers=[])
    assert words[0].answer == "red"


@fm.generable
class Choice:
    picture: fm.ImageReference


def test_a_label_that_is_named(model: Models, picture: Path) -> None:
    cases = [{"a": str(picture), "b": str(picture), "expected": label} for label in "AB"]
    result = evaluate(
        cases, "{a:image=A}{b:image=B}Which?", model=model(), generating=Choice,
        scorers=label_match("picture"),
    )  # fmt: skip
    assert not result.failed, result.errors
    # The server's smallest instance names the first of the labels that are attached.
    assert [row.score("label_match picture") for row in result] == [1, 0]
    matrix = result.confusion_matrix()
    assert (matrix.labels, matrix.counts) == (("A", "B"), ((1, 0), (1, 0)))


def test_seeds_and_repeats(model: Models, server: ScriptedServer) -> None:
    options = fm.GenerationOptions(sampling=fm.SamplingMode.random(top=5))
    result = evaluate(texts(2), "{text}", model=model(), options=options, repeat=3, seed=7)
    assert [(row.index, row.repeat, row.seed) for row in result] == [
        (index, repeat, 7 + repeat) for index in range(2) for repeat in range(3)
    ]
    assert sorted(body["seed"] for body in bodies(server)) == [7, 7, 8, 8, 9, 9]
    server.clear()
    warm = fm.GenerationOptions(temperature=0.7)
    evaluate(texts(1), "{text}", model=model(), options=warm, repeat=2)
    assert sorted(body["seed"] for body in bodies(server)) == [0, 1]
    server.clear()
    evaluate(texts(1), "{text}", model=model())
    assert bodies(server)[0]["temperature"] == 0
    with pytest.raises(
        EvaluationError, match="repeat=2 with greedy sampling would ask for the sam"
    ):
        evaluate(texts(1), "{text}", model=model(), repeat=2)
    assert len(bodies(server)) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_concurrency": 0}, "max_concurrency must be at least 1"),
        ({"timeout": -1}, "timeout must be more than 0"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"scorers": exact}, "call it, as in exact()"),
        ({"schema": 7}, "schema must be a JSON Schema"),
        ({"generating": 7}, "generating must be a class decorated with @generable"),
        ({"schema": {}, "generating": int}, "exclude each other"),
    ],
)
def test_what_is_wrong_with_the_call_is_told_before_anything_is_sent(
    model: Models, server: ScriptedServer, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(EvaluationError, match=words.replace("(", r"\(").replace(")", r"\)")):
        evaluate(texts(1), "{text}", model=model(), **arguments)
    assert bodies(server) == []


# ---- What goes wrong


def test_a_bad_row_stays_and_the_others_go_on(
    model: Models, server: ScriptedServer, picture: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(picture.read_bytes()[:80])
    cases = [
        {"image": str(picture)},
        {"image": str(broken)},
        {"image": str(tmp_path / "missing.jpg")},
        {"text": "no picture"},
        {"image": str(picture)},
    ]
    result = evaluate(cases, "{image} What?", model=model())
    assert [row.error.kind if row.error else None for row in result] == [
        None, "CorruptImageError", "ImageNotFoundError", "EvaluationError", None,
    ]  # fmt: skip
    assert str(broken) in (result[1].error.message if result[1].error else "")
    assert list(result.errors) == ["CorruptImageError", "ImageNotFoundError", "EvaluationError"]
    assert len(bodies(server)) == 2


@pytest.mark.parametrize(
    ("scenario", "options", "kind", "sent"),
    [
        ("error", {"status": 500}, "ServerError", 3),
        ("error", {"status": 502}, "ServerError", 3),
        ("error", {"status": 400}, "ServerError", 1),
        ("unauthorized", {}, "AuthenticationError", 1),
        ("no-model", {}, "EndpointNotFoundError", 1),
        ("too-large", {}, "RequestTooLargeError", 1),
        ("overflow", {}, "ExceededContextWindowSizeError", 1),
        ("refusal", {}, "RefusalError", 1),
        ("broken-off", {}, "EndedEarlyError", 3),
        ("html", {}, "InvalidResponseError", 1),
        ("html", {"status": 502}, "ServerError", 3),
    ],
)
def test_only_what_can_succeed_is_tried_again(
    model: Models,
    server: ScriptedServer,
    quick: None,
    scenario: str,
    options: dict[str, Any],
    kind: str,
    sent: int,
) -> None:
    """The counts are the server's: the model's own retries would show in them."""
    result = evaluate(texts(1), "{text}", model=model(scenario, **options), retries=2)
    assert result[0].error is not None and result[0].error.kind == kind
    assert result[0].error.message
    assert result[0].attempts == sent
    assert len(bodies(server)) == sent


def test_the_default_model_does_not_try_again_either(
    server: ScriptedServer, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENFM_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENFM_MODEL", "scenario:error?status=500")
    result = evaluate(texts(1), "{text}", retries=1)
    assert result[0].attempts == len(bodies(server)) == 2


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts are some milliseconds."""
    monkeypatch.setattr("openfm.evaluation._ask._FIRST_WAIT", 0.01)
    monkeypatch.setattr("openfm.evaluation._gate._FIRST_WAIT", 0.01)


def test_what_failed_once_is_answered_then(
    model: Models, server: ScriptedServer, quick: None
) -> None:
    server.script({"name": "error", "options": {"status": 500}}, {"name": "broken-off"})
    result = evaluate(texts(1), "{text}", model=model())
    assert (result[0].answer, result[0].attempts) == ("number 0", 3)
    assert result[0].score("exact") == 1


def test_a_server_that_refuses_for_load_gets_less_and_nothing_is_lost(quick: None) -> None:
    with CountingServer(delay=0.01, most=4) as server:
        model = fm.ChatCompletionsLanguageModel(server.base_url, "m", context_size=4096)
        cases = [{"id": index, "expected": f"answer {index}"} for index in range(150)]
        result = evaluate(cases, "<<{id}>>", model=model, max_concurrency=32)
        counts = server.counts()
    assert [row.score("exact") for row in result] == [1.0] * 150
    assert counts["answered"] == {str(index): 1 for index in range(150)}
    assert counts["refused"] > 0
    # Without backing off, every answer would cost the refusals of 28 others.
    assert counts["refused"] < 3 * 150


def test_the_time_that_a_server_asks_for_is_kept(model: Models, server: ScriptedServer) -> None:
    server.script({"name": "rate-limit", "options": {"retry_after": "1"}})
    start = time.monotonic()
    result = evaluate(texts(3), "{text}", model=model(), max_concurrency=1)
    assert not result.failed and result[0].attempts == 2
    log = [entry for entry in server.log() if entry["method"] == "POST"]
    assert log[1]["received_at"] - log[0]["received_at"] >= 1
    assert time.monotonic() - start < 10


def test_patience_ends(model: Models, server: ScriptedServer, quick: None) -> None:
    result = evaluate(texts(3), "{text}", model=model("overloaded"), patience=1, max_concurrency=1)
    assert [row.error.kind for row in result.failed if row.error] == ["ServerError"] * 3
    assert len(bodies(server)) > 3


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("rate-limit", {"retry_after": "0"}),
        ("error", {"status": 503, "retry_after": "0"}),
        ("overloaded", {}),
    ],
)
@pytest.mark.parametrize("count", [1, 40])
def test_patience_is_for_the_run_and_every_refusal_costs_a_wait(
    model: Models, server: ScriptedServer, scenario: str, options: dict[str, Any], count: int
) -> None:
    """With the product's own waits. Patience for each row would take 40 times as long, and a server
    that is asked as fast as it refuses gets hundreds of requests."""
    start = time.monotonic()
    result = evaluate(
        texts(count), "{text}", model=model(scenario, **options), patience=0.5, max_concurrency=4
    )
    assert time.monotonic() - start < 10
    assert len(result.failed) == count and len(result.errors) == 1
    attempts = [row.attempts for row in result]
    assert sum(attempts) == len(bodies(server))
    # Four at first, then the waits of 0.05 s and more, each the double of the one before.
    assert 2 <= sum(attempts) <= 16
    # What came after the end of the patience was not sent.
    assert attempts.count(0) >= count - 16
    assert all(row.error and row.error.message for row in result)


def test_a_wait_beyond_the_patience_is_not_begun(model: Models, server: ScriptedServer) -> None:
    start = time.monotonic()
    slow = model("rate-limit", retry_after="3600")
    result = evaluate(texts(9), "{text}", model=slow, patience=5, max_concurrency=2)
    assert time.monotonic() - start < 5
    assert result.errors.keys() == {"RateLimitedError"} and len(result.failed) == 9
    assert len(bodies(server)) <= 2


def test_nor_is_it_where_others_are_answered(model: Models, server: ScriptedServer) -> None:
    server.script({"name": "echo"}, {"name": "rate-limit", "options": {"retry_after": "3600"}})
    start = time.monotonic()
    result = evaluate(texts(9), "{text}", model=model(), patience=5, max_concurrency=2)
    assert time.monotonic() - start < 5
    assert result.answered and result.errors.keys() == {"RateLimitedError"}


def test_an_answer_renews_the_patience(model: Models, server: ScriptedServer) -> None:
    """Refusals take longer than the patience in all, but never so long in a row."""
    refusal = {"name": "rate-limit", "options": {"retry_after": "0.3"}}
    server.script(*[refusal, {"name": "echo"}] * 6)
    result = evaluate(texts(6), "{text}", model=model(), patience=1.5, max_concurrency=1)
    assert not result.failed and [row.attempts for row in result] == [2] * 6


def test_a_row_that_takes_too_long_is_stopped(model: Models, server: ScriptedServer) -> None:
    start = time.monotonic()
    result = evaluate(texts(2), "{text}", model=model("hang-before"), timeout=0.3)
    assert time.monotonic() - start < 5
    assert [row.error.kind for row in result if row.error] == ["RowTimeoutError"] * 2
    assert "longer than 0.3 s" in (result[0].error.message if result[0].error else "")
    assert [row.attempts for row in result] == [1, 1]


def test_a_timeout_leaves_the_waits_out(model: Models, server: ScriptedServer) -> None:
    server.script({"name": "rate-limit", "options": {"retry_after": "1"}})
    result = evaluate(texts(1), "{text}", model=model(), timeout=0.8)
    assert not result.failed


# ---- Scorers


def test_scorers_of_the_callers_making(model: Models) -> None:
    async def later(answer: str, case: dict[str, str]) -> Score:
        await asyncio.sleep(0)
        return Score(0.5, "half")

    def half_of_them(answer: str, case: dict[str, str]) -> bool | None:
        number = int(answer.split()[-1])
        return None if number % 2 else True

    def broken(answer: str, case: dict[str, str]) -> float:
        raise KeyError("nothing")

    scorers = {"later": later, "even": half_of_them, "broken": broken}
    result = evaluate(texts(4), "{text}", model=model(), scorers=scorers)
    assert [row.score("later") for row in result] == [0.5] * 4
    assert [row.score("even") for row in result] == [1, None, 1, None]
    assert [row.score_errors for row in result] == [{"broken": "KeyError: 'nothing'"}] * 4
    even, failed = result.aggregates["even"], result.aggregates["broken"]
    assert (even.count, even.mean, even.failed) == (2, 1, 0)
    assert (failed.count, failed.mean, failed.mean_with_failures, failed.failed) == (0, None, 0, 4)


def test_scores_that_failed_are_told(model: Models) -> None:
    def broken(answer: str, case: dict[str, str]) -> float:
        raise KeyError("nothing")

    scorers = {
        "broken": broken,
        "text": lambda answer, case: "good",
        "nan": lambda answer, case: float("nan"),
        "dict": lambda answer, case: {},
        "field": exact("colour"),
    }
    result = evaluate(texts(3), "{text}", model=model(), scorers=scorers)
    lines = "\n".join(summary_lines(result))
    markdown, html = result.to_markdown(), result._repr_html_()
    for name, reason in [
        ("broken", "KeyError: 'nothing'"),
        ("text", "EvaluationError: a scorer returns a number, a bool, a Score or None, not str"),
        ("nan", "EvaluationError: a score must be a finite number, not nan"),
        ("dict", "EvaluationError: a scorer returns a number, a bool, a Score or None, not dict"),
        ("field", "EvaluationError: the answer is text, which has no field 'colour'"),
    ]:
        assert f"{name} failed on 3 of 3 answers, first on row 0: {reason}" in lines
        assert f"{name} failed on 3 of 3 answers" in markdown
        assert f"{name} failed on 3 of 3 answers" in html


@pytest.mark.parametrize("name", ["model", "scorers", "session", "progress"])
def test_what_is_no_such_thing_is_refused_by_name(name: str) -> None:
    with pytest.raises(fm.InvalidArgumentError, match=f"^{name} must be .* not int"):
        fm.evaluate(texts(1), "{text}", **{name: 5})


def test_dataclass_cases_are_scored_too(model: Models) -> None:
    @dataclasses.dataclass
    class Case:
        text: str
        expected: str

    seen = []
    scorers = [exact(), lambda answer, case: seen.append(case) or 1]
    result = evaluate([Case("a", "a")], "{text}", model=model(), scorers=scorers)
    assert result.scorers == ["exact", "<lambda>"]
    assert result[0].score("exact") == 1 and seen == [Case("a", "a")]


def test_failures_cannot_raise_a_score(model: Models, server: ScriptedServer, quick: None) -> None:
    server.script({"name": "unauthorized"})
    result = evaluate(texts(4), "{text}", model=model(), max_concurrency=1)
    aggregate = result.aggregates["exact"]
    assert (aggregate.count, aggregate.mean, aggregate.failed) == (3, 1, 1)
    assert aggregate.mean_with_failures == 0.75


def test_a_model_judges_with_a_rubric(model: Models, server: ScriptedServer) -> None:
    judge = llm_judge("It says the number.", model=model("echo"), lowest=1, highest=3)
    result = evaluate(texts(2), "{text}", model=model("text", text="Four."), scorers=[judge])
    # The server's instance of the judge's schema has the lowest grade.
    assert [row.score("llm_judge") for row in result] == [0, 0]
    assert result[0].scores["llm_judge"].details == {"grade": 1}
    asked = [body for body in bodies(server) if "response_format" in body]
    assert len(asked) == 2
    text = asked[0]["messages"][-1]["content"]
    text = text if isinstance(text, str) else text[0]["text"]
    assert "It says the number." in text and '"Four."' in text
    with pytest.raises(EvaluationError, match="needs a rubric"):
        llm_judge(" ")


def test_judges_with_other_rubrics_are_other_scorers(model: Models) -> None:
    from openfm.evaluation._values import code_fingerprint

    first, second = llm_judge("a", model=model()), llm_judge("b", model=model())
    assert code_fingerprint(first) != code_fingerprint(second)
    assert code_fingerprint(first) == code_fingerprint(llm_judge("a", model=model()))
    assert code_fingerprint(first) != code_fingerprint(llm_judge("a", model=model("text")))


# ---- Comparing


def test_two_prompts_on_the_same_cases(model: Models) -> None:
    cases = texts(20)
    first = evaluate(cases, "{text}!", model=model())
    second = evaluate(list(reversed(cases)), "{text}", model=model())
    comparison = compare(first, second)
    test = comparison.tests["exact"]
    assert (test.difference, test.better, test.worse, test.count) == (1, 20, 0, 20)
    assert test.p == pytest.approx(2 / 2**20)
    assert [change.index for change in comparison.changed] == list(range(20))
    assert all(change.improved for change in comparison.changed)
    assert "number 3!" in comparison.to_markdown()
    assert compare(first, first).changed == []
    with pytest.raises(EvaluationError, match="no case in common"):
        compare(first, evaluate([{"text": "other"}], "{text}", model=model()))
    with pytest.raises(EvaluationError, match="not both runs have the scorer 'other'"):
        compare(first, second, "other")


# ---- The file


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_row_is_in_the_file_when_it_arrives(model: Models, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    seen = []

    def look(answer: str, case: dict[str, str]) -> float:
        seen.append(len(out.read_text().splitlines()))
        return 1.0

    result = evaluate(texts(5), "{text}", model=model(), scorers=[look], out=out, max_concurrency=1)
    assert seen == [1, 2, 3, 4, 5]
    run, *rows = lines(out)
    assert run["type"] == "run" and [row["type"] for row in rows] == ["row"] * 5
    loaded = EvaluationResult.load(out)
    assert [row.to_dict() for row in loaded] == [row.to_dict() for row in result]
    assert loaded.scorers == result.scorers and loaded.aggregates == result.aggregates


def test_only_what_is_missing_or_failed_is_asked_again(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    server.script({"name": "unauthorized"}, {"name": "unauthorized"})
    first = evaluate(texts(4), "{text}", model=model(), out=out, max_concurrency=1)
    assert len(first.failed) == 2
    server.clear()
    again = evaluate(texts(6), "{text}", model=model(), out=out, max_concurrency=1)
    assert not again.failed and len(again) == 6
    assert last_texts(server) == ["number 0", "number 1", "number 4", "number 5"]
    # The failed lines are gone, and the rows are in the cases' order.
    assert [row["index"] for row in lines(out)[1:]] == list(range(6))
    assert again.tokens.output == 12
    server.clear()
    evaluate(texts(6), "{text}", model=model(), out=out)
    assert bodies(server) == []


def test_rows_of_cases_that_are_not_asked_now_are_kept(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    server.script({"name": "unauthorized"})
    evaluate(texts(4), "{text}", model=model(), out=out, max_concurrency=1)
    evaluate(texts(2), "{text}", model=model(), out=out, max_concurrency=1)
    assert [row["index"] for row in lines(out)[1:]] == [0, 1, 2, 3]
    assert all(row["error"] is None for row in lines(out)[1:])


def test_a_file_is_of_one_run(model: Models, server: ScriptedServer, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    evaluate(texts(1), "{text}", model=model(), out=out)
    before = out.read_bytes()
    for change, words in [
        ({"prompt": "{text}?"}, "another prompt"),
        ({"model": model("text")}, "another model"),
        ({"instructions": "x"}, "other instructions"),
        ({"options": fm.GenerationOptions(temperature=1.0)}, "other options"),
        ({"schema": {"type": "object"}}, "another schema"),
        ({"session": lambda case: fm.LanguageModelSession()}, "sessions made otherwise"),
    ]:
        arguments = {"prompt": "{text}", "model": model(), **change}
        with pytest.raises(EvaluationError, match=f"holds a run with {words}"):
            evaluate(texts(1), out=out, **arguments)
    assert out.read_bytes() == before
    other = tmp_path / "notes.txt"
    for text in ("not ours\nat all\n", '{"a": 1}\n', '{"type": "x"}\n', "[]", '{"type": "row"}\n'):
        other.write_text(text)
        with pytest.raises(EvaluationError, match="is no file of results"):
            evaluate(texts(1), "{text}", model=model(), out=other)
        assert other.read_text() == text
    with pytest.raises(EvaluationError, match="cannot write the results"):
        evaluate(texts(1), "{text}", model=model(), out=tmp_path / "no" / "run.jsonl")


@pytest.mark.parametrize(
    ("damage", "asked"),
    [
        (lambda data: data[:-20], 1),
        (lambda data: data[:-1], 0),
        (lambda data: data[: len(data) // 2].rsplit(b"\n", 1)[0] + b'\n{"type":"r', None),
        (lambda data: data + b"\0" * 4096, 0),
        (lambda data: data[: data.index(b"\n")][:30], 8),
        (lambda data: b"", 8),
        (lambda data: data.replace(b'"index":3', b"\0\0\0\0\0\0\0\0\0"), 1),
        (lambda data: data.replace(b'"index":3', b'"index":x'), 1),
    ],
)
def test_a_file_that_a_crash_damaged_is_mended(
    model: Models,
    server: ScriptedServer,
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
    asked: int | None,
) -> None:
    out = tmp_path / "run.jsonl"
    whole = evaluate(texts(8), "{text}", model=model(), out=out, max_concurrency=1)
    out.write_bytes(damage(out.read_bytes()))
    server.clear()
    again = evaluate(texts(8), "{text}", model=model(), out=out, max_concurrency=1)
    assert [row.answer for row in again] == [row.answer for row in whole]
    assert len(bodies(server)) == asked or (asked is None and 0 < len(bodies(server)) < 8)
    rows = lines(out)[1:]
    assert sorted(row["index"] for row in rows) == list(range(8))


def test_files_are_read_by_jq(model: Models, server: ScriptedServer, tmp_path: Path) -> None:
    """At any time, also while rows arrive: here a scorer looks."""
    if shutil.which("jq") is None:
        pytest.skip("no jq")
    out, cache = tmp_path / "run.jsonl", tmp_path / "answers"

    def jq(program: str, *files: Path) -> list[str]:
        command = ["jq", "-r", program, *map(str, files)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    seen: list[list[str]] = []

    def look(answer: str, case: dict[str, str]) -> float:
        seen.append(jq('select(.type == "row") | .index', out))
        return 1.0

    server.script({"name": "unauthorized"})
    cases = [{"text": f'\u00e9\u4e2d {n} "quoted"\n\u2028'} for n in range(4)]
    evaluate(
        cases, "{text}", model=model(), scorers=[look], out=out, cache=cache, max_concurrency=1
    )
    assert seen == [["0"], ["0", "1"], ["0", "1", "2"]]
    assert jq("select(.error != null) | .error.kind", out) == ["AuthenticationError"]
    assert jq('select(.type == "run") | .cases', out) == ["4"]
    kept = sorted(cache.rglob("*.json"))
    assert len(kept) == 3
    assert jq(".answer.tokens.output > 0", *kept) == ["true"] * 3


def test_two_processes_never_write_one_file(model: Models, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    slow = model("slow-stream", chunks=40)

    async def main() -> None:
        first = asyncio.create_task(
            fm.evaluate_async(texts(1), "{text}", model=slow, out=out, progress=False)
        )
        while not out.exists():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        with pytest.raises(EvaluationError, match="another evaluation is writing"):
            await fm.evaluate_async(texts(1), "{text}", model=slow, out=out, progress=False)
        await first

    asyncio.run(main())


def test_a_picture_that_changed_is_asked_again(
    model: Models, server: ScriptedServer, picture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    other = tmp_path / "other.jpg"
    other.write_bytes(picture.read_bytes())
    cases = [{"image": str(picture)}, {"image": str(other)}]
    evaluate(cases, "What?", model=model(), out=out)
    server.clear()
    # Touched is not changed.
    os.utime(picture)
    evaluate(cases, "What?", model=model(), out=out)
    assert bodies(server) == []
    other.write_bytes(picture.read_bytes() + b"more")
    evaluate(cases, "What?", model=model(), out=out)
    assert len(bodies(server)) == 1


def test_scorers_may_change_without_asking_again(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    calls = []

    def counted(answer: str, case: dict[str, str]) -> float:
        calls.append(answer)
        return 0.0

    evaluate(texts(3), "{text}", model=model(), out=out, scorers=[counted])
    server.clear()
    both = evaluate(texts(3), "{text}", model=model(), out=out, scorers=[counted, exact()])
    assert bodies(server) == [] and len(calls) == 3
    assert [(row.score("counted"), row.score("exact")) for row in both] == [(0, 1)] * 3
    other = evaluate(texts(3), "{text}", model=model(), out=out, scorers={"counted": exact()})
    assert bodies(server) == []
    assert [row.score("counted") for row in other] == [1] * 3


# ---- The cache


def test_the_cache_is_off_and_then_where_it_was_told(
    model: Models, server: ScriptedServer, picture: Path, tmp_path: Path
) -> None:
    cases = [{"image": str(picture), "text": "a"}, {"image": str(picture), "text": "b"}]
    cache = tmp_path / "answers"
    for _ in range(2):
        evaluate(cases, "{text}", model=model())
    assert len(bodies(server)) == 4
    server.clear()
    first = evaluate(cases, "{text}", model=model(), cache=cache)
    second = evaluate(cases, "{text}", model=model(), cache=cache)
    assert len(bodies(server)) == 2
    assert [row.cached for row in second] == [True, True]
    assert [row.answer for row in second] == [row.answer for row in first]
    assert second.tokens.input is None and second[0].tokens == first[0].tokens
    for file in cache.glob("*/*.json"):
        assert set(json.loads(file.read_text())) == {"key", "request", "answer"}
    assert b"base64" not in b"".join(file.read_bytes() for file in cache.glob("*/*.json"))


def test_an_answer_is_found_by_all_that_it_depends_on(
    model: Models, server: ScriptedServer, picture: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "answers"
    case = {"image": str(picture)}
    base: dict[str, Any] = {"prompt": "What?", "model": model(), "cache": cache}
    evaluate([case], **base)
    random = fm.SamplingMode.random(seed=1)
    changes: list[dict[str, Any]] = [
        {"prompt": "What? "},
        {"prompt": "{image:image=A}What?"},
        {"prompt": lambda case: [fm.ImageAttachment(case["image"], orientation=3), "What?"]},
        {"model": model("text")},
        {"instructions": "x"},
        {"options": fm.GenerationOptions(maximum_response_tokens=9)},
        {"options": fm.GenerationOptions(sampling=random)},
        {"schema": {"type": "object", "properties": {}}},
    ]
    for change in changes:
        server.clear()
        evaluate([case], **{**base, **change})
        assert len(bodies(server)) == 1, change
        evaluate([case], **{**base, **change})
        assert len(bodies(server)) == 1, change
    server.clear()
    # The same picture elsewhere is the same picture; another one under its name is not.
    moved = tmp_path / "moved.jpg"
    moved.write_bytes(picture.read_bytes())
    evaluate([{"image": str(moved)}], **base)
    assert bodies(server) == []
    moved.write_bytes(picture.read_bytes() + b"x")
    evaluate([{"image": str(moved)}], **base)
    assert len(bodies(server)) == 1


def test_errors_are_never_kept_and_a_damaged_entry_is_none(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    cache = tmp_path / "answers"
    server.script({"name": "unauthorized"})
    assert evaluate(texts(1), "{text}", model=model(), cache=cache).failed
    assert not evaluate(texts(1), "{text}", model=model(), cache=cache).failed
    (entry,) = cache.glob("*/*.json")
    entry.write_text("{half")
    server.clear()
    evaluate(texts(1), "{text}", model=model(), cache=cache)
    assert len(bodies(server)) == 1 and json.loads(entry.read_text())["answer"]


def test_the_cache_is_the_calls_to_override(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    cache = tmp_path / "answers"
    evaluate(texts(2), "{text}", model=model(), cache=cache)
    server.clear()
    evaluate(texts(2), "{text}", model=model(), cache=Cache(cache, read=False))
    assert len(bodies(server)) == 2
    server.clear()
    only = Cache(cache, only=lambda case: case["text"] == "number 1")
    evaluate(texts(2), "{text}", model=model(), cache=only)
    assert last_texts(server) == ["number 0"]
    with pytest.raises(EvaluationError, match="cannot make the cache directory"):
        evaluate(texts(1), "{text}", model=model(), cache="/dev/null/x")


def test_repeats_are_kept_apart(model: Models, server: ScriptedServer, tmp_path: Path) -> None:
    options = fm.GenerationOptions(sampling=fm.SamplingMode.random())
    arguments: dict[str, Any] = {"model": model(), "options": options, "cache": tmp_path / "c"}
    evaluate(texts(1), "{text}", repeat=2, **arguments)
    evaluate(texts(1), "{text}", repeat=3, **arguments)
    assert sorted(body["seed"] for body in bodies(server)) == [0, 1, 2]


# ---- Where it runs


def test_under_a_running_loop_and_as_a_coroutine(model: Models) -> None:
    async def main() -> None:
        blocking = evaluate(texts(3), "{text}", model=model())
        waited = await fm.evaluate_async(texts(3), "{text}", model=model(), progress=False)
        assert [row.answer for row in blocking] == [row.answer for row in waited]

    asyncio.run(main())


def test_cancelling_leaves_a_file_to_go_on_from(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    slow = model("slow-stream", chunks=4, delay=0.02)
    cases = texts(60)

    async def main() -> None:
        task = asyncio.create_task(
            fm.evaluate_async(
                cases, "{text}", model=slow, out=out, progress=False, max_concurrency=2
            )
        )
        while not out.exists() or len(out.read_text().splitlines()) < 6:
            await asyncio.sleep(0.01)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - start < 1

    asyncio.run(main())
    done = len(lines(out)) - 1
    server.clear()
    result = evaluate(cases, "{text}", model=slow, out=out)
    assert not result.failed and len(bodies(server)) == 60 - done


PROGRAM = """
import sys, time
import openfm as fm
model = fm.ChatCompletionsLanguageModel(sys.argv[1], "m", context_size=4096)
cases = [{"id": index} for index in range(int(sys.argv[3]))]
print("ready", flush=True)
try:
    fm.evaluate(
        cases, "<<{id}>>", model=model, out=sys.argv[2], max_concurrency=4, progress=False,
        scorers=[lambda answer, case: time.sleep(60)] if "--blocking" in sys.argv else None,
    )
except KeyboardInterrupt:
    print(time.monotonic())
    sys.exit(130)
"""


def start(server: CountingServer, out: Path, count: int, *more: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.base_url, str(out), str(count), *more],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def wait_for_lines(out: Path, count: int) -> None:
    deadline = time.monotonic() + 20
    while not out.exists() or out.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_interrupt_stops_within_a_second(tmp_path: Path) -> None:
    import signal

    out = tmp_path / "run.jsonl"
    ended = []
    # While requests are answered, while all hang, and while a function of the caller blocks.
    for delay, more in ((0.05, ()), (60, ()), (0, ("--blocking",))):
        with CountingServer(delay=delay) as server:
            process = start(server, out, 2000, *more)
            wait_for_lines(out, 10 if delay == 0.05 else 1)
            while not server.counts()["asked"]:
                time.sleep(0.01)
            # To the middle of what takes long.
            time.sleep(0.2)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            told, errors = process.communicate(timeout=10)
            ended.append(time.monotonic() - begun)
            assert process.returncode == 130, errors
            assert float(told) - begun < 1, (delay, told)
            assert "stopped" in errors and str(out) in errors
            loaded = EvaluationResult.load(out)
            assert len(loaded) < 2000 and not loaded.failed
            assert delay != 0.05 or len(loaded) > 0
            out.unlink()
    # To the end of the process; of the machine's own slowness, half a second.
    assert max(ended) < 1.5 and min(ended) < 1, ended


def test_a_killed_run_goes_on_with_each_case_once(tmp_path: Path) -> None:
    """kill -9 at random moments, again and again; what was in the file is never asked again."""
    import random

    kills = 50 if os.environ.get("OPENFM_SOAK") else 5
    generator = random.Random(os.environ.get("OPENFM_SEED", "4"))
    out, total = tmp_path / "run.jsonl", 40 * kills
    with CountingServer(delay=0.01) as server:
        for _ in range(kills):
            process = start(server, out, total)
            time.sleep(generator.uniform(0, 0.15))
            process.kill()
            process.communicate()
            known: dict[str, int] = {}
            if out.exists():
                kept = out.read_bytes().split(b"\n")[1:-1]
                known = {str(json.loads(line)["case"]["id"]): 1 for line in kept}
            before = server.counts()["asked"]
            checked = start(server, out, total)
            time.sleep(generator.uniform(0, 0.1))
            checked.kill()
            checked.communicate()
            after = server.counts()["asked"]
            assert [name for name in known if after[name] != before[name]] == []
        process = start(server, out, total)
        assert process.wait(60) == 0
        process.communicate()
    run, *rows = lines(out)
    assert [row["case"]["id"] for row in sorted(rows, key=lambda row: row["index"])] == [
        *range(total)
    ]
    assert all(row["answer"] == f"answer {row['case']['id']}" for row in rows)


# ---- Progress


def test_progress_is_told(model: Models, server: ScriptedServer, quick: None) -> None:
    seen: list[Progress] = []

    def note(progress: Progress) -> None:
        seen.append(dataclasses.replace(progress))

    slow = model("slow-stream", chunks=5)
    fm.evaluate(texts(6), "{text}", model=slow, progress=note, max_concurrency=2)
    assert seen[-1].done == seen[-1].total == 6
    assert any(0 < progress.done < 6 and (progress.eta or 0) > 0 for progress in seen)
    assert seen[-1].tokens_per_second and "6/6" in str(seen[-1])


def test_progress_without_tqdm_is_lines_of_text(
    model: Models, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    fm.evaluate(texts(3), "{text}", model=model())
    error = capsys.readouterr().err
    assert error.startswith("evaluate: 3/3") and error.endswith("\n")


def test_progress_with_tqdm_is_its_bar(
    model: Models, server: ScriptedServer, quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    server.script({"name": "unauthorized"})
    fm.evaluate(texts(5), "{text}", model=model(), max_concurrency=1)
    error = capsys.readouterr().err
    last = error.replace("\r", "\n").strip().splitlines()[-1]
    assert last.startswith("evaluate: 100%") and "5/5" in last, error
    assert "failed=1" in last and "retrying=0" in last and "tokens/s=" in last
    # tqdm's own: the time that is left, and the pace.
    assert re.search(r"\[\d\d:\d\d<\d\d:\d\d, ", last)


def test_no_thread_is_left(model: Models) -> None:
    # Whoever used `respond_sync` before has left its loop's.
    before = threading.enumerate()
    evaluate(texts(3), "{text}", model=model())
    new = [thread.name for thread in threading.enumerate() if thread not in before]
    assert [name for name in new if "openfm" in name] == []
