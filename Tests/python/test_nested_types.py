"""Every kind of type inside of every other, and pydantic models among them."""

# No `from __future__ import annotations`: the types of fields are objects here, text elsewhere.
# ruff: noqa: UP007, UP045

import asyncio
import dataclasses
import enum
import itertools
import json
from pathlib import Path
from typing import Any, Literal, Optional, Union

import jsonschema
import openfm as fm
import pytest
from conftest import Models
from openfm._guided import guide_of
from PIL import Image
from scripted_server import ScriptedServer
from test_generable import answering

pydantic = pytest.importorskip("pydantic")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    street: str
    code: str = pydantic.Field(pattern="^[0-9]{5}$")


class Tree(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    size: int = pydantic.Field(ge=1)
    branches: list["Tree"] = []
    address: Optional[Address] = None


@fm.generable("Inside of others")
class Inner:
    colour: Colour
    level: Level = Level.LOW
    mode: Literal["a", "b"] = "a"
    maybe: Optional[int] = fm.guide(range=(1, 5), default=None)
    table: dict[str, Colour] = dataclasses.field(default_factory=dict)


@fm.generable
class Outer:
    inner: Inner
    several: list[Inner]
    by_name: dict[str, Inner]
    grid: Optional[dict[str, list[Optional[int]]]]
    mixed: Union[Inner, str, None]
    address: Address
    tree: Optional[Tree] = None
    trees: list[Tree] = dataclasses.field(default_factory=list)
    letters: list[Optional[Literal["x", "y"]]] = dataclasses.field(default_factory=list)


RED: dict[str, Any] = {"colour": "red"}
LEAST: dict[str, Any] = {
    "inner": RED,
    "several": [],
    "by_name": {},
    "address": {"street": "s", "code": "12345"},
}
MOST: dict[str, Any] = {
    "inner": {**RED, "level": 2, "mode": "b", "maybe": 3, "table": {"k": "blue"}},
    "several": [RED, {"colour": "blue"}],
    "by_name": {"z": RED},
    "grid": {"a": [1, None], "b": []},
    "mixed": "text",
    "address": {"street": "s", "code": "12345"},
    "tree": {"size": 1, "branches": [{"size": 2, "address": {"street": "t", "code": "00000"}}]},
    "trees": [{"size": 3}],
    "letters": ["x", None],
}
#: What is wrong, and where.
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("$.inner.colour", {**LEAST, "inner": {"colour": "green"}}),
    ("$.inner.level", {**LEAST, "inner": {**RED, "level": 3}}),
    ("$.inner.mode", {**LEAST, "inner": {**RED, "mode": "c"}}),
    ("$.inner.maybe", {**LEAST, "inner": {**RED, "maybe": "x"}}),
    ("$.inner.table.k", {**LEAST, "inner": {**RED, "table": {"k": "x"}}}),
    ("$.several[1].colour", {**LEAST, "several": [RED, {"colour": 1}]}),
    ("$.several[0]", {**LEAST, "several": [{}]}),
    ("$.by_name.z.colour", {**LEAST, "by_name": {"z": {"colour": None}}}),
    ("$.grid.a[0]", {**LEAST, "grid": {"a": ["x"]}}),
    ("$.mixed.colour", {**LEAST, "mixed": {"colour": "x"}}),
    ("$.address.code", {**LEAST, "address": {"street": "s", "code": "1"}}),
    ("$.tree.size", {**LEAST, "tree": {"size": 0}}),
    ("$.letters[0]", {**LEAST, "letters": ["z"]}),
]


def test_all_of_them_are_read_and_written() -> None:
    most = Outer._from_generated_content(fm.GeneratedContent(MOST))
    assert most.inner == Inner(Colour.RED, Level.HIGH, "b", 3, {"k": Colour.BLUE})
    assert most.several == [Inner(Colour.RED), Inner(Colour.BLUE)]
    assert most.by_name == {"z": Inner(Colour.RED)}
    assert (most.grid, most.mixed) == ({"a": [1, None], "b": []}, "text")
    assert most.address == Address(street="s", code="12345")
    assert most.tree is not None and most.tree.branches[0].address is not None
    assert most.tree.branches[0].address.street == "t"
    assert (most.trees, most.letters) == ([Tree(size=3)], ["x", None])
    least = Outer._from_generated_content(fm.GeneratedContent(LEAST))
    assert (least.grid, least.mixed, least.tree, least.trees) == (None, None, None, [])
    assert least.inner == Inner(Colour.RED)
    for instance in (most, least):
        content = json.loads(instance.generated_content.to_json())
        assert Outer._from_generated_content(fm.GeneratedContent(content)) == instance


