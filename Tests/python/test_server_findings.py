"""What users of chat-completions servers ran into, one test each. The scripted server plays them;
its table FINDINGS has the scenarios, by the same names."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from typing import Any

import openfm as fm
import pytest
from scripted_server import FINDINGS, ScriptedServer
from test_tools import Weather

TRIED: set[str] = set()


def scenarios(finding: str) -> list[str]:
    TRIED.add(finding)
    return FINDINGS[finding]


def model_of(server: ScriptedServer, scenario: str, /, **options: Any) -> fm.LanguageModel:
    settings: dict[str, Any] = {"server": "llama.cpp", "context_size": 4096, "max_retries": 0}
    return fm.ChatCompletionsLanguageModel(
        server.base_url, f"scenario:{scenario}", **{**settings, **options}
    )


def ask(model: fm.LanguageModel, prompt: str = "Hello", **options: Any) -> fm.Response[Any]:
    return asyncio.run(fm.LanguageModelSession(model=model).respond_full(prompt, **options))


def failure(
    model: fm.LanguageModel, prompt: str = "Hello", **options: Any
) -> fm.FoundationModelsError:
    with pytest.raises(fm.FoundationModelsError) as caught:
        ask(model, prompt, **options)
    return caught.value


def posts(server: ScriptedServer) -> list[dict[str, Any]]:
    return [e for e in server.log() if e["path"].endswith("/chat/completions")]


# ---- The stream


@pytest.mark.parametrize("scenario", scenarios("comments anywhere"))
def test_comments_are_passed_over_wherever_they_stand(
    server: ScriptedServer, scenario: str
) -> None:
    assert ask(model_of(server, scenario)).content == "The quick brown fox jumps over"


@pytest.mark.parametrize("scenario", scenarios("a blank line after a comment"))
def test_events_without_data_are_none(server: ScriptedServer, scenario: str) -> None:
    assert ask(model_of(server, scenario)).content == "The quick brown fox jumps over"


@pytest.mark.parametrize("scenario", scenarios("a comment wrapped as data"))
def test_a_comment_in_a_data_line_is_skipped_and_other_rubbish_is_an_error(
    server: ScriptedServer, scenario: str
) -> None:
    assert ask(model_of(server, scenario)).content == "Hi"
    error = failure(model_of(server, "bad-chunk"))
    assert isinstance(error, fm.InvalidResponseError)
    assert '{"choices":[{"delta":{"content":"x"}' in str(error)


@pytest.mark.parametrize("scenario", scenarios("no final blank line and no [DONE]"))
def test_the_last_event_needs_no_end(server: ScriptedServer, scenario: str) -> None:
    answer = ask(model_of(server, scenario))
    assert answer.content == "The quick brown"
    assert answer.finish_reason == "stop"


@pytest.mark.parametrize("scenario", scenarios("an end without a finish reason"))
def test_an_end_without_a_finish_reason_keeps_the_text(
    server: ScriptedServer, scenario: str
) -> None:
    error = failure(model_of(server, scenario))
    assert isinstance(error, fm.EndedEarlyError)
    assert error.partial_text == "The quick brown"


@pytest.mark.parametrize("scenario", scenarios("errors in a stream"))
def test_all_spellings_of_an_error_in_a_stream(server: ScriptedServer, scenario: str) -> None:
    error = failure(model_of(server, scenario))
    assert isinstance(error, fm.ServerError)
    assert "the GPU went away" in str(error)
    assert error.details["partial_text"] == "The quick"


@pytest.mark.parametrize("scenario", scenarios("a server that hangs after its error"))
def test_an_error_ends_a_stream_that_stays_open(server: ScriptedServer, scenario: str) -> None:
    start = time.monotonic()
    error = failure(model_of(server, scenario))
    assert "the GPU went away" in str(error) or "Number of choices" in str(error)
    # It would hang for 30 s.
    assert time.monotonic() - start < 10
    assert server.log(finished=1)[-1]["closed_at"] is not None


@pytest.mark.parametrize("scenario", scenarios("a stream that stalls"))
def test_a_stream_that_stalls_meets_the_idle_limit(server: ScriptedServer, scenario: str) -> None:
    error = failure(model_of(server, scenario, timeout=fm.Timeout(idle=0.5)))
    assert isinstance(error, fm.TransportTimeoutError)
    assert "(idle time limit)" in str(error)
    assert error.details["partial_text"] == "The quick"


@pytest.mark.parametrize("scenario", scenarios("content that is none"))
def test_content_of_another_kind_is_no_empty_answer(server: ScriptedServer, scenario: str) -> None:
    error = failure(model_of(server, scenario))
    assert isinstance(error, fm.InvalidResponseError)
    assert "neither text nor a list of parts" in str(error)


@pytest.mark.parametrize("scenario", scenarios("a tool call that was not offered"))
def test_a_call_in_place_of_the_answer_is_no_empty_answer(
    server: ScriptedServer, scenario: str
) -> None:
    error = failure(model_of(server, scenario))
    assert isinstance(error, fm.EmptyResponseError)
    assert '"weather"' in str(error)


# ---- Errors


@pytest.mark.parametrize("scenario", scenarios("status 200 with an error"))
def test_a_good_status_with_an_error_in_its_body(server: ScriptedServer, scenario: str) -> None:
    error = failure(model_of(server, scenario))
    assert isinstance(error, fm.ServerError)
    assert "broken" in str(error)


@pytest.mark.parametrize("scenario", scenarios("overflow with silence"))
def test_silence_is_an_overflow_or_an_empty_response(server: ScriptedServer, scenario: str) -> None:
    error = failure(model_of(server, scenario))
    assert isinstance(error, fm.ExceededContextWindowSizeError)
    assert (error.token_count, error.context_size) == (4096, 4096)
    assert isinstance(failure(model_of(server, "empty?prompt_tokens=9")), fm.EmptyResponseError)


@pytest.mark.parametrize("scenario", scenarios("overflow in words"))
def test_every_servers_words_for_an_overflow(server: ScriptedServer, scenario: str) -> None:
    for how in ("", "&status=500", "&status=200", "&midstream=1"):
        error = failure(model_of(server, f"{scenario}{how}&prompt=5123&context=4096"))
        assert isinstance(error, fm.ExceededContextWindowSizeError)
        says_numbers = "5123" in (error.details.get("body") or "")
        expected = (5123, 4096) if says_numbers else (None, None)
        assert (error.token_count, error.context_size) == expected


LONG = "The quick brown fox jumps over the lazy dog. " * 700


@pytest.mark.parametrize("scenario", scenarios("a prompt that is cut in silence"))
def test_a_prompt_that_was_cut_in_silence_is_warned_of(
    server: ScriptedServer, scenario: str
) -> None:
    model = model_of(server, scenario, server="ollama", context_size=None)
    with pytest.warns(fm.ResponseWarning, match=r"counts 2048 tokens .* seems to have cut") as seen:
        answer = ask(model, LONG)
    assert answer.content == "Hello, world!"
    assert answer.metadata.warnings == tuple(str(entry.message) for entry in seen)
    assert len(answer.metadata.warnings) == 1

    async def stream() -> None:
        async for _ in fm.LanguageModelSession(model=model).stream_response(LONG):
            pass

    with pytest.warns(fm.ResponseWarning, match="num_ctx"):
        asyncio.run(stream())
    # What was read whole is no reason for a warning; nor is a count that nobody gave.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fine in (f"{scenario}?context=100000", "text?usage=absent"):
            model = model_of(server, fine, server="ollama", context_size=None)
            assert ask(model, LONG).metadata.warnings == ()
        # Texts of which a vocabulary may make few tokens.
        few = "text?prompt_tokens=900"
        for prompt in (
            "Hello",
            "a" * 20_000,
            "=-" * 9000,
            "\n" * 9000,
            "\u6771\u4eac" * 2000,
            "7" * 9000,
        ):
            model = model_of(server, few, server="ollama", context_size=None)
            assert ask(model, prompt).metadata.warnings == ()


@pytest.mark.parametrize("scenario", scenarios("shapes of errors"))
def test_every_shape_of_an_error_has_its_words(server: ScriptedServer, scenario: str) -> None:
    error = failure(model_of(server, scenario))
    assert isinstance(error, (fm.ServerError, fm.InvalidResponseError))
    assert "it broke" in str(error)
    assert "<html" not in str(error)
    assert error.details["http_status"] == 400


# ---- Tool calls


class Time(fm.Tool):
    name = "time"
    description = "Tells the time of a zone."

    @property
    def arguments_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}

    async def call(self, args: fm.GeneratedContent) -> str:
        return f"Noon in {args.value(str, for_property='zone')}."


def with_tools(model: fm.LanguageModel) -> str:
    session = fm.LanguageModelSession(model=model, tools=[Weather(), Time()])
    return asyncio.run(session.respond("?"))


@pytest.mark.parametrize("scenario", scenarios("shapes of tool calls"))
def test_calls_in_pieces_are_put_together(server: ScriptedServer, scenario: str) -> None:
    answer = with_tools(model_of(server, scenario, supports_tools=True))
    assert answer.split("\n") == ["Sunny in Paris.", "Noon in CET."]
    messages = posts(server)[-1]["body"]["messages"]
    calls = next(m["tool_calls"] for m in messages if m.get("tool_calls"))
    ids = [call["id"] for call in calls]
    assert len(set(ids)) == 2
    assert all(ids)
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ids


@pytest.mark.parametrize("scenario", scenarios("arguments as an object"))
def test_arguments_may_be_an_object(server: ScriptedServer, scenario: str) -> None:
    answer = with_tools(model_of(server, scenario, supports_tools=True))
    assert answer.split("\n") == ["Sunny in Paris.", "Noon in CET."]


@pytest.mark.parametrize("scenario", scenarios("arguments that are broken"))
def test_broken_arguments_are_an_error_and_no_empty_object(
    server: ScriptedServer, scenario: str
) -> None:
    tool = Weather()
    session = fm.LanguageModelSession(
        model=model_of(server, scenario, supports_tools=True), tools=[tool]
    )
    with pytest.raises(fm.ToolCallError, match="no JSON") as caught:
        asyncio.run(session.respond("?"))
    assert caught.value.tool_name == "weather"
    assert tool.seen == []


@pytest.mark.parametrize("scenario", scenarios("reasoning by two names"))
def test_reasoning_is_kept_out_of_the_answer(server: ScriptedServer, scenario: str) -> None:
    session = fm.LanguageModelSession(model=model_of(server, scenario))
    assert asyncio.run(session.respond("?")) == "Yes."
    assert "I think, therefore." in session.transcript.to_json()
    # A response of reasoning alone is none that is empty.
    field = scenario.partition("=")[2]
    only = {"choices": [{"delta": {field: "Hm."}, "finish_reason": "stop"}]}
    stream = {"headers": {"Content-Type": "text/event-stream"}, "steps": [{"event": only}]}
    server.script(stream)
    assert ask(model_of(server, scenario)).content == ""


# ---- Schemas


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("scenario", scenarios("one response_format"))
def test_schemas_go_as_json_schema_and_text_asks_for_nothing(
    server: ScriptedServer, scenario: str
) -> None:
    model = model_of(server, scenario, server="lmstudio")
    assert ask(model, json_schema=PERSON).content.value(str, for_property="name") == "x"
    assert ask(model).content == "Hello"
    formats = [entry["body"].get("response_format") for entry in posts(server)]
    assert formats[0]["type"] == "json_schema"
    assert formats[1] is None


@pytest.mark.parametrize("scenario", scenarios("a grammar that fails open"))
def test_answers_are_checked_whatever_the_server_promises(
    server: ScriptedServer, scenario: str
) -> None:
    error = failure(model_of(server, scenario), json_schema=PERSON)
    assert isinstance(error, fm.DecodingFailureError)
    assert error.raw_content == '{"name": 7}'
    assert error.details["json_path"] == "$.name"


@pytest.mark.parametrize("scenario", scenarios("a grammar that cannot hold all"))
def test_what_a_grammar_cannot_hold_is_left_out_and_checked_here(
    server: ScriptedServer, scenario: str
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "x+"},
            "tags": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^x$"}},
            "notes": {
                "type": "object",
                "properties": {"long": {"type": "string", "maxLength": 5000}},
                "required": ["long"],
            },
        },
        "required": ["code", "tags", "notes"],
    }
    content = ask(model_of(server, scenario), json_schema=schema).content
    assert json.loads(content.to_json()) == {"code": "x", "tags": ["x"], "notes": {"long": "x"}}
    # The schema as it was given decides.
    schema["properties"]["tags"]["items"]["pattern"] = "^y$"  # type: ignore[index]
    error = failure(model_of(server, scenario), json_schema=schema)
    assert isinstance(error, fm.DecodingFailureError)
    assert error.details["json_path"] == "$.tags[0]"


@pytest.mark.parametrize("scenario", scenarios("references that hang"))
def test_references_are_written_out_and_circles_refused(
    server: ScriptedServer, scenario: str
) -> None:
    definition = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = {
        "type": "object",
        "properties": {"one": {"$ref": "#/$defs/N"}, "two": {"$ref": "#/$defs/N"}},
        "required": ["one", "two"],
        "$defs": {"N": definition},
    }
    content = ask(model_of(server, scenario), json_schema=schema).content
    assert json.loads(content.to_json()) == {"one": {"n": 0}, "two": {"n": 0}}
    # A circle is written out a few steps, as far as an answer may leave it.
    circle = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": []}
    assert json.loads(ask(model_of(server, scenario), json_schema=circle).content.to_json())
    assert '"$ref"' not in json.dumps(posts(server)[-1]["body"]["response_format"])
    # One that no answer could leave is refused, and nothing sent.
    before = len(posts(server))
    circle["required"] = ["next"]
    error = failure(model_of(server, scenario), json_schema=circle)
    assert isinstance(error, fm.InvalidGenerationSchemaError)
    assert len(posts(server)) == before


# ---- Counts and limits


@pytest.mark.parametrize("scenario", scenarios("usage in the last chunk only"))
def test_usage_is_asked_for_and_read(server: ScriptedServer, scenario: str) -> None:
    usage = ask(model_of(server, scenario)).usage
    assert (usage.input.total, usage.output.total) == (5, 2)
    assert (usage.input.cached, usage.output.reasoning) == (None, None)
    assert posts(server)[0]["body"]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("scenario", scenarios("usage that is null or absent"))
def test_usage_that_nobody_gave_is_none(server: ScriptedServer, scenario: str) -> None:
    usage = ask(model_of(server, scenario)).usage
    assert (usage.input.total, usage.output.total) == (None, None)


@pytest.mark.parametrize("scenario", scenarios("stream_options refused"))
def test_a_server_that_knows_no_stream_options_is_asked_without(
    server: ScriptedServer, scenario: str
) -> None:
    model = model_of(server, scenario, server="generic")
    answer = ask(model)
    assert answer.content == "Hello, world!"
    assert answer.usage.input.total is None
    assert "stream_options" not in posts(server)[-1]["body"]


def test_counts_come_from_the_best_that_the_server_has(server: ScriptedServer) -> None:
    async def counts(profile: str, kind: str) -> tuple[int, bool]:
        model = fm.ChatCompletionsLanguageModel(
            f"{server.base_url}/p/{profile}", "scenario:echo", server=kind
        )
        count = await model.token_count("one two three")
        return int(count), count.is_exact

    # Three words, and what the server puts around a message.
    assert asyncio.run(counts("llamacpp", "llama.cpp")) == (7, True)
    estimate, is_exact = asyncio.run(counts("ollama", "ollama"))
    assert 3 <= estimate <= 20
    assert not is_exact


@pytest.mark.parametrize("scenario", scenarios("too many requests"))
def test_too_many_requests_are_tried_again_when_the_server_says(
    server: ScriptedServer, scenario: str
) -> None:
    name, _, value = scenario.partition("?retry_after=")
    busy = {"name": name, "options": {"retry_after": value}}
    server.script(busy)
    model = model_of(server, "text", max_retries=2)
    answer = ask(model)
    assert answer.content == "Hello, world!"
    assert [attempt.http_status for attempt in answer.metadata.attempts] == [429, 200]
    server.clear()
    server.script(busy, busy, busy, {"name": "text"})
    error = failure(model)
    assert isinstance(error, fm.RateLimitedError)
    assert error.retry_after is not None
    assert len(posts(server)) == 3
    # What is wrong for good is asked once.
    server.clear()
    assert isinstance(failure(model_of(server, "error?status=400", max_retries=5)), fm.ServerError)
    assert len(posts(server)) == 1


def test_every_finding_has_a_test() -> None:
    assert set(FINDINGS) == TRIED
