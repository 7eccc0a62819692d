"""Runs an evaluation: every case asked once, or ``repeat`` times, and nothing lost."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .._guided import Guide, guide_of
from .._native import build_info
from .._version import __version__
from ..core import LanguageModel
from ..errors import InvalidGenerationSchemaError
from ..generation_options import GenerationOptions, SamplingMode, SamplingModeType
from ..generation_schema import GenerationSchema
from ..imaging import inspect_image
from ._ask import Answer, Asker, Courier, Limits
from ._cache import Cache
from ._cases import Case, load_cases
from ._errors import EvaluationError
from ._gate import Gate
from ._journal import Journal
from ._progress import Progress, reporter_for
from ._prompts import PromptMaker, describe_prompt, image_records, prompt_maker
from ._result import EvaluationResult
from ._row import Row, RowError
from ._scoring import NamedScorer, name_scorers, score_row
from ._values import fingerprint, plain

__all__ = ["evaluate", "evaluate_async"]


def evaluate(
    cases: Any,
    prompt: Any,
    *,
    model: LanguageModel | None = None,
    instructions: str | None = None,
    schema: Any = None,
    generating: Any = None,
    tools: Sequence[Any] | None = None,
    options: GenerationOptions | None = None,
    session: Callable[[Any], Any] | None = None,
    scorers: Any = None,
    max_concurrency: int = 8,
    timeout: float | None = None,
    retries: int = 3,
    patience: float = 300.0,
    repeat: int = 1,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | Cache | None = None,
    progress: Any = True,
) -> EvaluationResult:
    """Asks a model about every case, and scores the answers. ::

        result = fm.evaluate(
            "cases.jsonl",                        # {"image": "a.jpg", "expected": "red"} a line
            "Which colour? {image}",
            scorers=[exact(ignore_case=True)],
            out="run.jsonl",
        )
        print(result.to_markdown())

    ``cases``: dicts, dataclasses, a pandas or polars frame, the path of a JSONL or CSV file, or a
    folder of pictures. ``prompt``: a template, whose ``{members}`` are the case's, or a function of
    a case that returns a prompt. A fresh session with ``instructions`` and ``tools`` asks each;
    ``session``, a function of a case, makes them otherwise. ``schema`` (a JSON Schema, or a
    function of a case that returns one) or ``generating`` (a generable class) ask for structured
    answers.

    At most ``max_concurrency`` requests are under way, fewer while the server refuses for load
    (429, 503), which is waited out up to ``patience`` seconds without any answer. ``timeout`` is
    for the requests of one row in total, in seconds, waits not counted. What may pass by itself is
    tried ``retries`` times more; the model's own retries are off. A row that fails keeps its error,
    and the others go on.

    Sampling is greedy unless ``options`` say otherwise. ``repeat`` asks each case so often, with
    the seeds ``seed``, ``seed + 1`` and so on.

    ``out`` is a file that every row is appended to when it arrives; the same call goes on from it
    after a crash, and asks what is missing or failed. ``cache``, a directory or a Cache, keeps
    answers from run to run. ``progress``: False for none, or a function of a Progress.

    Works where an event loop is running too, as in Jupyter. An interrupt stops within a second.
    Raises EvaluationError for what is wrong with the run itself, before anything is sent.
    """
    run = _Run(**locals())
    run.open()
    return _InThread(run).result()


async def evaluate_async(
    cases: Any,
    prompt: Any,
    *,
    model: LanguageModel | None = None,
    instructions: str | None = None,
    schema: Any = None,
    generating: Any = None,
    tools: Sequence[Any] | None = None,
    options: GenerationOptions | None = None,
    session: Callable[[Any], Any] | None = None,
    scorers: Any = None,
    max_concurrency: int = 8,
    timeout: float | None = None,
    retries: int = 3,
    patience: float = 300.0,
    repeat: int = 1,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | Cache | None = None,
    progress: Any = True,
) -> EvaluationResult:
    """``evaluate`` as a coroutine. Cancelling it leaves a file that the same call goes on from."""
    run = await asyncio.to_thread(_Run, **locals())
    run.open()
    reporter = reporter_for(progress, run.progress.total)

    async def show() -> None:
        while True:
            await asyncio.sleep(_REFRESH)
            reporter.update(run.progress)

    shower = asyncio.create_task(show())
    try:
        return await run.run()
    finally:
        shower.cancel()
        reporter.close(run.progress)


# Seconds between two looks at the progress.
_REFRESH = 0.2
# Seconds that an interrupted run gets to stop its requests, which takes some hundredths. It may be
# that a function of the caller has its thread; an interrupt does not wait for that.
_STOP_TIMEOUT = 0.5


class _InThread:
    """A run on a loop of its own, in a thread of its own, so that a running loop does not matter;
    the calling thread shows the progress and takes interrupts."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[EvaluationResult] | None = None
        self._result: EvaluationResult | None = None
        self._error: BaseException | None = None

    def result(self) -> EvaluationResult:
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._work,), name="openfm.evaluate", daemon=True
        )
        reporter = reporter_for(self._run.wants_progress, self._run.progress.total)
        thread.start()
        try:
            while not self._ended.wait(_REFRESH):
                reporter.update(self._run.progress)
        except BaseException:
            self._stop()
            self._ended.wait(_STOP_TIMEOUT)
            reporter.close(self._run.progress)
            self._say_stopped()
            raise
        thread.join()
        reporter.close(self._run.progress)
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _work(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run.run())
        self._result = await self._task

    def _stop(self) -> None:
        loop, task = self._loop, self._task
        if loop is not None and task is not None and not self._ended.is_set():
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                # It ended in this moment.
                return

    def _say_stopped(self) -> None:
        if self._run.out is not None:
            done = self._run.progress.done
            print(
                f"evaluate: stopped; {done} of {self._run.progress.total} rows are in "
                f"{self._run.out}, and the same call goes on from there",
                file=sys.stderr,
            )


