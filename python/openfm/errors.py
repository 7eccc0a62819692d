"""What can go wrong, told apart by class::

    FoundationModelsError
    ├─ GenerationError                        the model did not answer as asked
    │  ├─ ExceededContextWindowSizeError      token_count, context_size
    │  ├─ AssetsUnavailableError              no model, no engine
    │  ├─ GuardrailViolationError
    │  ├─ UnsupportedGuideError
    │  ├─ UnsupportedLanguageOrLocaleError
    │  ├─ DecodingFailureError                raw_content: the answer that does not fit the schema
    │  ├─ RateLimitedError                    retry_after (seconds), rate_limits, attempts
    │  ├─ ConcurrentRequestsError
    │  ├─ RefusalError                        explanation_entries
    │  ├─ InvalidGenerationSchemaError
    │  │  └─ GenerableDecoratorError          @generable on what can be none
    │  ├─ ImageReferenceError                 label, labels: nothing attached has the label
    │  ├─ UnsupportedCapabilityError          capability, e.g. "images"
    │  ├─ EmptyResponseError
    │  ├─ ToolRoundLimitError                 limit
    │  ├─ ModelStorageError                   a model file cannot be stored or removed
    │  └─ EngineError                         the embedded engine; log_tail
    │     ├─ EngineNotStartedError
    │     ├─ EngineFailedError                started, but never became ready
    │     └─ EngineDiedError                  ended while it answered
    ├─ PromptError                            the prompt cannot be sent; nothing was
    │  ├─ PromptTypeError                     also a TypeError
    │  ├─ InvalidPromptTextError              also a ValueError
    │  ├─ EmptyPromptError                    also a ValueError
    │  └─ ImagePromptError                    path
    │     ├─ ImageNotFoundError               also a FileNotFoundError
    │     ├─ ImageNotAFileError               a socket, a device ...
    │     │  └─ ImageIsADirectoryError        also an IsADirectoryError
    │     ├─ ImageNotReadableError            also a PermissionError
    │     ├─ NotAnImageError                  text, HTML, an archive ...
    │     │  └─ EmptyImageError               no bytes
    │     ├─ UnsupportedImageFormatError
    │     ├─ CorruptImageError
    │     ├─ ImageTooLargeError
    │     ├─ ImageChangedError                not the bytes that were attached
    │     ├─ InvalidImagePathError            also a ValueError
    │     ├─ DuplicateLabelError              label; also a ValueError
    │     ├─ InvalidLabelError                label; also a ValueError
    │     └─ InvalidOrientationError          also a ValueError
    ├─ TransportError                         url, attempts
    │  ├─ ConnectError                        also a ConnectionError
    │  ├─ TLSError
    │  ├─ TransportTimeoutError               also a TimeoutError
    │  ├─ InvalidURLError                     also a ValueError
    │  ├─ InvalidResponseError                no HTTP, no event stream, no JSON
    │  │  └─ EndedEarlyError                  partial_text
    │  └─ ServerError                         status, body
    │     ├─ AuthenticationError              no key, or a wrong one
    │     ├─ EndpointNotFoundError            no such endpoint, or no such model there
    │     └─ RequestTooLargeError
    ├─ ToolCallError                          tool_name, underlying_error
    ├─ InvalidArgumentError                   also a ValueError
    │  └─ ToolDefinitionError                 a tool without a name; also an AssertionError
    ├─ UsedAfterForkError                     also a RuntimeError
    └─ ShutDownError                          also a RuntimeError

Every error has ``code``, the C library's status code, and ``details``, a dict of what is known
beyond the message. The attributes named above are those details; one that is not known is None.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

__all__ = [
    "AssetsUnavailableError",
    "AuthenticationError",
    "ConcurrentRequestsError",
    "ConnectError",
    "CorruptImageError",
    "DecodingFailureError",
    "DuplicateLabelError",
    "EmptyImageError",
    "EmptyPromptError",
    "EmptyResponseError",
    "EndedEarlyError",
    "EndpointNotFoundError",
    "EngineDiedError",
    "EngineError",
    "EngineFailedError",
    "EngineNotStartedError",
    "ExceededContextWindowSizeError",
    "FoundationModelsError",
    "GenerableDecoratorError",
    "GenerationError",
    "GenerationErrorCode",
    "GuardrailViolationError",
    "ImageChangedError",
    "ImageIsADirectoryError",
    "ImageNotAFileError",
    "ImageNotFoundError",
    "ImageNotReadableError",
    "ImagePromptError",
    "ImageReferenceError",
    "ImageTooLargeError",
    "InvalidArgumentError",
    "InvalidGenerationSchemaError",
    "InvalidImagePathError",
    "InvalidLabelError",
    "InvalidOrientationError",
    "InvalidPromptTextError",
    "InvalidResponseError",
    "InvalidURLError",
    "ModelStorageError",
    "NotAnImageError",
    "PromptError",
    "PromptTypeError",
    "RateLimitedError",
    "RefusalError",
    "RequestTooLargeError",
    "ServerError",
    "ShutDownError",
    "TLSError",
    "ToolCallError",
    "ToolDefinitionError",
    "ToolRoundLimitError",
    "TransportError",
    "TransportTimeoutError",
    "UnsupportedCapabilityError",
    "UnsupportedGuideError",
    "UnsupportedImageFormatError",
    "UnsupportedLanguageOrLocaleError",
    "UsedAfterForkError",
]


class GenerationErrorCode(IntEnum):
    """The C library's status codes (``FMStatus`` in OpenFM.h). A code never changes its meaning."""

    SUCCESS = 0
    EXCEEDED_CONTEXT_WINDOW_SIZE = 1
    ASSETS_UNAVAILABLE = 2
    GUARDRAIL_VIOLATION = 3
    UNSUPPORTED_GUIDE = 4
    UNSUPPORTED_LANGUAGE_OR_LOCALE = 5
    DECODING_FAILURE = 6
    RATE_LIMITED = 7
    CONCURRENT_REQUESTS = 8
    REFUSAL = 9
    INVALID_SCHEMA = 10
    INVALID_ARGUMENT = 11

    IMAGE_NOT_FOUND = 100
    IMAGE_NOT_A_FILE = 101
    IMAGE_NOT_READABLE = 102
    IMAGE_EMPTY = 103
    NOT_AN_IMAGE = 104
    UNSUPPORTED_IMAGE_FORMAT = 105
    CORRUPT_IMAGE = 106
    IMAGE_TOO_LARGE = 107
    IMAGE_CHANGED = 108
    INVALID_IMAGE_PATH = 109

    INVALID_PROMPT_TEXT = 120
    DUPLICATE_LABEL = 121
    INVALID_LABEL = 122
    EMPTY_PROMPT = 123
    INVALID_ORIENTATION = 124
    UNKNOWN_LABEL = 125

    CONNECT = 140
    TLS = 141
    TIMEOUT = 142
    SERVER = 143
    INVALID_RESPONSE = 144
    ENDED_EARLY = 145
    REQUEST_TOO_LARGE = 146
    INVALID_URL = 147
    AUTHENTICATION = 148
    NOT_FOUND = 149

    UNSUPPORTED_CAPABILITY = 160
    ENGINE_NOT_STARTED = 161
    ENGINE_FAILED = 162
    ENGINE_DIED = 163
    EMPTY_RESPONSE = 164
    TOOL_CALL = 165
    TOOL_ROUND_LIMIT = 166
    MODEL_STORAGE = 167
    USED_AFTER_FORK = 170
    SHUT_DOWN = 171

    UNKNOWN_ERROR = 255


