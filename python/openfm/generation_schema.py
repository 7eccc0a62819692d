"""The schema that an answer is valid by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

from ._ctypes_bindings import lib
from ._native import Handle, encode, last_error, take_string
from ._pydantic import definition_of
from .errors import InvalidGenerationSchemaError, UnsupportedGuideError
from .generable import Generable
from .generation_property import Property
from .type_conversion import Field, Names, encode_json, fields_of, shape_of

__all__ = ["GenerationSchema"]


class GenerationSchema:
    """A schema: of a generable class, or of properties given by hand.

    ``properties`` None takes the class's fields. ``dynamic_nested_types`` are generable classes
    that the properties name as text. The schema is made when it is first asked for.
    """

    __slots__ = ("_description", "_handle", "_properties", "_text", "_types", "type_class")

    def __init__(
        self,
        type_class: Any,
        description: str | None = None,
        properties: Sequence[Property] | None = None,
        dynamic_nested_types: Sequence[type] = (),
        _ptr: int | None = None,
    ) -> None:
        if _ptr is None and properties is None:
            # Any type will do, but a mistake shows here and not in the middle of a request.
            if not isinstance(type_class, Generable):
                shape_of(type_class, "the schema")
        self.type_class = type_class
        self._description = description
        self._properties = None if properties is None else list(properties)
        self._types = tuple(dynamic_nested_types)
        self._handle: Handle | None = None if _ptr is None else Handle(_ptr)
        self._text: str | None = None

    @classmethod
    def from_dict(cls, schema: Mapping[str, Any]) -> GenerationSchema:
        """The schema of JSON Schema, e.g. of an exported ``to_dict()``."""
        try:
            text = json.dumps(dict(schema), allow_nan=False).encode("ascii")
        except RecursionError:
            raise InvalidGenerationSchemaError("the schema is nested too deeply") from None
        except (TypeError, ValueError) as error:
            raise TypeError(f"a schema is made of JSON values: {error}") from None
        return cls(None, _ptr=lib.FMGenerationSchemaCreateFromJSON(text, None, None) or 0)

    def to_dict(self) -> dict[str, Any]:
        """JSON Schema in the reference's form. Raises InvalidGenerationSchemaError."""
        self.check()
        schema: dict[str, Any] = json.loads(self._json())
        return schema

    def check(self) -> None:
        """Makes the schema. Raises InvalidGenerationSchemaError for what is wrong with it."""
        try:
            self._json()
        except UnsupportedGuideError as error:
            raise InvalidGenerationSchemaError(error.message, details=error.details) from None

    def _json(self) -> str:
        """The schema's JSON text; UnsupportedGuideError for guides that do not suit."""
        if self._text is None:
            if self._handle is None:
                declaration = encode(
                    self._declaration(),
                    "a name or description of the schema",
                    InvalidGenerationSchemaError,
                )
                self._handle = Handle(
                    lib.FMGenerationSchemaCreateFromDeclarationJSON(declaration, None, None)
                )
            text = take_string(
                lib.FMGenerationSchemaGetJSONString(self._handle.address, None, None)
            )
            if text is None:
                raise last_error()
            self._text = text
        return self._text

    @property
    def _ptr(self) -> int:
        """The C library's schema, borrowed."""
        self._json()
        assert self._handle is not None
        return self._handle.address

    def _declaration(self) -> str:
        """The library's declaration JSON."""
        names = Names()
        kind = self.type_class
        if self._properties is not None:
            name = kind if isinstance(kind, str) else getattr(kind, "__name__", "answer")
            root: Any = kind if isinstance(kind, type) else type(name, (), {})
            names.of(root)
            namespace = {nested.__name__: nested for nested in self._types}
            fields = [
                Field(
                    name=item.name,
                    json_name=item.name,
                    shape=shape_of(item.type_class, f"{name}.{item.name}", namespace),
                    description=item.description,
                    guides=list(item.guides or ()),
                    has_default=False,
                    is_identifier=False,
                )
                for item in self._properties
            ]
            declaration = _declared(name, self._description, fields, names)
        else:
            root = kind if isinstance(kind, type) else type(kind)
            description = self._description
            if description is None:
                description = root._generable_description
            declaration = _declared(names.of(root), description, fields_of(root), names)
        for nested in self._types:
            names.of(nested)
        # Describing one class can name others: until none is left.
        done = {root}
        references: list[str] = []
        while left := [other for other in names.by_class if other not in done]:
            for other in left:
                done.add(other)
                name = names.of(other)
                if isinstance(other, Generable):
                    description = other._generable_description
                    references.append(_declared(name, description, fields_of(other), names))
                else:
                    definition = definition_of(other, name)
                    references.append(encode_json({"name": name, "schema": definition}))
        if references:
            return f'{declaration[:-1]},"references":[{",".join(references)}]}}'
        return declaration

    def __repr__(self) -> str:
        return f"GenerationSchema({self.type_class!r})"


def _declared(name: str, description: str | None, fields: Sequence[Field], names: Names) -> str:
    told = "" if description is None else f',"description":{encode_basestring(description)}'
    properties = ",".join(field.declaration(names) for field in fields if not field.is_identifier)
    return f'{{"name":{encode_basestring(name)}{told},"properties":[{properties}]}}'


def schema_text_of(kind: Any) -> str:
    """The JSON Schema of any type that can be generated, as text."""
    if isinstance(kind, Generable):
        return _text_of_class(kind)
    shape = shape_of(kind, "the answer")
    names = Names()
    schema = shape.schema(names)
    definitions: dict[str, Any] = {}
    for other in list(names.by_class):
        name = names.of(other)
        if isinstance(other, Generable):
            part = json.loads(_text_of_class(other))
        else:
            part = definition_of(other, name)
        definitions.update(part.pop("$defs", {}))
        definitions[name] = _renamed(part, name)
    if definitions:
        schema["$defs"] = definitions
    return json.dumps(schema, ensure_ascii=False)


def _text_of_class(kind: Any) -> str:
    from .generable_utils import schema_of

    text: str = schema_of(kind)._json()
    return text


def _renamed(schema: Any, name: str) -> Any:
    """A root schema as a definition: what refers to the root refers to that name."""
    if isinstance(schema, dict):
        return {
            key: f"#/$defs/{name}" if key == "$ref" and value == "#" else _renamed(value, name)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_renamed(item, name) for item in schema]
    return schema