@dataclass(frozen=True)
class _Item:
    """A row to ask for."""

    case: Case
    repeat: int
    seed: int | None
    options: GenerationOptions


class _Run:
    """One call of evaluate. Making it checks everything that can be checked without asking."""

    def __init__(
        self,
        *,
        cases: Any,
        prompt: Any,
        model: LanguageModel | None,
        instructions: str | None,
        schema: Any,
        generating: Any,
        tools: Sequence[Any] | None,
        options: GenerationOptions | None,
        session: Callable[[Any], Any] | None,
        scorers: Any,
        max_concurrency: int,
        timeout: float | None,
        retries: int,
        patience: float,
        repeat: int,
        seed: int,
        out: str | os.PathLike[str] | None,
        cache: str | os.PathLike[str] | Cache | None,
        progress: Any,
    ) -> None:
        _check_count("max_concurrency", max_concurrency, 1)
        _check_count("retries", retries, 0)
        _check_count("repeat", repeat, 1)
        _check_count("seed", seed, 0)
        _check_seconds("timeout", timeout)
        _check_seconds("patience", patience)
        _check_kinds(model, session, progress)
        self._cases = load_cases(cases)
        self._maker: PromptMaker = prompt_maker(prompt)
        self._maker.check(self._cases)
        self._options = _sampling(options, repeat, seed)
        guide = _guide(generating)
        # What functions of the caller get for an answer: an instance, where a class was asked for.
        self._typed = None if guide is None else guide.read
        self._asker = Asker(model, instructions, tools, _schema(schema, guide), session)
        self._scorers: list[NamedScorer] = name_scorers(
            scorers, self._cases, self._asker.schema_for(self._cases[0].source)
        )
        self._scoring_is_slow = any(scorer.is_slow for scorer in self._scorers)
        self._most = max_concurrency
        self._limits = Limits(timeout, retries, patience)
        self._cache = _cache(cache)
        self.out = None if out is None else Path(os.fsdecode(os.fspath(out)))
        self.wants_progress = progress
        self.progress = Progress(total=len(self._cases) * repeat, limit=max_concurrency)
        described = self._asker.describe()
        self.record: dict[str, Any] = {
            **described,
            "options": [item.to_dict() for item in self._options],
            "repeat": repeat,
            "prompt": self._maker.description,
            "prompt_sha256": fingerprint(self._maker.description),
            "cases": len(self._cases),
            "cases_sha256": fingerprint([case.key for case in self._cases]),
            "scorers": [scorer.describe() for scorer in self._scorers],
            "versions": _versions(),
            "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(
                timespec="seconds"
            ),
        }
        self._journal: Journal | None = None
        # For the cache: what an answer depends on beside the prompt.
        self._request = described

    def open(self) -> None:
        """Opens the files. Raises EvaluationError. After it comes ``run``, which closes them."""
        if self._cache is not None:
            self._cache.prepare()
        if self.out is not None:
            self._journal = Journal(self.out, self.record)

    async def run(self) -> EvaluationResult:
        journal = self._journal
        try:
            rows = await self._rows(journal)
            if journal is not None:
                journal.finish(rows)
        finally:
            if journal is not None:
                journal.close()
        return EvaluationResult(
            rows,
            self.record,
            [scorer.name for scorer in self._scorers],
            out=self.out,
        )

    async def _rows(self, journal: Journal | None) -> list[Row]:
        rows: dict[tuple[str, int], Row] = {}
        waiting: list[_Item] = []
        for item in self._items():
            kept = None if journal is None else journal.rows.get((item.case.key, item.repeat))
            if kept is not None and not kept.failed and _same_pictures(kept):
                kept.index = item.case.index
                rows[kept.key, kept.repeat] = kept
            else:
                waiting.append(item)
        self.progress.resumed = self.progress.done = len(rows)
        for row in list(rows.values()):
            self._count(row)
            case = self._cases[row.index]
            if await score_row(row, case, self._scorers, self._typed) and journal is not None:
                journal.add(row)

        courier = Courier(Gate(self._most), self._limits)
        pending = iter(waiting)

        def look() -> None:
            self.progress.retrying = courier.retrying
            self.progress.limit = courier.gate.places

        async def work() -> None:
            for item in pending:
                row = await self._row(item, courier)
                # What took a request is not lost while a judge thinks.
                if journal is not None and (
                    row.failed or not self._scorers or self._scoring_is_slow
                ):
                    journal.add(row)
                if (
                    await score_row(row, item.case, self._scorers, self._typed)
                    and journal is not None
                ):
                    journal.add(row)
                rows[row.key, row.repeat] = row
                self.progress.done += 1
                self.progress.failed += row.failed
                self._count(row)
                look()

        async def watch() -> None:
            while True:
                await asyncio.sleep(_REFRESH)
                look()

        watcher = asyncio.create_task(watch())
        workers = [asyncio.create_task(work()) for _ in range(min(self._most, len(waiting)))]
        try:
            if workers:
                await asyncio.gather(*workers)
        finally:
            watcher.cancel()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, watcher, return_exceptions=True)
            self.progress.retrying = 0
        return [rows[item.case.key, item.repeat] for item in self._items()]

    def _items(self) -> Iterator[_Item]:
        for case in self._cases:
            for repeat, options in enumerate(self._options):
                sampling = options.sampling
                yield _Item(case, repeat, None if sampling is None else sampling.seed, options)

    def _count(self, row: Row) -> None:
        if not row.cached:
            self.progress.output_tokens += row.tokens.output or 0
        self.progress.cached += row.cached

    async def _row(self, item: _Item, courier: Courier) -> Row:
        case = item.case
        row = Row(case.key, case.index, case.record, item.repeat, item.seed)
        try:
            components = await self._maker.make(case)
            row.prompt = describe_prompt(components)
            row.images = image_records(components)
            cache = self._cache
            if cache is not None and not cache.applies_to(case.source):
                cache = None
            request = (
                self._cache_request(case, components, item.options) if cache is not None else {}
            )
            key = fingerprint(request) if cache is not None else ""
            kept = cache.get(key) if cache is not None else None
            if kept is not None:
                answer = Answer.from_dict(kept)
                row.cached = True
            else:
                answer, row.attempts, row.seconds = await courier.bring(
                    lambda: self._asker.ask(case.source, components, item.options)
                )
        except Exception as error:
            row.attempts = getattr(error, "evaluation_attempts", 0)
            row.error = RowError.of(error)
            return row
        row.answer = answer.value
        row.tokens = answer.tokens
        row.finish_reason = answer.finish_reason
        row.model = answer.model
        if cache is not None and not row.cached:
            # Not in the try: a cache that cannot be written concerns the run.
            cache.put(key, request, answer.to_dict())
        return row

    def _cache_request(
        self, case: Case, components: Sequence[Any], options: GenerationOptions
    ) -> dict[str, Any]:
        return {
            **self._request,
            "schema": plain(self._asker.schema_for(case.source), "schema"),
            "options": options.to_dict(),
            "prompt": [
                component if isinstance(component, str) else _picture_identity(component)
                for component in components
            ],
        }


