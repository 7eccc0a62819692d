"""The faults of the reference SDK that this one must not have, each with its tests.

What other tests show is named here, and must be there under that name; the rest is shown here. A
fault's number is only its place in this list.
"""

# ruff: noqa: UP007, UP037

from __future__ import annotations

import ast
import asyncio
import itertools
import json
import threading
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

import openfm as fm
import pytest
from conftest import ROOT, Live, Models
from openfm._native import Handle
from openfm.errors import error_for
from openfm.generation_property import Property
from scripted_server import ScriptedServer, chunk
from test_mixed_calls import resident
from test_tools import Simple, calls

#: What is wrong there, and the tests that show it right here.
FAULTS: dict[int, tuple[str, list[str]]] = {
    1: (
        "a stream stops the event loop",
        [
            "test_session.py::test_the_loop_goes_on_while_streaming",
            "test_session.py::test_a_timeout_stops_a_stream",
        ],
    ),
    2: ("a bad prompt hangs a stream", ["test_prompts.py::test_a_bad_prompt_is_never_sent"]),
    3: ("an empty snapshot ends a stream", ["::test_an_empty_piece_is_no_end"]),
    4: (
        "streams take no turn",
        [
            "test_session.py::test_others_wait_for_an_open_stream",
            "test_session.py::test_tasks_of_one_loop_queue_in_order",
        ],
    ),
    5: (
        "a thread a stream, and a callback into freed memory when it is left",
        [
            "::test_streams_need_no_threads",
            "test_session.py::test_leaving_a_stream_frees_the_session",
        ],
    ),
    6: ("errors lose the message", ["::test_errors_keep_what_the_server_said"]),
    7: (
        "the documented loop prints the text again and again",
        [
            "test_session.py::test_deltas_are_the_answer_in_pieces",
            "test_session.py::test_snapshots_are_cumulative",
        ],
    ),
    8: ("prompts leak", ["::test_nothing_leaks_where_something_fails"]),
    9: (
        "sessions of transcripts leak",
        ["test_transcripts.py::test_a_transcript_outlives_its_session_and_leaks_nothing"],
    ),
    10: (
        "a transcript borrows its session, and takes another's",
        [
            "test_transcripts.py::test_a_transcript_outlives_its_session_and_leaks_nothing",
            "test_transcripts.py::test_two_sessions_go_on_from_one_transcript",
        ],
    ),
    11: ("strings are never freed", ["::test_strings_are_freed"]),
    12: (
        "tools are collected while the session has them",
        ["test_tools.py::test_a_session_keeps_its_tools"],
    ),
    13: (
        "a late callback answers another request",
        ["::test_each_gets_its_own_answer_whoever_is_cancelled"],
    ),
    14: (
        "what failed half-way leaks, what is released twice is freed twice",
        ["::test_nothing_leaks_where_something_fails", "::test_releasing_twice_is_releasing_once"],
    ),
    15: ("options are ignored with a type", ["::test_options_count_for_guided_answers"]),
    16: (
        "a class's description is lost",
        ["test_generable.py::test_the_schema_has_the_reference_form"],
    ),
    17: (
        "nested classes cannot be written, nor asked for by isinstance",
        [
            "::test_nested_objects_are_written_and_read",
            "test_generable.py::test_isinstance_is_true_for_classes_and_instances",
        ],
    ),
    18: (
        "a class in quotes inside list[...] is not found on Python 3.10",
        [
            "::test_nested_objects_are_written_and_read",
            "test_interpreters.py::test_the_package_works_with",
        ],
    ),
    19: ("partial objects cannot be read", ["test_generable.py::test_partial_objects"]),
    20: ("an empty content breaks", ["::test_an_empty_content_is_one"]),
    21: (
        "X | None, Union, list[bool], Literal and dict have no schema; Optional is told by a name",
        [
            "test_generable.py::test_every_type_has_a_schema_that_takes_its_values",
            "test_generable.py::test_a_name_that_begins_with_optional_is_not_optional",
        ],
    ),
    22: (
        "missing and wrong fields pass, defaults do not",
        [
            "test_generable.py::test_missing_and_wrong_values_are_errors_with_a_path",
            "test_generable.py::test_defaults_stand_in_for_what_is_missing",
        ],
    ),
    23: (
        "classes of one name merge, subclasses lose their fields",
        [
            "test_generable.py::test_classes_of_the_same_name_stay_apart",
            "test_generable.py::test_a_subclass_keeps_its_own_fields",
        ],
    ),
    24: (
        "a local class cannot hold itself",
        ["test_generable.py::test_local_classes_refer_to_themselves_and_each_other"],
    ),
    25: (
        "tools run on loops of their own, and hang when they are cancelled",
        [
            "test_tools.py::test_async_tools_run_where_the_request_is_awaited",
            "test_tools.py::test_what_a_tool_raises_is_a_tool_call_error",
            "::test_no_exception_of_a_tool_hangs",
        ],
    ),
    26: (
        "prompt errors stand outside of the error tree, a path is no path, anything is a prompt",
        [
            "::test_prompt_errors_are_errors_of_the_package",
            "test_prompts.py::test_a_bad_prompt_is_never_sent",
        ],
    ),
    27: ("a refusal prints a tuple", ["test_values.py::test_a_refusal_is_text_and_not_a_tuple"]),
    28: (
        "an empty answer is None, two schemas are one, generating=5 is an AttributeError",
        [
            "::test_an_empty_answer_is_an_empty_text",
            "test_generable.py::test_what_excludes_what",
        ],
    ),
    29: (
        "a bad schema is no generation error, and respond does not raise it",
        ["::test_a_bad_schema_is_an_error_of_respond"],
    ),
    30: (
        "two versions, shared defaults, cut prompts",
        [
            "test_exports.py::test_one_version",
            "test_prompts.py::test_a_bad_prompt_is_never_sent",
            "::test_no_default_is_shared",
        ],
    ),
    31: (
        "options take bool and NaN",
        ["test_values.py::test_options_refuse", "test_values.py::test_sampling_refuses"],
    ),
    32: (
        "cancelling polls, and an error leaves the session busy",
        [
            "test_session.py::test_a_timeout_stops_the_request",
            "::test_a_session_is_free_after_every_kind_of_error",
        ],
    ),
}


