"""Transcripts: what is written, what is read, what going on with one sends."""

from __future__ import annotations

import asyncio
import base64
import copy
import gc
import hashlib
import json
import re
import weakref
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from conftest import Live, Models
from scripted_server import ScriptedServer
from test_tools import CITY, Weather, calls

UUID = re.compile(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}")

# Every kind of entry that an exported transcript can have, with members nobody here knows.
EXPORTED: dict[str, Any] = {
    "version": 1,
    "type": "FoundationModels.Transcript",
    "exportedBy": "someone",
    "transcript": {
        "mood": "good",
        "entries": [
            {
                "id": "6F1B1F2E-0000-4000-8000-000000000001",
                "role": "instructions",
                "contents": [
                    {
                        "type": "text",
                        "id": "6F1B1F2E-0000-4000-8000-000000000002",
                        "text": "Be kind.",
                    }
                ],
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "weather",
                            "description": "Tells the weather.",
                            "parameters": CITY,
                            "strictness": 2,
                        },
                    }
                ],
            },
            {
                "id": "6F1B1F2E-0000-4000-8000-000000000003",
                "role": "user",
                "contents": [
                    {
                        "type": "text",
                        "id": "6F1B1F2E-0000-4000-8000-000000000004",
                        "text": "Weather in Rome?",
                        "language": "en",
                    }
                ],
                "options": {"temperature": 0.5, "unheardOf": [1, 2]},
                "responseFormat": {
                    "type": "jsonSchema",
                    "jsonSchema": {"name": "CityArguments", "schema": CITY},
                },
                "contextOptions": {"includeSchemaInPrompt": True},
            },
            {
                "id": "6F1B1F2E-0000-4000-8000-000000000005",
                "role": "response",
                "toolCalls": [{"id": "call-7", "name": "weather", "arguments": '{"city":"Rome"}'}],
            },
            {
                "id": "call-7",
                "role": "tool",
                "toolName": "weather",
                "toolCallID": "call-7",
                "contents": [
                    {"type": "text", "id": "6F1B1F2E-0000-4000-8000-000000000006", "text": "Sunny."}
                ],
            },
            {
                "id": "6F1B1F2E-0000-4000-8000-000000000007",
                "role": "response",
                "assets": ["some.model.v1"],
                "contents": [
                    {
                        "type": "structure",
                        "id": "0",
                        "structure": {"source": "CityArguments", "content": {"city": "Rome"}},
                    }
                ],
            },
        ],
    },
}


def entries(session: fm.LanguageModelSession) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(session.transcript.to_json())["transcript"]["entries"]
    return found


async def read(data: dict[str, Any]) -> dict[str, Any]:
    return await (await fm.Transcript.from_dict(data)).to_dict()


def test_what_is_read_is_written_again() -> None:
    assert asyncio.run(read(EXPORTED)) == EXPORTED


@pytest.mark.parametrize("version", [1, "1", "1.1"])
def test_versions_are_kept(version: object) -> None:
    data = {**EXPORTED, "version": version}
    assert asyncio.run(read(data)) == data


def test_reasoning_needs_the_newer_version() -> None:
    data = copy.deepcopy(EXPORTED)
    data["transcript"]["entries"].append(
        {
            "id": "6F1B1F2E-0000-4000-8000-000000000008",
            "role": "reasoning",
            "reasoning": {
                "contents": [{"type": "text", "id": "1", "text": "Hm."}],
                "signature": base64.b64encode(b"\x00\xff").decode(),
            },
        }
    )
    assert asyncio.run(read({**data, "version": "1.1"})) == {**data, "version": "1.1"}
    assert asyncio.run(read(data))["version"] == "1.1"


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (lambda d: d.pop("transcript"), '"transcript"'),
        (lambda d: d["transcript"].pop("entries"), "$.transcript.entries"),
        (lambda d: d["transcript"]["entries"][1].pop("id"), "entries[1].id"),
        (lambda d: d["transcript"]["entries"][1].pop("contents"), "entries[1].contents"),
        (lambda d: d["transcript"]["entries"][1].update(role="boss"), "entries[1].role"),
        (lambda d: d["transcript"]["entries"][1]["contents"][0].update(type="smell"), "type"),
        (lambda d: d.update(version=7), "$.version"),
        (lambda d: d.update(type="Something.Else"), "$.type"),
        (
            lambda d: d["transcript"]["entries"][2]["toolCalls"][0].update(arguments="{"),
            "arguments",
        ),
        (lambda d: d["transcript"].update(entries=3), "no array"),
    ],
)
def test_what_is_no_transcript_is_refused_with_the_place(damage: Any, place: str) -> None:
    data = copy.deepcopy(EXPORTED)
    damage(data)
    with pytest.raises(fm.DecodingFailureError) as caught:
        asyncio.run(fm.Transcript.from_dict(data))
    assert place in str(caught.value)
    assert caught.value.code == 6


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"a":"\0"}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(fm.DecodingFailureError):
        fm.Transcript.from_json(text)


