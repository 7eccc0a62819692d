"""From a case to a prompt: templates, and functions of a case."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..imaging import path_text
from ..prompt import Attachment, ImageAttachment, PromptComponent, check_prompt
from ._cases import IMAGE_FIELDS, Case
from ._errors import EvaluationError
from ._values import code_fingerprint, plain

__all__ = ["PromptMaker", "describe_prompt", "image_records", "prompt_maker"]

_FORMATTER = string.Formatter()


class PromptMaker(ABC):
    """Makes the prompt of a case. ``description`` is what a run records of it; equal descriptions
    are equal prompts."""

    description: Any

    @abstractmethod
    async def make(self, case: Case) -> list[PromptComponent]:
        """Raises what is wrong with this case's prompt: a PromptError, an EvaluationError, or what
        the caller's function raises."""

    @abstractmethod
    def check(self, cases: Sequence[Case]) -> None:
        """Raises EvaluationError for what can be wrong with no single case."""


def prompt_maker(prompt: Any) -> PromptMaker:
    """The maker for a template, a list of templates and attachments, or a function of a case."""
    if isinstance(prompt, str):
        return _Template([prompt])
    if isinstance(prompt, Attachment):
        return _Template([prompt])
    if isinstance(prompt, list):
        return _Template(prompt)
    if callable(prompt):
        return _Function(prompt)
    raise EvaluationError(
        f"prompt is a {type(prompt).__name__}; give a template such as "
        '"What is in {image}?", a list of templates and attachments, or a function of a case'
    )


# ---- Functions


class _Function(PromptMaker):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.description = {"function": name, "sha256": code_fingerprint(function)}

    def check(self, cases: Sequence[Case]) -> None:
        """A function is right or wrong case by case."""

    async def make(self, case: Case) -> list[PromptComponent]:
        made = self._function(case.source)
        if inspect.isawaitable(made):
            made = await made
        return check_prompt(made)


# ---- Templates


@dataclass(frozen=True)
class _Field:
    """``{name}``, ``{name:image}``, ``{name:image=LABEL}`` or ``{name:format}``."""

    name: str
    spec: str

    @property
    def is_image(self) -> bool:
        return self.spec == "image" or self.spec.startswith("image=")

    @property
    def label(self) -> str | None:
        return self.spec.partition("=")[2] or None