def test_every_fault_has_its_tests() -> None:
    assert list(FAULTS) == list(range(1, 33))
    names: dict[str, set[str]] = {}
    for text, tests in FAULTS.values():
        assert tests, text
        for test in tests:
            file, name = test.split("::")
            path = ROOT / "Tests/python" / (file or Path(__file__).name)
            if file not in names:
                tree = ast.parse(path.read_text())
                names[file] = {
                    node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
                }
            assert name in names[file], test


# ---- Every name

#: What the reference's package exports.
NAMES = """
    SystemLanguageModel SystemLanguageModelUseCase SystemLanguageModelGuardrails
    SystemLanguageModelUnavailableReason LanguageModelSession Attachment ImageAttachment
    PromptComponent Prompt PromptError ImagePromptError Transcript Tool FoundationModelsError
    GenerationError ExceededContextWindowSizeError AssetsUnavailableError GuardrailViolationError
    UnsupportedGuideError UnsupportedLanguageOrLocaleError InvalidGenerationSchemaError
    DecodingFailureError RateLimitedError ConcurrentRequestsError RefusalError ToolCallError
    GenerationErrorCode generable guide GenerationSchema GeneratedContent GenerationGuide GuideType
    GenerationOptions SamplingMode SamplingModeType GenerationID ConvertibleFromGeneratedContent
    ConvertibleToGeneratedContent Generable
""".split()


def test_every_name_is_there_and_used_by_a_test() -> None:
    assert len(NAMES) == 40
    assert set(NAMES) <= set(fm.__all__)
    used = {
        node.attr
        for path in (ROOT / "Tests/python").glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "fm"
    }
    assert set(NAMES) - used == set()


def test_every_code_has_its_class() -> None:
    classes = {
        1: fm.ExceededContextWindowSizeError,
        2: fm.AssetsUnavailableError,
        3: fm.GuardrailViolationError,
        4: fm.UnsupportedGuideError,
        5: fm.UnsupportedLanguageOrLocaleError,
        6: fm.DecodingFailureError,
        7: fm.RateLimitedError,
        8: fm.ConcurrentRequestsError,
        9: fm.RefusalError,
        10: fm.InvalidGenerationSchemaError,
    }
    for code, kind in classes.items():
        error = error_for(code, "why", {})
        assert type(error) is kind
        assert isinstance(error, fm.GenerationError)
        assert fm.GenerationErrorCode(code) == code == error.code
        assert str(error) == "why"
    assert type(error_for(255, "why", {})) is fm.GenerationError


def test_guides_and_protocols_are_the_references() -> None:
    assert {kind.name: kind.value for kind in fm.GuideType} == {
        "anyOf": "enum",
        **{
            name: name
            for name in (
                "constant", "count", "element", "maxItems", "maximum", "minItems", "minimum",
                "range", "regex",
            )
        },
    }  # fmt: skip
    assert fm.GenerationGuide.minimum(3).guide_type is fm.GuideType.minimum
    parent = Parent("a", [])
    for kind in (fm.ConvertibleFromGeneratedContent, fm.ConvertibleToGeneratedContent):
        assert isinstance(parent, kind)
        assert not isinstance(3, kind)


