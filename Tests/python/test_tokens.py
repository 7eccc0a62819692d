"""Token counts over the scripted server, whose token is a word; with the engine see test_engine."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import openfm as fm
import pytest
from conftest import Models
from scripted_server import ScriptedServer
from test_tools import CITY, Weather


class Schema:
    """As much of a GenerationSchema as counting needs."""

    def to_dict(self) -> dict[str, object]:
        return CITY


@pytest.fixture(params=["llama.cpp", "ollama"])
def counted(request: pytest.FixtureRequest, server: ScriptedServer) -> fm.LanguageModel:
    """A model on a server that counts, and one on a server that does not."""
    return fm.ChatCompletionsLanguageModel(
        server.base_url,
        "scenario:echo",
        supports_images=True,
        supports_tools=True,
        context_size=4096,
        server=request.param,
    )


def test_a_count_of_the_servers_is_exact(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(server.base_url, "scenario:echo", server="llama.cpp")

    async def main() -> None:
        count = await model.token_count("The quick brown fox.")
        session = fm.LanguageModelSession(model=model)
        response = await session.respond_full("The quick brown fox.")
        assert count.is_exact
        assert count == response.usage.input.total

    asyncio.run(main())


def test_an_estimate_says_that_it_is_one(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(server.base_url, "scenario:echo", server="ollama")

    async def main() -> None:
        count = await model.token_count("The quick brown fox.")
        assert isinstance(count, int) and isinstance(count, fm.TokenCount)
        assert not count.is_exact
        assert 5 <= count <= 20
        assert sum(count.parts.values()) == count
        assert str(count) == str(int(count))
        assert f"{count:d}" == str(int(count))
        copy = pickle.loads(pickle.dumps(count))
        assert (copy, copy.is_exact, dict(copy.parts)) == (count, False, dict(count.parts))

    asyncio.run(main())


def test_everything_costs_something(counted: fm.LanguageModel, picture: Path) -> None:
    async def main() -> None:
        one = counted
        hello = await one.token_count("Hello")
        assert await one.token_count(["Hello", fm.ImageAttachment(picture, "A")]) > hello
        assert await one.token_count(instructions="Be brief and kind.") > 0
        assert await one.token_count(instructions="") == 0
        assert await one.token_count([Weather()]) > 0
        assert await one.token_count([]) == 0
        session = fm.LanguageModelSession("Be brief.", one)
        empty = await one.token_count(session.transcript)
        await session.respond("Hello there, how are you?")
        assert await one.token_count(session.transcript) > empty > 0
        tooled = fm.LanguageModelSession("Be brief.", one, [Weather()])
        assert await one.token_count(tooled.transcript) > empty

    asyncio.run(main())


def test_a_data_url_is_no_text(counted: fm.LanguageModel, tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "noise.png"
    Image.effect_noise((400, 300), 90).convert("RGB").save(path)
    count = asyncio.run(counted.token_count([fm.ImageAttachment(path)]))
    assert count < 2000 < path.stat().st_size / 10


def test_either_a_value_or_instructions(model: Models) -> None:
    for arguments in ({}, {"value": "x", "instructions": "y"}):
        with pytest.raises(ValueError, match="either"):
            asyncio.run(model().token_count(**arguments))
    with pytest.raises(fm.PromptTypeError):
        asyncio.run(model().token_count(3))
    with pytest.raises(fm.EmptyPromptError):
        asyncio.run(model().token_count(""))


def test_counting_leaves_the_loop_free_and_can_be_cancelled(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(f"{server.base_url}/s/hang-before", "x")

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(model.token_count("Hello"), 0.3)

    asyncio.run(main())


def test_the_context_size_is_asked_for_briefly(server: ScriptedServer) -> None:
    import time

    silent = fm.ChatCompletionsLanguageModel(f"{server.base_url}/s/hang-before", "x")
    start = time.monotonic()
    assert silent.context_size == 0
    assert time.monotonic() - start < 3
    assert fm.ChatCompletionsLanguageModel(f"{server.base_url}/p/llamacpp", "x").context_size > 0


def test_loading_tells_what_the_model_is(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(f"{server.base_url}/p/llamacpp", "x")
    described = asyncio.run(model.load())
    assert described["kind"] == "chat-completions"
    assert described["context_size"] == model.context_size
    assert described["capabilities"]["tool_calling"] == "native"
    nobody = fm.ChatCompletionsLanguageModel("http://127.0.0.1:9", "x")
    with pytest.raises(fm.ConnectError):
        asyncio.run(nobody.load())


def test_prewarming_never_fails(model: Models, server: ScriptedServer) -> None:
    for one in (model(), fm.ChatCompletionsLanguageModel("http://127.0.0.1:9", "x")):
        session = fm.LanguageModelSession("Be brief.", one)
        session.prewarm()
        session.prewarm("Once upon a time")
    assert asyncio.run(fm.LanguageModelSession(model=model()).respond("still here")) == "still here"