class _Template(PromptMaker):
    """Texts with the members of a case in braces, and attachments that all cases share.

    A member is a picture when its place says so (``{photo:image}``, ``{photo:image=LABEL}``), when
    it is a path (os.PathLike) or an attachment, or when it is named ``image`` or ``images``. The
    pictures of ``image`` and ``images`` stand before the text of a template that names no picture.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts: list[str | _Field | Attachment] = []
        for index, part in enumerate(parts):
            if isinstance(part, Attachment):
                self._parts.append(part)
            elif isinstance(part, str):
                self._parts += _parse(part)
            else:
                raise EvaluationError(
                    f"item {index} of the prompt is a {type(part).__name__}; give a template or an "
                    "attachment"
                )
        self._fields = [part for part in self._parts if isinstance(part, _Field)]
        # Members that are pictures in some case: where the cell is empty, one was forgotten.
        self._pictured: frozenset[str] = frozenset()
        self.description = {
            "template": [part if isinstance(part, str) else plain(part) for part in parts]
        }

    def check(self, cases: Sequence[Case]) -> None:
        for field in self._fields:
            if not any(_has(case.data, field.name) for case in cases):
                known = ", ".join(sorted({name for case in cases[:100] for name in case.data}))
                raise EvaluationError(
                    f"the prompt names {{{field.name}}}, which no case has; the cases have: {known}"
                    " (a brace that is text is written twice)"
                )
        names = {*IMAGE_FIELDS, *(field.name for field in self._fields)}
        self._pictured = frozenset(
            name for name in names if any(_shows_picture(case.data, name) for case in cases)
        )

    async def make(self, case: Case) -> list[PromptComponent]:
        # Reads the pictures' files.
        return await asyncio.to_thread(self._make, case)

    def _make(self, case: Case) -> list[PromptComponent]:
        components: list[PromptComponent] = []
        names_picture = False
        for part in self._parts:
            if not isinstance(part, _Field):
                components.append(part)
                continue
            value = _value(case, part.name)
            is_picture = part.is_image or part.name in IMAGE_FIELDS or part.name in self._pictured
            if is_picture or _is_picture(value):
                names_picture = True
                components += _pictures(value, part, case)
            else:
                components.append(_text(value, part.spec, part.name))
        if not names_picture:
            before: list[PromptComponent] = []
            for name in IMAGE_FIELDS:
                if name in case.data and (name in self._pictured or not _is_empty(case.data[name])):
                    before += _pictures(case.data[name], _Field(name, "image"), case)
            components = [*before, *components]
        return check_prompt(_joined(components))


def _parse(template: str) -> Iterator[str | _Field]:
    try:
        pieces = list(_FORMATTER.parse(template))
    except ValueError as error:
        raise EvaluationError(
            f"the prompt {template!r} is no template: {error}; a brace that is text is written "
            "twice"
        ) from None
    for literal, name, spec, conversion in pieces:
        if literal:
            yield literal
        if name is None:
            continue
        if conversion:
            raise EvaluationError(
                f"the prompt {template!r} holds {{{name}!{conversion}}}, which names no member of "
                f"a case: a template has no !{conversion}; write {{{name}}}, or give a function of "
                "a case"
            )
        if not name or "{" in (spec or ""):
            raise EvaluationError(
                f"the prompt {template!r} holds {{{name}}}, which names no member of a case; write "
                "{member}, {member:image} or {member:format}, and a brace that is text twice"
            )
        yield _Field(name, spec or "")


def _has(data: Mapping[str, Any], name: str) -> bool:
    try:
        _look_up(data, name)
    except KeyError:
        return False
    return True


def _look_up(data: Any, name: str) -> Any:
    if isinstance(data, Mapping) and name in data:
        return data[name]
    head, dot, rest = name.partition(".")
    if dot and isinstance(data, Mapping) and head in data:
        return _look_up(data[head], rest)
    raise KeyError(name)


def _value(case: Case, name: str) -> Any:
    try:
        return _look_up(case.data, name)
    except KeyError:
        known = ", ".join(case.data)
        raise EvaluationError(
            f"case {case.index} has no {name!r}, which the prompt names; it has: {known}"
        ) from None


def _text(value: Any, spec: str, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or spec:
        try:
            return format(value, spec)
        except (TypeError, ValueError) as error:
            raise EvaluationError(f"{{{name}:{spec}}} cannot be written: {error}") from None
    if isinstance(value, (str, int, float)):
        return str(value)
    return json.dumps(plain(value, name), ensure_ascii=False)


def _is_picture(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(_is_picture(item) for item in value)
    return isinstance(value, (Attachment, os.PathLike))


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _shows_picture(data: Mapping[str, Any], name: str) -> bool:
    if name in IMAGE_FIELDS:
        return not _is_empty(data.get(name))
    return _has(data, name) and _is_picture(_look_up(data, name))


def _pictures(value: Any, field: _Field, case: Case) -> list[PromptComponent]:
    values = value if isinstance(value, (list, tuple)) else [value]
    label = field.label
    made: list[PromptComponent] = []
    for number, item in enumerate(values, 1):
        if _is_empty(item):
            raise EvaluationError(
                f"case {case.index} has no picture in {field.name!r}: it is empty; give the path "
                "of one, or leave the case out"
            )
        if isinstance(item, Attachment):
            made.append(item)
            continue
        path = path_text(item)
        if case.folder is not None:
            # An absolute path stays as it is.
            path = str(case.folder / path)
        numbered = label if label is None or len(values) == 1 else f"{label}{number}"
        made.append(ImageAttachment(path, numbered))
    return made


def _joined(components: Sequence[PromptComponent]) -> list[PromptComponent]:
    """With texts that follow each other made one, as they stand in the template."""
    joined: list[PromptComponent] = []
    for component in components:
        if isinstance(component, str) and joined and isinstance(joined[-1], str):
            joined[-1] += component
        elif component != "":
            joined.append(component)
    return [item for item in joined if not isinstance(item, str) or item.strip()]


# ---- What is recorded


def describe_prompt(components: Sequence[PromptComponent]) -> str:
    """The prompt as text, a picture as its label or its file's name."""
    words = []
    for component in components:
        if isinstance(component, str):
            words.append(component)
        elif isinstance(component, ImageAttachment):
            words.append(f"[image: {component.label or component.path.name}]")
        else:
            words.append(f"[{type(component).__name__}]")
    return "\n".join(words)


def image_records(components: Sequence[PromptComponent]) -> list[dict[str, Any]]:
    """The pictures of a prompt: path, identity and size, never their bytes."""
    records = []
    for component in components:
        if not isinstance(component, ImageAttachment):
            continue
        path = str(component.path.absolute())
        record: dict[str, Any] = {
            "path": path,
            "label": component.label,
            "sha256": component.info.sha256,
            "width": component.width,
            "height": component.height,
            "orientation": component.orientation,
        }
        try:
            status = os.stat(path)
        except OSError:
            pass
        else:
            record["byte_count"] = status.st_size
            record["modified_ns"] = status.st_mtime_ns
        records.append({name: value for name, value in record.items() if value is not None})
    return records