# ---- Streams


def test_an_empty_piece_is_no_end(server: ScriptedServer, model: Models) -> None:
    pieces: list[Any] = [{"content": ""}, {"content": "a"}, {"content": ""}, {"content": "b"}]
    steps = [{"event": chunk(piece)} for piece in pieces]
    steps.append({"text": f"data: {json.dumps(chunk({}, finish='stop'))}\n\ndata: [DONE]\n\n"})

    async def main() -> None:
        for _ in range(2):
            server.script({"status": 200, "steps": steps})
        session = fm.LanguageModelSession(model=model())
        assert [text async for text in session.stream_response("?")][-1] == "ab"
        assert await session.respond("?") == "ab"

    asyncio.run(main())


def test_streams_need_no_threads(model: Models) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model("slow-stream", chunks=2, delay=0))
        async for _ in session.stream_response("?"):
            pass
        before = threading.active_count()
        sessions = [fm.LanguageModelSession(model=model("slow-stream")) for _ in range(20)]
        streams = [one.stream_response("?") for one in sessions]
        for stream in streams:
            await stream.__anext__()
        assert threading.active_count() == before
        for stream in streams:
            await stream.aclose()

    asyncio.run(main())


def test_errors_keep_what_the_server_said(server: ScriptedServer) -> None:
    busy = fm.ChatCompletionsLanguageModel(server.base_url, "scenario:rate-limit", max_retries=0)
    session = fm.LanguageModelSession(model=busy)

    async def main() -> None:
        with pytest.raises(fm.RateLimitedError, match="Rate limit reached for requests"):
            await session.respond("?")
        with pytest.raises(fm.RateLimitedError, match="Rate limit reached for requests"):
            async for _ in session.stream_response("?"):
                pass

    asyncio.run(main())


# ---- Lifetime


def test_nothing_leaks_where_something_fails(model: Models, picture: Path, live: Live) -> None:
    session = fm.LanguageModelSession(model=model())
    before = live.now()

    class Odd(fm.Attachment):
        def add_to_composed_prompt(self, prompt: Any) -> None:
            raise RuntimeError("odd")

    async def main() -> None:
        bad: Any = ["a", fm.ImageAttachment(picture), Odd()]
        for _ in range(20):
            with pytest.raises(RuntimeError):
                await session.respond(bad)
            with pytest.raises(RuntimeError):
                async for _ in session.stream_response(bad):
                    pass
            with pytest.raises(RuntimeError):
                await session.model.token_count(bad)
            with pytest.raises(TypeError):
                await session.respond("a", json_schema={"type": object()})
            with pytest.raises(fm.InvalidGenerationSchemaError):
                fm.GenerationSchema(
                    type("A", (), {}),
                    properties=[Property("a", bool, guides=[fm.GenerationGuide.regex("(")])],
                ).to_dict()

    asyncio.run(main())
    after = live.settle(before)
    assert all(after[kind] <= count for kind, count in before.items()), (before, after)


def test_strings_are_freed(model: Models) -> None:
    session = fm.LanguageModelSession("word " * 200_000, model())
    session.transcript.to_json()
    before = resident()
    for _ in range(200):
        session.transcript.to_json()
    # Each is a megabyte.
    assert resident() - before < 60 << 20


def test_each_gets_its_own_answer_whoever_is_cancelled(model: Models) -> None:
    numbers = itertools.count()

    async def ask(is_left: bool) -> None:
        text = f"number {next(numbers)}"
        session = fm.LanguageModelSession(model=model())
        if is_left:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.respond(text), 0)
        else:
            assert await session.respond(text) == text

    async def main() -> None:
        for _ in range(20):
            await asyncio.gather(*(ask(number % 2 == 0) for number in range(20)))

    asyncio.run(main())


def test_releasing_twice_is_releasing_once(live: Live) -> None:
    from openfm._ctypes_bindings import lib

    before = live.now()["prompt"]
    handle, other = (Handle(lib.FMComposedPromptInitialize()) for _ in range(2))
    handle.release()
    handle.release()
    assert handle.is_released
    with pytest.raises(ValueError, match="released"):
        _ = handle.address
    assert live.now()["prompt"] == before + 1
    assert other.address
    other.release()


# ---- Guided generation


@fm.generable("One who has children")
class Parent:
    name: str
    children: list["Parent"]
    first: Union["Parent", None] = None


