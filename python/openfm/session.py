"""A conversation with a model."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from ._ctypes_bindings import lib
from ._events import EventQueue, Request
from ._native import Handle, encode, last_error, take_json
from ._sync import run as run_sync
from ._tool_calls import ToolCalls
from ._turns import Turn, Turns
from .core import LanguageModel, SystemLanguageModel
from .errors import FoundationModelsError, InvalidPromptTextError
from .generable import GeneratedContent
from .prompt import Prompt, PromptComponent, check_prompt, compose, compose_now
from .tool import Tool, tool_array
from .transcript import Transcript

# What is wanted only later is loaded only then: the first session is to be there at once.
if TYPE_CHECKING:
    from ._guided import Guide
    from .generation_options import GenerationOptions
    from .generation_schema import GenerationSchema
    from .usage import Response, ResponseMetadata, Usage

__all__ = ["History", "LanguageModelSession", "ResponseStream"]

# How long a request waits for its cancelled predecessor to end, in seconds.
_SETTLE_TIMEOUT = 2.0

_Answer = TypeVar("_Answer")
_Snapshot = TypeVar("_Snapshot")


#: Gets the transcript as ``Transcript.to_dict`` gives it, returns what the model is to see of it.
HistoryFunction = Callable[[dict[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True)
class History:
    """What a model sees of a long conversation; the transcript itself is left alone.

    ``turns``: only so many of the last ones (None for all). Pictures of those before stay, with
    their labels. ``drop_completed_tool_calls``: the calls of answered turns are left out.
    """

    turns: int | None = None
    drop_completed_tool_calls: bool = False

    def __post_init__(self) -> None:
        if self.turns is not None and (
            not isinstance(self.turns, int) or isinstance(self.turns, bool) or self.turns < 0
        ):
            raise ValueError(f"turns must be a number of at least 0 or None, not {self.turns!r}")


class LanguageModelSession:
    """A conversation: instructions, and the turns that completed.

    ``instructions`` (None or "" for none) tell the model how to behave; ``model`` is any of
    ``openfm.core``, None for the default one; ``tools`` what it may call. ``tool_errors``: what a
    tool raises is raised by the request as ToolCallError ("raise"), or read by the model as the
    tool's output ("output"). ``max_tool_rounds``: how often tools may be called in one request.
    ``keep_failed_turns``: whether what came of a failed request stays in the transcript.
    ``history``: what the model sees of a long conversation, a History or a function.

    A session answers one request at a time. Other tasks of the same event loop wait for their turn;
    a task that holds an open stream, a tool of the running request, another loop or another thread
    gets ConcurrentRequestsError. A
    session may be used by one ``asyncio.run()`` after another. Cancelling a task, a timeout, or
    closing a stream stops the request at the server, and the session can be used again at once; a
    request that did not complete leaves no trace in the conversation.
    """

    def __init__(
        self,
        instructions: str | None = None,
        model: LanguageModel | None = None,
        tools: Sequence[Tool] | None = None,
        *,
        tool_errors: Literal["raise", "output"] = "raise",
        max_tool_rounds: int = 10,
        keep_failed_turns: bool = False,
        history: History | HistoryFunction | None = None,
    ) -> None:
        if instructions is not None and not isinstance(instructions, str):
            raise TypeError(f"instructions must be a str, not {type(instructions).__name__}")
        text = encode(instructions or "", "the text of the instructions", InvalidPromptTextError)
        self._set_up(model, tools, tool_errors, max_tool_rounds, keep_failed_turns, history)
        self._open(
            lib.FMLanguageModelSessionCreateFromSystemLanguageModel, self.model, text or None
        )

    @classmethod
    def from_transcript(
        cls,
        transcript: Transcript,
        model: LanguageModel | None = None,
        tools: Sequence[Tool] | None = None,
        *,
        tool_errors: Literal["raise", "output"] = "raise",
        max_tool_rounds: int = 10,
        keep_failed_turns: bool = False,
        history: History | HistoryFunction | None = None,
    ) -> LanguageModelSession:
        """A session that goes on with a transcript: its instructions, tools, pictures and turns
        are sent again. Tools are given again, since a transcript only tells of them.

        The transcript becomes that of the new session. One that was another session's stays there
        too, as it is now: the two go on independently.
        """
        if not isinstance(transcript, Transcript):
            raise TypeError(f"transcript must be a Transcript, not {type(transcript).__name__}")
        session = cls.__new__(cls)
        session._set_up(model, tools, tool_errors, max_tool_rounds, keep_failed_turns, history)
        session._open(
            lib.FMLanguageModelSessionCreateFromTranscript,
            transcript._handle,
            session.model._handle.address,
            transcript=transcript,
        )
        return session

    def _set_up(
        self,
        model: LanguageModel | None,
        tools: Sequence[Tool] | None,
        tool_errors: str,
        max_tool_rounds: int,
        keep_failed_turns: bool,
        history: History | HistoryFunction | None,
    ) -> None:
        """Checks and keeps what both ways to make a session have in common."""
        if model is not None and not isinstance(model, LanguageModel):
            raise TypeError(
                "model must be a SystemLanguageModel or a ChatCompletionsLanguageModel, not "
                f"{type(model).__name__}"
            )
        for tool in tools or ():
            if not isinstance(tool, Tool):
                raise TypeError(f"tools must be Tool objects, not {type(tool).__name__}")
        if tool_errors not in ("raise", "output"):
            raise ValueError(f'tool_errors must be "raise" or "output", not {tool_errors!r}')
        if history is not None and not isinstance(history, History) and not callable(history):
            raise TypeError(
                f"history must be a History or a function, not {type(history).__name__}"
            )
        self.model: LanguageModel = SystemLanguageModel() if model is None else model
        # Kept alive: the library calls them.
        self._tools: dict[str, Tool] = {}
        for tool in tools or ():
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name!r}; give each its own name")
            self._tools[tool.name] = tool
        self._history = None if isinstance(history, History) else history
        self._settings: dict[str, Any] = {
            "tool_errors": "throw" if tool_errors == "raise" else tool_errors,
            "max_tool_rounds": max_tool_rounds,
            "keep_failed_turns": keep_failed_turns,
        }
        if isinstance(history, History):
            self._settings["history_turns"] = history.turns
            self._settings["drop_completed_tool_calls"] = history.drop_completed_tool_calls

    def _open(
        self,
        function: Any,
        source: LanguageModel | Handle,
        argument: Any,
        *,
        transcript: Transcript | None = None,
    ) -> None:
        """Makes the library's session."""
        address = source.address if isinstance(source, Handle) else source._handle.address
        self._handle = Handle(function(address, argument, *tool_array(list(self._tools.values()))))
        settings = json.dumps(self._settings).encode("ascii")
        if not lib.FMLanguageModelSessionConfigure(self._handle.address, settings, None, None):
            raise last_error()
        if transcript is None:
            transcript = Transcript(self._handle)
        else:
            previous = transcript._owner() if transcript._owner is not None else None
            if previous is not None:
                # Its own transcript is not taken from it.
                previous._adopt(Transcript(previous._handle))
            transcript._update_session_ptr(self._handle)
        self._adopt(transcript)
        self._turns = Turns()
        # Weak: what waits for it may belong to a loop that is closed, which would be kept alive.
        self._last_request: weakref.ref[Request] | None = None

    def _adopt(self, transcript: Transcript) -> None:
        self._transcript: Transcript = transcript
        transcript._owner = weakref.ref(self)

    @property
    def transcript(self) -> Transcript:
        """What was said so far."""
        return self._transcript

    def prewarm(self, prompt_prefix: Prompt | None = None) -> None:
        """Gets the model ready for a request that comes soon, in the background: starts the
        engine, and lets a local server read ahead what is sent anyway. Never fails."""
        prompt = None if prompt_prefix is None else compose_now(check_prompt(prompt_prefix))
        try:
            lib.FMLanguageModelSessionPrewarm(
                self._handle.address, None if prompt is None else prompt.address
            )
        finally:
            if prompt is not None:
                prompt.release()

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
        from .usage import Response, metadata_from

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
        _warn(request)
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

        Each is the whole text so far, and so a copy of it. A reader that keeps up gets one for each
        piece that the server sent, also where several came at once. One that does not (more than 64
        pieces wait for it, or some for more than 10 ms, or the copies would grow large) is given
        fewer, longer steps; the last one, the whole answer, always comes. The request starts with
        the first one; what is wrong with the prompt is raised there too. ::

            async for text in session.stream_response("Tell me a story."):
                print(f"\\r{text}", end="")

        Who may leave the loop early and gives the stream a name closes it, with ``aclose()`` or by
        ``async with session.stream_response(...) as stream:``; until then the session is busy.

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

    @overload
    def respond_sync(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> str: ...

    @overload
    def respond_sync(
        self,
        prompt: Prompt,
        generating: type[_Answer],
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> _Answer: ...

    @overload
    def respond_sync(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: GenerationSchema,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> GeneratedContent: ...

    @overload
    def respond_sync(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: None = None,
        json_schema: Mapping[str, Any],
        options: GenerationOptions | None = None,
    ) -> GeneratedContent: ...

    @overload
    def respond_sync(
        self,
        prompt: Prompt,
        generating: Any,
        *,
        options: GenerationOptions | None = None,
    ) -> Any: ...

    def respond_sync(self, prompt: Prompt, generating: Any = None, **arguments: Any) -> Any:
        """``respond`` for code that cannot await, also where an event loop is running, as in a
        notebook: that loop stands still meanwhile. An interrupt ends the request."""
        return run_sync(self.respond(prompt, generating, **arguments))

    @overload
    def respond_full_sync(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> Response[str]: ...

    @overload
    def respond_full_sync(
        self,
        prompt: Prompt,
        generating: type[_Answer],
        *,
        schema: None = None,
        json_schema: None = None,
        options: GenerationOptions | None = None,
    ) -> Response[_Answer]: ...

    @overload
    def respond_full_sync(
        self,
        prompt: Prompt,
        generating: None = None,
        *,
        schema: GenerationSchema | None = None,
        json_schema: Mapping[str, Any] | None = None,
        options: GenerationOptions | None = None,
    ) -> Response[GeneratedContent]: ...

    @overload
    def respond_full_sync(
        self,
        prompt: Prompt,
        generating: Any,
        *,
        options: GenerationOptions | None = None,
    ) -> Response[Any]: ...

    def respond_full_sync(
        self, prompt: Prompt, generating: Any = None, **arguments: Any
    ) -> Response[Any]:
        """``respond_full``, as ``respond_sync`` is ``respond``."""
        return run_sync(self.respond_full(prompt, generating, **arguments))

    def stream_sync(
        self, prompt: Prompt, options: GenerationOptions | None = None, **arguments: Any
    ) -> Iterator[Any]:
        """``stream_response``, as ``respond_sync`` is ``respond``: an iterator of snapshots."""
        stream = self.stream_response(prompt, options, **arguments)
        try:
            while True:
                try:
                    yield run_sync(stream.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            run_sync(stream.aclose())

    @property
    def is_responding(self) -> bool:
        """Whether a request is under way."""
        responding: bool = lib.FMLanguageModelSessionIsResponding(self._handle.address)
        return responding

    @property
    def usage(self) -> Usage:
        """Tokens of all responses so far, as the server counted them."""
        from .usage import usage_from

        return usage_from(self._usage()["session"])

    @property
    def last_response(self) -> ResponseMetadata | None:
        """Usage, finish reason and pictures sent of the last response; None before the first."""
        members = self._usage()["last_response"]
        from .usage import metadata_from

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
            await self._send_history()
            request = queue.start(
                self._handle,
                prompt,
                schema=schema,
                options=options,
                stream=stream,
                tool_calls=ToolCalls(self._tools, self._turns.holder) if self._tools else None,
            )
        self._last_request = weakref.ref(request)
        return request

    async def _send_history(self) -> None:
        """Has the caller's function shape what the model sees."""
        if self._history is None:
            return
        shaped = self._history(json.loads(self._transcript.to_json()))
        if inspect.isawaitable(shaped):
            shaped = await shaped
        text = json.dumps(shaped).encode("ascii")
        if not lib.FMLanguageModelSessionSetHistoryJSON(self._handle.address, text, None, None):
            raise last_error()

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
    session; so does the end of an ``async with`` block. Python does not tell an iterator that its
    loop was left: one that has a name stays open after a ``break``, and the session busy, until it
    is closed or dropped. Another loop than the one that it was started on gets
    ConcurrentRequestsError. It is a class and no ``async def`` generator because such a one, when
    dropped after a ``break``, ends only some time later, and the session would be busy until then.
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
        self._is_whole = False
        self._running = False
        self._closed = False
        # What it failed with: one like it, which was never raised and so holds no frame of ours.
        self._failure: FoundationModelsError | None = None

    async def __aenter__(self) -> ResponseStream[_Snapshot, _Answer]:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __aiter__(self) -> ResponseStream[_Snapshot, _Answer]:
        return self

    async def __anext__(self) -> _Snapshot:
        # One coroutine and no more: every further one would be paid for with every chunk.
        if self._running:
            if self._turn is not None:
                self._turn.check_loop()
            raise RuntimeError("the stream is being read already; one task reads it at a time")
        if self._closed:
            raise StopAsyncIteration
        if self._turn is not None:
            self._turn.move_to_current_task()
        self._running = True
        try:
            request = self._request
            if request is None:
                request = await self._start()
            while True:
                if request.pending:
                    if self._guide is not None:
                        part = self._guide.read_partial(request.take_snapshot())
                        if part is not None:
                            return cast("_Snapshot", part)
                    elif not self._deltas:
                        self._gave = True
                        return cast("_Snapshot", request.take_step())
                    elif delta := request.take_delta():
                        return cast("_Snapshot", delta)
                elif request.done:
                    break
                else:
                    await request.next_event()
            request.raise_error()
            _warn(request)
        except GeneratorExit:
            # Thrown away in the middle of a step, which may not wait any more.
            self._drop()
            raise
        except BaseException as error:
            if isinstance(error, FoundationModelsError):
                self._failure = _like(error)
            await self._end()
            raise
        finally:
            self._running = False
        self._is_whole = True
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
        if self._turn is not None:
            if self._turn.loop is None:
                # Nothing of a closed loop can be waited for.
                return self._drop()
            self._turn.check_loop()
        if self._running:
            raise RuntimeError("the stream is being read; cancel the task that reads it")
        await self._end()

    async def collect(self) -> _Answer:
        """Reads the stream to its end and gives the whole answer, as ``respond`` does. Of a stream
        of pieces it gives what had not been read. Raises what the stream failed with, also where
        that was raised already; RuntimeError where it was closed before its end."""
        pieces = [part async for part in self]
        if self._failure is not None:
            raise _like(self._failure)
        request = self._request
        if request is None or not self._is_whole:
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
        await self.aclose()
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

    def __repr__(self) -> str:
        if self._turn is not None:
            state = "open; its session is busy"
        elif self._failure is not None:
            state = f"failed: {type(self._failure).__name__}"
        elif self._is_whole:
            state = "read to its end"
        elif self._closed:
            state = "closed before its end"
        else:
            state = "waiting for its session" if self._running else "not started"
        return f"<ResponseStream: {state}>"


def _like(error: FoundationModelsError) -> FoundationModelsError:
    """An error that says the same, without the traceback."""
    other = copy.copy(error)
    other.__cause__ = error.__cause__
    return other


def _warn(request: Request) -> None:
    """Passes on what looks wrong about a complete answer, in the words of the library."""
    metadata = request.metadata
    if metadata is None or '"warnings":[]' in metadata:
        return
    from .usage import ResponseWarning

    for text in json.loads(metadata).get("warnings", ()):
        # Not at a line of this package: there is none of the caller's in a task's frames.
        warnings.warn(text, ResponseWarning, stacklevel=1)


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
    from .generation_options import GenerationOptions

    if not isinstance(options, GenerationOptions):
        raise TypeError(f"options must be a GenerationOptions, not {type(options).__name__}")
    members = options.to_dict()
    return json.dumps(members).encode("ascii") if members else None
