"""The models a session can talk to."""

from __future__ import annotations

import ctypes
import json
import math
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from ._ctypes_bindings import lib
from ._events import EventQueue
from ._native import (
    Handle,
    encode,
    last_error,
    offer_certificates,
    take_json,
    take_string,
)
from .errors import InvalidArgumentError, InvalidPromptTextError
from .prompt import check_prompt, compose
from .tokens import TokenCount
from .tool import Tool, schema_json, tool_array
from .transcript import Transcript

if TYPE_CHECKING:
    # Loaded when a policy is there: the first session does not wait for it.
    from .imaging import ImagePolicy

__all__ = [
    "Capabilities",
    "ChatCompletionsLanguageModel",
    "LanguageModel",
    "SystemLanguageModel",
    "SystemLanguageModelGuardrails",
    "SystemLanguageModelUnavailableReason",
    "SystemLanguageModelUseCase",
    "Timeout",
]


class SystemLanguageModelUseCase(IntEnum):
    """What the default model is asked to be good at."""

    GENERAL = 0
    CONTENT_TAGGING = 1


class SystemLanguageModelGuardrails(IntEnum):
    """How the default model treats sensitive content."""

    DEFAULT = 0
    PERMISSIVE_CONTENT_TRANSFORMATIONS = 1


class SystemLanguageModelUnavailableReason(IntEnum):
    """Why a model cannot be asked. Compare with ``is not None``: the first one counts as false."""

    APPLE_INTELLIGENCE_NOT_ENABLED = 0
    DEVICE_NOT_ELIGIBLE = 1
    MODEL_NOT_READY = 2
    UNKNOWN = 0xFF


@dataclass(frozen=True)
class Capabilities:
    """What a model can do.

    ``tool_calling`` is "native"; "guided" for a model without tools of its own, for which the
    library lets it choose its calls by guided generation; None where neither is to be had.
    """

    vision: bool
    guided_generation: bool
    tool_calling: Literal["native", "guided"] | None
    reasoning: bool


_COUNT_PROMPT: Final = 0
_COUNT_INSTRUCTIONS: Final = 1
_COUNT_TOOLS: Final = 2
_COUNT_SCHEMA: Final = 3
_COUNT_TRANSCRIPT: Final = 4


