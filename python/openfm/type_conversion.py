"""Python types as schemas, and generated values as Python objects.

A type, as an annotation gives it, becomes a ``Shape``, which knows its schema and reads values.
"""

from __future__ import annotations

import builtins
import collections.abc
import dataclasses
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ForwardRef, Literal, Union

from ._decoding import Reader, Unfit, Writer
from ._pydantic import dumped, is_model, validated
from .errors import DecodingFailureError, InvalidGenerationSchemaError, told
from .generable import Generable, GeneratedContent, GenerationID, _wrap

# For the package's own modules.
__all__: list[str] = []

#: Names of modules and classes that an annotation may use.
Namespace = Mapping[str, Any]

_MAX = sys.float_info.max

_UNIONS: tuple[Any, ...] = (Union, getattr(types, "UnionType", Union))


class Names:
    """Which name each class has in one schema: its own, or with a number where that is taken."""

    def __init__(self) -> None:
        self.by_class: dict[type, str] = {}
        #: Each name that was given out, in order.
        self.given: list[tuple[type, str]] = []
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
        self.given.append((kind, name))
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

    def write(self, writer: Writer, value: str) -> str:
        """Writes code that reads the value of that name, and gives the expression of the object."""
        if type(self) is Shape:
            return value
        return f"{writer.bind(self._read_anywhere)}({value}, id)"

    def read_valid(self, value: Any, id: GenerationID | None) -> Any:
        """``read`` for a value that the library found valid by this shape's schema."""
        return self.read(value, "$", id)

    def _read_anywhere(self, value: Any, id: GenerationID | None) -> Any:
        try:
            return self.read(value, "$", id)
        except DecodingFailureError:
            raise Unfit from None


class _Scalar(Shape):
    def __init__(self, kind: type, type_name: str) -> None:
        self._kind = kind
        self._type_name = type_name

    @property
    def is_plain(self) -> bool:
        """Whether the object is the value itself."""
        return self._kind in (str, bool)

    def schema(self, names: Names) -> dict[str, Any]:
        return {"type": self._type_name}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        kind = self._kind
        # JSON has one kind of number: 3.0 is a whole one, and 3 is one with a fraction too; and
        # larger ones than a float holds.
        if kind is float:
            if type(value) in (float, int) and -_MAX <= value <= _MAX:
                return float(value)
        elif type(value) is kind:
            return value
        if kind is int and type(value) is float and value.is_integer():
            return int(value)
        _fail(path, f"{_described(value)} is no {kind.__name__}")

    def write(self, writer: Writer, value: str) -> str:
        kind = self._kind.__name__
        if self.is_plain:
            writer.demand(f"type({value}) is {kind}")
            return value
        writer.begin(f"if type({value}) is not {kind}:")
        if self._kind is float:
            most = writer.bind(_MAX)
            is_held = f"-{most} <= {value} <= {most}"
            writer.demand(f"type({value}) is int")
            # No schema says what a float holds.
            writer.line(f"if not {is_held}: raise UNFIT")
        else:
            writer.demand(f"type({value}) is float and {value}.is_integer()")
        writer.line(f"{value} = {kind}({value})")
        writer.end()
        if self._kind is float:
            writer.line(f"elif not {is_held}: raise UNFIT")
        return value


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

    def read_valid(self, value: Any, id: GenerationID | None) -> Any:
        read = self._item.read_valid
        try:
            return [read(item, id) for item in value]
        except DecodingFailureError:
            return self.read(value, "$", id)

    def read_partial(self, value: Any, id: GenerationID | None) -> Any:
        if not isinstance(value, list):
            return None
        items = (self._item.read_partial(item, id) for item in value)
        return [item for item in items if item is not None]

    def write(self, writer: Writer, value: str) -> str:
        writer.demand(f"type({value}) is list")
        item, items = writer.new(), writer.new()
        if isinstance(self._item, _Class):
            return f"[{self._item.write(writer, item)} for {item} in {value}]"
        if isinstance(self._item, _Scalar) and self._item.is_plain:
            if writer.trusts:
                # An answer's own lists are nobody else's.
                return value
            writer.begin(f"for {item} in {value}:")
            self._item.write(writer, item)
            writer.end()
            return f"{value}[:]"
        writer.line(f"{items} = []")
        writer.begin(f"for {item} in {value}:")
        writer.line(f"{items}.append({self._item.write(writer, item)})")
        writer.end()
        return items


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

    def write(self, writer: Writer, value: str) -> str:
        writer.demand(f"type({value}) is dict")
        name, item, items = writer.new(), writer.new(), writer.new()
        writer.line(f"{items} = {{}}")
        writer.begin(f"for {name}, {item} in {value}.items():")
        writer.line(f"{items}[{name}] = {self._value.write(writer, item)}")
        writer.end()
        return items


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

    def write(self, writer: Writer, value: str) -> str:
        rest = self.without_none
        if not self.is_optional or isinstance(rest, _Union):
            return super().write(writer, value)
        result = writer.new()
        writer.line(f"{result} = None")
        writer.begin(f"if {value} is not None:")
        writer.line(f"{result} = {rest.write(writer, value)}")
        writer.end()
        return result


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

    def write(self, writer: Writer, value: str) -> str:
        if not all(type(choice) is str for choice, _ in self._choices):
            return super().write(writer, value)
        result, choices = writer.new(), writer.bind(dict(self._choices))
        # A list cannot be looked up.
        writer.line(
            f"{result} = {choices}.get({value}, MISSING) if type({value}) is str else MISSING"
        )
        writer.line(f"if {result} is MISSING: raise UNFIT")
        return result


