"""Pydantic models beside generable classes, where pydantic is installed; it is never imported here.

A model may be the type of a field of a generable class, and a generable class that of a field of a
model: pydantic takes it for the dataclass that it is, and is told here of its guides.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any

from .errors import DecodingFailureError

__all__ = [
    "definition_of",
    "describe_generable",
    "dumped",
    "is_model",
    "take_generable",
    "validated",
]


def is_model(kind: Any) -> bool:
    """Whether it is a class that describes and validates itself as pydantic's models do."""
    return (
        isinstance(kind, type)
        and callable(getattr(kind, "model_validate", None))
        and callable(getattr(kind, "model_json_schema", None))
    )


def validated(kind: Any, value: Any, path: str) -> Any:
    """The model of a JSON value."""
    try:
        return kind.model_validate(value)
    except ValueError as error:
        # What a validator written in Python refuses, no schema says.
        raise DecodingFailureError(
            f"the answer is no {kind.__name__}: {error}",
            details={
                "json_path": path + _place_of(error, value),
                "raw_content": json.dumps(value, ensure_ascii=False),
            },
        ) from error


def _place_of(error: ValueError, value: Any) -> str:
    """Where in the value the first of a ValidationError's errors is, as a JSON path without its $.

    Pydantic's own place has words among the keys that are none: of a union's choice, of what is
    missing. They are left out."""
    tell = getattr(error, "errors", None)
    places = tell(include_url=False, include_input=False) if callable(tell) else []
    path = ""
    for step in places[0]["loc"] if places else ():
        if isinstance(value, dict) and step in value:
            path += f".{step}"
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            path += f"[{step}]"
        else:
            continue
        value = value[step]
    return path


def dumped(value: Any) -> Any:
    """A model as JSON values."""
    return value.model_dump(mode="json", by_alias=True)


def definition_of(kind: Any, name: str) -> dict[str, Any]:
    """The model's JSON Schema as a definition of that name, with its own definitions in it."""
    schema: dict[str, Any] = kind.model_json_schema()
    own = schema.get("$ref", "").removeprefix("#/$defs/")
    if own:
        # One that holds itself is a reference to a definition.
        definitions = dict(schema["$defs"])
        schema = {**definitions.pop(own), "$defs": definitions}
        if not definitions:
            del schema["$defs"]
    renamed: dict[str, Any] = _renamed(schema, f"#/$defs/{own}", f"#/$defs/{name}")
    return {**renamed, "title": name}


def _renamed(schema: Any, reference: str, other: str) -> Any:
    if isinstance(schema, dict):
        return {
            key: other
            if key == "$ref" and value == reference
            else _renamed(value, reference, other)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_renamed(item, reference, other) for item in schema]
    return schema


# What follows is called by pydantic, for a generable class in a model.

_under_way: ContextVar[frozenset[type]] = ContextVar("under_way", default=frozenset())


def describe_generable(cls: Any, core_schema: Any, handler: Any) -> Any:
    """``__get_pydantic_json_schema__``: pydantic's schema of the dataclass, with the guides."""
    schema = handler(core_schema)
    under_way = _under_way.get()
    if cls in under_way:
        # The class holds a model that holds the class: it is described further out.
        return schema
    token = _under_way.set(under_way | {cls})
    try:
        own = cls.generation_schema().to_dict()
    finally:
        _under_way.reset(token)
    if cls._generable_json_names:
        return own
    described = handler.resolve_ref_schema(schema)
    if cls._generable_description is not None:
        described["description"] = cls._generable_description
    properties = described.get("properties", {})
    for name, guided in own["properties"].items():
        if name not in properties:
            continue
        if '"$ref"' not in json.dumps(guided):
            default = {
                key: properties[name][key] for key in ("default",) if key in properties[name]
            }
            properties[name] = {**guided, **default}
        else:
            # Which definitions there are, and how they are called, is pydantic's to say.
            for key in ("description", "minItems", "maxItems"):
                if key in guided:
                    properties[name][key] = guided[key]
    return schema


def take_generable(cls: Any, source: Any, handler: Any) -> Any:
    """``__get_pydantic_core_schema__``."""
    if not cls._generable_json_names:
        return handler(source)
    # Its properties have other names than its fields.
    from pydantic_core import core_schema

    from .generable import _wrap

    def read(value: Any) -> Any:
        if isinstance(value, cls):
            return value
        try:
            return cls._from_generated_content(_wrap(value))
        except DecodingFailureError as error:
            # What pydantic takes for "not this one, try the union's next".
            raise ValueError(str(error)) from error

    return core_schema.no_info_plain_validator_function(
        read,
        serialization=core_schema.plain_serializer_function_ser_schema(
            lambda value: value.generated_content.value()
        ),
        json_schema_input_schema=core_schema.any_schema(),
    )
