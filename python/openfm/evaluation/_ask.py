"""Asking a model one thing: the one place that knows how this package's sessions are used."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import ChatCompletionsLanguageModel, LanguageModel, SystemLanguageModel
from ..errors import (
    AuthenticationError,
    ConnectError,
    EndedEarlyError,
    EndpointNotFoundError,
    EngineDiedError,
    RateLimitedError,
    RequestTooLargeError,
    ServerError,
    TransportTimeoutError,
)
from ..generable import GeneratedContent
from ..generation_options import GenerationOptions
from ..prompt import PromptComponent
from ..session import LanguageModelSession
from ..tool import Tool, schema_json
from ..usage import Response
from ._errors import EvaluationError, RowTimeoutError
from ._gate import Gate
from ._row import TokenCounts
from ._values import code_fingerprint, plain

__all__ = ["Answer", "Asker", "Courier", "backing_off", "describe_model"]

# Seconds before a failed row is tried again: the first wait, which then doubles, and the longest.
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 20.0


@dataclass(frozen=True)
class Answer:
    """An answer, and what the server told of it."""

    value: Any
    tokens: TokenCounts
    finish_reason: str | None = None
    model: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "value": plain(self.value, "the answer"),
            "tokens": vars(self.tokens),
            "finish_reason": self.finish_reason,
            "model": self.model,
        }

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> Answer:
        return cls(
            members["value"],
            TokenCounts(**members["tokens"]),
            members["finish_reason"],
            members["model"],
        )


def describe_model(model: LanguageModel) -> dict[str, Any]:
    """What the model is, with the identity of its files where it has some: another file under the
    same name is another model."""
    description = model.describe()
    for name in ("model_path", "mmproj_path"):
        path = description.get(name)
        if isinstance(path, str):
            try:
                status = os.stat(path)
            except OSError:
                continue
            description[f"{name}_size"] = status.st_size
            description[f"{name}_modified"] = int(status.st_mtime)
    # How many tokens fit decides whether there is an answer, not which.
    description.pop("context_size", None)
    description.pop("engine", None)
    return description


class Asker:
    """Asks each thing in a fresh session, with the same instructions, tools and schema."""

    def __init__(
        self,
        model: LanguageModel | None = None,
        instructions: str | None = None,
        tools: Sequence[Any] | None = None,
        schema: Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None] | None = None,
        session: Callable[[Any], Any] | None = None,
    ) -> None:
        if session is not None and (instructions is not None or tools):
            raise EvaluationError(
                "session= makes the sessions, so instructions and tools are its to give; leave "
                "them out"
            )
        self.model = model if model is not None or session is not None else SystemLanguageModel()
        self._asked = None if self.model is None else backing_off(self.model)
        self._instructions = instructions
        self._tools = list(tools or ())
        self.schema = schema
        self._session = session

    def describe(self) -> dict[str, Any]:
        """All that an answer depends on beside the prompt and the options."""
        schema: Any = self.schema
        if callable(schema):
            schema = {"function": code_fingerprint(schema)}
        described = {
            "model": None if self.model is None else describe_model(self.model),
            "instructions": self._instructions,
            "tools": [_describe_tool(tool) for tool in self._tools],
            "schema": None if schema is None else plain(schema, "schema"),
        }
        if self._session is not None:
            described["session"] = code_fingerprint(self._session)
        return described

    def schema_for(self, source: Any) -> Mapping[str, Any] | None:
        return self.schema(source) if callable(self.schema) else self.schema

    async def ask(
        self, source: Any, prompt: list[PromptComponent], options: GenerationOptions | None
    ) -> Answer:
        """One request, once. Raises what the session raises."""
        if self._session is None:
            session = LanguageModelSession(self._instructions, self._asked, self._tools or None)
        else:
            session = self._session(source)
            if inspect.isawaitable(session):
                session = await session
        response: Response[Any]
        schema = self.schema_for(source)
        if schema is None:
            response = await session.respond_full(prompt, options=options)
        else:
            response = await session.respond_full(prompt, json_schema=schema, options=options)
        content = response.content
        if isinstance(content, GeneratedContent):
            content = content.value()
        usage = response.usage
        return Answer(
            content,
            TokenCounts(
                usage.input.total, usage.input.cached, usage.output.total, usage.output.reasoning
            ),
            response.finish_reason,
            response.metadata.model,
        )


def backing_off(model: LanguageModel) -> LanguageModel:
    """The model without retries of its own, which would multiply those of the evaluation and hide
    refusals from it."""
    if isinstance(model, ChatCompletionsLanguageModel):
        return model._without_retries()
    description = model.describe()
    server, name = description.get("base_url"), description.get("model")
    if not server or not name or server != os.environ.get("OPENFM_BASE_URL"):
        # The engine's requests go to a child of this process, which refuses nothing for load.
        return model
    key = os.environ.get("OPENFM_API_KEY") or None
    return ChatCompletionsLanguageModel(server, name, key, max_retries=0)


def _describe_tool(tool: Any) -> dict[str, Any]:
    """What the model is told of the tool, and what the tool does: answers depend on both."""
    if not isinstance(tool, Tool):
        raise EvaluationError(
            f"tools must be instances of fm.Tool, and {tool!r:.80} is a {type(tool).__name__}"
        )
    schema = schema_json(tool.arguments_schema, f"arguments_schema of {type(tool).__name__}")
    return {
        "type": type(tool).__qualname__,
        "name": tool.name,
        "description": tool.description,
        "arguments": json.loads(schema),
        "call": code_fingerprint(type(tool).call),
    }


# ---- Trying again


def _verdict(error: BaseException) -> tuple[str, float | None]:
    """("load", seconds the server asked for), ("again", None) for what may pass by itself, or
    ("final", None)."""
    if isinstance(error, RateLimitedError):
        return "load", error.retry_after
    if isinstance(error, (AuthenticationError, EndpointNotFoundError, RequestTooLargeError)):
        return "final", None
    if isinstance(error, ServerError):
        if error.status in (429, 503, 529):
            after = error.details.get("retry_after")
            return "load", after if isinstance(after, (int, float)) else None
        # Without a status it is an error that came in the middle of an answer.
        passing = error.status is None or error.status in (408, 425) or error.status >= 500
        return ("again" if passing else "final"), None
    if isinstance(error, (ConnectError, EndedEarlyError, TransportTimeoutError, EngineDiedError)):
        return "again", None
    return "final", None


@dataclass
class Limits:
    """How long and how often a courier tries. Seconds; ``patience`` is for all its requests, the
    rest for each."""

    timeout: float | None = None
    retries: int = 3
    patience: float = 300.0


class Courier:
    """Brings requests to one model: as many at once as its server bears, again where that helps.

    Only this place backs off. A refusal for load is waited out as long as the server answers
    anybody, or for as long as there is patience; then all who wait get it. Other failures that may
    pass by themselves are tried ``retries`` times more.
    """

    def __init__(self, gate: Gate, limits: Limits) -> None:
        self.gate = gate
        self._limits = limits
        #: Requests that wait to be sent again.
        self.retrying = 0

    async def bring(self, request: Callable[[], Any]) -> tuple[Any, int, float]:
        """Awaits ``request()``; returns its result, the attempts, and the seconds of the last one.

        What was raised by the last attempt is raised, with ``evaluation_attempts``: 0 for the
        refusal of others that this request was not sent after.
        """
        loop = asyncio.get_running_loop()
        limits = self._limits
        attempts = failures = 0
        spent = delay = 0.0
        while True:
            try:
                entered = await self._enter(attempts > 0, delay)
            except Exception as error:
                error.evaluation_attempts = attempts  # type: ignore[attr-defined]
                raise
            attempts += 1
            try:
                result = await _within(
                    request, None if limits.timeout is None else limits.timeout - spent, limits
                )
            except Exception as error:
                kind, retry_after = _verdict(error)
                spent += loop.time() - entered
                error.evaluation_attempts = attempts  # type: ignore[attr-defined]
                if kind == "load":
                    patient = self.gate.refused(error, entered, retry_after, limits.patience)
                    if not patient:
                        raise
                    delay = 0.0
                if limits.timeout is not None and spent >= limits.timeout:
                    raise
                if kind == "load":
                    continue
                if kind == "again" and failures < limits.retries:
                    delay = _wait(failures)
                    failures += 1
                else:
                    raise
            else:
                self.gate.succeeded()
                return result, attempts, loop.time() - entered
            finally:
                self.gate.leave()

    async def _enter(self, again: bool, delay: float) -> float:
        self.retrying += again
        try:
            if delay:
                await asyncio.sleep(delay)
            return await self.gate.enter()
        finally:
            self.retrying -= again


def _wait(failures: int) -> float:
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**failures)
    return random.uniform(longest / 2, longest)


async def _within(request: Callable[[], Any], seconds: float | None, limits: Limits) -> Any:
    if seconds is None:
        return await request()
    if sys.version_info >= (3, 11):
        try:
            async with asyncio.timeout(seconds) as scope:
                return await request()
        except TimeoutError:
            if not scope.expired():
                raise
    else:
        # wait_for() would take a TimeoutError of the request for its own.
        task = asyncio.ensure_future(request())
        try:
            done, _ = await asyncio.wait((task,), timeout=seconds)
        except BaseException:
            task.cancel()
            await asyncio.wait((task,))
            raise
        if done:
            return task.result()
        task.cancel()
        await asyncio.wait((task,))
    raise RowTimeoutError(
        f"the row took longer than {limits.timeout:g} s; its request was stopped. Give a larger "
        "timeout=, or ask for less"
    )