@pytest.mark.parametrize("value", [None, 5, ["{}"], {"a": 1}, Path("saved.json")])
def test_what_is_no_text_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=f"JSON text, not {type(value).__name__}"):
        fm.Transcript.from_json(value)


def test_a_transcript_is_read_from_a_files_bytes() -> None:
    text = fm.Transcript.from_json(json.dumps(EXPORTED)).to_json()
    assert fm.Transcript.from_json(text.encode()).to_json() == text
    with pytest.raises(fm.DecodingFailureError):
        fm.Transcript.from_json(b"\xff{}")


def test_an_empty_transcript_is_one() -> None:
    data = {**EXPORTED, "transcript": {"entries": []}}
    assert asyncio.run(read(data))["transcript"]["entries"] == []


def test_a_session_writes_what_was_said(model: Models) -> None:
    session = fm.LanguageModelSession("Be brief.", model("text", text="Yes."))
    unfinished = fm.LanguageModelSession("Be brief.", model("hang-midstream", chunks=2))

    async def main() -> None:
        assert [e["role"] for e in entries(session)] == ["instructions"]
        options = fm.GenerationOptions(fm.SamplingMode.random(top=3, seed=7), 0.25, 9)
        await session.respond("One?", options=options)
        async for _ in session.stream_response("Two?"):
            pass
        # A server that stops half-way, so that the answer cannot be complete here.
        async for _ in unfinished.stream_response("Two?"):
            assert len(entries(unfinished)) == 1, "a turn is there once it is complete"
            break

    asyncio.run(main())
    data = json.loads(session.transcript.to_json())
    assert (data["version"], data["type"]) == (1, "FoundationModels.Transcript")
    found = data["transcript"]["entries"]
    assert [e["role"] for e in found] == ["instructions", "user", "response", "user", "response"]
    assert all(UUID.fullmatch(e["id"]) for e in found)
    assert found[1]["contents"][0]["text"] == "One?"
    assert found[1]["options"] == {
        "sampling": {"mode": "random", "top_k": 3, "seed": 7},
        "temperature": 0.25,
        "maximum_response_tokens": 9,
    }
    assert found[2]["contents"] == [{"type": "text", "id": "0", "text": "Yes."}]
    assert found[2]["assets"] == []
    assert found[3]["options"] == {}


def test_a_guided_turn_tells_its_schema(model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    asyncio.run(session.respond("A city?", json_schema=CITY))
    user, response = entries(session)
    assert user["responseFormat"]["jsonSchema"]["name"] == "CityArguments"
    assert user["responseFormat"]["jsonSchema"]["schema"]["properties"] == CITY["properties"]
    assert response["contents"][0]["structure"] == {
        "source": "CityArguments",
        "content": {"city": "Paris"},
    }


@pytest.mark.parametrize("scenario", ["error", "eof", "broken-off", "empty"])
def test_nothing_of_a_failed_turn_remains(model: Models, scenario: str) -> None:
    session = fm.LanguageModelSession("Be brief.", model(scenario))
    with pytest.raises(fm.FoundationModelsError):
        asyncio.run(session.respond("One?"))
    assert [e["role"] for e in entries(session)] == ["instructions"]


def test_nothing_of_a_cancelled_turn_remains_unless_asked(model: Models) -> None:
    async def main(keeps: bool) -> list[str]:
        slow = model("slow-stream", chunks=200)
        session = fm.LanguageModelSession(model=slow, keep_failed_turns=keeps)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.respond("One?"), 0.5)
        return [e["role"] for e in entries(session)]

    assert asyncio.run(main(False)) == []
    assert asyncio.run(main(True)) == ["user", "response"]


def test_going_on_sends_all_of_it_again(server: ScriptedServer, model: Models) -> None:
    async def main() -> None:
        transcript = await fm.Transcript.from_dict(EXPORTED)
        session = fm.LanguageModelSession.from_transcript(transcript, model(), [Weather()])
        assert session.transcript is transcript
        assert await session.respond("And now?") == "And now?"
        assert len(entries(session)) == 7

    asyncio.run(main())
    body = server.log()[-1]["body"]
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert body["messages"][0]["content"] == "Be kind."
    (call,) = body["messages"][2]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city":"Rome"}'}
    assert body["messages"][3]["tool_call_id"] == call["id"] == "call-7"
    assert json.loads(body["messages"][4]["content"]) == {"city": "Rome"}
    assert body["tools"][0]["function"]["name"] == "weather"


