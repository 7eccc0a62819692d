"""Python values as JSON, and fingerprints of them: what makes two cases, prompts or runs the
same."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import hashlib
import inspect
import json
import math
import os
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ..core import LanguageModel
from ..generable import GeneratedContent
from ..prompt import ImageAttachment
from ._errors import EvaluationError

__all__ = ["code_fingerprint", "dumps", "fingerprint", "plain"]


def plain(value: Any, what: str = "the value") -> Any:
    """The value as dicts, lists, strings, numbers, booleans and None.

    Pictures become their path and SHA-256; numbers that JSON lacks become text. Raises
    EvaluationError, which names the member, for what has no form that would be the same tomorrow.
    """
    if value is None or isinstance(value, (bool, str)):
        # A subclass, such as a member of a string enum, is written as what it stands for.
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return plain(value.value, what)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, ImageAttachment):
        members = {"path": str(value.path), "label": value.label, "sha256": value.info.sha256}
        return {"image": {name: item for name, item in members.items() if item is not None}}
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, GeneratedContent):
        return json.loads(value.to_json())
    if isinstance(value, Mapping):
        return {str(name): plain(item, f"{what}[{name!r}]") for name, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((plain(item, what) for item in value), key=dumps)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [plain(item, f"{what}[{index}]") for index, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), f"{what}.{field.name}")
            for field in dataclasses.fields(value)
        }
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return plain(value.tolist(), what)
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return plain(value.item(), what)
    raise EvaluationError(
        f"{what} is a {type(value).__name__}, which has no JSON form; give text, a number, a path, "
        "a list, a dict or a dataclass of those"
    )


def dumps(value: Any) -> str:
    """One line of JSON for a plain value, equal for equal values."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":")
    )


def fingerprint(value: Any) -> str:
    """SHA-256 of a plain value."""
    # Half of a surrogate pair is refused by the session, with a sentence; here it must not stop us.
    return hashlib.sha256(dumps(value).encode("utf-8", "surrogatepass")).hexdigest()


def code_fingerprint(function: Callable[..., Any]) -> str:
    """What a function does, as far as that can be seen: its source, or its compiled code, with its
    defaults and the simple values that it closes over."""
    return fingerprint(_description_of(function))


def _description_of(function: Any) -> Any:
    if isinstance(function, functools.partial):
        return [
            _description_of(function.func),
            [_simple(value) for value in function.args],
            {name: _simple(value) for name, value in function.keywords.items()},
        ]
    if isinstance(function, types.MethodType):
        return [_description_of(function.__func__), _simple(function.__self__)]
    if not isinstance(function, types.FunctionType):
        if dataclasses.is_dataclass(function) and not isinstance(function, type):
            members = {
                field.name: _simple(getattr(function, field.name))
                for field in dataclasses.fields(function)
                if field.compare
            }
            return [type(function).__module__, type(function).__qualname__, members]
        return f"{type(function).__module__}.{type(function).__qualname__}"
    try:
        # Of the enclosing lines where it is a lambda: more than it needs, and never less.
        code: Any = inspect.getsource(function)
    except (OSError, TypeError):
        code = _code(function.__code__)
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(_simple(cell.cell_contents))
        except ValueError:
            cells.append(None)
    return [code, [_simple(value) for value in function.__defaults__ or ()], cells]


def _code(code: types.CodeType) -> Any:
    constants = [
        _code(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts
    ]
    return [code.co_code.hex(), constants, list(code.co_names)]


def _simple(value: Any) -> Any:
    if isinstance(value, LanguageModel):
        return plain(value.describe())
    if callable(value) and not dataclasses.is_dataclass(value):
        if isinstance(value, types.FunctionType):
            return _description_of(value)
        return getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, (list, dict, set, bytearray)):
        # What changes from call to call, such as a list that answers are gathered in, must not make
        # it another function.
        return type(value).__qualname__
    try:
        return [type(value).__qualname__, plain(value)]
    except EvaluationError:
        return type(value).__qualname__
