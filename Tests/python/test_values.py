"""Errors, options, policies and contents as plain Python values."""

from __future__ import annotations

import copy
import errno
import math
import pickle
import unicodedata
from typing import Any

import openfm as fm
import pytest
from openfm.errors import error_for

NAN = math.nan


# ---- Errors


@pytest.mark.parametrize(
    ("kind", "builtin", "number"),
    [
        (fm.ImageNotFoundError, FileNotFoundError, errno.ENOENT),
        (fm.ImageIsADirectoryError, IsADirectoryError, errno.EISDIR),
        (fm.ImageNotReadableError, PermissionError, errno.EACCES),
    ],
)
def test_file_errors_are_the_builtin_ones_too(
    kind: type[fm.ImagePromptError], builtin: type[OSError], number: int
) -> None:
    error = kind("it is not there", "a.jpg")
    assert isinstance(error, builtin)
    assert isinstance(error, OSError)
    assert (error.errno, error.filename, error.path) == (number, "a.jpg", "a.jpg")
    assert str(error) == "it is not there"


def test_other_builtin_relatives() -> None:
    assert issubclass(fm.TransportTimeoutError, TimeoutError)
    assert issubclass(fm.ConnectError, ConnectionError)
    assert issubclass(fm.PromptTypeError, TypeError)
    for kind in (
        fm.InvalidPromptTextError,
        fm.EmptyPromptError,
        fm.InvalidImagePathError,
        fm.DuplicateLabelError,
        fm.InvalidLabelError,
        fm.InvalidOrientationError,
        fm.InvalidURLError,
        fm.InvalidArgumentError,
    ):
        assert issubclass(kind, ValueError)


@pytest.mark.parametrize(
    "name", [name for name in fm.__all__ if name.endswith("Error") and name != "ToolCallError"]
)
def test_anyone_can_raise_one_and_send_it_to_another_process(name: str) -> None:
    kind: type[fm.FoundationModelsError] = getattr(fm, name)
    assert str(kind()) == ""
    error = kind("a message", details={"url": "http://x", "path": "p"})
    assert str(error) == "a message"
    assert error.code == kind.default_code
    for made in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(made) is kind
        assert (str(made), made.code, made.details) == ("a message", error.code, error.details)


def test_a_tool_call_error_names_the_tool() -> None:
    error = fm.ToolCallError("weather", KeyError("city"))
    assert str(error) == "Tool 'weather' failed: KeyError: 'city'"
    made = pickle.loads(pickle.dumps(error))
    assert (made.tool_name, type(made.underlying_error)) == ("weather", KeyError)


def test_a_refusal_is_text_and_not_a_tuple() -> None:
    error = fm.RefusalError("I'd rather not", "debug", ["because"])
    assert str(error) == error.reason == "I'd rather not"
    assert (error.debug_description, error.explanation_entries) == ("debug", ["because"])


def test_details_are_attributes() -> None:
    error = error_for(1, "too long", {"token_count": 5000, "context_size": 4096})
    assert isinstance(error, fm.ExceededContextWindowSizeError)
    assert (error.token_count, error.context_size) == (5000, 4096)
    error = error_for(143, "no", {"http_status": 500, "body": "oops", "url": "http://x"})
    assert isinstance(error, fm.ServerError)
    assert (error.status, error.body, error.url) == (500, "oops", "http://x")
    assert fm.RateLimitedError().retry_after is None


def test_a_message_holds_nothing_that_commands_a_terminal() -> None:
    body = "".join(map(chr, range(0xA0))) + "\u00e4\u2028 \x1b]0;title\x07"
    for code in fm.GenerationErrorCode:
        error = error_for(code, f"no: {body}", {"body": body, "tool_name": "t"})
        controls = {c for c in str(error) if unicodedata.category(c) == "Cc"}
        assert controls == {"\t", "\n"}
        assert "\u00e4\u2028 ]0;title" in str(error)
        assert error.details["body"] == body


# ---- Options