class FoundationModelsError(Exception):
    """The root of the tree.

    Anyone may raise one: ``message`` is what ``str()`` gives; ``code`` defaults to the class's own.
    """

    default_code: int = GenerationErrorCode.UNKNOWN_ERROR

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code: int = int(self.default_code if code is None else code)
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        # Not OSError's, which would print "[Errno 2] ..." where a class is both.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by calling the class with `args`: the classes take different arguments.
        return _rebuild, (type(self), self.args), dict(self.__dict__)


def _rebuild(kind: type[FoundationModelsError], args: tuple[Any, ...]) -> FoundationModelsError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


def _detail(key: str) -> Any:
    """A read-only attribute over one of the details."""

    def read(self: FoundationModelsError) -> Any:
        return self.details.get(key)

    return property(read, doc=f"``details[{key!r}]``; None where it is not known.")


# ---- Generation


class GenerationError(FoundationModelsError):
    """The model did not answer as asked. Bare for a failure that has no class of its own."""

    def __init__(
        self,
        message: str = "",
        debug_description: str | None = None,
        *,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, details=details)
        self.debug_description = debug_description


class ExceededContextWindowSizeError(GenerationError):
    """The request needs more tokens than the model has context for."""

    default_code = GenerationErrorCode.EXCEEDED_CONTEXT_WINDOW_SIZE
    token_count: int | None = _detail("token_count")
    context_size: int | None = _detail("context_size")


class AssetsUnavailableError(GenerationError):
    """There is no model to ask, or no engine to run it. The message says what to do."""

    default_code = GenerationErrorCode.ASSETS_UNAVAILABLE


