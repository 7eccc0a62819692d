"""Python types as schemas, and generated values as Python objects.

A type, as an annotation gives it, becomes a ``Shape``, which knows its schema and reads values.
"""

from __future__ import annotations

import builtins
import collections.abc
import dataclasses
import sys
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, ForwardRef, Literal, Union

from .errors import DecodingFailureError, InvalidGenerationSchemaError
from .generable import Generable, GeneratedContent, GenerationID, _wrap

# For the package's own modules.
__all__: list[str] = []

#: Names of modules and classes that an annotation may use.
Namespace = Mapping[str, Any]

_UNIONS: tuple[Any, ...] = (Union, getattr(types, "UnionType", Union))


class Names:
    """Which name each class has in one schema: its own, or with a number where that is taken."""

    def __init__(self) -> None:
        self.by_class: dict[type, str] = {}
        self._taken: set[str] = set()

    def of(self, kind: type) -> str:
        name = self.by_class.get(kind)
        if name is None:
            name = kind.__name__
            number = 2
            while name in self._taken:
                name = f"{kind.__name__}{number}"
                number += 1
            self._taken.add(name)
            self.by_class[kind] = name
        return name


def _fail(path: str, reason: str) -> typing.NoReturn:
    raise DecodingFailureError(
        f"the content cannot be read at {path}: {reason}", details={"json_path": path}
    )


def _described(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Shape:
    """A type whose values a model can generate. This one takes any JSON value."""

    is_optional = False

    def schema(self, names: Names) -> dict[str, Any]:
        """The type's JSON Schema; classes are referred to by name."""
        return {}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        """The Python object of a JSON value. DecodingFailureError where it is none of this type."""
        return value

    def read_partial(self, value: Any, id: GenerationID | None) -> Any:
        """The same for a value that is not there whole; None for what cannot be read yet."""
        try:
            return self.read(value, "$", id)
        except DecodingFailureError:
            return None


class _Scalar(Shape):
    def __init__(self, kind: type, type_name: str) -> None:
        self._kind = kind
        self._type_name = type_name

    def schema(self, names: Names) -> dict[str, Any]:
        return {"type": self._type_name}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        kind = self._kind
        if type(value) is kind:
            return value
        # JSON has one kind of number: 3.0 is a whole one, and 3 is one with a fraction too.
        if kind is float and type(value) is int:
            return float(value)
        if kind is int and type(value) is float and value.is_integer():
            return int(value)
        _fail(path, f"{_described(value)} is no {kind.__name__}")


class _Null(Shape):
    def schema(self, names: Names) -> dict[str, Any]:
        return {"type": "null"}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        if value is not None:
            _fail(path, f"{_described(value)} is not None")
        return None


class _Content(Shape):
    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        return _wrap(value, id)


class _List(Shape):
    def __init__(self, item: Shape) -> None:
        self._item = item

    def schema(self, names: Names) -> dict[str, Any]:
        return {"type": "array", "items": self._item.schema(names)}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        if not isinstance(value, list):
            _fail(path, f"{_described(value)} is no list")
        read = self._item.read
        return [read(item, f"{path}[{index}]", id) for index, item in enumerate(value)]

    def read_partial(self, value: Any, id: GenerationID | None) -> Any:
        if not isinstance(value, list):
            return None
        items = (self._item.read_partial(item, id) for item in value)
        return [item for item in items if item is not None]


class _Dict(Shape):
    def __init__(self, value: Shape) -> None:
        self._value = value

    def schema(self, names: Names) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self._value.schema(names)}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        if not isinstance(value, dict):
            _fail(path, f"{_described(value)} is no dict")
        read = self._value.read
        return {name: read(item, f"{path}.{name}", id) for name, item in value.items()}

    def read_partial(self, value: Any, id: GenerationID | None) -> Any:
        if not isinstance(value, dict):
            return None
        return {name: self._value.read_partial(item, id) for name, item in value.items()}


class _Union(Shape):
    def __init__(self, choices: list[Shape]) -> None:
        self._choices = choices
        self.is_optional = any(isinstance(choice, _Null) for choice in choices)

    @property
    def without_none(self) -> Shape:
        rest = [choice for choice in self._choices if not isinstance(choice, _Null)]
        return rest[0] if len(rest) == 1 else _Union(rest)

    def schema(self, names: Names) -> dict[str, Any]:
        return {"anyOf": [choice.schema(names) for choice in self._choices]}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        furthest: DecodingFailureError | None = None
        # What is of the very type comes before what could be turned into it: 3 is an int in
        # `float | int`.
        for choice in sorted(self._choices, key=lambda choice: not _is_exact(choice, value)):
            try:
                return choice.read(value, path, id)
            except DecodingFailureError as error:
                if furthest is None or len(error.details["json_path"]) > len(
                    furthest.details["json_path"]
                ):
                    furthest = error
        assert furthest is not None
        raise furthest

    def read_partial(self, value: Any, id: GenerationID | None) -> Any:
        for choice in self._choices:
            read = choice.read_partial(value, id)
            if read is not None:
                return read
        return None