def test_pictures_come_again(server: ScriptedServer, model: Models, picture: Path) -> None:
    session = fm.LanguageModelSession(model=model())
    asyncio.run(session.respond(["Look:", fm.ImageAttachment(picture, "A", orientation=8)]))
    (first,) = server.log(full=True)
    segment = entries(session)[0]["contents"][1]
    assert segment["label"] == "A"
    assert segment["attachment"] == {
        "type": "image",
        "orientation": 8,
        "url": picture.as_uri(),
        "mediaType": "image/jpeg",
        "sha256": hashlib.sha256(picture.read_bytes()).hexdigest(),
    }
    with_data = session.transcript.to_json(embed_attachments=True)
    by_file = session.transcript.to_json()
    for text in (by_file, with_data):
        server.clear()
        restored = fm.LanguageModelSession.from_transcript(fm.Transcript.from_json(text), model())
        asyncio.run(restored.respond("Again?"))
        (again,) = server.log(full=True)
        assert again["images"] == first["images"]
    # The data stands without the file, the URL does not, and says so when it is sent.
    data = json.loads(with_data)["transcript"]["entries"][0]["contents"][1]["attachment"]["data"]
    assert base64.b64decode(data) == picture.read_bytes()
    picture.unlink()
    restored = fm.LanguageModelSession.from_transcript(fm.Transcript.from_json(with_data), model())
    asyncio.run(restored.respond("Again?"))
    gone = fm.Transcript.from_json(by_file)
    assert json.loads(gone.to_json()) == json.loads(by_file)
    with pytest.raises(fm.ImageNotFoundError):
        asyncio.run(fm.LanguageModelSession.from_transcript(gone, model()).respond("Again?"))


def test_a_changed_picture_is_not_sent_for_another(model: Models, picture: Path) -> None:
    session = fm.LanguageModelSession(model=model())
    asyncio.run(session.respond([fm.ImageAttachment(picture)]))
    text = session.transcript.to_json()
    picture.write_bytes(picture.read_bytes() + b"\0")
    restored = fm.LanguageModelSession.from_transcript(fm.Transcript.from_json(text), model())
    with pytest.raises(fm.ImageChangedError):
        asyncio.run(restored.respond("Again?"))


def test_two_sessions_go_on_from_one_transcript(model: Models) -> None:
    first = fm.LanguageModelSession("Be brief.", model("text", text="one"))
    asyncio.run(first.respond("1"))
    transcript = first.transcript
    second = fm.LanguageModelSession.from_transcript(transcript, model("text", text="two"))
    assert second.transcript is transcript
    asyncio.run(second.respond("2"))
    assert len(entries(second)) == 5
    assert len(entries(first)) == 3, "the first session's transcript is its own"
    asyncio.run(first.respond("3"))
    assert (len(entries(first)), len(entries(second))) == (5, 5)


def test_a_transcript_outlives_its_session_and_leaks_nothing(model: Models, live: Live) -> None:
    before = live.now()["session"]
    session = fm.LanguageModelSession("Be brief.", model())
    transcript, reference = session.transcript, weakref.ref(session)
    gc.disable()
    try:
        del session
        assert reference() is None
        assert "Be brief." in transcript.to_json()
        del transcript
        assert live.now()["session"] == before
        for _ in range(20):
            read_one = fm.Transcript.from_json(json.dumps(EXPORTED))
            del read_one
            fm.LanguageModelSession.from_transcript(fm.Transcript.from_json(json.dumps(EXPORTED)))
        assert live.now()["session"] == before
    finally:
        gc.enable()


def test_a_window_keeps_pictures_and_labels(
    server: ScriptedServer, model: Models, picture: Path
) -> None:
    session = fm.LanguageModelSession("Be brief.", model(), history=fm.History(turns=1))

    async def main() -> None:
        await session.respond(["first", fm.ImageAttachment(picture, "A")])
        await session.respond("second")
        await session.respond("third")

    asyncio.run(main())
    body = server.log(full=True)[-1]["body"]
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user"]
    text = json.dumps(body)
    assert "first" not in text
    assert "[image: A]" in text
    assert len(server.log(full=True)[-1]["images"]) == 1
    assert len(entries(session)) == 7, "the transcript itself is left alone"


def test_a_function_shapes_what_the_model_sees(
    server: ScriptedServer, model: Models, picture: Path
) -> None:
    async def shape(transcript: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        for entry in transcript["transcript"]["entries"]:
            for part in entry["contents"]:
                if part["type"] == "text":
                    part["text"] = part["text"].replace("secret", "***")
        return transcript

    session = fm.LanguageModelSession(model=model("text", text="ok"), history=shape)

    async def main() -> None:
        await session.respond(["my secret", fm.ImageAttachment(picture, "A")])
        # Known by its hash, it is not read again.
        picture.unlink()
        await session.respond("what?")

    asyncio.run(main())
    body = server.log(full=True)[-1]["body"]
    assert "secret" not in json.dumps(body)
    assert "my ***" in json.dumps(body)
    assert len(server.log(full=True)[-1]["images"]) == 1
    assert "my secret" in json.dumps(entries(session))


def test_completed_tool_calls_can_be_left_out(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(
        model=model("tools", calls=calls(("weather", {"city": "Rome"}))),
        tools=[Weather()],
        history=fm.History(drop_completed_tool_calls=True),
    )

    async def main() -> None:
        await session.respond("one")
        await session.respond("two")

    asyncio.run(main())
    # Without the questions of what server it is, which only a first test's model asks.
    bodies = [entry["body"] for entry in server.log() if entry["method"] == "POST"]
    roles = [[m["role"] for m in body["messages"]] for body in bodies]
    assert roles[2] == ["user", "assistant", "user"]
