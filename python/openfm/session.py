"""A conversation with a model."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

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

if TYPE_CHECKING:
    from ._guided import Guide
    from .generation_schema import GenerationSchema

__all__ = ["LanguageModelSession", "ResponseStream"]

# How long a request waits for its cancelled predecessor to end, in seconds.
_SETTLE_TIMEOUT = 2.0

_Answer = TypeVar("_Answer")
_Snapshot = TypeVar("_Snapshot")


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
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> str: ...

    @overload
    async def respond(
        self,
        prompt: Prompt,
        generating: type[_Answer],
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> _Answer: ...

    @overload
    async def respond(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: GenerationSchema,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> GeneratedContent: ...

    @overload
    async def respond(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: None = None,
        json_schema: Mapping[str, Any],
        options: GenerationOptions | None = None,
    ) -> GeneratedContent: ...

    @overload
    async def respond(
        self,
        prompt: Prompt,
        generating: Any,
        *,
        options: GenerationOptions | None = None,
    ) -> Any: ...

    async def respond(
        self,
        prompt: Prompt,
        generating: Any = None,
        *,
        schema: GenerationSchema | None = None,
        json_schema: Mapping[str, Any] | None = None,
        options: GenerationOptions | None = None,
    ) -> Any:
        """The model's whole answer: text, or what was asked for.

        ``prompt`` is text, an attachment, or a list of both. With ``generating`` the answer is an
        instance of that class (decorated with ``@generable``, or a pydantic model) or a value of
        that type (``list[Cat]``, a Literal, an Enum ...); with ``schema`` or ``json_schema`` it is
        a GeneratedContent that is valid by it. At most one of the three is given.

        Raises a PromptError before anything is sent, a TransportError or GenerationError after
        that; DecodingFailureError, with ``json_path`` and ``raw_content``, for an answer that is
        not valid.
        """
        guide = _guide(generating, schema, json_schema)
        request = await self._respond(prompt, guide, options)
        content = request.content or ""
        return content if guide is None else guide.read(content)

    @overload
    async def respond_full(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> Response[str]: ...

    @overload
    async def respond_full(
        self,
        prompt: Prompt,
        generating: type[_Answer],
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> Response[_Answer]: ...

    @overload
    async def respond_full(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: GenerationSchema | None = None,
        json_schema: Mapping[str, Any] | None = None,
        options: GenerationOptions | None = None,
    ) -> Response[GeneratedContent]: ...

    @overload
    async def respond_full(
        self,
        prompt: Prompt,
        generating: Any,
        *,
        options: GenerationOptions | None = None,
    ) -> Response[Any]: ...

    async def respond_full(
        self,
        prompt: Prompt,
        generating: Any = None,
        *,
        schema: GenerationSchema | None = None,
        json_schema: Mapping[str, Any] | None = None,
        options: GenerationOptions | None = None,
    ) -> Response[Any]:
        """``respond``, with what is known about the answer: a Response, which has ``content``,
        ``usage``, ``finish_reason`` and ``metadata``."""
        guide = _guide(generating, schema, json_schema)
        request = await self._respond(prompt, guide, options)
        content = request.content or ""
        metadata = metadata_from(json.loads(request.metadata or "null"))
        return Response(content if guide is None else guide.read(content), metadata)

    async def _respond(
        self, prompt: Prompt, guide: Guide | None, options: GenerationOptions | None
    ) -> Request:
        components = check_prompt(prompt)
        schema_text = None if guide is None else guide.schema
        options_text = _dump_options(options)
        async with self._turns.hold():
            request = await self._start(components, schema_text, options_text, stream=False)
            await request.finish()
        return request

    @overload
    def stream_response(
        self, prompt: Prompt, options: GenerationOptions | None = None
    ) -> ResponseStream[str, str]: ...

    @overload
    def stream_response(
        self,
        prompt: Prompt,
        options: GenerationOptions | None = None,
        *,
        generating: type[_Answer],
    ) -> ResponseStream[Any, _Answer]: ...

    @overload
    def stream_response(
        self,
        prompt: Prompt,
        options: GenerationOptions | None = None,
        *,
        schema: GenerationSchema | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> ResponseStream[GeneratedContent, GeneratedContent]: ...

    def stream_response(
        self,
        prompt: Prompt,
        options: GenerationOptions | None = None,
        *,
        generating: Any = None,
        schema: GenerationSchema | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> ResponseStream[Any, Any]:
        """The answer as it comes: an asynchronous iterator of snapshots.

        Each is the whole text so far, and so a copy of it. A reader that is slower than the server
        is given fewer, longer steps; the last one, the whole answer, always comes. The request
        starts with the first one; what is wrong with the prompt is raised there too. ::

            async for text in session.stream_response("Tell me a story."):
                print(f"\\r{text}", end="")

        With ``generating`` the snapshots are ``PartiallyGenerated`` objects of the class, whose
        fields are None until they come; with ``schema`` or ``json_schema`` they are contents. The
        last snapshot holds the whole answer, and ``await stream.collect()`` gives it as ``respond``
        would.
        """
        return ResponseStream(self, prompt, options, _guide(generating, schema, json_schema))

    def stream_deltas(
        self, prompt: Prompt, options: GenerationOptions | None = None
    ) -> ResponseStream[str, str]:
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


class ResponseStream(AsyncGenerator[_Snapshot, None], Generic[_Snapshot, _Answer]):
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
        guide: Guide | None = None,
        *,
        deltas: bool = False,
    ) -> None:
        self._session = session
        self._guide = guide
        self._prompt: Prompt | None = prompt
        self._options = options
        self._deltas = deltas
        self._turn: Turn | None = None
        self._request: Request | None = None
        self._gave = False
        self._failed = False
        self._running = False
        self._closed = False

    def __aiter__(self) -> ResponseStream[_Snapshot, _Answer]:
        return self

    async def __anext__(self) -> _Snapshot:
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
                    if self._guide is not None:
                        part = self._guide.read_partial(request.take_snapshot())
                        if part is not None:
                            return cast("_Snapshot", part)
                    elif not self._deltas:
                        self._gave = True
                        return cast("_Snapshot", request.take_snapshot())
                    elif delta := request.take_delta():
                        return cast("_Snapshot", delta)
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
            self._failed = True
            await self._end()
            raise
        finally:
            self._running = False
        if not self._gave and not self._deltas:
            # The last snapshot is always the whole answer: also one without a word, and a guided
            # one, which is known to be valid only now.
            self._gave = True
            if self._guide is not None:
                return cast("_Snapshot", self._guide.read_last(request.content or ""))
            return cast("_Snapshot", request.text)
        await self._end()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stops the request and waits until the session is free. After the end: nothing."""
        if self._running:
            raise RuntimeError("the stream is being read; cancel the task that reads it")
        await self._end()

    async def collect(self) -> _Answer:
        """Reads the stream to its end and gives the whole answer, as ``respond`` does. Of a stream
        of pieces it gives what had not been read."""
        pieces = [part async for part in self]
        request = self._request
        if request is None or not request.done or self._failed:
            raise RuntimeError("the stream was closed before its answer was complete")
        if self._deltas:
            return cast("_Answer", "".join(cast("list[str]", pieces)))
        if self._guide is None:
            return cast("_Answer", request.text)
        return cast("_Answer", self._guide.read(request.content or ""))

    async def asend(self, value: None) -> _Snapshot:
        """``__anext__``: there is nothing to send to a stream."""
        return await self.__anext__()

    async def athrow(
        self,
        kind: type[BaseException] | BaseException,
        error: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> _Snapshot:
        """Stops the request and raises the exception."""
        await self._end()
        if isinstance(kind, BaseException):
            raise kind
        raise error if isinstance(error, BaseException) else kind()

    async def _start(self) -> Request:
        components = check_prompt(self._prompt)
        options = _dump_options(self._options)
        self._turn = await self._session._turns.acquire()
        schema = None if self._guide is None else self._guide.schema
        self._request = await self._session._start(components, schema, options, stream=True)
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


def _guide(
    generating: Any, schema: GenerationSchema | None, json_schema: Mapping[str, Any] | None
) -> Guide | None:
    if generating is None and schema is None and json_schema is None:
        return None
    # Here, and not with the module: not every program asks for guided answers.
    from ._guided import guide_of

    return guide_of(generating, schema, json_schema)


def _dump_options(options: GenerationOptions | None) -> bytes | None:
    if options is None:
        return None
    if not isinstance(options, GenerationOptions):
        raise TypeError(f"options must be a GenerationOptions, not {type(options).__name__}")
    members = options.to_dict()
    return json.dumps(members).encode("ascii") if members else None
