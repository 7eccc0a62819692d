"""A conversation with a model."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, overload

from ._ctypes_bindings import lib
from ._events import EventQueue, Request
from ._native import Handle, encode, take_json
from ._turns import Turn, Turns
from .core import LanguageModel, SystemLanguageModel
from .errors import InvalidPromptTextError, UnsupportedCapabilityError
from .generable import GeneratedContent
from .generation_options import GenerationOptions
from .prompt import Prompt, PromptComponent, check_prompt, compose
from .usage import Response, ResponseMetadata, Usage, metadata_from, usage_from

__all__ = ["LanguageModelSession", "ResponseStream"]

# How long a request waits for its cancelled predecessor to end, in seconds.
_SETTLE_TIMEOUT = 2.0


class LanguageModelSession:
    """A conversation: instructions, and the turns that completed.

    ``instructions`` (None or "" for none) tell the model how to behave; ``model`` is any of
    ``openfm.core``, None for the default one.

    A session answers one request at a time. Other tasks of the same event loop wait for their turn;
    a task that holds an open stream, another loop or another thread gets ConcurrentRequestsError. A
    session may be used by one ``asyncio.run()`` after another. Cancelling a task, a timeout, or
    leaving a stream stops the request at the server, and the session can be used again at once; a
    request that did not complete leaves no trace in the conversation.
    """

    def __init__(
        self,
        instructions: str | None = None,
        model: LanguageModel | None = None,
        tools: Sequence[Any] | None = None,
    ) -> None:
        if instructions is not None and not isinstance(instructions, str):
            raise TypeError(f"instructions must be a str, not {type(instructions).__name__}")
        if model is not None and not isinstance(model, LanguageModel):
            raise TypeError(
                "model must be a SystemLanguageModel or a ChatCompletionsLanguageModel, not "
                f"{type(model).__name__}"
            )
        if tools:
            raise UnsupportedCapabilityError(
                "this version has no tools; leave tools out", details={"capability": "tools"}
            )
        text = encode(instructions or "", "the text of the instructions", InvalidPromptTextError)
        self.model: LanguageModel = SystemLanguageModel() if model is None else model
        self._handle = Handle(
            lib.FMLanguageModelSessionCreateFromSystemLanguageModel(
                self.model._handle.address, text or None, None, 0
            )
        )
        self._turns = Turns()
        # Weak: what waits for it may belong to a loop that is closed, which would be kept alive.
        self._last_request: weakref.ref[Request] | None = None

    @overload
    async def respond(
        self, prompt: Prompt, *, json_schema: None = None, options: GenerationOptions | None = None
    ) -> str: ...

    @overload
    async def respond(
        self,
        prompt: Prompt,
        *,
        json_schema: Mapping[str, Any],
        options: GenerationOptions | None = None,
    ) -> GeneratedContent: ...

    async def respond(
        self,
        prompt: Prompt,
        *,
        json_schema: Mapping[str, Any] | None = None,
        options: GenerationOptions | None = None,
    ) -> str | GeneratedContent:
        """The model's whole answer: text, or with ``json_schema`` a content that is valid by it.

        ``prompt`` is text, an attachment, or a list of both. Raises a PromptError before anything
        is sent, a TransportError or GenerationError after that.
        """
        request = await self._respond(prompt, json_schema, options)
        content = request.content or ""
        return content if json_schema is None else GeneratedContent.from_json(content)

    @overload
    async def respond_full(
        self, prompt: Prompt, *, json_schema: None = None, options: GenerationOptions | None = None
    ) -> Response[str]: ...

    @overload
    async def respond_full(
        self,
        prompt: Prompt,
        *,
        json_schema: Mapping[str, Any],
        options: GenerationOptions | None = None,
    ) -> Response[GeneratedContent]: ...

    async def respond_full(
        self,
        prompt: Prompt,
        *,
        json_schema: Mapping[str, Any] | None = None,
        options: GenerationOptions | None = None,
    ) -> Response[str] | Response[GeneratedContent]:
        """``respond``, with what is known about the answer: a Response, which has ``content``,
        ``usage``, ``finish_reason`` and ``metadata``."""
        request = await self._respond(prompt, json_schema, options)
        content = request.content or ""
        metadata = metadata_from(json.loads(request.metadata or "null"))
        if json_schema is None:
            return Response(content, metadata)
        return Response(GeneratedContent.from_json(content), metadata)

    async def _respond(
        self,
        prompt: Prompt,
        json_schema: Mapping[str, Any] | None,
        options: GenerationOptions | None,
    ) -> Request:
        components = check_prompt(prompt)
        schema_text = _dump_schema(json_schema)
        options_text = _dump_options(options)
        async with self._turns.hold():
            request = await self._start(components, schema_text, options_text, stream=False)
            await request.finish()
        return request

    def stream_response(
        self, prompt: Prompt, options: GenerationOptions | None = None
    ) -> ResponseStream:
        """The answer as it comes: an asynchronous iterator of snapshots.

        Each is the whole text so far, and so a copy of it. A reader that is slower than the server
        is given fewer, longer steps; the last one, the whole answer, always comes. The request
        starts with the first one; what is wrong with the prompt is raised there too. ::

            async for text in session.stream_response("Tell me a story."):
                print(f"\\r{text}", end="")
        """
        return ResponseStream(self, prompt, options)

    def stream_deltas(
        self, prompt: Prompt, options: GenerationOptions | None = None
    ) -> ResponseStream:
        """The answer as it comes, in pieces: each is only what is new, and joined they are the
        answer. A piece costs the same however long the answer is. ::

            async for piece in session.stream_deltas("Tell me a story."):
                print(piece, end="", flush=True)
        """
        return ResponseStream(self, prompt, options, deltas=True)

    @property
    def is_responding(self) -> bool:
        """Whether a request is under way."""
        responding: bool = lib.FMLanguageModelSessionIsResponding(self._handle.address)
        return responding

    @property
    def usage(self) -> Usage:
        """Tokens of all responses so far, as the server counted them."""
        return usage_from(self._usage()["session"])

    @property
    def last_response(self) -> ResponseMetadata | None:
        """Usage, finish reason and pictures sent of the last response; None before the first."""
        members = self._usage()["last_response"]
        return None if members is None else metadata_from(members)

    def _usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = take_json(
            lib.FMLanguageModelSessionCopyUsageJSON(self._handle.address)
        )
        return usage

    async def _start(
        self,
        components: Sequence[PromptComponent],
        schema: bytes | None,
        options: bytes | None,
        *,
        stream: bool,
    ) -> Request:
        """Starts a request. The caller has the turn."""
        queue = EventQueue.of_running_loop()
        prompt = await compose(components)
        with prompt:
            await self._settle()
            request = queue.start(
                self._handle, prompt, schema=schema, options=options, stream=stream
            )
        self._last_request = weakref.ref(request)
        return request

    async def _settle(self) -> None:
        """Waits for the end of a request that was left in the lurch: by a dropped stream, a
        second cancellation, a closed loop."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLE_TIMEOUT
        while self.is_responding and loop.time() < deadline:
            last = self._last_request() if self._last_request is not None else None
            # Woken by its end where its events come to this loop, else after a moment.
            if last is None or last.done:
                await asyncio.sleep(0.005)
            else:
                await last.wait_for_end(0.005)

    def __repr__(self) -> str:
        return f"LanguageModelSession(model={self.model!r})"