def test_options_are_numbers_for_the_library() -> None:
    options = fm.GenerationOptions(fm.SamplingMode.random(top=40, seed=2**64 - 1), 0.5, 100)
    assert options.to_dict() == {
        "sampling": {"mode": "random", "top_k": 40, "seed": 2**64 - 1},
        "temperature": 0.5,
        "maximum_response_tokens": 100,
    }
    assert fm.GenerationOptions().to_dict() == {}
    assert fm.GenerationOptions(fm.SamplingMode.greedy()).to_dict() == {
        "sampling": {"mode": "greedy"}
    }
    assert fm.SamplingMode.random(seed=7).to_dict() == {"mode": "random", "seed": 7}
    assert fm.SamplingMode.random(probability_threshold=0).to_dict()["top_p"] == 0
    assert fm.SamplingMode.random(probability_threshold=0.9).to_dict() == {
        "mode": "random",
        "top_p": 0.9,
    }


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"temperature": True}, TypeError),
        ({"temperature": "0.5"}, TypeError),
        ({"temperature": NAN}, ValueError),
        ({"temperature": math.inf}, ValueError),
        ({"temperature": -0.1}, ValueError),
        ({"temperature": 10**400}, ValueError),
        ({"temperature": -(10**5000)}, ValueError),
        ({"maximum_response_tokens": 10**5000}, ValueError),
        ({"maximum_response_tokens": True}, TypeError),
        ({"maximum_response_tokens": 1.5}, TypeError),
        ({"maximum_response_tokens": 0}, ValueError),
        ({"maximum_response_tokens": 2**31}, ValueError),
        ({"sampling": "greedy"}, TypeError),
    ],
)
def test_options_refuse(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        fm.GenerationOptions(**arguments)
    options = fm.GenerationOptions()
    vars(options).update(arguments)
    with pytest.raises(error):
        options.to_dict()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"top": True}, TypeError),
        ({"top": 0}, ValueError),
        ({"top": 1.0}, TypeError),
        ({"probability_threshold": NAN}, ValueError),
        ({"probability_threshold": 1.1}, ValueError),
        ({"probability_threshold": False}, TypeError),
        ({"seed": -1}, ValueError),
        ({"seed": 2**64}, ValueError),
        ({"seed": 10**5000}, ValueError),
        ({"probability_threshold": 10**400}, ValueError),
        ({"seed": True}, TypeError),
        ({"top": 4, "probability_threshold": 0.5}, ValueError),
    ],
)
def test_sampling_refuses(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        fm.SamplingMode.random(**arguments)
    with pytest.raises(error):
        fm.SamplingMode(fm.SamplingModeType.RANDOM, **arguments)


def test_greedy_sampling_takes_nothing() -> None:
    with pytest.raises(ValueError, match="greedy"):
        fm.SamplingMode(fm.SamplingModeType.GREEDY, seed=1)
    with pytest.raises(TypeError):
        fm.SamplingMode("greedy")  # type: ignore[arg-type]


# ---- Models


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"base_url": 5}, TypeError),
        ({"base_url": ""}, fm.InvalidURLError),
        ({"base_url": "no scheme"}, fm.InvalidURLError),
        ({"base_url": "ftp://host/"}, fm.InvalidURLError),
        ({"base_url": "http://host/\0"}, fm.InvalidArgumentError),
        ({"model": None}, TypeError),
        ({"model": "a\0b"}, fm.InvalidArgumentError),
        ({"api_key": b"key"}, TypeError),
        ({"headers": ["a"]}, TypeError),
        ({"headers": {"a": 1}}, TypeError),
        ({"timeout": True}, TypeError),
        ({"timeout": 0}, ValueError),
        ({"timeout": NAN}, ValueError),
        ({"context_size": True}, TypeError),
        ({"context_size": 0}, ValueError),
        ({"supports_images": 1}, TypeError),
        ({"supports_tools": "yes"}, TypeError),
        ({"server": 1}, TypeError),
        ({"server": "llamacpp"}, fm.InvalidArgumentError),
        ({"image_policy": {}}, TypeError),
        ({"extra_body": []}, TypeError),
        ({"extra_body": {"a": object()}}, TypeError),
        ({"extra_body": {"a": NAN}}, TypeError),
        # What would cut the body elsewhere, leave the prompt out, or make the answer unreadable.
        ({"headers": {"content-Length": "3"}}, fm.InvalidArgumentError),
        ({"headers": {"Transfer-Encoding": "chunked"}}, fm.InvalidArgumentError),
        ({"extra_body": {"messages": []}}, fm.InvalidArgumentError),
        ({"extra_body": {"stream": False}}, fm.InvalidArgumentError),
    ],
)
def test_a_model_refuses(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        fm.ChatCompletionsLanguageModel(
            **{"base_url": "http://127.0.0.1:9", "model": "m", **arguments}
        )


def test_a_model_never_shows_its_key() -> None:
    model = fm.ChatCompletionsLanguageModel(
        "http://127.0.0.1:9",
        "m",
        "sk-secret",
        headers={"X-Key": "sk-secret"},
        timeout=fm.Timeout(connect=1, total=5),
        context_size=512,
        image_policy=fm.ImagePolicy(max_long_edge=512, quality=70, background="#102030"),
        extra_body={"cache_prompt": True},
    )
    assert model.is_available() == (True, None)
    assert model.availability_message is None
    assert model.context_size == 512
    assert model.describe()["base_url"] == "http://127.0.0.1:9"
    assert "sk-secret" not in repr(model) + repr(model.describe()) + repr(vars(model))


def test_models_and_sessions_stay_in_their_process() -> None:
    model = fm.ChatCompletionsLanguageModel("http://127.0.0.1:9", "m")
    for value in (model, fm.LanguageModelSession(model=model)):
        with pytest.raises(TypeError, match="process"):
            pickle.dumps(value)
        with pytest.raises(TypeError):
            copy.deepcopy(value)


def test_the_default_model_takes_its_enums_only() -> None:
    model = fm.SystemLanguageModel(
        fm.SystemLanguageModelUseCase.CONTENT_TAGGING,
        fm.SystemLanguageModelGuardrails.PERMISSIVE_CONTENT_TRANSFORMATIONS,
    )
    available, reason = model.is_available()
    assert available == (reason is None)
    assert (model.availability_message is None) == available
    with pytest.raises(TypeError):
        fm.SystemLanguageModel(0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        fm.SystemLanguageModel(guardrails="default")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"instructions": 5}, TypeError),
        ({"instructions": "a\0b"}, fm.InvalidPromptTextError),
        ({"instructions": "\ud800"}, fm.InvalidPromptTextError),
        ({"model": "gpt"}, TypeError),
        ({"tools": [object()]}, TypeError),
    ],
)
def test_a_session_refuses(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        fm.LanguageModelSession(**arguments)


# ---- Contents


def test_content_is_a_json_value() -> None:
    text = '{"b": 1, "a": [1.5, null, "ü"], "c": {"d": true}}'
    content = fm.GeneratedContent.from_json(text)
    assert content.to_json() == text
    assert content.value() == {"b": 1, "a": [1.5, None, "ü"], "c": {"d": True}}
    assert content.value(for_property="b") == 1
    assert content.value(for_property="missing") is None
    assert content.value(list[int], for_property="missing") == []
    assert content.value(list, for_property="a") == [1.5, None, "ü"]
    with pytest.raises(TypeError, match="list"):
        content.value(list[int], for_property="b")
    assert content.value(str, for_property="b") == 1, "a scalar is not converted"
    nested = content.value(fm.GeneratedContent, for_property="c")
    assert nested.value(for_property="d") is True
    assert content.is_complete
    assert content == fm.GeneratedContent.from_json(text)
    assert content.id != nested.id
    assert fm.GeneratedContent().to_json() == "{}"
    assert fm.GeneratedContent.from_json("null").value() is None
    with pytest.raises(TypeError, match="no property"):
        fm.GeneratedContent.from_json("[1]").value(for_property="a")


@pytest.mark.parametrize("text", ["", "{]", "{'a': 1}", "NaN", '{"a": Infinity}', "[" * 100000])
def test_content_refuses_what_is_no_json(text: str) -> None:
    with pytest.raises(fm.DecodingFailureError) as caught:
        fm.GeneratedContent.from_json(text)
    assert caught.value.raw_content == text