class GuardrailViolationError(GenerationError):
    """The server's content filter stopped the request or the answer."""

    default_code = GenerationErrorCode.GUARDRAIL_VIOLATION


class UnsupportedGuideError(GenerationError):
    """The schema asks for something that guided generation cannot promise."""

    default_code = GenerationErrorCode.UNSUPPORTED_GUIDE


class UnsupportedLanguageOrLocaleError(GenerationError):
    """The model does not speak the language asked for."""

    default_code = GenerationErrorCode.UNSUPPORTED_LANGUAGE_OR_LOCALE


class DecodingFailureError(GenerationError):
    """The answer is no JSON, or none that fits the schema."""

    default_code = GenerationErrorCode.DECODING_FAILURE
    raw_content: str | None = _detail("raw_content")
    json_path: str | None = _detail("json_path")


class RateLimitedError(GenerationError):
    """The server asks to slow down."""

    default_code = GenerationErrorCode.RATE_LIMITED
    retry_after: float | None = _detail("retry_after")
    rate_limits: Mapping[str, str] | None = _detail("rate_limits")
    attempts: Sequence[Mapping[str, Any]] | None = _detail("attempts")


class ConcurrentRequestsError(GenerationError):
    """The session is answering another request."""

    default_code = GenerationErrorCode.CONCURRENT_REQUESTS


class RefusalError(GenerationError):
    """The model declined to answer."""

    default_code = GenerationErrorCode.REFUSAL

    def __init__(
        self,
        message: str = "",
        debug_description: str | None = None,
        explanation_entries: Sequence[Any] | None = None,
        *,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, debug_description, code=code, details=details)
        self.explanation_entries = explanation_entries

    @property
    def reason(self) -> str:
        """Why, in the model's words where it gave some."""
        return self.message


class InvalidGenerationSchemaError(GenerationError):
    """The schema is no schema."""

    default_code = GenerationErrorCode.INVALID_SCHEMA


class GenerableDecoratorError(InvalidGenerationSchemaError):
    """``@generable`` on something that cannot be generable."""


class ImageReferenceError(GenerationError):
    """An image reference names nothing that is attached."""

    default_code = GenerationErrorCode.UNKNOWN_LABEL
    label: str | None = _detail("label")
    labels: list[str] | None = _detail("labels")


class UnsupportedCapabilityError(GenerationError):
    """The model lacks what the request needs; nothing was sent."""

    default_code = GenerationErrorCode.UNSUPPORTED_CAPABILITY
    capability: str | None = _detail("capability")


class EmptyResponseError(GenerationError):
    """The model said nothing at all."""

    default_code = GenerationErrorCode.EMPTY_RESPONSE


class ToolRoundLimitError(GenerationError):
    """The model called tools more often in one request than the session allows."""

    default_code = GenerationErrorCode.TOOL_ROUND_LIMIT
    limit: int | None = _detail("limit")


class ModelStorageError(GenerationError):
    """A model file cannot be stored, read or removed: no room, no permission."""

    default_code = GenerationErrorCode.MODEL_STORAGE


class EngineError(GenerationError):
    """The embedded engine failed."""

    default_code = GenerationErrorCode.ENGINE_FAILED
    log_tail: str | None = _detail("log_tail")


class EngineNotStartedError(EngineError):
    """The engine's program could not be started."""

    default_code = GenerationErrorCode.ENGINE_NOT_STARTED


class EngineFailedError(EngineError):
    """The engine started, but never became ready."""

    default_code = GenerationErrorCode.ENGINE_FAILED


class EngineDiedError(EngineError):
    """The engine ended while it answered. The next request starts it again."""

    default_code = GenerationErrorCode.ENGINE_DIED


# ---- Prompts


class PromptError(FoundationModelsError):
    """The prompt cannot be sent; no connection was opened."""


class PromptTypeError(PromptError, TypeError):
    """A prompt is text, an attachment, or a list of those; this is something else."""

    default_code = GenerationErrorCode.INVALID_ARGUMENT


class InvalidPromptTextError(PromptError, ValueError):
    """A text that holds a NUL or half a surrogate pair."""

    default_code = GenerationErrorCode.INVALID_PROMPT_TEXT


class EmptyPromptError(PromptError, ValueError):
    """Nothing to send."""

    default_code = GenerationErrorCode.EMPTY_PROMPT


