"""Generable classes: schemas, values and guided answers."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import gc
import json
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import jsonschema
import openfm as fm
import pytest
from openfm._ctypes_bindings import lib
from openfm._native import Handle, take_string
from openfm.generable_utils import read_valid
from openfm.generation_property import Property
from scripted_server import ScriptedServer

Models = Callable[..., fm.ChatCompletionsLanguageModel]


class Mood(enum.Enum):
    HAPPY = "happy"
    SAD = "sad"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Opaque(enum.Enum):
    ONE = object()
    TWO = object()


@fm.generable("Somebody")
class Person:
    name: str = fm.guide("as one is called")
    age: int = fm.guide("in years", range=(0, 150))
    friends: list[Person]
    nickname: str | None


@fm.generable
class Everything:
    text: str = fm.guide(regex="^[a-z]+$")
    whole: int = fm.guide(minimum=1, maximum=9)
    number: float
    flag: bool
    mood: Mood
    level: Level
    opaque: Opaque
    kind: Literal["a", "b"]
    mixed: Literal["x", 1, True, None]
    words: list[str] = fm.guide(min_items=1, max_items=3, anyOf=["u", "v"])
    flags: list[bool]
    grid: list[list[int]]
    scores: dict[str, list[float]]
    either: int | str
    people: list[Person] = fm.guide("who is there", count=1)
    maybe: list[Optional[int]]  # noqa: UP045
    anything: Any
    content: fm.GeneratedContent
    marked: Annotated[int, "a note"]
    old: Union[None, Person]  # noqa: UP007
    late: int = 7
    tags: list[str] = field(default_factory=list)
    id: fm.GenerationID = field(default_factory=fm.GenerationID)


def everything() -> Everything:
    return Everything(
        text="abc", whole=3, number=0.5, flag=True, mood=Mood.SAD, level=Level.HIGH,
        opaque=Opaque.TWO, kind="b", mixed=1, words=["u"], flags=[False], grid=[[1], []],
        scores={"x": [1.0]}, either="s", people=[Person("A", 3, [], None)], maybe=[1, None],
        anything={"a": [1]}, content=fm.GeneratedContent([2]), marked=4, old=None,
    )  # fmt: skip


# ---- Schemas


def test_the_schema_has_the_reference_form() -> None:
    assert Person.generation_schema().to_dict() == {
        "title": "Person",
        "type": "object",
        "description": "Somebody",
        "properties": {
            "name": {"type": "string", "description": "as one is called"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "description": "in years"},
            "friends": {"type": "array", "items": {"$ref": "#"}},
            "nickname": {"type": "string"},
        },
        "required": ["name", "age", "friends"],
        "x-order": ["name", "age", "friends", "nickname"],
        "additionalProperties": False,
    }


def test_every_type_has_a_schema_that_takes_its_values() -> None:
    schema = Everything.generation_schema().to_dict()
    properties = schema["properties"]
    assert properties["words"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["u", "v"]},
        "minItems": 1,
        "maxItems": 3,
    }
    assert properties["mood"] == {"type": "string", "enum": ["happy", "sad"]}
    assert properties["level"] == {"type": "integer", "enum": [1, 2]}
    assert properties["opaque"] == {"type": "string", "enum": ["ONE", "TWO"]}
    assert properties["mixed"] == {"enum": ["x", 1, True, None]}
    assert properties["people"]["items"] == {"$ref": "#/$defs/Person"}
    assert properties["people"]["description"] == "who is there"
    assert properties["maybe"]["items"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert schema["$defs"]["Person"]["properties"]["friends"]["items"] == {"$ref": "#/$defs/Person"}
    assert "id" not in properties
    assert not {"old", "late", "tags"} & set(schema["required"])
    value = everything().generated_content
    jsonschema.Draft202012Validator(schema).validate(json.loads(value.to_json()))
    again = Everything._from_generated_content(value)
    again.id = everything_id = fm.GenerationID()
    original = everything()
    original.id = everything_id
    assert again == original


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (complex, "Bad.field, <class 'complex'>, cannot be generated"),
        (dict[int, str], "use dict[str, ...]"),
        ("Missing", "'Missing', cannot be found"),
        (Callable, "cannot be generated"),
    ],
)
def test_a_type_that_no_model_generates_is_an_error(annotation: Any, says: str) -> None:
    Bad = fm.generable(type("Bad", (), {"__annotations__": {"field": annotation}}))
    for _ in range(2):
        with pytest.raises(fm.InvalidGenerationSchemaError, match=re.escape(says)):
            Bad.generation_schema()


@pytest.mark.parametrize(
    ("annotation", "guide", "says"),
    [
        (bool, fm.guide(minimum=1), '"minimum" of "Bad.field"'),
        (str, fm.guide(count=1), '"count" of "Bad.field"'),
        (int, fm.guide(regex="a"), '"pattern" of "Bad.field"'),
        (str, fm.guide(regex="(a)\\1"), "cannot be used"),
        (str, fm.guide(regex="["), "Bad.field"),
        (Person, fm.guide(anyOf=["a"]), '"anyOf" of "Bad.field"'),
    ],
)
def test_a_guide_that_does_not_suit_names_the_field(
    annotation: Any, guide: Any, says: str, model: Models
) -> None:
    members = {"__annotations__": {"field": annotation}, "field": guide}
    Bad = fm.generable(type("Bad", (), members))
    for _ in range(2):
        with pytest.raises(fm.InvalidGenerationSchemaError, match=re.escape(says)):
            Bad.generation_schema()
    session = fm.LanguageModelSession(model=model("text"))
    with pytest.raises(fm.UnsupportedGuideError, match=re.escape(says)):
        asyncio.run(session.respond("x", Bad))
    with pytest.raises(fm.UnsupportedGuideError, match=re.escape(says)):
        asyncio.run(session.respond("x", list[Bad]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"anyOf": "ab"}, {"anyOf": []}, {"anyOf": [1]}, {"constant": 1}, {"count": 0},
        {"count": True}, {"min_items": -1}, {"max_items": 1.5}, {"minimum": "1"},
        {"maximum": float("nan")}, {"range": [1, 2]}, {"range": (1,)}, {"range": (2, 1)},
        {"element": "a"}, {"regex": 1}, {"description": 1},
    ],
)  # fmt: skip
def test_bad_guides_are_value_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        fm.guide(**arguments)


def test_guides_reach_the_c_builder() -> None:
    guides = [
        ("array<string>", fm.GenerationGuide.anyOf(["a", "b"])),
        ("string", fm.GenerationGuide.constant("c")),
        ("array<int>", fm.GenerationGuide.count(2)),
        ("array<int>", fm.GenerationGuide.element(fm.GenerationGuide.range((1, 2)))),
        ("array<string>", fm.GenerationGuide.element(fm.GenerationGuide.regex("^a"))),
        ("array<int>", fm.GenerationGuide.min_items(1)),
        ("array<int>", fm.GenerationGuide.max_items(4)),
        ("number", fm.GenerationGuide.minimum(0.5)),
        ("number", fm.GenerationGuide.maximum(2)),
    ]
    with Handle(lib.FMGenerationSchemaCreate(b"T", None)) as schema:
        for index, (kind, guide) in enumerate(guides):
            created = lib.FMGenerationSchemaPropertyCreate(
                f"p{index}".encode(), None, kind.encode(), False
            )
            with Handle(created) as prop:
                guide.convert_to_c(prop.address)
                lib.FMGenerationSchemaAddProperty(schema.address, prop.address)
        text = take_string(lib.FMGenerationSchemaGetJSONString(schema.address, None, None))
    assert list(json.loads(text or "")["properties"].values()) == [
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        {"type": "string", "enum": ["c"]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 2}},
        {"type": "array", "items": {"type": "string", "pattern": "^a"}},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
        {"type": "number", "minimum": 0.5},
        {"type": "number", "maximum": 2},
    ]


def test_schemas_by_hand() -> None:
    schema = fm.GenerationSchema(
        type("Trip", (), {}),
        "A journey",
        [
            Property("to", str, "where", [fm.GenerationGuide.anyOf(["Rome", "Oslo"])]),
            Property("with_", "list[Person]"),
            Property("days", Optional[int]),  # noqa: UP045
        ],
        [Person],
    )
    made = schema.to_dict()
    assert (made["title"], made["description"]) == ("Trip", "A journey")
    assert made["required"] == ["to", "with_"]
    assert made["properties"]["to"]["enum"] == ["Rome", "Oslo"]
    assert made["properties"]["with_"]["items"] == {"$ref": "#/$defs/Person"}
    assert fm.GenerationSchema.from_dict(made).to_dict() == made
    with pytest.raises(fm.InvalidGenerationSchemaError):
        fm.GenerationSchema.from_dict({"type": "text"})
    with pytest.raises(fm.UnsupportedGuideError, match="nullable"):
        fm.GenerationSchema.from_dict({"nullable": True})
    with pytest.raises(TypeError):
        fm.GenerationSchema.from_dict({"a": object()})
    with pytest.raises(fm.InvalidGenerationSchemaError):
        fm.GenerationSchema(complex)


# ---- Classes


def test_isinstance_is_true_for_classes_and_instances() -> None:
    person = Person("A", 1, [], None)
    assert isinstance(Person, fm.Generable)
    assert isinstance(person, fm.Generable)
    assert isinstance(person, fm.ConvertibleToGeneratedContent)
    assert not isinstance(int, fm.Generable)
    assert not isinstance(3, fm.Generable)

    class Touchy:
        _generable = True

        @property
        def generated_content(self) -> fm.GeneratedContent:
            raise AssertionError("isinstance ran a property")

    assert isinstance(Touchy(), fm.Generable)
    with pytest.raises(TypeError, match="@generable"):

        class Mine(fm.Generable):
            pass


def test_misuse_of_the_decorator() -> None:
    with pytest.raises(fm.GenerableDecoratorError):
        fm.generable(3)
    with pytest.raises(fm.GenerableDecoratorError):
        fm.generable("text")(3)

    with pytest.raises(fm.GenerableDecoratorError, match="Wrong"):

        @fm.generable
        class Wrong:
            a: int = 1
            b: str

    @fm.generable()
    class Bare:
        a: int

    assert Bare(1) == Bare(a=1)


def test_a_class_that_no_answer_could_become_is_refused_when_it_is_decorated() -> None:
    """Whatever is accepted is made of an answer."""

    def other(self: Any, other: int) -> None: ...

    def position_only(self: Any, a: int, /) -> None: ...

    def one_more(self: Any, a: int, b: int) -> None: ...

    def own(self: Any, a: int, b: int = 5) -> None:
        self.a = a + b

    def any_names(self: Any, **members: Any) -> None:
        self.a = members["a"]

    members = {"__annotations__": {"a": int}}
    for init, says in [
        (other, "does not take the field 'a'"),
        (position_only, "does not take the field 'a'"),
        (one_more, "demands 'b'"),
    ]:
        with pytest.raises(fm.GenerableDecoratorError, match=says):
            fm.generable(type("Wrong", (), {**members, "__init__": init}))
    with pytest.raises(fm.GenerableDecoratorError, match="does not take"):
        fm.generable(dataclass(init=False)(type("Wrong", (), dict(members))))
    with pytest.raises(fm.GenerableDecoratorError, match="demands 'b'"):
        fm.generable(dataclass(type("Wrong", (), {"__annotations__": {"b": InitVar[int]}})))
    for init, a in [(own, 6), (any_names, 1)]:
        Right = fm.generable(type("Right", (), {**members, "__init__": init}))
        assert Right._from_generated_content(fm.GeneratedContent({"a": 1})).a == a


def test_a_subclass_keeps_its_own_fields() -> None:
    @fm.generable
    class Base:
        a: int

    @fm.generable
    class Sub(Base):
        b: str

    @fm.generable
    @dataclass(frozen=True)
    class Frozen:
        c: int

    assert list(Sub.generation_schema().to_dict()["properties"]) == ["a", "b"]
    assert Sub._from_generated_content(fm.GeneratedContent({"a": 1, "b": "x"})) == Sub(1, "x")
    assert list(Base.generation_schema().to_dict()["properties"]) == ["a"]
    assert Frozen._from_generated_content(fm.GeneratedContent({"c": 1})) == Frozen(1)


def test_local_classes_refer_to_themselves_and_each_other() -> None:
    @fm.generable
    class Leaf:
        v: int

    @fm.generable
    class Tree:
        leaf: Leaf
        children: list[Tree]
        parent: Optional["Tree"]  # noqa: UP037, UP045

    content = fm.GeneratedContent(
        {"leaf": {"v": 1}, "children": [{"leaf": {"v": 2}, "children": []}]}
    )
    tree = Tree._from_generated_content(content)
    assert tree.children[0].leaf == Leaf(2)
    assert tree.parent is None
    assert json.loads(tree.generated_content.to_json()) == json.loads(content.to_json())


def test_classes_of_the_same_name_stay_apart() -> None:
    def inner(annotation: Any) -> Any:
        return fm.generable(type("Inner", (), {"__annotations__": {"v": annotation}}))

    one, other = inner(int), inner(str)
    members = {"__annotations__": {"a": one, "b": other, "c": one}}
    Outer = fm.generable(type("Outer", (), members))
    schema = Outer.generation_schema().to_dict()
    assert schema["properties"]["a"] == schema["properties"]["c"] == {"$ref": "#/$defs/Inner"}
    assert schema["properties"]["b"] == {"$ref": "#/$defs/Inner2"}
    assert schema["$defs"]["Inner2"]["properties"]["v"] == {"type": "string"}


def test_a_name_that_begins_with_optional_is_not_optional() -> None:
    @fm.generable
    class OptionalExtras:
        a: int

    @fm.generable
    class Car:
        extras: OptionalExtras

    assert Car.generation_schema().to_dict()["required"] == ["extras"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, "$"), ({"name": "A"}, "$"), ({"name": 1, "age": 1, "friends": []}, "$.name"),
        ({"name": "A", "age": "1", "friends": []}, "$.age"),
        ({"name": "A", "age": True, "friends": []}, "$.age"),
        ({"name": "A", "age": 1.5, "friends": []}, "$.age"),
        ({"name": None, "age": 1, "friends": []}, "$.name"),
        ({"name": "A", "age": 1, "friends": [{"name": "B"}]}, "$.friends[0]"),
        ({"name": "A", "age": 1, "friends": {}}, "$.friends"), ([], "$"),
    ],
)  # fmt: skip
def test_missing_and_wrong_values_are_errors_with_a_path(value: Any, path: str) -> None:
    with pytest.raises(fm.DecodingFailureError) as caught:
        Person._from_generated_content(fm.GeneratedContent(value))
    assert caught.value.json_path == path


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400])
@pytest.mark.parametrize("kind", [float, float | None, list[float], dict[str, float], float | str])
def test_a_number_that_no_float_holds_is_an_error(kind: Any, number: str) -> None:
    Held = fm.generable(type("Held", (), {"__annotations__": {"field": kind}}))
    value = {list[float]: f"[1, {number}]", dict[str, float]: f'{{"a": {number}}}'}.get(
        kind, number
    )
    content = fm.GeneratedContent.from_json(f'{{"field": {value}}}')
    # Also one that the library found valid: no schema says what a float holds.
    for read in (Held._from_generated_content, functools.partial(read_valid, Held)):
        with pytest.raises(fm.DecodingFailureError) as caught:
            read(content)
        assert caught.value.json_path.startswith("$.field")


def test_defaults_stand_in_for_what_is_missing() -> None:
    @fm.generable
    class Options:
        size: int = 3
        names: list[str] = fm.guide("some", default_factory=list)
        unit: Literal["mm", "cm"] = fm.guide(default="mm")
        note: str | None = "none"

    assert Options.generation_schema().to_dict()["required"] == []
    read = Options._from_generated_content(fm.GeneratedContent({}))
    assert read == Options(3, [], "mm", "none")
    assert Options._from_generated_content(fm.GeneratedContent({"note": None})).note == "none"


def test_partial_objects() -> None:
    partial = Person.PartiallyGenerated
    assert partial.__name__ == "PersonPartiallyGenerated"
    empty = partial._from_generated_content(fm.GeneratedContent())
    assert (empty.name, empty.age, empty.friends, empty.nickname) == (None,) * 4
    assert isinstance(empty.id, fm.GenerationID)
    content = fm.GeneratedContent.from_json('{"name": "Ad')
    half = partial._from_generated_content(content)
    assert (half.name, half.age) == ("Ad", None)
    assert half.id == content.id
    nested = fm.GeneratedContent.from_json('{"friends": [{"name": "B", "age": 2}, {"na')
    friends = partial._from_generated_content(nested).friends
    assert [type(friend) for friend in friends] == [partial, partial]
    assert (friends[0].age, friends[1].name) == (2, None)
    assert json.loads(half.generated_content.to_json()) == {"name": "Ad"}

    @fm.generable
    class WithID:
        id: int

    read = WithID.PartiallyGenerated._from_generated_content(fm.GeneratedContent({"id": 4}))
    assert (read.id, type(read.generation_id)) == (4, fm.GenerationID)


def test_contents() -> None:
    content = fm.GeneratedContent()
    assert (content.to_json(), content.is_complete) == ("{}", True)
    content = fm.GeneratedContent({"p": {"name": "A", "age": 1, "friends": []}, "n": 1, "l": None})
    assert content.value(Person, "p") == Person("A", 1, [], None)
    assert content.value(Person, "missing") is None
    assert content.value(list[Person], "l") == []
    assert content.value(str, "n") == 1  # nothing is converted
    with pytest.raises(TypeError):
        content.value(list[Person], "p")
    with pytest.raises(fm.DecodingFailureError):
        content.value(Person, "n")
    address = lib.FMGeneratedContentCreateFromJSON(b'{"a": [1', None, None)
    taken = fm.GeneratedContent(_ptr=address)
    assert (taken.to_json(), taken.is_complete) == ('{"a": []}', False)
    for text in ("", "nope", "{]", '{"a" 1', "[1] x"):
        with pytest.raises(fm.DecodingFailureError):
            fm.GeneratedContent.from_json(text)


def test_classes_can_be_collected() -> None:
    @fm.generable
    class Short:
        a: list[Short]  # noqa: F821

    Short._from_generated_content(fm.GeneratedContent({"a": []}))
    Short.generation_schema().to_dict()
    watched = weakref.ref(Short)
    del Short
    gc.collect()
    assert watched() is None


# ---- Answers


def answering(model: Models, value: Any) -> fm.LanguageModelSession:
    text = value if isinstance(value, str) else json.dumps(value)
    return fm.LanguageModelSession(model=model("text", text=text))


def test_an_answer_is_an_instance(model: Models, server: ScriptedServer) -> None:
    session = answering(model, {"age": 36, "name": "Ada", "friends": []})
    options = fm.GenerationOptions(temperature=0.25, maximum_response_tokens=50)
    person = asyncio.run(session.respond("Who?", Person, options=options))
    assert person == Person("Ada", 36, [], None)
    body = server.log(full=True)[-1]["body"]
    # Options go along with a schema.
    assert (body["temperature"], body["max_tokens"]) == (0.25, 50)
    assert body["response_format"]["type"] == "json_schema"
    assert '"age":{' in body["messages"][0]["content"]  # the schema, in the prompt
    # An instance stands for its class.
    assert asyncio.run(session.respond("Who?", person)) == person
    full = asyncio.run(session.respond_full("Who?", Person))
    assert (full.content, full.finish_reason) == (person, "stop")
    schema = Person.generation_schema()
    content = asyncio.run(session.respond("Who?", schema=schema))
    assert content.value(int, "age") == 36
    assert list(json.loads(content.to_json())) == ["name", "age", "friends"]  # in order


def test_the_schema_stays_out_of_the_prompt_when_asked(
    model: Models, server: ScriptedServer
) -> None:
    session = answering(model, {"age": 36, "name": "Ada", "friends": []})
    options = fm.GenerationOptions(include_schema_in_prompt=False)
    asyncio.run(session.respond("Who?", Person, options=options))
    assert server.log(full=True)[-1]["body"]["messages"] == [{"role": "user", "content": "Who?"}]


@pytest.mark.parametrize(
    ("answer", "path", "says"),
    [
        ({"age": 36, "friends": []}, "$", "missing"),
        ({"age": 200, "name": "A", "friends": []}, "$.age", "200 is above 150"),
        ({"age": 1, "name": "A", "friends": [], "x": 1}, "$", "not in the schema"),
        ({"age": "1", "name": "A", "friends": []}, "$.age", "string where integer"),
        ("Sure! Here it is.", None, "no JSON"),
        ('{"name": "A", "age"', None, "no JSON"),
    ],
)
def test_an_invalid_answer_is_an_error(
    model: Models, answer: Any, path: str | None, says: str
) -> None:
    session = answering(model, answer)
    with pytest.raises(fm.DecodingFailureError, match=says) as caught:
        asyncio.run(session.respond("Who?", Person))
    assert caught.value.json_path == path
    assert caught.value.raw_content == (answer if isinstance(answer, str) else json.dumps(answer))
    assert session.last_response is None


def test_an_answer_that_was_cut_says_so(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("text", text='{"name": "A', finish="length"))
    with pytest.raises(fm.DecodingFailureError, match="limit of tokens"):
        asyncio.run(session.respond("Who?", Person))


def test_an_invalid_answer_is_repaired_when_asked(server: ScriptedServer, model: Models) -> None:
    def turn(text: str) -> dict[str, Any]:
        chunks = [
            {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
             "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
        ]  # fmt: skip
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        headers = {"Content-Type": "text/event-stream"}
        return {"status": 200, "headers": headers, "steps": [{"text": body}]}

    good = {"name": "A", "age": 1, "friends": []}
    options = fm.GenerationOptions(repair_attempts=1)
    plain = fm.ChatCompletionsLanguageModel(server.base_url, "m", server="generic")
    session = fm.LanguageModelSession(model=plain)
    server.script(turn("{}"), turn(json.dumps(good)))
    assert asyncio.run(session.respond("Who?", Person, options=options)).age == 1
    messages = server.log(full=True)[-1]["body"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert "is missing" in messages[2]["content"]
    assert session.usage.input.total == 20
    # It is one attempt, not as many as it takes.
    server.script(turn("{}"), turn("{}"))
    with pytest.raises(fm.DecodingFailureError):
        asyncio.run(session.respond("Who?", Person, options=options))


@pytest.mark.parametrize("depth", [600, 3300, 100_000])
def test_a_schema_that_is_too_deep_is_an_invalid_schema(model: Models, depth: int) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    session = fm.LanguageModelSession(model=model("text"))
    with pytest.raises(fm.InvalidGenerationSchemaError, match="deep"):
        asyncio.run(session.respond("x", json_schema=schema))
    with pytest.raises(fm.InvalidGenerationSchemaError, match="deep"):
        fm.GenerationSchema.from_dict(schema)


def test_what_excludes_what(model: Models) -> None:
    session = answering(model, {})
    schema = Person.generation_schema()
    for arguments in (
        {"generating": Person, "schema": schema},
        {"generating": Person, "json_schema": {}},
        {"schema": schema, "json_schema": {}},
        {"generating": 5},
        {"generating": int("3")},
        {"generating": complex},
    ):
        with pytest.raises(ValueError):
            asyncio.run(session.respond("x", **arguments))  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        asyncio.run(session.respond("x", json_schema={"a": object()}))
    with pytest.raises(TypeError):
        asyncio.run(session.respond("x", schema={"type": "object"}))  # type: ignore[call-overload]
    with pytest.raises(fm.InvalidGenerationSchemaError):
        asyncio.run(session.respond("x", json_schema={"type": "text"}))


@pytest.mark.parametrize(
    ("kind", "answer", "expected"),
    [
        (list[Literal["a", "b"]], ["a", "a"], ["a", "a"]),
        (Mood, "sad", Mood.SAD),
        (int, 3, 3),
        (dict[str, bool], {"x": True}, {"x": True}),
        (list[Person], [{"name": "A", "age": 1, "friends": []}], [Person("A", 1, [], None)]),
        (Optional[Person], None, None),  # noqa: UP045
    ],
)
def test_plain_types_can_be_asked_for(model: Models, kind: Any, answer: Any, expected: Any) -> None:
    text = json.dumps(answer)
    assert asyncio.run(answering(model, text).respond("x", kind)) == expected
    with pytest.raises(fm.DecodingFailureError):
        asyncio.run(answering(model, {"not": ["that"]}).respond("x", kind))


def test_pydantic_models_can_be_asked_for(model: Models) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Dish(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        name: str = pydantic.Field(pattern="^[A-Z]", max_length=10)
        price: float = pydantic.Field(gt=0)
        sides: list[Dish] = []
        note: Optional[str] = None  # noqa: UP045

        @pydantic.field_validator("name")
        @classmethod
        def not_air(cls, name: str) -> str:
            if name == "Air":
                raise ValueError("nobody eats air")
            return name

    Dish.model_rebuild(_types_namespace={"Dish": Dish, "Optional": Optional})
    soup = {"name": "Soup", "price": 3, "sides": [{"name": "Bread", "price": 0.5}], "note": None}
    dish = asyncio.run(answering(model, soup).respond("x", Dish))
    assert isinstance(dish, Dish)
    assert dish.sides[0].name == "Bread"
    for wrong in (
        {"name": "soup", "price": 3},
        {"name": "Air", "price": 1},
        {"name": "A", "price": 0},
    ):
        with pytest.raises(fm.DecodingFailureError):
            asyncio.run(answering(model, wrong).respond("x", Dish))


@fm.generable
class Span:
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError("it ends before it starts")


@fm.generable
class Plan:
    name: str
    spans: list[Span]
    other: Span | None = None
    by_name: dict[str, Span] = dataclasses.field(default_factory=dict)


GOOD, BAD = {"start": 1, "end": 2}, {"start": 2, "end": 1}


@pytest.mark.parametrize(
    ("kind", "answer", "path"),
    [
        (Span, BAD, "$"),
        (list[Span], [GOOD, GOOD, BAD], "$[2]"),
        (dict[str, Span], {"a": GOOD, "b": BAD}, "$.b"),
        (Plan, {"name": "x", "spans": [GOOD, BAD]}, "$.spans[1]"),
        (Plan, {"name": "x", "spans": [], "other": BAD}, "$.other"),
        (Plan, {"name": "x", "spans": [], "by_name": {"late": BAD}}, "$.by_name.late"),
    ],
    ids=str,
)
def test_an_answer_that_only_the_class_refuses(
    model: Models, kind: Any, answer: Any, path: str
) -> None:
    """It fits the schema, so the turn was a complete one: it stays, and nobody asks again."""
    session = answering(model, answer)
    options = fm.GenerationOptions(repair_attempts=2)
    with pytest.raises(fm.DecodingFailureError, match="it ends before it starts") as caught:
        asyncio.run(session.respond("x", kind, options=options))
    assert caught.value.json_path == path
    assert json.loads(caught.value.raw_content or "") == answer
    assert isinstance(caught.value.__cause__, ValueError)
    roles = [e["role"] for e in json.loads(session.transcript.to_json())["transcript"]["entries"]]
    assert roles == ["user", "response"]
    with pytest.raises(fm.DecodingFailureError) as again:
        asyncio.run(session.stream_response("x", generating=kind).collect())
    assert again.value.json_path == path


def test_a_union_takes_the_class_that_does_not_refuse(model: Models) -> None:
    @fm.generable
    class Backwards:
        start: int
        end: int

    kind: Any = Span | Backwards
    assert asyncio.run(answering(model, GOOD).respond("x", kind)) == Span(1, 2)
    assert asyncio.run(answering(model, BAD).respond("x", kind)) == Backwards(2, 1)


def test_a_fault_of_the_class_is_no_answer_that_it_refuses(model: Models) -> None:
    @fm.generable
    class Faulty:
        start: int

        def __post_init__(self) -> None:
            self.no_such_thing()  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="no_such_thing"):
        asyncio.run(answering(model, {"start": 1}).respond("x", Faulty))


def test_what_a_pydantic_model_refuses_has_its_place(model: Models) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Side(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        name: str

        @pydantic.field_validator("name")
        @classmethod
        def not_air(cls, name: str) -> str:
            if name == "Air":
                raise ValueError("nobody eats air")
            return name

    class Meal(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        sides: list[Side] = []
        main: Union[Side, int, None] = None  # noqa: UP007

        @pydantic.model_validator(mode="after")
        def not_nothing(self) -> Any:
            if not self.sides and self.main is None:
                raise ValueError("nothing to eat")
            return self

    Meal.model_rebuild(_types_namespace={"Side": Side, "Union": Union})
    Table = fm.generable(type("Table", (), {"__annotations__": {"meals": list[Meal]}}))
    bread, air = {"name": "Bread"}, {"name": "Air"}
    for kind, answer, path in (
        (Meal, {"sides": [bread, air]}, "$.sides[1].name"),
        (Meal, {"main": air}, "$.main.name"),
        (Meal, {"sides": []}, "$"),
        (Table, {"meals": [{"sides": [bread]}, {"sides": [air]}]}, "$.meals[1].sides[0].name"),
        (list[Meal], [{"main": 3}, {"main": air}], "$[1].main.name"),
    ):
        with pytest.raises(fm.DecodingFailureError, match="nobody eats|nothing to eat") as caught:
            asyncio.run(answering(model, answer).respond("x", kind))
        assert caught.value.json_path == path
        assert json.loads(caught.value.raw_content or "") == answer
        assert isinstance(caught.value.__cause__, pydantic.ValidationError)


def test_snapshots_grow_field_by_field(model: Models) -> None:
    answer = {
        "name": "Ada Byron",
        "age": 36,
        "friends": [{"name": "Charles B", "age": 44, "friends": []}],
    }
    session = fm.LanguageModelSession(model=model("text", text=json.dumps(answer), delay=0.05))

    async def run() -> tuple[list[Any], Person]:
        seen = [part async for part in session.stream_response("Who?", generating=Person)]
        whole = await session.stream_response("Who?", generating=Person).collect()
        return seen, whole

    seen, whole = asyncio.run(run())
    assert all(isinstance(part, Person.PartiallyGenerated) for part in seen)
    # How many come depends on how fast the reader is.
    assert len(seen) > 1
    assert {part.name for part in seen} <= {None, "", "Ada", "Ada Byron"}
    assert len({part.id for part in seen}) == 1
    assert (seen[-1].age, seen[-1].friends[0].name) == (36, "Charles B")
    assert whole == Person("Ada Byron", 36, [Person("Charles B", 44, [], None)], None)


def test_streams_of_contents_end_whole(model: Models) -> None:
    session = answering(model, {"b": 1, "a": "x y z"})
    schema = {"properties": {"a": {"type": "string"}, "b": {}}, "x-order": ["a", "b"]}

    async def run() -> list[fm.GeneratedContent]:
        return [part async for part in session.stream_response("Who?", json_schema=schema)]

    seen = asyncio.run(run())
    assert [part.is_complete for part in seen[:-1]] == [False] * (len(seen) - 1)
    assert seen[-1].is_complete
    assert seen[-1].to_json() == '{"a": "x y z", "b": 1}'


def test_a_stream_whose_answer_is_invalid_ends_with_the_error(model: Models) -> None:
    session = answering(model, {"name": "A", "age": 1000, "friends": []})

    async def run() -> None:
        stream = session.stream_response("Who?", generating=Person)
        with pytest.raises(fm.DecodingFailureError) as caught:
            async for _ in stream:
                pass
        assert caught.value.json_path == "$.age"
        with pytest.raises(fm.DecodingFailureError) as again:
            await stream.collect()
        assert again.value.json_path == "$.age"
        with pytest.raises(fm.DecodingFailureError):
            await session.stream_response("Who?", generating=Person).collect()

    asyncio.run(run())


# ---- Image references


@fm.generable
class Choice:
    picture: fm.ImageReference
    reason: str


def test_an_image_reference_names_what_is_attached(
    model: Models, server: ScriptedServer, picture: Path
) -> None:
    answer = {"picture": {"attachmentLabel": "left"}, "reason": "x"}
    session = answering(model, answer)
    prompt = ["Which?", fm.ImageAttachment(picture, "left"), fm.ImageAttachment(picture, "right")]
    choice = asyncio.run(session.respond(prompt, Choice))
    assert choice.picture == fm.ImageReference("left")
    resolved = choice.picture.resolved(session)
    assert (Path(resolved.path), resolved.label) == (picture, "left")
    sent = json.dumps(server.log(full=True)[-1]["body"]["response_format"])
    assert '"enum": ["left", "right"]' in sent
    with pytest.raises(fm.ImageReferenceError, match="there are") as caught:
        fm.ImageReference("middle").resolved(session)
    assert (caught.value.label, caught.value.labels) == ("middle", ["left", "right"])
    with pytest.raises(TypeError):
        choice.picture.resolved("session")


def test_an_image_reference_that_was_made_up_is_invalid(model: Models, picture: Path) -> None:
    session = answering(model, {"picture": {"attachmentLabel": "middle"}, "reason": "x"})
    prompt = ["Which?", fm.ImageAttachment(picture, "left")]
    with pytest.raises(fm.DecodingFailureError, match="none of the choices"):
        asyncio.run(session.respond(prompt, Choice))
    with pytest.raises(fm.UnsupportedGuideError, match="has a label"):
        asyncio.run(session.respond(["Which?", fm.ImageAttachment(picture)], Choice))


# ---- Types


def test_users_programs_type_check(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
from __future__ import annotations
import asyncio
import openfm as fm

@fm.generable("A cat")
class Cat:
    name: str
    age: int = fm.guide("in years", range=(0, 25))
    tags: list[str] = fm.guide(default_factory=list)

class Finder(fm.Tool):
    name = "find"
    description = "Finds a cat."

    @property
    def arguments_schema(self) -> fm.GenerationSchema:
        return fm.GenerationSchema(Cat)

    async def call(self, args: fm.GeneratedContent) -> str:
        reveal_type(args.value(str, for_property="name"))
        reveal_type(args.value(list[str], for_property="tags"))
        reveal_type(args.value(Cat))
        reveal_type(args.value())
        return args.value(str, for_property="name")

def plain() -> None:
    session = fm.LanguageModelSession(tools=[Finder()])
    reveal_type(session.respond_sync("x"))
    reveal_type(session.respond_sync("x", Cat))
    reveal_type(session.respond_sync("x", json_schema={"type": "object"}))
    reveal_type(session.respond_full_sync("x", generating=Cat).content)

async def main() -> None:
    session = fm.LanguageModelSession()
    async with session.stream_response("x") as stream:
        reveal_type([part async for part in stream])
    text: str = await session.respond("Hello")
    cat: Cat = await session.respond("A cat.", Cat)
    cats: list[Cat] = await session.respond("Cats.", generating=list[Cat])
    content: fm.GeneratedContent = await session.respond("x", json_schema={"type": "object"})
    schema = fm.GenerationSchema(Cat)
    other: fm.GeneratedContent = await session.respond("x", schema=schema)
    made = Cat(name="Tom", age=3)
    async for part in session.stream_response("x", generating=Cat):
        print(part.name)
    whole: Cat = await session.stream_response("x", generating=Cat).collect()
    full = await session.respond_full("x", Cat)
    name: str = full.content.name
    print(text, cat, cats, content, other, made, whole, name)

asyncio.run(main())
"""
    )
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        """
import openfm as fm

@fm.generable
class Cat:
    name: str

Cat(name=3)
Cat()
"""
    )
    root = Path(__file__).resolve().parents[2]

    def check(file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}/cache", str(file)],
            env={"MYPYPATH": str(root / "python"), "PATH": ""},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    done = check(program)
    assert done.returncode == 0, done.stdout + done.stderr
    revealed = re.findall(r'Revealed type is "(?:builtins\.)?(.*)"', done.stdout)
    assert [kind.replace("builtins.", "") for kind in revealed] == [
        "str",
        "list[str]",
        "program.Cat",
        "Any",
        "str",
        "program.Cat",
        "openfm.generable.GeneratedContent",
        "program.Cat",
        "list[str]",
    ]
    done = check(wrong)
    assert done.returncode == 1
    assert "incompatible type" in done.stdout
    assert 'Missing positional argument "name"' in done.stdout
