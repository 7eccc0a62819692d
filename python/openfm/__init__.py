"""The Foundation Models programming model for any machine.

::

    import openfm as fm

    session = fm.LanguageModelSession(instructions="Be brief.")
    answer = await session.respond(["What is this?", fm.ImageAttachment("photo.jpg")])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

# The library is loaded here, so that a missing one is known at the import.
from ._native import build_info, debug_live_objects
from ._version import __version__

if TYPE_CHECKING:
    from .core import *
    from .errors import *
    from .evaluation import evaluate as evaluate
    from .evaluation import evaluate_async as evaluate_async
    from .generable import *
    from .generation_options import *
    from .imaging import *
    from .prompt import *
    from .request_log import *
    from .session import *
    from .usage import *

# Which module makes each name. A module is loaded when one of its names is first asked for: an
# import of the package costs what a program uses of it. Tests hold this to the modules' __all__.
_HOMES: Final[dict[str, tuple[str, ...]]] = {
    "core": (
        "ChatCompletionsLanguageModel",
        "LanguageModel",
        "SystemLanguageModel",
        "SystemLanguageModelGuardrails",
        "SystemLanguageModelUnavailableReason",
        "SystemLanguageModelUseCase",
        "Timeout",
    ),
    "errors": (
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
        "GenerationError",
        "GenerationErrorCode",
        "GuardrailViolationError",
        "ImageChangedError",
        "ImageIsADirectoryError",
        "ImageNotAFileError",
        "ImageNotFoundError",
        "ImageNotReadableError",
        "ImagePromptError",
        "ImageTooLargeError",
        "InvalidArgumentError",
        "InvalidGenerationSchemaError",
        "InvalidImagePathError",
        "InvalidLabelError",
        "InvalidOrientationError",
        "InvalidPromptTextError",
        "InvalidResponseError",
        "InvalidURLError",
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
        "TransportError",
        "TransportTimeoutError",
        "UnsupportedCapabilityError",
        "UnsupportedGuideError",
        "UnsupportedImageFormatError",
        "UnsupportedLanguageOrLocaleError",
        "UsedAfterForkError",
    ),
    "evaluation": (
        "evaluate",
        "evaluate_async",
    ),
    "generable": (
        "GeneratedContent",
        "GenerationID",
    ),
    "generation_options": (
        "GenerationOptions",
        "SamplingMode",
        "SamplingModeType",
    ),
    "imaging": (
        "ImageInfo",
        "ImagePolicy",
        "PreparedImage",
        "inspect_image",
        "prepare_image",
    ),
    "prompt": (
        "Attachment",
        "ComposedPrompt",
        "ImageAttachment",
        "Prompt",
        "PromptComponent",
    ),
    "request_log": (
        "RequestRecord",
        "record_requests",
        "set_request_log",
        "take_request_log",
    ),
    "session": (
        "LanguageModelSession",
        "ResponseStream",
    ),
    "usage": (
        "Attempt",
        "InputUsage",
        "OutputUsage",
        "Response",
        "ResponseMetadata",
        "SentImage",
        "Usage",
    ),
}
_HOME: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", "build_info", "debug_live_objects", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOMES})
