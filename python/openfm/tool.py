"""Tools that a model can call while it answers."""

from __future__ import annotations

import ctypes
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ._ctypes_bindings import lib
from ._native import Handle, encode
from .errors import InvalidArgumentError, InvalidGenerationSchemaError, ToolDefinitionError
from .generable import GeneratedContent

__all__ = ["Tool"]


class Tool(ABC):
    """Something that the model can call. A subclass says what it is and does it::

        class Weather(fm.Tool):
            name = "weather"
            description = "Tells the weather of a city."

            @property
            def arguments_schema(self):
                return WeatherArguments.generation_schema()

            async def call(self, args):
                city = args.value(str, for_property="city")
                return f"Sunny in {city}."

    An ``async`` call runs on the event loop that awaits the request, with the context variables of
    the task that made it; a plain one runs in a thread of its own, with them too. Calls of one
    answer run at once, and end with the request: an async one is cancelled, and nobody waits for a
    plain one any more, which goes on until it returns or the program ends.

    It returns text, or a prompt's list of text and attachments; anything else is ``str()``-ed. What
    it raises becomes a ToolCallError of the request, or, in a session with
    ``tool_errors="output"``, the output "Tool error: ..." that the model reads.
    """

    #: 1 to 64 letters, digits, ``_`` and ``-``.
    name: str
    #: Tells the model when to call it.
    description: str

    _native: Handle | None = None

    def __init__(self) -> None:
        self._check()

    @property
    @abstractmethod
    def arguments_schema(self) -> Any:
        """A GenerationSchema, or a JSON Schema as a dict. Arguments are checked against it before
        ``call``."""

    @abstractmethod
    def call(self, args: GeneratedContent) -> Any:
        """Does what the tool is for; ``async`` or not."""

    def _check(self) -> bytes:
        """Raises what is wrong with the class; gives the schema's JSON text."""
        for attribute in ("name", "description"):
            value = getattr(self, attribute, None)
            if value is None or value == "":
                raise ToolDefinitionError(
                    f"{type(self).__name__} needs a class attribute {attribute!r}"
                )
            if not isinstance(value, str):
                raise TypeError(
                    f"{attribute} of {type(self).__name__} must be a str, not "
                    f"{type(value).__name__}"
                )
        if not callable(self.call):
            raise TypeError(f"{type(self).__name__}.call must be a method")
        return schema_json(self.arguments_schema, f"arguments_schema of {type(self).__name__}")

    def _handle(self) -> Handle:
        """The library's side of the tool, made once; sessions share it."""
        # Another process's is of no use after a fork.
        if self._native is None or self._native.is_foreign:
            schema = self._check()
            self._native = Handle(
                lib.FMBridgedToolCreateForQueue(
                    encode(self.name, "the name of a tool", InvalidArgumentError),
                    encode(self.description, "the description of a tool", InvalidArgumentError),
                    schema,
                    None,
                    None,
                )
            )
        return self._native


def tool_array(tools: Sequence[Tool]) -> tuple[Any, int]:
    """The library's references to the tools as a C array, and their number. The array keeps
    nothing alive: the caller keeps the tools."""
    addresses = [tool._handle().address for tool in tools]
    return (ctypes.c_void_p * len(addresses))(*addresses) if addresses else None, len(addresses)


def schema_json(schema: object, what: str) -> bytes:
    """The JSON text of a GenerationSchema or of a JSON Schema that is a dict."""
    to_dict = getattr(schema, "to_dict", None)
    if callable(to_dict) and not isinstance(schema, type):
        schema = to_dict()
    if not isinstance(schema, Mapping):
        raise TypeError(
            f"{what} must be a GenerationSchema or a dict that is a JSON Schema, not "
            f"{type(schema).__name__}"
        )
    try:
        return json.dumps(dict(schema), allow_nan=False).encode("ascii")
    except RecursionError:
        raise InvalidGenerationSchemaError(f"{what} is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise InvalidGenerationSchemaError(f"{what} must be made of JSON values: {error}") from None