class _Class(Shape):
    """A generable class."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def schema(self, names: Names) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{_pointer(names.of(self.kind))}"}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        try:
            return self._reader()(value, id)
        except (Unfit, ValueError, AssertionError):
            return self._walk(value, path, id)

    def _walk(self, value: Any, path: str, id: GenerationID | None) -> Any:
        """The same member by member, which finds the place that is wrong."""
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
        try:
            return self.kind(**members)
        except (ValueError, AssertionError) as error:
            # What its __post_init__ refuses, no schema says.
            raise DecodingFailureError(
                f"the content cannot be read at {path}: {self.kind.__name__} refuses it: "
                f"{told(error)}",
                details={"json_path": path},
            ) from error

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

    def _reader(self, trusts: bool = False) -> Reader:
        """The code of the class; written once, like its fields are found out once."""
        readers: dict[bool, Reader] = typing.cast(Any, self.kind)._generable_readers
        reader = readers.get(trusts)
        if reader is None:
            # A class that holds itself finds this while its code is written.
            readers[trusts] = lambda value, id: readers[trusts](value, id)
            try:
                writer = Writer(trusts)
                reader = writer.function(self._write_object(writer))
            except BaseException:
                del readers[trusts]
                raise
            readers[trusts] = reader
        return reader

    def read_valid(self, value: Any, id: GenerationID | None) -> Any:
        reader = self._reader(trusts=True)
        try:
            return reader(value, id)
        except Exception:
            # Nothing that the schema says; whatever it is, this finds it again and says where.
            return self.read(value, "$", id)

    def write(self, writer: Writer, value: str) -> str:
        return f"{writer.bind(self._reader(writer.trusts))}({value}, id)"

    def _write_object(self, writer: Writer) -> str:
        """Code for the object named ``value``."""
        writer.demand("type(value) is dict")
        fields = fields_of(self.kind)
        items = {field.name: writer.new() for field in fields}
        writer.begin("try:")
        for field in fields:
            if not (field.is_identifier or field.has_default or field.shape.is_optional):
                writer.line(f"{items[field.name]} = value[{field.json_name!r}]")
        writer.line("pass")
        writer.end()
        writer.line("except KeyError: raise UNFIT from None")
        parameters = _positional_parameters(self.kind)
        arguments: list[str] = []
        defaults: list[Field] = []
        for field in fields:
            item = items[field.name]
            if field.is_identifier:
                parameters = ()
                arguments.append(f"{field.name}=id or {writer.bind(GenerationID)}()")
                continue
            if field.has_default:
                parameters = ()
                defaults.append(field)
                continue
            if field.shape.is_optional:
                writer.line(f"{item} = value.get({field.json_name!r})")
            result = field.shape.write(writer, item)
            if not result.isidentifier():
                writer.line(f"{item} = {result}")
                result = item
            if parameters[:1] == (field.name,):
                parameters = parameters[1:]
                arguments.append(result)
            else:
                # After one by name none goes by position.
                parameters = ()
                arguments.append(f"{field.name}={result}")
        made = f"{writer.bind(self.kind)}({', '.join(arguments)}"
        if not defaults:
            return f"{made})"
        writer.line("rest = {}")
        for field in defaults:
            item = items[field.name]
            writer.line(f"{item} = value.get({field.json_name!r})")
            writer.begin(f"if {item} is not None:")
            writer.line(f"rest[{field.name!r}] = {field.shape.write(writer, item)}")
            writer.end()
        return f"{made}, **rest)" if arguments else f"{made}**rest)"


def _positional_parameters(kind: type) -> tuple[str, ...]:
    """What the class takes by position, which costs less than by name; none where it is made in a
    way of its own."""
    code = getattr(kind.__init__, "__code__", None)  # type: ignore[misc]
    if code is None or typing.cast(Any, kind).__new__ is not object.__new__:
        return ()
    parameters: tuple[str, ...] = code.co_varnames[1 : code.co_argcount]
    return parameters


class _Model(Shape):
    """A pydantic model."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def schema(self, names: Names) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{_pointer(names.of(self.kind))}"}

    def read(self, value: Any, path: str, id: GenerationID | None) -> Any:
        return validated(self.kind, value, path)


def _pointer(name: str) -> str:
    """A name as a JSON pointer writes it."""
    return name.replace("~", "~0").replace("/", "~1")


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
    #: What it declared last, which is the same wherever these classes have these names.
    _declared: tuple[str, Sequence[tuple[type, str]]] | None = None

    def declaration(self, names: Names) -> str:
        """The field as a property of the library's declaration, in JSON."""
        if self._declared is not None:
            text, named = self._declared
            if all(names.of(kind) == name for kind, name in named):
                return text
        start = len(names.given)
        text = encode_json(self._members(names))
        self._declared = text, names.given[start:]
        return text

    def _members(self, names: Names) -> dict[str, Any]:
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
    json_names: dict[str, str] = typing.cast(Any, kind)._generable_json_names
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


#: What the library is told, in compact words.
encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

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
    if is_model(annotation):
        return _Model(annotation)
    hint = "decorate it with @generable" if isinstance(annotation, type) else "use another type"
    raise InvalidGenerationSchemaError(
        f"the type of {place}, {annotation!r}, cannot be generated: {hint} (there are str, int, "
        "float, bool, list, dict[str, ...], Optional, Union, Literal, Enum, generable classes and "
        "pydantic models)"
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
    if is_model(type(value)):
        return dumped(value)
    return value