class ImagePromptError(PromptError):
    """Something is wrong with a picture of the prompt."""

    def __init__(
        self,
        message: str = "",
        path: str | os.PathLike[str] | None = None,
        *,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, details=details)
        if path is not None:
            self.details["path"] = os.fspath(path)
        if isinstance(self, OSError):
            _fill_os_error(self, self.code, self.details.get("path"))

    path: str | None = _detail("path")


def _fill_os_error(error: OSError, code: int, path: str | None) -> None:
    """What a handler of the builtin class looks at."""
    number = _ERRNO.get(code)
    if number is not None:
        error.errno = number
        error.strerror = os.strerror(number)
        error.filename = path


_ERRNO: Final[Mapping[int, int]] = {
    GenerationErrorCode.IMAGE_NOT_FOUND: errno.ENOENT,
    GenerationErrorCode.IMAGE_NOT_A_FILE: errno.EISDIR,
    GenerationErrorCode.IMAGE_NOT_READABLE: errno.EACCES,
}


class ImageNotFoundError(ImagePromptError, FileNotFoundError):
    """There is no such file."""

    default_code = GenerationErrorCode.IMAGE_NOT_FOUND


class ImageNotAFileError(ImagePromptError):
    """The path leads to something that is no file: a socket, a device."""

    default_code = GenerationErrorCode.IMAGE_NOT_A_FILE


class ImageIsADirectoryError(ImageNotAFileError, IsADirectoryError):
    """The path leads to a directory."""


class ImageNotReadableError(ImagePromptError, PermissionError):
    """The file may not be read, or reading it failed."""

    default_code = GenerationErrorCode.IMAGE_NOT_READABLE


class NotAnImageError(ImagePromptError):
    """The file is something else: text, HTML, an archive."""

    default_code = GenerationErrorCode.NOT_AN_IMAGE


class EmptyImageError(NotAnImageError):
    """The file has no bytes."""

    default_code = GenerationErrorCode.IMAGE_EMPTY


class UnsupportedImageFormatError(ImagePromptError):
    """A picture, but of a format that this build does not read."""

    default_code = GenerationErrorCode.UNSUPPORTED_IMAGE_FORMAT


class CorruptImageError(ImagePromptError):
    """A picture that is damaged or cut short."""

    default_code = GenerationErrorCode.CORRUPT_IMAGE


class ImageTooLargeError(ImagePromptError):
    """More pixels or bytes than the limits allow."""

    default_code = GenerationErrorCode.IMAGE_TOO_LARGE


class ImageChangedError(ImagePromptError):
    """The file no longer holds the bytes that were attached."""

    default_code = GenerationErrorCode.IMAGE_CHANGED


class InvalidImagePathError(ImagePromptError, ValueError):
    """A path that cannot be one: empty, with a NUL, not UTF-8."""

    default_code = GenerationErrorCode.INVALID_IMAGE_PATH


class DuplicateLabelError(ImagePromptError, ValueError):
    """Two pictures of one prompt have the same label."""

    default_code = GenerationErrorCode.DUPLICATE_LABEL
    label: str | None = _detail("label")


class InvalidLabelError(ImagePromptError, ValueError):
    """A label that is empty or holds a NUL, control characters or brackets."""

    default_code = GenerationErrorCode.INVALID_LABEL
    label: str | None = _detail("label")


class InvalidOrientationError(ImagePromptError, ValueError):
    """An EXIF orientation is a number from 1 to 8."""

    default_code = GenerationErrorCode.INVALID_ORIENTATION


# ---- Transport


class TransportError(FoundationModelsError):
    """Something is wrong on the way to the server, or with its answer."""

    url: str | None = _detail("url")
    attempts: Sequence[Mapping[str, Any]] | None = _detail("attempts")


class ConnectError(TransportError, ConnectionError):
    """No connection to the server."""

    default_code = GenerationErrorCode.CONNECT


class TLSError(TransportError):
    """The TLS handshake failed, or the server's certificate is not trusted."""

    default_code = GenerationErrorCode.TLS


class TransportTimeoutError(TransportError, TimeoutError):
    """The server took longer than allowed."""

    default_code = GenerationErrorCode.TIMEOUT


class InvalidURLError(TransportError, ValueError):
    """A server's address that is none."""

    default_code = GenerationErrorCode.INVALID_URL


class InvalidResponseError(TransportError):
    """What came back is no chat-completions answer."""

    default_code = GenerationErrorCode.INVALID_RESPONSE


class EndedEarlyError(InvalidResponseError):
    """The answer broke off."""

    default_code = GenerationErrorCode.ENDED_EARLY
    partial_text: str | None = _detail("partial_text")