class LanguageModel:
    """What all models have in common. Make one of the classes below."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._confirmed: Capabilities | None = None

    def is_available(self) -> tuple[bool, SystemLanguageModelUnavailableReason | None]:
        """Whether a request has a chance, and if not, why.

        Looks for the server's address, or for engine and model file; starts nothing and connects to
        nothing. ``availability_message`` says what to do.
        """
        reason = ctypes.c_int(SystemLanguageModelUnavailableReason.UNKNOWN)
        if lib.FMSystemLanguageModelIsAvailable(self._handle.address, ctypes.byref(reason)):
            return True, None
        try:
            return False, SystemLanguageModelUnavailableReason(reason.value)
        except ValueError:
            return False, SystemLanguageModelUnavailableReason.UNKNOWN

    @property
    def availability_message(self) -> str | None:
        """Why the model is unavailable and what to do, in one sentence; None when it is there."""
        return take_string(lib.FMLanguageModelCopyUnavailableExplanation(self._handle.address))

    @property
    def context_size(self) -> int:
        """Tokens of context that one request has; 0 where nobody knows.

        A server that has not told yet is asked, for at most half a second; ``await model.load()``
        asks with more patience. For the embedded engine nothing is started.
        """
        size: int = lib.FMSystemLanguageModelGetContextSize(self._handle.address)
        return size

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do: as far as it is known without asking, and confirmed after
        ``await model.load()``."""
        if self._confirmed is None:
            members = take_json(lib.FMLanguageModelCopyCapabilitiesJSON(self._handle.address))
            return Capabilities(**members)
        return self._confirmed

    async def load(self) -> dict[str, Any]:
        """Starts the engine, or asks the server, and tells what the model is: ``describe()`` with
        ``context_size`` and ``capabilities``. Raises what a request would raise that cannot reach
        it."""
        queue = EventQueue.of_running_loop()
        request = queue.ask(lib.FMLanguageModelLoadOnQueue, self._handle.address)
        members: dict[str, Any] = json.loads(await request.finish())
        self._confirmed = Capabilities(**members["capabilities"])
        return members

    async def token_count(
        self, value: Any = None, *, instructions: str | None = None
    ) -> TokenCount:
        """How many tokens something costs: counted by the server where it can, else estimated, as
        the result's ``is_exact`` tells.

        ``value`` is a prompt (what sending it as the only turn of a new session costs), a
        GenerationSchema, a list of tools (what they add to a request) or a Transcript;
        ``instructions`` a text (what it adds). Exactly one of the two is given.
        """
        if (value is None) == (instructions is None):
            raise ValueError("give either a value or instructions to count")
        counted: Any = None
        text: bytes | None = None
        if instructions is not None:
            if not isinstance(instructions, str):
                raise TypeError(f"instructions must be a str, not {type(instructions).__name__}")
            kind = _COUNT_INSTRUCTIONS
            text = encode(instructions, "the text of the instructions", InvalidPromptTextError)
        elif isinstance(value, Transcript):
            kind, counted = _COUNT_TRANSCRIPT, value._handle
        elif isinstance(value, list) and all(isinstance(item, Tool) for item in value):
            return await self._count_tools(value)
        elif callable(getattr(value, "to_dict", None)):
            kind, text = _COUNT_SCHEMA, schema_json(value, "value")
        else:
            with await compose(check_prompt(value)) as prompt:
                return await self._count(_COUNT_PROMPT, prompt.address)
        return await self._count(kind, None if counted is None else counted.address, text)

    async def _count_tools(self, tools: list[Tool]) -> TokenCount:
        return await self._count(_COUNT_TOOLS, None, None, *tool_array(tools))

    async def _count(
        self,
        kind: int,
        counted: int | None,
        text: bytes | None = None,
        tools: Any = None,
        tool_count: int = 0,
    ) -> TokenCount:
        request = EventQueue.of_running_loop().ask(
            lib.FMLanguageModelCountTokensOnQueue,
            self._handle.address,
            kind,
            counted,
            text,
            tools,
            tool_count,
        )
        return TokenCount.from_dict(json.loads(await request.finish()))

    @property
    def image_policy(self) -> ImagePolicy:
        """What pictures this model is sent: what was set, over what suits the family of models that
        its name tells, over the default."""
        members = self.describe().get("image")
        from .imaging import ImagePolicy

        return ImagePolicy() if members is None else ImagePolicy.from_dict(members)

    def estimate_image_tokens(self, width: int, height: int) -> tuple[int, bool]:
        """Tokens that a picture of that size, as it is sent, is likely to cost, and whether the
        rule is the model's own to the token. What a server counts itself holds over it."""
        exact = ctypes.c_bool()
        name = str(self.describe().get("model", ""))
        count: int = lib.FMImageEstimateTokens(
            name.encode("utf-8", "replace"), width, height, ctypes.byref(exact), None, None
        )
        if count < 0:
            raise last_error()
        return count, exact.value

    def describe(self) -> dict[str, Any]:
        """What the model is: its kind and, as they apply, ``model``, ``base_url``, ``model_path``,
        ``mmproj_path``, ``engine``, ``context_size``, ``image``. Holds no key. Starts nothing."""
        description: dict[str, Any] = take_json(
            lib.FMLanguageModelCopyDescriptionJSON(self._handle.address)
        )
        return description


