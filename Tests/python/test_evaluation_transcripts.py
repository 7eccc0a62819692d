"""Exported transcripts as cases, and their turns asked again."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from openfm.evaluation import EvaluationError, rerun, transcript_cases
from scripted_server import ScriptedServer

Models = Callable[..., fm.ChatCompletionsLanguageModel]


def text(value: str, number: int = 0) -> dict[str, Any]:
    return {"type": "text", "id": str(number), "text": value}


def exported(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": 1,
        "type": "FoundationModels.Transcript",
        "transcript": {"entries": [{"id": f"E{n}", **e} for n, e in enumerate(entries)]},
    }


SCHEMA = {
    "title": "Draft",
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
    "x-order": ["n"],
}
CONVERSATION = exported(
    {"role": "instructions", "contents": [text("Be brief.")]},
    {"role": "user", "contents": [text("Say one")], "options": {}},
    {"role": "response", "contents": [text("Say one")], "assets": []},
    {"role": "user", "contents": [text("Say two")], "options": {}},
    {
        "role": "response",
        "toolCalls": [{"id": "C1", "name": "count", "arguments": "{}"}],
    },
    {"role": "tool", "toolName": "count", "toolCallID": "C1", "contents": [text("2")]},
    {"role": "response", "contents": [text("Say 2")], "assets": []},
    {
        "role": "user",
        "contents": [text("Draft it")],
        "options": {},
        "responseFormat": {"type": "jsonSchema", "jsonSchema": {"name": "Draft", "schema": SCHEMA}},
    },
    {
        "role": "response",
        "contents": [
            {"type": "structure", "id": "0", "structure": {"source": "Draft", "content": {"n": 0}}}
        ],
        "assets": [],
    },
    {"role": "user", "contents": [text("Never answered")], "options": {}},
)


def test_turns_are_cases(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(CONVERSATION))
    (tmp_path / "a.json").write_text(json.dumps(exported(*[])))
    turns = transcript_cases(tmp_path)
    assert [(turn.source, turn.turn, turn.prompt, turn.expected) for turn in turns] == [
        ("b.json", 0, "Say one", "Say one"),
        ("b.json", 1, "Say two", "Say 2"),
        ("b.json", 2, "Draft it", {"n": 0}),
    ]
    assert [len(turn.entries) for turn in turns] == [1, 3, 7]
    assert turns[2].schema == SCHEMA and turns[0].schema is None


def test_pictures_of_a_transcript(tmp_path: Path, picture: Path) -> None:
    encoded = base64.b64encode(picture.read_bytes()).decode()
    contents = [
        {
            "type": "attachment",
            "label": "A",
            "attachment": {"type": "image", "url": picture.as_uri(), "orientation": 3},
        },
        {"type": "attachment", "attachment": {"type": "image", "data": encoded}},
        text("Look"),
    ]
    where = tmp_path / "t.json"
    where.write_text(
        json.dumps(
            exported(
                {"role": "user", "contents": contents, "options": {}},
                {"role": "response", "contents": [text("Seen")], "assets": []},
            )
        )
    )
    first, second, last = transcript_cases(where)[0].parts
    assert first == {"path": str(picture), "label": "A", "orientation": 3}
    assert isinstance(second, dict) and last == "Look"
    assert Path(second["path"]).read_bytes() == picture.read_bytes()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no JSON"),
        ("[]", "no list of entries"),
        ('{"transcript": {"entries": {}}}', "no list of entries"),
        ('{"transcript": {"entries": [7]}}', "no list of entries"),
    ],
)
def test_what_is_no_transcript(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(EvaluationError, match=words) as raised:
        transcript_cases(path)
    assert str(path) in str(raised.value)
    with pytest.raises(EvaluationError, match="holds no transcripts"):
        (tmp_path / "empty").mkdir()
        transcript_cases(tmp_path / "empty")


def test_turns_are_asked_again_with_what_was_said_before(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(CONVERSATION))
    comparison = rerun(path, model=model(), progress=False, max_concurrency=1)
    # The server says what it is told, and the schema's smallest instance.
    assert [row.answer for row in comparison.second] == ["Say one", "Say two", {"n": 0}]
    assert [row.answer for row in comparison.first] == ["Say one", "Say 2", {"n": 0}]
    assert [change.index for change in comparison.changed] == [1]
    assert comparison.tests["exact"].worse == 1
    bodies = [entry["body"] for entry in server.log() if entry["method"] == "POST"]
    roles = [[message["role"] for message in body["messages"]] for body in bodies]
    assert roles == [
        ["system", "user"],
        ["system", "user", "assistant", "user"],
        ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"],
    ]
    server.clear()
    rerun(path, model=model(), history=False, progress=False)
    bodies = [entry["body"] for entry in server.log() if entry["method"] == "POST"]
    assert {len(body["messages"]) for body in bodies} == {2}


def test_a_folder_of_transcripts_is_rerun_and_compared(
    model: Models, server: ScriptedServer, picture: Path, tmp_path: Path
) -> None:
    """Two conversations of an app, one of them about a picture: what another model says now."""
    folder = tmp_path / "exported"
    folder.mkdir()
    encoded = base64.b64encode(picture.read_bytes()).decode()
    seen = {"type": "attachment", "label": "A", "attachment": {"type": "image", "data": encoded}}
    about_a_picture = exported(
        {"role": "user", "contents": [seen, text("What is it?")], "options": {}},
        {"role": "response", "contents": [text("An arrow")], "assets": []},
        {"role": "user", "contents": [text("Say yes")], "options": {}},
        {"role": "response", "contents": [text("Say yes")], "assets": []},
    )
    (folder / "1.json").write_text(json.dumps(CONVERSATION))
    (folder / "2.json").write_text(json.dumps(about_a_picture))
    (folder / "notes.txt").write_text("no transcript")
    out = tmp_path / "run.jsonl"
    comparison = rerun(folder, model=model(), progress=False, out=out)
    assert not comparison.second.failed, comparison.second.errors
    assert [row.case["source"] for row in comparison.second] == ["1.json"] * 3 + ["2.json"] * 2
    assert [change.index for change in comparison.changed] == [1, 3]
    changed = comparison.changed[1]
    assert changed.first.answer == "An arrow" and "48x64" in changed.second.answer
    test = comparison.tests["exact"]
    assert (test.count, test.better, test.worse) == (5, 0, 2)
    page = comparison.to_html(tmp_path / "diff.html").read_text()
    assert "An arrow" in page and "data:image" in page
    # The same call goes on from its file: nothing is left to ask.
    server.clear()
    again = rerun(folder, model=model(), progress=False, out=out)
    assert [row.answer for row in again.second] == [row.answer for row in comparison.second]
    assert [entry for entry in server.log() if entry["method"] == "POST"] == []


def test_what_this_library_exports_is_read_back(
    model: Models, picture: Path, tmp_path: Path
) -> None:
    async def talk() -> dict[str, Any]:
        session = fm.LanguageModelSession("Be brief.", model())
        await session.respond([fm.ImageAttachment(picture, "A"), "Look"])
        return await session.transcript.to_dict()

    path = tmp_path / "t.json"
    path.write_text(json.dumps(asyncio.run(talk())))
    comparison = rerun(path, model=model(), progress=False)
    assert not comparison.second.failed, comparison.second.errors
    assert comparison.changed == []
