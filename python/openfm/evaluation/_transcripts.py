"""Transcripts that an app exported, as cases: what was asked, and what was answered then."""

from __future__ import annotations

import asyncio
import atexit
import base64
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..core import LanguageModel, SystemLanguageModel
from ..prompt import ImageAttachment, PromptComponent
from ..session import LanguageModelSession
from ._ask import backing_off
from ._cases import Case, load_cases
from ._compare import Comparison, compare
from ._errors import EvaluationError
from ._result import EvaluationResult
from ._row import Row
from ._run import evaluate
from ._scoring import name_scorers, score_row
from ._values import plain

__all__ = ["TranscriptTurn", "rerun", "transcript_cases"]


@dataclass(frozen=True)
class TranscriptTurn:
    """One question of a transcript, as a case.

    ``parts`` is what was asked: texts, and pictures as dicts of ``path``, ``label`` and
    ``orientation``. ``expected`` is what was answered then: text, or the value of a structured
    answer, whose ``schema`` is kept where the transcript has it. ``entries`` are those before the
    question, the instructions among them.
    """

    source: str
    turn: int
    parts: tuple[str | Mapping[str, Any], ...]
    expected: Any
    schema: Mapping[str, Any] | None = None
    entries: tuple[Mapping[str, Any], ...] = ()

    @property
    def prompt(self) -> str:
        """The texts of the question."""
        return "\n".join(part for part in self.parts if isinstance(part, str))


def transcript_cases(path: str | os.PathLike[str]) -> list[TranscriptTurn]:
    """The turns of an exported transcript: a JSON file, or all ``*.json`` of a folder, by name.

    A turn that was never answered is left out. Raises EvaluationError for a file that is no
    transcript.
    """
    where = Path(os.fsdecode(os.fspath(path)))
    if where.is_dir():
        files = sorted(where.glob("*.json"))
        if not files:
            raise EvaluationError(f"the folder {where} holds no transcripts (*.json)")
    else:
        files = [where]
    return [turn for file in files for turn in _turns(file)]


def rerun(
    transcripts: str | os.PathLike[str] | Sequence[TranscriptTurn],
    *,
    model: LanguageModel | None = None,
    history: bool = True,
    scorers: Any = None,
    **arguments: Any,
) -> Comparison:
    """Asks every turn of exported transcripts again, of another model, and compares the answers.

    Each turn gets the recorded conversation before it (``history=False``: only its instructions),
    so that one different answer does not change the questions that follow. The first run of the
    comparison is the recorded one; without ``scorers`` a turn scores 1 where the answers agree.
    ``arguments`` are those of ``evaluate``.
    """
    turns = (
        transcript_cases(transcripts)
        if isinstance(transcripts, (str, os.PathLike))
        else list(transcripts)
    )
    model = SystemLanguageModel() if model is None else model

    asked = backing_off(model)

    async def session(turn: TranscriptTurn) -> LanguageModelSession:
        return await _session(turn, asked, history)

    second = evaluate(
        turns,
        _prompt,
        model=model,
        session=session,
        schema=_schema_of,
        scorers=scorers,
        **arguments,
    )
    return compare(_recorded(load_cases(turns), scorers), second)


def _prompt(turn: TranscriptTurn) -> list[PromptComponent]:
    return [
        part
        if isinstance(part, str)
        else ImageAttachment(part["path"], part["label"], orientation=part["orientation"])
        for part in turn.parts
    ]


def _schema_of(turn: TranscriptTurn) -> Mapping[str, Any] | None:
    return turn.schema


async def _session(
    turn: TranscriptTurn, model: LanguageModel, history: bool
) -> LanguageModelSession:
    from ..transcript import Transcript

    entries = [entry for entry in turn.entries if history or entry.get("role") == "instructions"]
    if not entries:
        return LanguageModelSession(model=model)
    transcript = await Transcript.from_dict(
        {"version": 1, "type": "FoundationModels.Transcript", "transcript": {"entries": entries}}
    )
    return LanguageModelSession.from_transcript(transcript, model=model)