def test_the_schema_is_what_is_read() -> None:
    oracle = jsonschema.Draft202012Validator(Outer.generation_schema().to_dict())
    for good in (LEAST, MOST):
        oracle.validate(good)
    for path, wrong in WRONG:
        assert not oracle.is_valid(wrong), path


@pytest.mark.parametrize(("path", "wrong"), WRONG)
def test_what_is_wrong_is_found_where_it_is(path: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(fm.DecodingFailureError) as caught:
        Outer._from_generated_content(fm.GeneratedContent(wrong))
    assert caught.value.details["json_path"] == path


def test_such_answers_are_asked_for(model: Models) -> None:
    answer = asyncio.run(answering(model, MOST).respond("?", Outer))
    assert answer == Outer._from_generated_content(fm.GeneratedContent(MOST))
    trees = asyncio.run(answering(model, [{"size": 1}]).respond("?", list[Tree]))
    assert trees == [Tree(size=1)]
    for _, wrong in WRONG:
        with pytest.raises(fm.DecodingFailureError):
            asyncio.run(answering(model, wrong).respond("?", Outer))


def test_a_generable_class_inside_of_a_model(model: Models) -> None:
    class Box(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        inner: Inner
        many: list[Inner] = pydantic.Field(max_length=2)

    schema = Box.model_json_schema()
    assert schema["$defs"]["Inner"]["description"] == "Inside of others"
    assert schema["$defs"]["Inner"]["properties"]["maybe"]["maximum"] == 5
    good = {"inner": {**RED, "maybe": 2}, "many": [RED]}
    box = asyncio.run(answering(model, good).respond("?", Box))
    assert box == Box(inner=Inner(Colour.RED, maybe=2), many=[Inner(Colour.RED)])
    assert box.model_dump(mode="json")["inner"]["maybe"] == 2
    for wrong in (
        {"inner": {**RED, "maybe": 6}, "many": []},
        {"inner": {"colour": "green"}, "many": []},
        {"inner": RED, "many": [RED] * 3},
    ):
        with pytest.raises(fm.DecodingFailureError):
            asyncio.run(answering(model, wrong).respond("?", Box))

    class Shot(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        picture: fm.ImageReference

    shot = Shot.model_validate({"picture": {"attachmentLabel": "A"}})
    assert shot.picture == fm.ImageReference("A")
    assert json.loads(shot.model_dump_json()) == {"picture": {"attachmentLabel": "A"}}
    # Only what is attached can be named, here too.
    with pytest.raises(fm.UnsupportedGuideError, match="no attached picture has a label"):
        asyncio.run(answering(model, {}).respond("?", Shot))


def test_a_class_may_have_another_name_in_another_schema() -> None:
    """What a field declared in one schema is not taken over into one with other names."""

    def make(kind: type) -> Any:
        @fm.generable
        class Planet:
            value: kind  # type: ignore[valid-type]

        return Planet

    one, other = make(int), make(str)

    @fm.generable
    class Holder:
        held: one  # type: ignore[valid-type]

    @fm.generable
    class First:
        before: one  # type: ignore[valid-type]
        holder: Holder

    @fm.generable
    class Second:
        before: other  # type: ignore[valid-type]
        holder: Holder

    for kind, before in ((First, "integer"), (Second, "string"), (First, "integer")) * 2:
        schema = fm.GenerationSchema(kind).to_dict()
        definitions = schema["$defs"]

        def of(reference: dict[str, str], definitions: Any = definitions) -> Any:
            return definitions[reference["$ref"].removeprefix("#/$defs/")]

        held = of(of(schema["properties"]["holder"])["properties"]["held"])
        assert held["properties"]["value"]["type"] == "integer"
        assert of(schema["properties"]["before"])["properties"]["value"]["type"] == before


class MaybeShot(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    picture: Optional[fm.ImageReference] = None


class NullShot(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    picture: Optional[fm.ImageReference]


class ShotOrName(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    picture: Union[fm.ImageReference, str]


class Album(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    items: list[fm.ImageReference]


@fm.generable
class Found:
    picture: Optional[fm.ImageReference]


@fm.generable
class Pages:
    pictures: list[fm.ImageReference]
    first: Optional[fm.ImageReference] = None


NAMED = {"attachmentLabel": "A"}


@pytest.mark.parametrize(
    ("kind", "good", "named"),
    [
        (MaybeShot, [{}, {"picture": None}], {"picture": NAMED}),
        (NullShot, [{"picture": None}], {"picture": NAMED}),
        (ShotOrName, [{"picture": "none"}], {"picture": NAMED}),
        (Album, [{"items": []}], {"items": [NAMED]}),
        (Found, [{}, {"picture": None}], {"picture": NAMED}),
        (Pages, [{"pictures": []}], {"pictures": [NAMED]}),
        (Pages, [{"pictures": [], "first": None}], {"pictures": [], "first": NAMED}),
    ],
)
def test_a_picture_that_need_not_be_named(
    model: Models, kind: Any, good: list[Any], named: Any, tmp_path: Path
) -> None:
    """Where no picture has a label none can be; where one has, it can."""
    for answer in good:
        asyncio.run(answering(model, answer).respond("?", kind))
    with pytest.raises(fm.DecodingFailureError):
        asyncio.run(answering(model, named).respond("?", kind))
    path = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(path)
    asyncio.run(answering(model, named).respond(["?", fm.ImageAttachment(path, "A")], kind))


class Shots(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    pictures: list[fm.ImageReference] = pydantic.Field(min_length=1)


def test_a_picture_that_must_be_named(model: Models) -> None:
    with pytest.raises(fm.UnsupportedGuideError, match="no attached picture has a label"):
        asyncio.run(answering(model, {"pictures": []}).respond("?", Shots))


def test_models_and_classes_of_one_name_stay_apart(server: ScriptedServer) -> None:
    def make(kind: type) -> Any:
        @fm.generable
        class Address:
            planet: kind  # type: ignore[valid-type]

        return Address

    @fm.generable
    class Both:
        here: Address
        there: make(str)  # type: ignore[valid-type]

    schema = Both.generation_schema().to_dict()
    assert len(schema["$defs"]) == 2
    content = fm.GeneratedContent({"here": LEAST["address"], "there": {"planet": "Mars"}})
    both = Both._from_generated_content(content)
    assert (both.here.street, both.there.planet) == ("s", "Mars")
    jsonschema.Draft202012Validator(schema).validate(content.value())


def test_odd_classes_are_made_as_they_want_it() -> None:
    @fm.generable
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        a: int
        b: str = "b"

    @fm.generable
    @dataclasses.dataclass
    class Own:
        a: int
        b: str

        def __init__(self, b: str, a: int) -> None:
            self.a, self.b = a, b

    @fm.generable
    @dataclasses.dataclass(kw_only=True)
    class Keywords:
        b: int = 3
        a: str

    @fm.generable
    @dataclasses.dataclass
    class Checked:
        a: int
        twice: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.twice = self.a * 2

    @fm.generable
    class Known:
        a: int
        id: fm.GenerationID
        b: str

    def read(kind: Any, value: dict[str, Any]) -> Any:
        return kind._from_generated_content(fm.GeneratedContent(value))

    assert read(Frozen, {"a": 1}) == Frozen(1)
    own = read(Own, {"a": 1, "b": "x"})
    assert (own.a, own.b) == (1, "x")
    assert read(Keywords, {"a": "x"}) == Keywords(a="x")
    assert read(Checked, {"a": 2}).twice == 4
    content = fm.GeneratedContent({"a": 1, "b": "x"})
    assert Known._from_generated_content(content) == Known(1, content.id, "x")


def test_numbers_are_of_the_type_that_was_asked_for() -> None:
    @fm.generable
    class Numbers:
        whole: int
        number: float
        wholes: list[int]
        numbers: list[float]

    for whole, number in itertools.product((3, 3.0), (2, 2.0)):
        value = {"whole": whole, "number": number, "wholes": [whole], "numbers": [number]}
        # As content, and as an answer that the library has found valid.
        answer = guide_of(Numbers, None, None)
        assert answer is not None
        for read in (
            Numbers._from_generated_content(fm.GeneratedContent(value)),
            answer.read(json.dumps(value)),
        ):
            assert read == Numbers(3, 2.0, [3], [2.0])
            assert [type(item) for item in (read.whole, read.number)] == [int, float]
            assert [type(item) for item in (*read.wholes, *read.numbers)] == [int, float]
    for wrong in ({"whole": 3.5}, {"whole": True}, {"number": "2"}, {"wholes": [1, 2.5]}):
        value = {"whole": 3, "number": 2, "wholes": [], "numbers": [], **wrong}
        with pytest.raises(fm.DecodingFailureError):
            Numbers._from_generated_content(fm.GeneratedContent(value))


def test_the_list_of_an_object_is_its_own() -> None:
    @fm.generable
    class Words:
        words: list[str]
        wholes: list[int]

    content = fm.GeneratedContent({"words": ["a"], "wholes": [1]})
    read = Words._from_generated_content(content)
    read.words.append("b")
    read.wholes.append(2)
    assert content.value() == {"words": ["a"], "wholes": [1]}
