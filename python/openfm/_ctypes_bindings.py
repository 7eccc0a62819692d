"""The C library, as ctypes sees it: every function this package calls, with its prototype.

Written by hand after include/FoundationModels.h and include/OpenFM.h, which say what each function
does and who owns what. All symbols are looked up when the module is imported, so that a library of
another version fails there, with a sentence, and not in the middle of a request.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any, Final

__all__ = [
    "FMImageCacheInfo",
    "FMImageInfo",
    "FMModelProgress",
    "FMPreparedImageInfo",
    "lib",
    "library_path",
]

_ENVIRONMENT: Final = "OPENFM_LIBRARY"
# The first is what a wheel carries; the second what a plain link of a build leaves.
_FILE_NAMES: Final = ("libFoundationModels.so.1", "libFoundationModels.so")


class FMImageInfo(Structure):
    """``FMImageInfo`` of OpenFM.h."""

    _fields_ = (
        ("width", c_int32),
        ("height", c_int32),
        ("storedWidth", c_int32),
        ("storedHeight", c_int32),
        ("orientation", c_int32),
        ("byteCount", c_int64),
        ("mimeType", c_char * 32),
        ("sha256", c_char * 65),
    )


# bool (*)(file, received, total, userInfo) of OpenFM.h; called on the calling thread.
FMModelProgress = CFUNCTYPE(c_bool, c_char_p, c_int64, c_int64, c_void_p)


class FMPreparedImageInfo(Structure):
    """``FMPreparedImageInfo`` of OpenFM.h."""

    _fields_ = (
        ("width", c_int32),
        ("height", c_int32),
        ("originalWidth", c_int32),
        ("originalHeight", c_int32),
        ("scale", c_double),
        ("byteCount", c_int64),
        ("orientation", c_int32),
        ("warningCount", c_int32),
        ("mimeType", c_char * 32),
        ("action", c_char * 16),
        ("sha256", c_char * 65),
    )


class FMImageCacheInfo(Structure):
    """``FMImageCacheInfo`` of OpenFM.h."""

    _fields_ = (
        ("count", c_int64),
        ("byteCount", c_int64),
        ("byteLimit", c_int64),
        ("hits", c_int64),
        ("misses", c_int64),
        ("evictions", c_int64),
    )


_ref = c_void_p
# `char *` results that the caller frees: as an address, since c_char_p would drop it.
_owned_string = c_void_p
_error = (POINTER(c_int), POINTER(c_char_p))

# Name: (result, arguments).
_PROTOTYPES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    # Models
    "FMSystemLanguageModelCreate": (_ref, (c_int, c_int)),
    "FMSystemLanguageModelIsAvailable": (c_bool, (_ref, POINTER(c_int))),
    "FMSystemLanguageModelGetContextSize": (c_int, (_ref,)),
    "FMLanguageModelCreateChatCompletions": (
        _ref,
        (c_char_p, c_char_p, c_char_p, c_char_p, *_error),
    ),
    "FMLanguageModelCreateWithImagePolicy": (_ref, (_ref, c_char_p, *_error)),
    "FMLanguageModelCopyUnavailableExplanation": (_owned_string, (_ref,)),
    "FMLanguageModelCopyDescriptionJSON": (_owned_string, (_ref,)),
    "FMLanguageModelCopyCapabilitiesJSON": (_owned_string, (_ref,)),
    "FMLanguageModelLoadOnQueue": (_ref, (_ref, _ref, c_uint64, *_error)),
    "FMEngineSetDefaults": (c_bool, (c_char_p, *_error)),
    # Model files
    "FMModelPull": (
        _owned_string,
        (c_char_p, c_char_p, FMModelProgress, c_void_p, *_error),
    ),
    "FMModelCopyListJSON": (_owned_string, _error),
    "FMModelCopyInstalledJSON": (_owned_string, (c_char_p, *_error)),
    "FMModelRemove": (c_bool, (c_char_p, *_error)),
    # Sessions
    "FMLanguageModelSessionCreateFromSystemLanguageModel": (
        _ref,
        (_ref, c_char_p, c_void_p, c_int),
    ),
    "FMLanguageModelSessionCreateFromTranscript": (_ref, (_ref, _ref, c_void_p, c_int)),
    "FMLanguageModelSessionConfigure": (c_bool, (_ref, c_char_p, *_error)),
    "FMLanguageModelSessionSetHistoryJSON": (c_bool, (_ref, c_char_p, *_error)),
    "FMLanguageModelSessionPrewarm": (None, (_ref, _ref)),
    "FMLanguageModelSessionCopyTranscriptJSON": (_owned_string, (_ref, c_bool, *_error)),
    "FMTranscriptCreateFromJSONString": (_ref, (c_char_p, *_error)),
    "FMLanguageModelSessionIsResponding": (c_bool, (_ref,)),
    "FMLanguageModelSessionCopyUsageJSON": (_owned_string, (_ref,)),
    "FMLanguageModelSessionRespondOnQueue": (
        _ref,
        (_ref, _ref, c_char_p, c_char_p, _ref, c_uint64, *_error),
    ),
    "FMLanguageModelSessionStreamOnQueue": (
        _ref,
        (_ref, _ref, c_char_p, c_char_p, _ref, c_uint64, *_error),
    ),
    "FMLanguageModelSessionCopyAttachmentJSON": (_owned_string, (_ref, c_char_p, *_error)),
    # Schemas and generated content
    "FMGenerationSchemaCreateFromJSON": (_ref, (c_char_p, *_error)),
    "FMGenerationSchemaCreateFromDeclarationJSON": (_ref, (c_char_p, *_error)),
    "FMGenerationSchemaGetJSONString": (_owned_string, (_ref, *_error)),
    "FMGenerationSchemaPropertyCreate": (_ref, (c_char_p, c_char_p, c_char_p, c_bool)),
    "FMGenerationSchemaPropertyAddAnyOfGuide": (
        None,
        (_ref, POINTER(c_char_p), c_int, c_bool),
    ),
    "FMGenerationSchemaPropertyAddCountGuide": (None, (_ref, c_int, c_bool)),
    "FMGenerationSchemaPropertyAddMaximumGuide": (None, (_ref, c_double, c_bool)),
    "FMGenerationSchemaPropertyAddMinimumGuide": (None, (_ref, c_double, c_bool)),
    "FMGenerationSchemaPropertyAddMinItemsGuide": (None, (_ref, c_int)),
    "FMGenerationSchemaPropertyAddMaxItemsGuide": (None, (_ref, c_int)),
    "FMGenerationSchemaPropertyAddRangeGuide": (None, (_ref, c_double, c_double, c_bool)),
    "FMGenerationSchemaPropertyAddRegex": (None, (_ref, c_char_p, c_bool)),
    "FMGenerationSchemaCreate": (_ref, (c_char_p, c_char_p)),
    "FMGenerationSchemaAddProperty": (None, (_ref, _ref)),
    "FMGeneratedContentCreateFromJSON": (_ref, (c_char_p, *_error)),
    "FMGeneratedContentCreateFromJSONWithSchema": (_ref, (c_char_p, _ref, *_error)),
    "FMGeneratedContentGetJSONString": (_owned_string, (_ref,)),
    "FMGeneratedContentIsComplete": (c_bool, (_ref,)),
    # Tools
    "FMBridgedToolCreateForQueue": (_ref, (c_char_p, c_char_p, c_char_p, *_error)),
    "FMBridgedToolFinishCall": (None, (_ref, c_uint, c_char_p)),
    "FMBridgedToolFinishCallWithError": (None, (_ref, c_uint, c_char_p)),
    "FMBridgedToolFinishCallWithPrompt": (None, (_ref, c_uint, _ref)),
    # Tokens
    "FMLanguageModelCountTokensOnQueue": (
        _ref,
        (_ref, c_int, c_void_p, c_char_p, c_void_p, c_int, _ref, c_uint64, *_error),
    ),
    # Composed prompts
    "FMComposedPromptInitialize": (_ref, ()),
    "FMComposedPromptAddTextBytes": (c_bool, (_ref, c_char_p, c_size_t, *_error)),
    "FMComposedPromptAddAttachmentWithPolicy": (
        c_bool,
        (_ref, c_char_p, c_char_p, c_int, c_char_p, c_char_p, *_error),
    ),
    # Pictures
    "FMImageSetLimits": (c_bool, (c_int64, c_int64, *_error)),
    "FMImageOfferHEIFLibrary": (c_bool, (c_char_p, *_error)),
    "FMImageInspect": (c_bool, (c_char_p, c_int, POINTER(FMImageInfo), *_error)),
    "FMImagePrepare": (_ref, (c_char_p, c_int, c_char_p, c_char_p, *_error)),
    "FMPreparedImageGetBytes": (c_void_p, (_ref, POINTER(c_size_t))),
    "FMPreparedImageGetInfo": (c_bool, (_ref, POINTER(FMPreparedImageInfo))),
    "FMImageCacheGetInfo": (c_bool, (POINTER(FMImageCacheInfo),)),
    "FMImageCacheClear": (None, ()),
    "FMImageEstimateTokens": (c_int64, (c_char_p, c_int, c_int, POINTER(c_bool), *_error)),
    # Event queue
    "FMEventQueueCreate": (_ref, ()),
    "FMEventQueueGetFileDescriptor": (c_int, (_ref,)),
    "FMEventQueueDrain": (c_size_t, (_ref, c_void_p, c_size_t, POINTER(c_size_t))),
    # Tasks and memory
    "FMTaskCancel": (None, (_ref,)),
    "FMTaskSetPaused": (None, (_ref, c_bool)),
    "FMRelease": (None, (_ref,)),
    "FMFreeString": (None, (_owned_string,)),
    # Errors and diagnostics
    "FMLastErrorCode": (c_int, ()),
    "FMLastErrorDescription": (c_char_p, ()),
    "FMLastErrorCopyDetailsJSON": (_owned_string, ()),
    "FMVersion": (c_char_p, ()),
    "FMCopyBuildInfoJSON": (_owned_string, ()),
    "FMSetDefaultCertificateFile": (c_bool, (c_char_p, *_error)),
    "FMDebugLiveObjects": (c_int64, (c_int,)),
    "FMRequestLogKeep": (None, (c_bool,)),
    "FMRequestLogTakeJSON": (_owned_string, ()),
    "FMRequestLogRecord": (c_bool, (c_char_p, *_error)),
    "FMShutdown": (None, ()),
}


def _find_library() -> Path:
    override = os.environ.get(_ENVIRONMENT)
    if override:
        path = Path(override)
        if not path.is_file():
            raise ImportError(
                f"{_ENVIRONMENT} is set to {override!r}, but there is no such file; correct it, "
                "or unset it to use the library that comes with the package",
                name=__package__,
                path=override,
            )
        return path
    folder = Path(__file__).parent / "lib"
    for name in _FILE_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise ImportError(
        f"the native library of openfm is missing: there is no {_FILE_NAMES[0]} in {folder}; "
        "install a wheel for this platform, run scripts/build in a source tree, or set "
        f"{_ENVIRONMENT} to the library's path",
        name=__package__,
        path=str(folder),
    )


def _load(path: Path) -> ctypes.CDLL:
    try:
        # CDLL gives up the interpreter lock around each call, so that one that reads a file or asks
        # a server does not stop other threads.
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"the native library of openfm cannot be loaded: {error}; it was built for another "
            "platform, or a library it needs is missing",
            name=__package__,
            path=str(path),
        ) from None
    missing = []
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            missing.append(name)
            continue
        function.restype = result
        function.argtypes = arguments
    if missing:
        raise ImportError(
            f"{path} is of another version than this package: it lacks {', '.join(missing)}; "
            "build or install both together",
            name=__package__,
            path=str(path),
        )
    return library


library_path: Final = _find_library()
lib: Final[Any] = _load(library_path)
