"""Structured answers: what a model generated, and the types it can generate."""

from __future__ import annotations

import json
import typing
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, overload, runtime_checkable

from .errors import DecodingFailureError

if TYPE_CHECKING:
    from .generation_schema import GenerationSchema

__all__ = [
    "ConvertibleFromGeneratedContent",
    "ConvertibleToGeneratedContent",
    "Generable",
    "GeneratedContent",
    "GenerationID",
]

_Self = TypeVar("_Self")
_Value = TypeVar("_Value")


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

    __slots__ = ("_content", "_id", "_is_complete")

    def __init__(
        self, content_dict: Any = None, id: GenerationID | None = None, _ptr: int | None = None
    ) -> None:
        """Nothing given is an empty object. ``_ptr`` is a content of the C library (+1), which is
        read and released."""
        self._is_complete = True
        self._content: Any = {} if content_dict is None else content_dict
        if _ptr is not None:
            self._content, self._is_complete = _take(_ptr)
        self._id = GenerationID() if id is None else id

    @classmethod
    def from_json(cls, json_text: str) -> GeneratedContent:
        """The value of a JSON text. One that is cut off gives what is certain of it, with
        ``is_complete`` False. Raises DecodingFailureError for a text that is no JSON."""
        if not isinstance(json_text, (str, bytes)):
            raise TypeError(f"json_text must be a str, not {type(json_text).__name__}")
        try:
            return _wrap(json.loads(json_text, parse_constant=_refuse_constant))
        except (ValueError, RecursionError) as error:
            text = json_text if isinstance(json_text, str) else json_text.decode("utf-8", "replace")
            partial = partial_content(text)
            if partial is not None:
                return partial
            raise DecodingFailureError(
                f"the content is no JSON: {error}", details={"raw_content": text}
            ) from None

    def to_json(self) -> str:
        return json.dumps(self._content, ensure_ascii=False, allow_nan=False)

    @overload
    def value(self, type_class: type[_Value], for_property: str | None = None) -> _Value: ...

    @overload
    def value(self, type_class: Any = None, for_property: str | None = None) -> Any: ...

    def value(self, type_class: Any = None, for_property: str | None = None) -> Any:
        """The content, or that of one property (None where it is missing).

        ``type_class`` may be a generable class, GeneratedContent, or a ``list[...]`` of these: None
        then is an empty list, and what is no list a TypeError. A scalar is given as it is; nothing
        is converted. A value that is none of the generable class raises DecodingFailureError. To a
        type checker the result is of the type that is named, as it is where the schema demands the
        property.
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
        """Whether the content came whole: False for snapshots of a stream, and for JSON text that
        was cut off."""
        return self._is_complete

    @property
    def id(self) -> GenerationID:
        """The same in all snapshots of one answer."""
        return self._id

    @property
    def generated_content(self) -> GeneratedContent:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GeneratedContent):
            return NotImplemented
        return bool(self._content == other._content)

    __hash__ = None  # type: ignore[assignment]  # its value can be changed through value()

    def __repr__(self) -> str:
        return f"GeneratedContent({self._content!r})"


def _wrap(value: Any, id: GenerationID | None = None, is_complete: bool = True) -> GeneratedContent:
    content = GeneratedContent(id=id)
    content._content = value
    content._is_complete = is_complete
    return content


def partial_content(text: str, id: GenerationID | None = None) -> GeneratedContent | None:
    """What is certain of a JSON text that ends too early; None where nothing is, or where the text
    is no JSON."""
    from ._ctypes_bindings import lib

    try:
        address = lib.FMGeneratedContentCreateFromJSON(text.encode("utf-8"), None, None)
    except UnicodeEncodeError:
        return None
    if not address:
        return None
    value, is_complete = _take(address)
    return _wrap(value, id, is_complete)


def _take(address: int) -> tuple[Any, bool]:
    """The value and the completeness of a content of the C library, which is released."""
    from ._ctypes_bindings import lib
    from ._native import Handle, take_json

    with Handle(address) as handle:
        value = take_json(lib.FMGeneratedContentGetJSONString(handle.address))
        return value, bool(lib.FMGeneratedContentIsComplete(handle.address))


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
        return _wrap(value)
    if isinstance(type_class, type) and isinstance(type_class, Generable):
        return type_class._from_generated_content(_wrap(value))
    return value


def _name(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


@runtime_checkable
class ConvertibleToGeneratedContent(Protocol):
    """What can be written as a generated content."""

    @property
    def generated_content(self) -> GeneratedContent: ...


@runtime_checkable
class ConvertibleFromGeneratedContent(Protocol):
    """What can be read out of a generated content."""

    @classmethod
    def _from_generated_content(cls: type[_Self], content: GeneratedContent) -> _Self: ...


class _GenerableType(type):
    """``isinstance`` asks the class alone: looking at an instance's members would run its
    properties."""

    def __instancecheck__(cls, instance: object) -> bool:
        kind = instance if isinstance(instance, type) else type(instance)
        return getattr(kind, "_generable", False) is True


class Generable(metaclass=_GenerableType):
    """What ``@generable`` makes of a class: ``isinstance(X, Generable)`` is true for the class and
    for its instances. Not to be inherited from."""

    _generable: bool
    _generable_description: str | None
    PartiallyGenerated: type[Any]

    def __init_subclass__(cls, **keywords: Any) -> None:
        raise TypeError("Generable is not inherited from; decorate the class with @generable")

    if TYPE_CHECKING:

        @classmethod
        def generation_schema(cls) -> GenerationSchema: ...

        @classmethod
        def _from_generated_content(cls: type[_Self], content: GeneratedContent) -> _Self: ...

        @property
        def generated_content(self) -> GeneratedContent: ...
