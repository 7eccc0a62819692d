"""Answers that are structured."""

from __future__ import annotations

import json
import typing
from typing import Any, NoReturn

from .errors import DecodingFailureError

__all__ = ["GeneratedContent", "GenerationID"]


class GenerationID:
    """Tells one generated content from another."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        # Here, and not with the module: not everyone who imports the package makes one.
        import uuid

        self._value = uuid.uuid4()

    def __str__(self) -> str:
        return str(self._value)

    def __repr__(self) -> str:
        return f"GenerationID({self._value})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GenerationID):
            return NotImplemented
        return self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


class GeneratedContent:
    """A structured answer: any JSON value, its members in the order they came."""

    __slots__ = ("_content", "_id")

    def __init__(self, content_dict: Any = None, id: GenerationID | None = None) -> None:
        """Nothing given is an empty object."""
        self._content: Any = {} if content_dict is None else content_dict
        self._id = GenerationID() if id is None else id

    @classmethod
    def from_json(cls, json_text: str) -> GeneratedContent:
        """Raises DecodingFailureError for a text that is no JSON."""
        if not isinstance(json_text, (str, bytes)):
            raise TypeError(f"json_text must be a str, not {type(json_text).__name__}")
        try:
            value = json.loads(json_text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            text = json_text if isinstance(json_text, str) else json_text.decode("utf-8", "replace")
            raise DecodingFailureError(
                f"the content is no JSON: {error}", details={"raw_content": text}
            ) from None
        content = cls(id=GenerationID())
        content._content = value
        return content

    def to_json(self) -> str:
        return json.dumps(self._content, ensure_ascii=False, allow_nan=False)

    def value(self, type_class: Any = None, for_property: str | None = None) -> Any:
        """The content, or that of one property (None where it is missing).

        ``type_class`` may be GeneratedContent, or ``list[...]``: None then is an empty list, and
        what is no list a TypeError. A scalar is given as it is; nothing is converted.
        """
        value = self._content
        if for_property is not None:
            if not isinstance(value, dict):
                raise TypeError(
                    f"the content is {_name(value)}, which has no property {for_property!r}"
                )
            value = value.get(for_property)
        return _converted(value, type_class)

    @property
    def is_complete(self) -> bool:
        """Whether the content came whole. What a request returns always did."""
        return True

    @property
    def id(self) -> GenerationID:
        return self._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GeneratedContent):
            return NotImplemented
        return bool(self._content == other._content)

    __hash__ = None  # type: ignore[assignment]  # its value can be changed through value()

    def __repr__(self) -> str:
        return f"GeneratedContent({self._content!r})"


def _converted(value: Any, type_class: Any) -> Any:
    if type_class is None:
        return value
    if typing.get_origin(type_class) is list or type_class is list:
        if value is None:
            return []
        if not isinstance(value, list):
            raise TypeError(f"expected a list, the content has {_name(value)}")
        (item_class,) = typing.get_args(type_class) or (None,)
        return [_converted(item, item_class) for item in value]
    if value is None:
        return None
    if type_class is GeneratedContent:
        content = GeneratedContent(id=GenerationID())
        content._content = value
        return content
    return value


def _name(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