class SystemLanguageModel(LanguageModel):
    """The machine's default model.

    In this order: the server of ``OPENFM_BASE_URL`` (with ``OPENFM_API_KEY`` and ``OPENFM_MODEL``);
    the embedded engine with ``OPENFM_MODEL_PATH`` (and ``OPENFM_MMPROJ_PATH`` for pictures) or an
    installed model; otherwise it is unavailable. ``image_policy`` changes what pictures may look
    like. Making one starts nothing.
    """

    def __init__(
        self,
        use_case: SystemLanguageModelUseCase = SystemLanguageModelUseCase.GENERAL,
        guardrails: SystemLanguageModelGuardrails = SystemLanguageModelGuardrails.DEFAULT,
        *,
        image_policy: ImagePolicy | None = None,
    ) -> None:
        if not isinstance(use_case, SystemLanguageModelUseCase):
            raise TypeError(
                f"use_case must be a SystemLanguageModelUseCase, not {type(use_case).__name__}"
            )
        if not isinstance(guardrails, SystemLanguageModelGuardrails):
            raise TypeError(
                f"guardrails must be a SystemLanguageModelGuardrails, not "
                f"{type(guardrails).__name__}"
            )
        policy = _encoded_policy(image_policy)
        _offer_bundled_engine()
        offer_certificates()
        handle = Handle(lib.FMSystemLanguageModelCreate(use_case.value, guardrails.value))
        if policy is not None:
            with handle:
                handle = Handle(
                    lib.FMLanguageModelCreateWithImagePolicy(handle.address, policy, None, None)
                )
        super().__init__(handle)
        self.use_case = use_case
        self.guardrails = guardrails

    def __repr__(self) -> str:
        return f"SystemLanguageModel({self.use_case.name}, {self.guardrails.name})"


@dataclass(frozen=True)
class Timeout:
    """How long a server may take, in seconds; None keeps the library's default.

    ``connect``: until the connection stands. ``first_byte``: until the answer begins. ``idle``:
    between two pieces of it. ``total``: for the whole request, retries included.
    """

    connect: float | None = None
    first_byte: float | None = None
    idle: float | None = None
    total: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check_seconds(name, value)

    def to_dict(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if value is not None}