def _picture_identity(component: Any) -> dict[str, Any]:
    info = getattr(component, "info", None)
    if info is None:
        raise EvaluationError(
            f"a {type(component).__name__} in the prompt has no identity by which the cache could "
            "know it; leave cache out, or exclude the case with Cache(only=...)"
        )
    return {
        "sha256": info.sha256,
        "orientation": component.orientation,
        "label": component.label,
    }


def _sampling(options: GenerationOptions | None, repeat: int, seed: int) -> list[GenerationOptions]:
    """The options of each repeat."""
    if options is None:
        options = GenerationOptions()
    if not isinstance(options, GenerationOptions):
        raise TypeError(f"options must be a GenerationOptions, not {type(options).__name__}")
    sampling = options.sampling
    if sampling is None:
        # A temperature asks for chance; else the same question gets the same answer.
        sampling = SamplingMode.random() if options.temperature else SamplingMode.greedy()
    if sampling.mode_type is SamplingModeType.GREEDY:
        if repeat > 1:
            raise EvaluationError(
                f"repeat={repeat} with greedy sampling would ask for the same answer {repeat} "
                "times; give options=GenerationOptions(sampling=SamplingMode.random()) or a "
                "temperature, or leave repeat out"
            )
        return [dataclasses.replace(options, sampling=sampling)]
    first = seed if sampling.seed is None else sampling.seed
    return [
        dataclasses.replace(options, sampling=dataclasses.replace(sampling, seed=first + number))
        for number in range(repeat)
    ]


