"""What a guided request asks for, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ._native import encode
from ._pydantic import is_model, validated
from .errors import DecodingFailureError, InvalidGenerationSchemaError
from .generable import Generable, GeneratedContent, GenerationID, partial_content
from .generable_utils import read_valid
from .generation_schema import GenerationSchema, schema_text_of
from .type_conversion import shape_of

__all__ = ["Guide", "guide_of"]


class Guide:
    """The schema that is sent, and the reader of the answer and of its snapshots."""

    __slots__ = ("_read", "_read_partial", "id", "schema")

    def __init__(
        self,
        schema: str,
        read: Callable[[GeneratedContent], Any],
        read_partial: Callable[[GeneratedContent], Any],
    ) -> None:
        self.schema = encode(schema, "the schema", InvalidGenerationSchemaError)
        self._read = read
        self._read_partial = read_partial
        #: Of the answer and all its snapshots.
        self.id = GenerationID()

    def read(self, text: str) -> Any:
        """The answer; its text is JSON that the library found valid. DecodingFailureError where the
        caller's class refuses it all the same; the turn is over then, and was a complete one."""
        content = GeneratedContent.from_json(text)
        content._id = self.id
        try:
            return self._read(content)
        except DecodingFailureError as error:
            error.details["raw_content"] = text
            raise

    def read_partial(self, text: str) -> Any:
        """A snapshot; None where nothing of it is certain yet."""
        content = partial_content(text, self.id)
        if content is None:
            return None
        content._is_complete = False
        return self._read_partial(content)

    def read_last(self, text: str) -> Any:
        """The snapshot that holds the whole answer."""
        content = GeneratedContent.from_json(text)
        content._id = self.id
        return self._read_partial(content)


def guide_of(
    generating: Any, schema: GenerationSchema | None, json_schema: Mapping[str, Any] | None
) -> Guide | None:
    """The guide of a request's arguments; None where text is asked for."""
    given = [
        name
        for name, value in (
            ("generating", generating),
            ("schema", schema),
            ("json_schema", json_schema),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} exclude each other; give one of them")
    if generating is not None:
        return _guide_of_type(generating)
    if schema is not None:
        if not isinstance(schema, GenerationSchema):
            raise TypeError(f"schema must be a GenerationSchema, not {type(schema).__name__}")
        return Guide(schema._json(), _same, _same)
    if json_schema is not None:
        return Guide(_dump(json_schema), _same, _same)
    return None


def _guide_of_type(kind: Any) -> Guide:
    if isinstance(kind, Generable) and not isinstance(kind, type):
        kind = type(kind)
    if isinstance(kind, type) and isinstance(kind, Generable):
        partial = kind.PartiallyGenerated
        return Guide(
            schema_text_of(kind),
            lambda content: read_valid(kind, content),
            partial._from_generated_content,
        )
    if is_model(kind):
        schema = json.dumps(kind.model_json_schema(), ensure_ascii=False, allow_nan=False)
        return Guide(schema, lambda content: validated(kind, content._content, "$"), _same)
    try:
        shape = shape_of(kind, "the answer")
    except InvalidGenerationSchemaError:
        name = kind.__name__ if isinstance(kind, type) else repr(kind)
        raise ValueError(
            f"generating must be a class decorated with @generable, a pydantic model, or a type "
            f"such as list[...], Literal[...] or an Enum, not {name}"
        ) from None
    return Guide(
        schema_text_of(kind),
        lambda content: shape.read_valid(content._content, content.id),
        lambda content: shape.read_partial(content._content, content.id),
    )


def _same(content: GeneratedContent) -> GeneratedContent:
    return content


def _dump(schema: Mapping[str, Any]) -> str:
    if not isinstance(schema, Mapping):
        raise TypeError(f"json_schema must be a dict, not {type(schema).__name__}")
    try:
        return json.dumps(dict(schema), allow_nan=False)
    except RecursionError:
        raise InvalidGenerationSchemaError("json_schema is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"json_schema must be made of JSON values: {error}") from None