class ServerError(TransportError):
    """The server answered with an error."""

    default_code = GenerationErrorCode.SERVER
    status: int | None = _detail("http_status")
    body: str | None = _detail("body")


class AuthenticationError(ServerError):
    """The server wants a key, or another one."""

    default_code = GenerationErrorCode.AUTHENTICATION


class EndpointNotFoundError(ServerError):
    """The server has no such endpoint, or no such model."""

    default_code = GenerationErrorCode.NOT_FOUND


class RequestTooLargeError(ServerError):
    """The request has more bytes than the server takes."""

    default_code = GenerationErrorCode.REQUEST_TOO_LARGE


# ---- The rest


def told(error: BaseException) -> str:
    """What an exception says; with its class where that is nothing, or a word such as the key of a
    KeyError, which say nothing by themselves."""
    text = str(error)
    name = type(error).__name__
    if not text.strip():
        return name
    return f"{name}: {text}" if isinstance(error, KeyError) or len(text.split()) < 2 else text


class ToolCallError(FoundationModelsError):
    """A tool failed: it raised ``underlying_error``, or the model called it wrongly."""

    default_code = GenerationErrorCode.TOOL_CALL

    def __init__(
        self,
        tool_name: str,
        underlying_error: BaseException,
        *,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        message = f"Tool {tool_name!r} failed: {told(underlying_error)}"
        super().__init__(message, code=code, details=details)
        self.tool_name = tool_name
        self.underlying_error = underlying_error


class InvalidArgumentError(FoundationModelsError, ValueError):
    """A value that the library does not take."""

    default_code = GenerationErrorCode.INVALID_ARGUMENT


class ToolDefinitionError(InvalidArgumentError, AssertionError):
    """A tool class lacks its name or description."""


class UsedAfterForkError(FoundationModelsError, RuntimeError):
    """The library was used before ``fork()`` and cannot be used in the child.

    Start children with the "spawn" or "forkserver" method of ``multiprocessing``.
    """

    default_code = GenerationErrorCode.USED_AFTER_FORK


class ShutDownError(FoundationModelsError, RuntimeError):
    """The library was shut down: the interpreter is about to exit."""

    default_code = GenerationErrorCode.SHUT_DOWN


_CLASSES: Final[Mapping[int, Callable[..., FoundationModelsError]]] = {
    int(kind.default_code): kind
    for kind in (
        ExceededContextWindowSizeError,
        AssetsUnavailableError,
        GuardrailViolationError,
        UnsupportedGuideError,
        UnsupportedLanguageOrLocaleError,
        DecodingFailureError,
        RateLimitedError,
        ConcurrentRequestsError,
        RefusalError,
        InvalidGenerationSchemaError,
        InvalidArgumentError,
        ImageNotFoundError,
        ImageNotAFileError,
        ImageNotReadableError,
        EmptyImageError,
        NotAnImageError,
        UnsupportedImageFormatError,
        CorruptImageError,
        ImageTooLargeError,
        ImageChangedError,
        InvalidImagePathError,
        InvalidPromptTextError,
        DuplicateLabelError,
        InvalidLabelError,
        EmptyPromptError,
        InvalidOrientationError,
        ImageReferenceError,
        ConnectError,
        TLSError,
        TransportTimeoutError,
        ServerError,
        InvalidResponseError,
        EndedEarlyError,
        RequestTooLargeError,
        InvalidURLError,
        AuthenticationError,
        EndpointNotFoundError,
        UnsupportedCapabilityError,
        EngineNotStartedError,
        EngineFailedError,
        EngineDiedError,
        EmptyResponseError,
        ToolRoundLimitError,
        ModelStorageError,
        UsedAfterForkError,
        ShutDownError,
    )
}


_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def error_for(
    code: int, message: str, details: Mapping[str, Any] | None = None
) -> FoundationModelsError:
    """The error for a status code of the library; GenerationError for one without a class.

    A message can hold words of a server, which are shown on terminals: control characters are left
    out of it, but for tabs and line ends. The details have them as they came.
    """
    message = _CONTROLS.sub("", message)
    if code == GenerationErrorCode.TOOL_CALL:
        failure = ToolCallError(
            str((details or {}).get("tool_name", "")),
            GenerationError(message.partition(": ")[2] or message),
            code=code,
            details=details,
        )
        # It names the tool already.
        failure.args, failure.message = (message,), message
        return failure
    kind = _CLASSES.get(code, GenerationError)
    path = (details or {}).get("path")
    if kind is ImageNotAFileError and isinstance(path, str) and os.path.isdir(path):  # noqa: PTH112
        kind = ImageIsADirectoryError
    return kind(message, code=code, details=details)