def _recorded(cases: Sequence[Case], scorers: Any) -> EvaluationResult:
    """The answers of the transcripts as a run."""
    named = name_scorers(scorers, cases, None)
    rows = [
        Row(
            case.key,
            case.index,
            case.record,
            prompt=case.source.prompt,
            answer=plain(case.source.expected),
        )
        for case in cases
    ]

    async def score() -> None:
        for row, case in zip(rows, cases, strict=True):
            await score_row(row, case, named)

    # In a thread of its own, since a loop may be running in this one.
    thread = threading.Thread(target=lambda: asyncio.run(score()))
    thread.start()
    thread.join()
    run = {"model": "as recorded", "prompt": "as recorded"}
    return EvaluationResult(rows, run, [scorer.name for scorer in named])


# ---- Reading


def _turns(path: Path) -> Iterator[TranscriptTurn]:
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise EvaluationError(f"cannot read the transcript {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{path} is no transcript: no JSON ({error})") from None
    transcript = value.get("transcript") if isinstance(value, dict) else None
    entries = transcript.get("entries") if isinstance(transcript, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise EvaluationError(
            f"{path} is no transcript: it has no list of entries under transcript.entries; export "
            "it with JSONEncoder().encode(session.transcript)"
        )
    number = 0
    for index, entry in enumerate(entries):
        if entry.get("role") != "user":
            continue
        answer = _answer_after(entries, index)
        parts = _parts(entry, path)
        if answer is None or not parts:
            continue
        wanted = (entry.get("responseFormat") or {}).get("jsonSchema") or {}
        schema = wanted.get("schema")
        yield TranscriptTurn(
            source=path.name,
            turn=number,
            parts=tuple(parts),
            expected=_value(answer, path),
            schema=schema if isinstance(schema, dict) else None,
            entries=tuple(entries[:index]),
        )
        number += 1


def _answer_after(entries: Sequence[Mapping[str, Any]], index: int) -> Mapping[str, Any] | None:
    """The last response before the next question: those before it are calls of tools."""
    found = None
    for entry in entries[index + 1 :]:
        if entry.get("role") == "user":
            break
        if entry.get("role") == "response" and entry.get("contents"):
            found = entry
    return found


def _parts(entry: Mapping[str, Any], path: Path) -> list[str | Mapping[str, Any]]:
    parts: list[str | Mapping[str, Any]] = []
    for content in entry.get("contents") or ():
        kind = content.get("type") if isinstance(content, dict) else None
        if kind == "text":
            parts.append(str(content.get("text", "")))
        elif kind == "structure":
            structure = content.get("structure") or {}
            parts.append(json.dumps(structure.get("content"), ensure_ascii=False))
        elif kind == "attachment":
            parts.append(_picture(content, path))
    return [part for part in parts if part != ""]


def _picture(content: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    encoded = content.get("attachment") or {}
    url, data = str(encoded.get("url") or ""), encoded.get("data")
    if url.startswith("data:"):
        data = url.partition(",")[2]
    if isinstance(data, str):
        where = _saved(data, path)
    elif url.startswith("file:"):
        where = unquote(urlsplit(url).path)
    elif url and "://" not in url:
        where = str(path.parent.absolute() / url)
    else:
        raise EvaluationError(
            f"{path} holds a picture without a file or data"
            + (f" (its URL is {url})" if url else "")
            + "; export the transcript with its attachments embedded"
        )
    return {
        "path": where,
        "label": content.get("label"),
        "orientation": encoded.get("orientation"),
    }


def _saved(data: str, path: Path) -> str:
    """The file of a picture that was in the transcript itself; it is gone when the process is."""
    try:
        picture = base64.b64decode(data, validate=True)
    except ValueError:
        raise EvaluationError(f"{path} holds a picture whose data is no base64") from None
    file = Path(_folder(), hashlib.sha256(picture).hexdigest())
    if not file.exists():
        file.write_bytes(picture)
    return str(file)


@cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="openfm-transcripts-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _value(entry: Mapping[str, Any], path: Path) -> Any:
    contents = entry["contents"]
    if len(contents) == 1 and contents[0].get("type") == "structure":
        return (contents[0].get("structure") or {}).get("content")
    return "\n".join(part for part in _parts(entry, path) if isinstance(part, str))