def _is_exact(shape: Shape, value: Any) -> bool:
    return isinstance(shape, _Scalar) and type(value) is shape._kind


class _Choice(Shape):
    """Some constants: a Literal, or the values of an Enum."""

    def __init__(self, choices: list[tuple[Any, Any]], name: str) -> None:
        self._choices = choices
        self._name = name

    def schema(self, names: Names) -> dict[str, Any]:
        values = [value for value, _ in self._choices]
        kinds = {_TYPE_NAMES.get(type(value)) for value in values}
        schema: dict[str, Any] = {"enum": values}
        if len(kinds) == 1 and None not in kinds:
            schema = {"type": kinds.pop(), "enum": values}
        return schema

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        for choice, result in self._choices:
            # True is 1 to Python, and not to JSON.
            if choice == value and isinstance(choice, bool) == isinstance(value, bool):
                return result
        _fail(path, f"{_described(value)} is none of {self._name}")


class _Class(Shape):
    """A generable class."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def schema(self, names: Names) -> dict[str, Any]:
        name = names.of(self.kind).replace("~", "~0").replace("/", "~1")
        return {"$ref": f"#/$defs/{name}"}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        if not isinstance(value, dict):
            _fail(path, f"{_described(value)} is no {self.kind.__name__}")
        members: dict[str, Any] = {}
        for field in fields_of(self.kind):
            if field.json_name in value:
                item = value[field.json_name]
                if item is not None or not field.has_default:
                    inner = f"{path}.{field.json_name}"
                    members[field.name] = field.shape.read(item, inner, id)
            elif field.is_identifier:
                members[field.name] = id or GenerationID()
            elif field.shape.is_optional and not field.has_default:
                members[field.name] = None
            elif not field.has_default:
                _fail(path, f"the property {field.json_name!r} is missing")
        return self.kind(**members)

    def read_partial(self, value: Any, id: GenerationID | None) -> Any:
        if not isinstance(value, dict):
            return None
        partial = typing.cast(Any, self.kind).PartiallyGenerated
        members: dict[str, Any] = {
            field.name: field.shape.read_partial(value[field.json_name], id)
            for field in fields_of(self.kind)
            if field.json_name in value
        }
        return partial(**members, **{_identifier_name(self.kind): id or GenerationID()})


@dataclasses.dataclass
class Field:
    """One field of a generable class."""

    name: str
    json_name: str
    shape: Shape
    description: str | None
    guides: list[Any]
    has_default: bool
    #: A field of the type GenerationID holds the content's id and is no property.
    is_identifier: bool

    def declaration(self, names: Names) -> dict[str, Any]:
        """The field as a property of the library's declaration JSON."""
        shape = self.shape
        is_optional = self.has_default or shape.is_optional
        if isinstance(shape, _Union) and shape.is_optional:
            # A property without a value is left out, as the reference has it.
            shape = shape.without_none
        members: dict[str, Any] = {"name": self.json_name, "schema": shape.schema(names)}
        if self.description is not None:
            members["description"] = self.description
        if is_optional:
            members["optional"] = True
        if self.guides:
            members["guides"] = [guide.to_declaration() for guide in self.guides]
        return members


def _identifier_name(kind: type) -> str:
    """The name of a partial object's id: a field of the class that is called so comes first."""
    names = {field.name for field in dataclasses.fields(typing.cast(Any, kind))}
    return "generation_id" if "id" in names else "id"


def fields_of(kind: type) -> list[Field]:
    """The fields of a generable class. Found out once: when a class is decorated, classes that its
    annotations name need not exist yet."""
    known: list[Field] | None = kind.__dict__.get("_generable_fields")
    if known is None:
        known = [_field(kind, field) for field in dataclasses.fields(typing.cast(Any, kind))
                 if field.init]  # fmt: skip
        typing.cast(Any, kind)._generable_fields = known
    return known


