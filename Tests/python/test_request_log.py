"""What is told of requests: to a handler, on standard error, and in a file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import openfm as fm
import pytest
from conftest import Models
from scripted_server import ScriptedServer

KEY = "sk-very-secret-key-0123"


def test_a_handler_gets_a_record_a_request(
    model: Models, records: list[fm.RequestRecord], picture: Path
) -> None:
    session = fm.LanguageModelSession(model=model("fast-stream", chunks=3, cached=2))

    async def main() -> None:
        await session.respond(["Look.", fm.ImageAttachment(picture)])
        # Before the result was delivered.
        assert len(records) == 1
        async for _ in session.stream_response("And now?"):
            pass

    asyncio.run(main())
    first, second = records
    assert first.model is not None
    assert first.model.startswith("scenario:fast-stream")
    assert first.url.endswith("/v1/chat/completions")
    assert first.status == 200
    assert session.last_response is not None
    assert [image[:2] for image in first.images] == [(48, 64)]
    assert len(second.images) == 1, "the picture is sent again"
    assert first.completion_tokens == 3
    assert first.cached_tokens == 2
    assert first.reasoning_tokens is None
    assert first.failure is None
    assert first.seconds_to_head is not None
    assert first.seconds_to_first_token is not None
    assert first.seconds_to_head <= first.seconds_to_first_token <= first.seconds_to_end
    assert str(first) == first.line
    assert "images=1(48x64/" in first.line


def test_failures_are_told(model: Models, records: list[fm.RequestRecord]) -> None:
    session = fm.LanguageModelSession(model=model("error", status=400))
    with pytest.raises(fm.ServerError):
        asyncio.run(session.respond("a"))
    assert [(record.failure, record.status) for record in records] == [("server", 400)]


def test_a_handler_that_raises_harms_nobody(model: Models) -> None:
    def handler(record: fm.RequestRecord) -> None:
        raise RuntimeError("no")

    problems: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: problems.append(context["exception"]))
        session = fm.LanguageModelSession(model=model("text", text="fine"))
        assert await session.respond("a") == "fine"

    fm.set_request_log(handler)
    try:
        asyncio.run(main())
    finally:
        fm.set_request_log(None)
    assert [str(problem) for problem in problems] == ["no"]


def test_a_recording_holds_no_keys_and_no_pictures(
    server: ScriptedServer, tmp_path: Path, picture: Path
) -> None:
    path = tmp_path / "requests.jsonl"
    model = fm.ChatCompletionsLanguageModel(
        server.base_url,
        "m",
        KEY,
        headers={"X-Api-Token": "header-secret-77"},
        supports_images=True,
        server="llama.cpp",
    )
    session = fm.LanguageModelSession(model=model)
    fm.record_requests(path)
    try:
        asyncio.run(session.respond([f"My key: {KEY}", fm.ImageAttachment(picture)]))
    finally:
        fm.record_requests(None)
    asyncio.run(session.respond("not recorded"))
    text = path.read_text()
    assert KEY not in text
    assert "header-secret-77" not in text
    assert ";base64," not in text
    (line,) = [json.loads(line) for line in text.splitlines()]
    image = line["request"]["messages"][0]["content"][1]["image_url"]["url"]
    assert session.model is model
    prepared = bytes(fm.prepare_image(picture).data)
    digest = hashlib.sha256(prepared).hexdigest()
    assert image == f"data:image/jpeg;sha256,{digest};bytes={len(prepared)}"
    assert "data: " in line["response"]
    assert line["record"]["status"] == 200
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_an_error() -> None:
    with pytest.raises(fm.InvalidArgumentError, match="/nowhere/at/all"):
        fm.record_requests("/nowhere/at/all")


def test_the_environment_turns_both_on(server: ScriptedServer, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    program = (
        "import asyncio, sys, openfm as fm\n"
        "model = fm.ChatCompletionsLanguageModel(sys.argv[1], 'the-model', sys.argv[2])\n"
        "print(repr(model))\n"
        "print(asyncio.run(fm.LanguageModelSession(model=model).respond('hello')))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, server.base_url, KEY],
        env={**os.environ, "OPENFM_LOG": "debug", "OPENFM_RECORD": str(path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (line,) = [line for line in result.stderr.splitlines() if "chat/completions" in line]
    assert line.startswith("openfm: POST http://127.0.0.1:")
    for word in ("model=the-model", "status=200", "sent=", "received=", "head=", "end=", "tokens="):
        assert f" {word}" in line
    assert len(path.read_text().splitlines()) == 1
    assert KEY not in result.stderr + result.stdout + path.read_text()