def test_nested_objects_are_written_and_read() -> None:
    tree = Parent("a", [Parent("b", []), Parent("c", [], Parent("d", []))])
    assert isinstance(tree, fm.Generable) and isinstance(tree.children[1].first, fm.Generable)
    content = tree.generated_content
    assert content.to_json() == (
        '{"name": "a", "children": [{"name": "b", "children": []}, '
        '{"name": "c", "children": [], "first": {"name": "d", "children": []}}]}'
    )
    assert Parent._from_generated_content(fm.GeneratedContent.from_json(content.to_json())) == tree
    assert Parent.generation_schema().to_dict()["properties"]["children"]["items"] == {"$ref": "#"}


def test_options_count_for_guided_answers(server: ScriptedServer, model: Models) -> None:
    options = fm.GenerationOptions(temperature=0.25, maximum_response_tokens=77)
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}

    async def main() -> None:
        for arguments in (
            {"generating": Parent},
            {"schema": Parent.generation_schema()},
            {"json_schema": schema},
        ):
            session = fm.LanguageModelSession(model=model())
            await session.respond("?", options=options, **arguments)
            body = server.log()[-1]["body"]
            assert (body["temperature"], body["max_tokens"]) == (0.25, 77), arguments

    asyncio.run(main())


def test_an_empty_content_is_one() -> None:
    for content in (fm.GeneratedContent(), fm.GeneratedContent({})):
        assert content.to_json() == "{}"
        assert content.is_complete
        assert content.value(str, for_property="x") is None
        assert content.id is not None


def test_a_bad_schema_is_an_error_of_respond(server: ScriptedServer, model: Models) -> None:
    assert issubclass(fm.InvalidGenerationSchemaError, fm.GenerationError)

    async def main() -> None:
        session = fm.LanguageModelSession(model=model())
        for bad in ({"type": "objekt"}, {"$ref": "#/$defs/None"}, {"type": []}):
            with pytest.raises(fm.InvalidGenerationSchemaError):
                await session.respond("?", json_schema=bad)
        assert not session.is_responding

    asyncio.run(main())
    assert server.log() == []


def test_no_default_is_shared() -> None:
    @fm.generable
    @dataclass
    class Bag:
        things: list[str] = field(default_factory=list)

    one, two = (Bag._from_generated_content(fm.GeneratedContent()) for _ in range(2))
    one.things.append("x")
    assert two.things == []
    schemas = [fm.GenerationSchema(Bag) for _ in range(2)]
    assert schemas[0].to_dict() == schemas[1].to_dict()


# ---- Tools and errors


@pytest.mark.parametrize("kind", [KeyError, StopIteration, StopAsyncIteration, GeneratorExit])
@pytest.mark.parametrize("is_async", [True, False])
def test_no_exception_of_a_tool_hangs(model: Models, kind: type, is_async: bool) -> None:
    def fail() -> str:
        raise kind("odd")

    async def fail_later() -> str:
        await asyncio.sleep(0)
        raise kind("odd")

    tool = Simple("odd", fail_later if is_async else fail)
    session = fm.LanguageModelSession(model=model("tools", calls=calls(("odd", {}))), tools=[tool])

    async def main() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(fm.ToolCallError):
                await asyncio.wait_for(session.respond("?"), 20)
        assert not session.is_responding

    asyncio.run(main())


def test_prompt_errors_are_errors_of_the_package(tmp_path: Path) -> None:
    assert issubclass(fm.ImagePromptError, fm.PromptError)
    assert issubclass(fm.PromptError, fm.FoundationModelsError)
    path: Any = str(tmp_path / "none.jpg")
    with pytest.raises(fm.ImagePromptError, match=r"none\.jpg"):
        fm.ImageAttachment(path)


def test_an_empty_answer_is_an_empty_text(server: ScriptedServer, model: Models) -> None:
    # The server counts a token, so it is the model that has nothing to say.
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    end = {"event": chunk({}, finish="stop", usage=usage)}
    server.script({"status": 200, "steps": [end, {"text": "data: [DONE]\n\n"}]})
    assert asyncio.run(fm.LanguageModelSession(model=model()).respond("?")) == ""


def test_a_session_is_free_after_every_kind_of_error(model: Models) -> None:
    async def main() -> None:
        for scenario in ("error", "garbage", "broken-off", "refusal", "midstream-error"):
            session = fm.LanguageModelSession(model=model(scenario))
            for arguments in ({}, {"generating": Parent}, {"json_schema": {"type": "object"}}):
                with pytest.raises(fm.FoundationModelsError):
                    await session.respond("?", **arguments)
                assert not session.is_responding
                with pytest.raises(fm.FoundationModelsError):
                    async for _ in session.stream_response("?", **arguments):
                        pass
                assert not session.is_responding

    asyncio.run(main())