def _schema(
    schema: Any, guide: Guide | None
) -> Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None:
    if schema is not None and guide is not None:
        raise EvaluationError("schema and generating exclude each other; give one of them")
    if guide is not None:
        found: Mapping[str, Any] = json.loads(guide.schema)
        return found
    if schema is None:
        return None
    if isinstance(schema, Mapping):
        try:
            GenerationSchema.from_dict(schema).check()
        except (InvalidGenerationSchemaError, TypeError) as error:
            raise EvaluationError(f"the schema cannot be asked for: {error}") from None
        return schema
    if hasattr(schema, "to_dict"):
        found = schema.to_dict()
        if isinstance(found, Mapping):
            return found
    if callable(schema) and not isinstance(schema, type):
        return cast("Callable[[Any], Mapping[str, Any] | None]", schema)
    raise EvaluationError(f"schema must be a JSON Schema as a dict, not {type(schema).__name__}")


def _guide(generating: Any) -> Guide | None:
    """The schema of what should be generated, and how its answers are read."""
    if generating is None:
        return None
    try:
        return guide_of(generating, None, None)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _cache(cache: Any) -> Cache | None:
    if cache is None or cache is False or isinstance(cache, Cache):
        return cache or None
    if isinstance(cache, (str, os.PathLike)):
        return Cache(cache)
    raise TypeError(f"cache must be a directory or a Cache, not {type(cache).__name__}")


def _same_pictures(row: Row) -> bool:
    """Whether the files that the row was asked with are still the same."""
    for image in row.images:
        try:
            status = os.stat(image["path"])
        except OSError:
            # Gone: its answer stands, since it could not be asked again.
            continue
        if (status.st_size, status.st_mtime_ns) == (
            image.get("byte_count"),
            image.get("modified_ns"),
        ):
            continue
        try:
            if inspect_image(image["path"]).sha256 != image["sha256"]:
                return False
        except Exception:
            return False
    return True


def _versions() -> dict[str, Any]:
    versions: dict[str, Any] = {
        "openfm": __version__,
        "python": platform.python_version(),
        "library": {
            name: value for name, value in build_info().items() if isinstance(value, (str, int))
        },
    }
    try:
        versions["xllamacpp"] = importlib.metadata.version("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        pass
    return versions


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < least:
        raise EvaluationError(f"{name} must be at least {least}, not {value}")


def _check_kinds(model: object, session: object, progress: object) -> None:
    if model is not None and not isinstance(model, LanguageModel):
        raise EvaluationError(
            f"model must be a language model such as fm.SystemLanguageModel(), not "
            f"{type(model).__name__}"
        )
    if session is not None and not callable(session):
        raise EvaluationError(
            f"session must be a function of a case that returns a session, not "
            f"{type(session).__name__}"
        )
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise EvaluationError(
            f"progress must be True, False or a function of a Progress, not "
            f"{type(progress).__name__}"
        )


def _check_seconds(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not value > 0:
        raise EvaluationError(f"{name} must be more than 0 seconds, not {value}")
