"""The Foundation Models programming model for any machine.

::

    import openfm as fm

    session = fm.LanguageModelSession(instructions="Be brief.")
    answer = await session.respond(["What is this?", fm.ImageAttachment("photo.jpg")])
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

# The library is loaded here, so that a missing one is known at the import.
from ._native import build_info, debug_live_objects
from ._version import __version__

if TYPE_CHECKING:
    from . import models as models
    from .compat import *
    from .core import *
    from .errors import *
    from .evaluation import evaluate as evaluate
    from .evaluation import evaluate_async as evaluate_async
    from .generable import *
    from .generable_utils import *
    from .generation_guide import *
    from .generation_options import *
    from .generation_property import *
    from .generation_schema import *
    from .image_reference import *
    from .imaging import *
    from .prompt import *
    from .request_log import *
    from .session import *
    from .tokens import *
    from .tool import *
    from .transcript import *
    from .usage import *

# Which module makes each name. A module is loaded when one of its names is first asked for: an
# import of the package costs what a program uses of it. Tests hold this to the modules' __all__.
_HOMES: Final[dict[str, tuple[str, ...]]] = {
    "compat": ("install_as_apple_fm_sdk",),
    "core": (
        "Capabilities",
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
        "ToolRoundLimitError",
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
        "ConvertibleFromGeneratedContent",
        "ConvertibleToGeneratedContent",
        "Generable",
        "GeneratedContent",
        "GenerationID",
    ),
    "generable_utils": ("generable",),
    "generation_guide": (
        "GenerationGuide",
        "GuideType",
        "guide",
    ),
    "generation_options": (
        "GenerationOptions",
        "SamplingMode",
        "SamplingModeType",
    ),
    "generation_property": ("Property",),
    "generation_schema": ("GenerationSchema",),
    "image_reference": ("ImageReference",),
    "imaging": (
        "ImageCacheInfo",
        "ImageInfo",
        "ImagePolicy",
        "PreparedImage",
        "image_cache_clear",
        "image_cache_info",
        "inspect_image",
        "prepare_image",
        "set_image_limits",
    ),
    # Used by its own name: openfm.models.pull().
    "models": (),
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
        "History",
        "LanguageModelSession",
        "ResponseStream",
    ),
    "type_conversion": (),
    "tokens": ("TokenCount",),
    "tool": ("Tool",),
    "transcript": ("Transcript",),
    "usage": (
        "Attempt",
        "InputUsage",
        "OutputUsage",
        "Response",
        "ResponseMetadata",
        "ResponseWarning",
        "SentImage",
        "Usage",
    ),
}
_HOME: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", "build_info", "debug_live_objects", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOMES and name not in _HOME:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOMES})


class _Package(ModuleType):
    """The package, in which ``generable`` is the decorator and not the module of that name, which
    the import system would put in its place."""

    @property
    def generable(self) -> Any:
        return importlib.import_module(".generable_utils", __name__).generable

    @generable.setter
    def generable(self, module: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