class ChatCompletionsLanguageModel(LanguageModel):
    """A model on a server that speaks the OpenAI chat-completions protocol.

    ``base_url`` ends like "http://127.0.0.1:8080" or ".../v1". ``timeout`` is a number of seconds
    for the whole request, or a Timeout. What may pass (no connection, 408, 429, 5xx) is tried again
    ``max_retries`` times (0 to 100, 2 where it is None), within the timeout and only while nothing
    of the answer has come. ``proxy`` is a proxy's URL, "" for none, None for what ``https_proxy``
    and its kin say; those never apply to this machine. ``certificate_file`` holds the authorities
    to trust, in PEM, in place of the system's. ``context_size``, ``supports_images``,
    ``supports_tools`` and ``server`` (whose rules apply: "llama.cpp", "ollama", "vllm", "lmstudio",
    "mlx", "openai" or "generic") are asked of the server where they are not given and matter.
    ``image_policy`` says what pictures may look like; ``extra_body`` is added to every request, in
    place of members of the same name (no "messages", no "stream"); ``headers`` do not say how long
    a body is. An answer of more than ``max_answer_bytes``, as it is sent (256 MiB where it is
    None), is an InvalidResponseError.
    Making one connects to nothing. Raises InvalidURLError for a ``base_url`` that is none.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        proxy: str | None = None,
        certificate_file: str | os.PathLike[str] | None = None,
        context_size: int | None = None,
        supports_images: bool | None = None,
        supports_guided_generation: bool | None = None,
        supports_tools: bool | None = None,
        server: str | None = None,
        image_policy: ImagePolicy | None = None,
        extra_body: Mapping[str, Any] | None = None,
        max_answer_bytes: int | None = None,
    ) -> None:
        offer_certificates()
        options: dict[str, Any] = {
            "headers": _checked_headers(headers),
            "timeout": _checked_timeout(timeout),
            "max_retries": _checked_retries(max_retries),
            "proxy": _checked("proxy", proxy, str),
            "certificate_file": None if certificate_file is None else os.fspath(certificate_file),
            "context_size": _checked("context_size", context_size, int),
            "supports_images": _checked("supports_images", supports_images, bool),
            "supports_guided_generation": _checked(
                "supports_guided_generation", supports_guided_generation, bool
            ),
            "supports_tools": _checked("supports_tools", supports_tools, bool),
            "server": _checked("server", server, str),
            "image": _checked_policy(image_policy),
            "extra_body": _checked_body(extra_body),
            "max_answer_bytes": _checked("max_answer_bytes", max_answer_bytes, int),
        }
        options = {name: value for name, value in options.items() if value is not None}
        self._make(base_url, model, api_key, options)

    def _make(
        self, base_url: str, model: str, api_key: str | None, options: dict[str, Any]
    ) -> None:
        super().__init__(
            Handle(
                lib.FMLanguageModelCreateChatCompletions(
                    _encode_argument("base_url", base_url),
                    _encode_argument("model", model),
                    None if api_key is None else _encode_argument("api_key", api_key),
                    _dump("extra_body", options) if options else None,
                    None,
                    None,
                )
            )
        )
        self.base_url = base_url
        self.model = model

        def without_retries() -> ChatCompletionsLanguageModel:
            twin = ChatCompletionsLanguageModel.__new__(ChatCompletionsLanguageModel)
            twin._make(base_url, model, api_key, {**options, "max_retries": 0})
            return twin

        # A closure, so that no attribute shows the key.
        self._make_without_retries = without_retries

    def _without_retries(self) -> ChatCompletionsLanguageModel:
        """The same model for a caller who backs off by itself."""
        return self._make_without_retries()

    def __repr__(self) -> str:
        return f"ChatCompletionsLanguageModel({self.base_url!r}, {self.model!r})"


_MOST_RETRIES = 100


def _encode_argument(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return encode(value, name, InvalidArgumentError)


def _dump(name: str, value: object) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be made of JSON values: {error}") from None


def _checked(name: str, value: Any, kind: type[int] | type[str]) -> Any:
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name} must be {kind.__name__} or None, not {type(value).__name__}")
    if isinstance(value, int) and kind is int and value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return value


def _checked_retries(retries: int | None) -> int | None:
    if retries is None:
        return None
    if not isinstance(retries, int) or isinstance(retries, bool):
        raise TypeError(f"max_retries must be int or None, not {type(retries).__name__}")
    if not 0 <= retries <= _MOST_RETRIES:
        raise ValueError(f"max_retries must be from 0 to {_MOST_RETRIES}, not {retries}")
    return retries


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str] | None:
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            # The value is not shown: it can be a key.
            raise TypeError(f"names and values of headers must be str, that of {name!r} is not")
    return dict(headers)


def _checked_timeout(timeout: float | Timeout | None) -> dict[str, float] | None:
    if timeout is None:
        return None
    if isinstance(timeout, Timeout):
        return timeout.to_dict()
    _check_seconds("timeout", timeout)
    return {"total": timeout}


def _check_seconds(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be more than 0 seconds, not {value}")


def _checked_policy(policy: ImagePolicy | None) -> dict[str, Any] | None:
    return None if _encoded_policy(policy) is None or policy is None else policy.to_dict()


def _encoded_policy(policy: ImagePolicy | None) -> bytes | None:
    if policy is None:
        return None
    from .imaging import encode_policy

    return encode_policy(policy, "image_policy")


def _checked_body(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if body is None:
        return None
    if not isinstance(body, Mapping):
        raise TypeError(f"extra_body must be a mapping, not {type(body).__name__}")
    return dict(body)


_offer_lock = threading.Lock()
_offered: dict[str, Any] = {}


def _offer_bundled_engine() -> None:
    """Tells the library about the engine and the model that are installed beside this package.

    At the first use of the default model and not at import, since it searches the path; again at
    later ones, since they may be installed meanwhile.
    """
    from . import engine

    with _offer_lock:
        if len(_offered) == 2:
            return
        found: dict[str, Any] = {}
        command = engine.default_command()
        if command is not None:
            found["command"] = command
        model_path = engine.default_model()
        if model_path is not None:
            found["model_path"] = model_path
        if found == _offered:
            return
        text = json.dumps(found).encode("utf-8", "surrogateescape")
        if not lib.FMEngineSetDefaults(text, None, None):
            raise last_error()
        _offered.clear()
        _offered.update(found)
