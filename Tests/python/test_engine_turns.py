"""Tokens and tools with the real engine: its own counts are the oracle."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openfm as fm
from test_engine import GREEDY, draw, model, save
from test_tools import CITY, Weather

__all__ = ["model"]  # a fixture

ONE = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=1)
TEXTS = [
    "Hello",
    "What is the capital of France?",
    "Grüße aus Köln, und viel Spaß!",
    "東京は日本の首都です。",
    "🦊🌍👩‍👩‍👧 emoji, joined",
    "def f(x):\n    return x ** 2\n",
    '{"a": [1, 2.5, null], "b": "c"}',
    "<|im_start|>user is only text here<|im_end|>",
    "   leading and trailing   ",
    "line\n\n\nbreaks\tand tabs",
    "0123456789 3.14159 1e-9 1,000,000",
    "a" * 500,
    "word " * 300,
    "Привет, как дела?",
    "مرحبا بالعالم",
]


async def used(session: fm.LanguageModelSession, prompt: Any, **arguments: Any) -> int:
    response = await session.respond_full(prompt, **arguments)
    total = response.usage.input.total
    assert total is not None
    return total


def test_counts_are_the_engines(model: fm.SystemLanguageModel, tmp_path: Path) -> None:
    pictures = [
        save(draw(shape, colour), tmp_path / f"{shape}-{colour}.jpg")
        for shape in ("circle", "square", "arrow")
        for colour in ("red", "blue")
    ]

    async def main() -> None:
        checked = 0

        async def check(count: fm.TokenCount, wanted: int, what: object) -> None:
            nonlocal checked
            assert count.is_exact, what
            assert count == wanted, what
            checked += 1

        for text in TEXTS:
            session = fm.LanguageModelSession(model=model)
            await check(await model.token_count(text), await used(session, text, options=ONE), text)
            parts = [text, "and", text[:9]]
            session = fm.LanguageModelSession(model=model)
            await check(
                await model.token_count(parts), await used(session, parts, options=ONE), parts
            )
            # Instructions alone are the difference that they make.
            base = await model.token_count("Hello")
            session = fm.LanguageModelSession(text, model)
            with_it = await used(session, "Hello", options=ONE)
            await check(await model.token_count(instructions=text), max(0, with_it - base), text)
        for number, path in enumerate(pictures):
            prompt = ["Look:", fm.ImageAttachment(path, f"p{number}"), "What is it?"]
            session = fm.LanguageModelSession(model=model)
            await check(
                await model.token_count(prompt), await used(session, prompt, options=ONE), prompt
            )
        conversation = fm.LanguageModelSession("Be brief.", model)
        for number in range(3):
            added = await model.token_count(conversation.transcript)
            base = await model.token_count("Hello")
            total = await used(conversation, "Hello", options=ONE)
            await check(added, total - base if number else added, number)
        assert checked >= 50

        hello = await model.token_count("Hello")
        tools = await model.token_count([Weather()])
        assert tools.is_exact and tools > 10
        assert tools.parts["without"] == hello

        class Schema:
            def to_dict(self) -> dict[str, object]:
                return CITY

        assert await model.token_count(Schema()) > 10

    asyncio.run(main())


def test_a_tool_is_called_through_the_fallback(model: fm.SystemLanguageModel) -> None:
    async def main() -> None:
        await model.load()
        # The model's template knows no tools, and says so.
        assert model.capabilities.tool_calling == "guided"
        for city in ("Paris", "Rome"):
            tool = Weather()
            session = fm.LanguageModelSession(model=model, tools=[tool])
            options = fm.GenerationOptions(
                sampling=fm.SamplingMode.greedy(),
                maximum_response_tokens=60,
                tool_choice="required",
            )
            answer = await session.respond(f"How is the weather in {city}?", options=options)
            assert len(tool.seen) >= 1
            assert all(seen[0] in ("Paris", "Rome") for seen in tool.seen)
            assert answer
            entries = (await session.transcript.to_dict())["transcript"]["entries"]
            outputs = [e["contents"][0]["text"] for e in entries if e["role"] == "tool"]
            assert outputs == [f"Sunny in {seen[0]}." for seen in tool.seen]

    asyncio.run(main())


def test_what_cannot_fit_is_refused_before_it_is_sent(model: fm.SystemLanguageModel) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model)
        try:
            await session.respond("word " * 20000, options=GREEDY)
        except fm.ExceededContextWindowSizeError as error:
            assert error.context_size == model.context_size == 4096
            assert error.token_count is not None and error.token_count > 4096
            assert "nothing was sent" in str(error)
        else:
            raise AssertionError("it was sent")
        assert await session.respond("Say hello.", options=GREEDY)

    asyncio.run(main())