def _field(kind: type, field: dataclasses.Field[Any]) -> Field:
    place = f"{kind.__name__}.{field.name}"
    namespace = _namespace(kind, field.name)
    shape = shape_of(field.type, place, namespace)
    json_names: dict[str, str] = getattr(kind, "_generable_json_names", {})
    return Field(
        name=field.name,
        json_name=json_names.get(field.name, field.name),
        shape=shape,
        description=field.metadata.get("description"),
        guides=list(field.metadata.get("guides", ())),
        has_default=field.default is not dataclasses.MISSING
        or field.default_factory is not dataclasses.MISSING,
        is_identifier=isinstance(shape, _Identifier),
    )


class _Identifier(Shape):
    """A field that the library fills in."""

    is_optional = True


def _namespace(kind: type, field: str) -> dict[str, Any]:
    """What an annotation of the class that declares the field can see."""
    owner = next((c for c in kind.__mro__ if field in c.__dict__.get("__annotations__", {})), kind)
    module = sys.modules.get(owner.__module__)
    names = dict(vars(module)) if module is not None else {}
    names.update(owner.__dict__.get("_generable_locals") or {})
    # A class in a function is in no module, and not yet in the function's locals while it is made.
    names[owner.__name__] = owner
    names[kind.__name__] = kind
    return names


_TYPE_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_SCALARS: dict[Any, Shape] = {kind: _Scalar(kind, name) for kind, name in _TYPE_NAMES.items()}
_LISTS: tuple[Any, ...] = (list, collections.abc.Sequence, collections.abc.Iterable)
_DICTS: tuple[Any, ...] = (dict, collections.abc.Mapping)


def shape_of(annotation: Any, place: str, namespace: Namespace | None = None) -> Shape:
    """The shape of a type, as an annotation gives it: text is looked up in the namespace. Raises
    InvalidGenerationSchemaError for a type that no model can generate."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, {**vars(builtins), **(namespace or {})})
        except Exception as error:
            raise InvalidGenerationSchemaError(
                f"the type of {place}, {annotation!r}, cannot be found: {error}"
            ) from None
        return shape_of(annotation, place, namespace)
    if annotation is None or annotation is type(None):
        return _Null()
    if annotation is Any or annotation is object:
        return Shape()
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if annotation is GeneratedContent:
        return _Content()
    if annotation is GenerationID:
        return _Identifier()
    if hasattr(annotation, "__supertype__"):
        return shape_of(annotation.__supertype__, place, namespace)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return shape_of(arguments[0], place, namespace)
    if origin in _UNIONS:
        return _Union([shape_of(argument, place, namespace) for argument in arguments])
    if origin is Literal:
        return _Choice([(value, value) for value in arguments], f"Literal{list(arguments)}")
    if annotation in _LISTS or origin in _LISTS:
        return _List(shape_of(arguments[0], place, namespace) if arguments else Shape())
    if annotation in _DICTS or origin in _DICTS:
        if arguments and arguments[0] is not str:
            raise InvalidGenerationSchemaError(
                f"the type of {place}: JSON has names of the type str only; use dict[str, ...]"
            )
        return _Dict(shape_of(arguments[1], place, namespace) if arguments else Shape())
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation, place)
    if isinstance(annotation, type) and isinstance(annotation, Generable):
        return _Class(annotation)
    hint = "decorate it with @generable" if isinstance(annotation, type) else "use another type"
    raise InvalidGenerationSchemaError(
        f"the type of {place}, {annotation!r}, cannot be generated: {hint} (there are str, int, "
        "float, bool, list, dict[str, ...], Optional, Union, Literal, Enum, and generable classes)"
    )


def _enum(kind: type[Enum], place: str) -> Shape:
    members = list(kind)
    if not members:
        raise InvalidGenerationSchemaError(f"the type of {place}, {kind.__name__}, has no members")
    if all(type(_plain(member.value)) in _TYPE_NAMES for member in members):
        choices = [(_plain(member.value), member) for member in members]
    else:
        choices = [(member.name, member) for member in members]
    return _Choice(choices, kind.__name__)


def _plain(value: Any) -> Any:
    """The value of a member of a mixed enum, such as IntEnum, as the plain type."""
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def to_json_value(value: Any) -> Any:
    """An object as JSON values: generable instances, enums, lists and dicts of them."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, GeneratedContent):
        return value._content
    if isinstance(value, Enum):
        kind = type(value)
        is_plain = all(type(_plain(member.value)) in _TYPE_NAMES for member in kind)
        return _plain(value.value) if is_plain else value.name
    if isinstance(value, Mapping):
        return {str(name): to_json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in value]
    if isinstance(value, Generable) and not isinstance(value, type):
        members: dict[str, Any] = {}
        for field in fields_of(type(value)):
            item = getattr(value, field.name)
            # A property without a value is left out.
            if not field.is_identifier and item is not None:
                members[field.json_name] = to_json_value(item)
        return members
    return value
