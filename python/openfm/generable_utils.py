"""The decorator that makes a class one that a model can generate."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ._pydantic import describe_generable, take_generable
from .errors import GenerableDecoratorError
from .generable import Generable, GeneratedContent, GenerationID, _wrap
from .generation_guide import guide
from .type_conversion import _Class, _identifier_name, fields_of, to_json_value

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**keywords: Any) -> Callable[[_Decorator], _Decorator]:
        return lambda decorator: decorator


__all__ = ["generable"]

_Class_ = TypeVar("_Class_", bound=type)
_Decorator = TypeVar("_Decorator")


@overload
@dataclass_transform(field_specifiers=(guide, dataclasses.field))
def generable(cls: _Class_, /) -> _Class_: ...


@overload
@dataclass_transform(field_specifiers=(guide, dataclasses.field))
def generable(description: str | None = None, /) -> Callable[[_Class_], _Class_]: ...


def generable(argument: Any = None, /) -> Any:
    """Makes a class generable: ``@generable``, ``@generable()`` or ``@generable("description")``.

    The class becomes a dataclass, if it is none, and gets ``generation_schema()``,
    ``generated_content`` and ``PartiallyGenerated``. Its fields are annotated with str, int, float,
    bool, ``list[...]``, ``dict[str, ...]``, ``Optional[...]`` (a property that may be missing),
    ``Union``, ``Literal``, an Enum, ``ImageReference``, pydantic models, or generable classes, also
    the class itself. A field with a default may be left out by the model. ::

        @fm.generable("A cat that is up for adoption")
        class Cat:
            name: str
            age: int = fm.guide("in years", range=(0, 25))

        cat = await session.respond("Describe a cat.", generating=Cat)
    """
    # The names around the class: its annotations may use them.
    frame = sys._getframe(1)
    around = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    del frame
    if isinstance(argument, type):
        return _decorate(argument, None, around)
    if argument is not None and not isinstance(argument, str):
        raise GenerableDecoratorError(
            f"@generable takes a description or nothing, not {type(argument).__name__}"
        )

    def decorate(cls: Any) -> Any:
        if not isinstance(cls, type):
            raise GenerableDecoratorError(
                f"@generable decorates classes, not {type(cls).__name__} objects"
            )
        return _decorate(cls, argument, around)

    return decorate


def _decorate(cls: Any, description: str | None, around: dict[str, Any]) -> Any:
    if "__dataclass_fields__" not in cls.__dict__:
        # One that inherits from a dataclass is none itself: its own fields would be lost.
        try:
            cls = dataclasses.dataclass(cls)
        except (TypeError, ValueError) as error:
            raise GenerableDecoratorError(f"{cls.__name__} cannot be generable: {error}") from None
    _check_init(cls)
    cls._generable = True
    cls._generable_description = description
    cls._generable_fields = None
    cls._generable_readers = {}
    cls._generable_json_names = getattr(cls, "_generable_json_names", {})
    cls._generable_locals = around
    for name, member in (
        ("generation_schema", classmethod(_generation_schema)),
        ("_from_generated_content", classmethod(_from_generated_content)),
        ("generated_content", property(_generated_content)),
        ("PartiallyGenerated", _partial_class(cls)),
        ("__get_pydantic_core_schema__", classmethod(take_generable)),
        ("__get_pydantic_json_schema__", classmethod(describe_generable)),
    ):
        # The class may have its own way of writing itself.
        if name not in cls.__dict__:
            setattr(cls, name, member)
    return cls


def _check_init(cls: Any) -> None:
    """Raises GenerableDecoratorError where no instance could be made of an answer: the class has an
    ``__init__`` of its own that does not take its fields."""
    try:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    except (TypeError, ValueError):
        # Written in C; it may well take them.
        return
    fields = [field.name for field in dataclasses.fields(cls) if field.init]
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    refused = [name for name in fields if name not in named and not takes_any]
    demanded = [
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        and (p.name not in fields or p.kind is p.POSITIONAL_ONLY)
    ]
    if cls.__init__ is object.__init__:
        refused, demanded = fields, []
    if refused or demanded:
        what = (
            f"does not take the field {refused[0]!r} by its name"
            if refused
            else f"demands {demanded[0]!r}, which is no field that goes by its name"
        )
        raise GenerableDecoratorError(
            f"{cls.__name__} cannot be generable: its __init__ {what}. Leave __init__ out, and do "
            "what it does in __post_init__"
        )


def _generation_schema(cls: Any) -> Any:
    """The schema of the class; made once. Raises InvalidGenerationSchemaError, which names the
    field, for a type or a guide that no model can be asked for."""
    schema = schema_of(cls)
    schema.check()
    return schema


def schema_of(cls: Any) -> Any:
    """The same for a request, which finds out itself what is wrong and has its own errors."""
    from .generation_schema import GenerationSchema

    if getattr(cls.generation_schema, "__func__", None) is not _generation_schema:
        # The class has its own way.
        return cls.generation_schema()
    schema = cls.__dict__.get("_generable_schema")
    if schema is None:
        schema = GenerationSchema(cls)
        cls._generable_schema = schema
    return schema


def _from_generated_content(cls: Any, content: GeneratedContent) -> Any:
    """The instance of a content; DecodingFailureError where it is none of this class."""
    if not isinstance(content, GeneratedContent):
        raise TypeError(f"expected a GeneratedContent, not {type(content).__name__}")
    return _Class(cls).read(content._content, "$", content.id)


def read_valid(cls: Any, content: GeneratedContent) -> Any:
    """The same for a content that the library found valid by the schema of the class."""
    if getattr(cls._from_generated_content, "__func__", None) is not _from_generated_content:
        # The class has its own way.
        return cls._from_generated_content(content)
    return _Class(cls).read_valid(content._content, content.id)


def _generated_content(self: Any) -> GeneratedContent:
    """The instance as a content; None is left out."""
    return _wrap(to_json_value(self))


def _partial_class(cls: Any) -> type:
    """All fields of the class, each None until it has come, and an id."""
    name = f"{cls.__name__}PartiallyGenerated"
    identifier = _identifier_name(cls)
    fields: list[Any] = [
        (field.name, Any, dataclasses.field(default=None)) for field in dataclasses.fields(cls)
    ]
    fields.append((identifier, GenerationID, dataclasses.field(default_factory=GenerationID)))
    partial = dataclasses.make_dataclass(name, fields)
    partial.__module__ = cls.__module__
    partial.__qualname__ = f"{cls.__qualname__}PartiallyGenerated"
    partial.__doc__ = f"A {cls.__name__} as far as it has come: what has not is None."

    def from_content(kind: Any, content: GeneratedContent) -> Any:
        if not isinstance(content, GeneratedContent):
            raise TypeError(f"expected a GeneratedContent, not {type(content).__name__}")
        read = _Class(cls).read_partial(content._content, content.id)
        return kind(**{identifier: content.id}) if read is None else read

    def to_content(self: Any) -> GeneratedContent:
        members = {
            field.json_name: to_json_value(getattr(self, field.name))
            for field in fields_of(cls)
            if not field.is_identifier and getattr(self, field.name) is not None
        }
        return _wrap(members, getattr(self, identifier), is_complete=False)

    partial._from_generated_content = classmethod(from_content)  # type: ignore[attr-defined]
    partial.generated_content = property(to_content)  # type: ignore[attr-defined]
    return partial


def is_generable_class(kind: Any) -> bool:
    """Whether it is a decorated class; its instances are not."""
    return isinstance(kind, type) and isinstance(kind, Generable)