class ResponseStream(AsyncGenerator[str, None]):
    """Snapshots or pieces of an answer, as an asynchronous generator gives them.

    Reading it to its end, ``aclose()``, an error and dropping it all end the request and free the
    session. It is a class and no ``async def`` generator because such a one, when dropped after a
    ``break``, ends only some time later, and the session would be busy until then.
    """

    def __init__(
        self,
        session: LanguageModelSession,
        prompt: Prompt,
        options: GenerationOptions | None,
        *,
        deltas: bool = False,
    ) -> None:
        self._session = session
        self._prompt: Prompt | None = prompt
        self._options = options
        self._deltas = deltas
        self._turn: Turn | None = None
        self._request: Request | None = None
        self._gave = False
        self._running = False
        self._closed = False

    def __aiter__(self) -> ResponseStream:
        return self

    async def __anext__(self) -> str:
        # One coroutine and no more: every further one would be paid for with every chunk.
        if self._running:
            raise RuntimeError("the stream is being read already; one task reads it at a time")
        if self._closed:
            raise StopAsyncIteration
        self._running = True
        try:
            request = self._request
            if request is None:
                request = await self._start()
            elif self._turn is not None:
                self._turn.move_to_current_task()
            while True:
                if request.has_text:
                    if not self._deltas:
                        self._gave = True
                        return request.take_snapshot()
                    if delta := request.take_delta():
                        return delta
                elif request.done:
                    break
                else:
                    await request.next_event()
            request.raise_error()
        except GeneratorExit:
            # Thrown away in the middle of a step, which may not wait any more.
            self._drop()
            raise
        except BaseException:
            await self._end()
            raise
        finally:
            self._running = False
        if not self._gave and not self._deltas:
            # An answer without a word is one snapshot too: the last one is always the answer.
            self._gave = True
            return request.text
        await self._end()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stops the request and waits until the session is free. After the end: nothing."""
        if self._running:
            raise RuntimeError("the stream is being read; cancel the task that reads it")
        await self._end()

    async def asend(self, value: None) -> str:
        """``__anext__``: there is nothing to send to a stream."""
        return await self.__anext__()

    async def athrow(
        self,
        kind: type[BaseException] | BaseException,
        error: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> str:
        """Stops the request and raises the exception."""
        await self._end()
        if isinstance(kind, BaseException):
            raise kind
        raise error if isinstance(error, BaseException) else kind()

    async def _start(self) -> Request:
        components = check_prompt(self._prompt)
        options = _dump_options(self._options)
        self._turn = await self._session._turns.acquire()
        self._request = await self._session._start(components, None, options, stream=True)
        self._prompt = None
        return self._request

    async def _end(self) -> None:
        self._closed = True
        turn, self._turn = self._turn, None
        if turn is None:
            return
        try:
            if self._request is not None and not self._request.done:
                await self._request.cancel_and_wait()
        finally:
            self._session._turns.release(turn)

    def _drop(self) -> None:
        self._closed = True
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if self._request is not None:
            self._request.cancel()
        self._session._turns.abandon(turn)

    def __del__(self) -> None:
        if getattr(self, "_turn", None) is not None:
            self._drop()


def _dump_schema(schema: Mapping[str, Any] | None) -> bytes | None:
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        raise TypeError(f"json_schema must be a dict, not {type(schema).__name__}")
    try:
        return json.dumps(dict(schema), allow_nan=False).encode("ascii")
    except (TypeError, ValueError) as error:
        raise TypeError(f"json_schema must be made of JSON values: {error}") from None


def _dump_options(options: GenerationOptions | None) -> bytes | None:
    if options is None:
        return None
    if not isinstance(options, GenerationOptions):
        raise TypeError(f"options must be a GenerationOptions, not {type(options).__name__}")
    members = options.to_dict()
    return json.dumps(members).encode("ascii") if members else None
