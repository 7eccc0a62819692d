"""Where cases come from, and the prompts made of them."""

from __future__ import annotations

import asyncio
import csv
import dataclasses
import datetime
import enum
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from conftest import Models
from openfm.evaluation import EvaluationError
from openfm.evaluation._cases import load_cases
from openfm.evaluation._prompts import describe_prompt, prompt_maker
from PIL import Image


@dataclasses.dataclass
class Question:
    text: str
    expected: int


def test_dicts_and_dataclasses() -> None:
    cases = load_cases([{"text": "a", "expected": 1}, Question("b", 2)])
    assert [dict(case.data) for case in cases] == [
        {"text": "a", "expected": 1},
        {"text": "b", "expected": 2},
    ]
    assert cases[1].source == Question("b", 2)
    assert load_cases(case for case in [{"a": 1}])[0].data == {"a": 1}


def test_frames_of_both_libraries_are_the_same_cases() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns: dict[str, list[Any]] = {
        "text": ["a", None],
        "number": [1, 2],
        "share": [0.5, None],
        "day": [datetime.date(2024, 2, 29), None],
    }
    ours = load_cases(
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    )
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        cases = load_cases(frame)
        assert [case.record for case in cases] == [case.record for case in ours]
        assert [case.key for case in cases] == [case.key for case in ours]
    assert [case.record for case in load_cases(polars.DataFrame(columns).lazy())] == [
        case.record for case in ours
    ]


def test_a_field_of_a_table_may_be_long(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    table = tmp_path / "cases.csv"
    table.write_text(f"text,expected\n{'x' * 300_000},1\n")
    assert [len(case.data["text"]) for case in load_cases(table)] == [300_000]
    # The limit is the whole process's.
    assert csv.field_size_limit() == limit


def test_files_are_read_as_they_come(tmp_path: Path) -> None:
    rows = [{"text": "é\u2028x", "expected": "1"}, {"text": 'a "quoted", one', "expected": "2"}]
    lines = tmp_path / "cases.jsonl"
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n\n" for row in rows)
    lines.write_bytes(b"\xef\xbb\xbf" + text.encode())
    table = tmp_path / "cases.csv"
    table.write_text('text,expected\n"é\u2028x",1\n"a ""quoted"", one",2\n', newline="")
    for path in (lines, table):
        assert [dict(case.record) for case in load_cases(path)] == rows
        assert [case.key for case in load_cases(str(path))] == [
            case.key for case in load_cases(rows)
        ]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2: no JSON"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', "line 2: a case is a JSON object, this is an array"),
        ("a.jsonl", b"\n\n", "no cases"),
        ("a.jsonl", b'{"a": 1}\n{"a": "\xff"}\n', "line 2: not UTF-8"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "line 3: more values than the 2 columns"),
        ("a.csv", b"a,b\n1\n", "line 2: no value for the column 'b'"),
        ("a.csv", b"a,a\n1,2\n", "two columns are named 'a'"),
        ("a.csv", b'a\n"1\n', "line 2: no CSV"),
        ("a.csv", b'a\n1\n"2\n3\n4\n', "line 3: no CSV"),
        ("a.jsonl", b'{"a": 1}\n{"a": NaN}\n', "line 2: no JSON .NaN is no JSON number"),
        ("a.jsonl", b'{"a": -Infinity}\n', "line 1: no JSON .-Infinity is no JSON number"),
        ("a.xlsx", b"PK", "give .jsonl"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(
    tmp_path: Path, name: str, text: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    with pytest.raises(EvaluationError, match=words) as raised:
        load_cases(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ([], "there are no cases"),
        ({"text": "a"}, "cases is one dict"),
        (["text"], "case 0 is a str"),
        (7, "cases is a int"),
        ([{"a": object()}], r"case 0\['a'\] is a object, which has no JSON form"),
        ("missing.jsonl", "cannot read the cases of missing.jsonl: No such file"),
        ("missing", "no such file or folder"),
    ],
)
def test_what_are_no_cases(cases: Any, words: str) -> None:
    with pytest.raises(EvaluationError, match=words):
        load_cases(cases)


def test_a_folder_of_pictures(tmp_path: Path, picture: Path) -> None:
    for name in ("cats/2.jpg", "cats/10.JPG", "dogs/1.jpg", ".hidden/1.jpg", "top.jpg"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(picture.read_bytes())
    (tmp_path / "set" / "notes.txt").write_text("no picture")
    cases = load_cases(tmp_path / "set")
    assert [(case.data["name"], case.data.get("expected")) for case in cases] == [
        ("top.jpg", None),
        ("cats/10.JPG", "cats"),
        ("cats/2.jpg", "cats"),
        ("dogs/1.jpg", "dogs"),
    ]
    moved = (tmp_path / "set").rename(tmp_path / "moved")
    # A folder that was moved holds the same cases.
    assert [case.key for case in load_cases(moved)] == [case.key for case in cases]
    (moved / "empty").mkdir()
    with pytest.raises(EvaluationError, match="holds no pictures"):
        load_cases(moved / "empty")


def test_a_folder_gives_cases_that_can_be_asked(tmp_path: Path) -> None:
    """Of every format that Pillow writes, and of names of more: each case is a picture that is
    read, and no format that is read is left out."""
    known = {*fm.build_info()["image_formats"], *fm.build_info()["missing_image_formats"]}
    Image.init()
    for suffix, kind in [*Image.EXTENSION.items(), (".jxl", "JXL")]:
        if kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "TGA", "ICO", "JXL"):
            Image.new("RGB", (32, 32), "red").save(
                tmp_path / f"picture{suffix}", "PNG" if kind == "JXL" else kind
            )
    cases = load_cases(tmp_path)
    kinds = {fm.inspect_image(case.data["image"]).mime_type.partition("/")[2] for case in cases}
    assert kinds == {"jpeg", "png", "webp", "gif", "bmp"} <= known
    suffixes = {case.data["image"].suffix for case in cases}
    assert {".jpg", ".jpeg", ".png", ".bmp"} <= suffixes
    assert not suffixes & {".tif", ".tiff", ".jxl", ".ppm", ".ico"}


def test_a_key_is_the_cases_own_and_no_others() -> None:
    class Colour(str, enum.Enum):
        RED = "red"

    cases: list[Any] = [
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        {"a": 1, "b": 2.5},
        {"a": Path("x"), "b": Colour.RED},
        {"a": "x", "b": "red"},
        {"a": {3, 1, 2}, "b": float("nan")},
    ]
    keys = [case.key for case in load_cases(cases)]
    assert len(set(keys)) == len(keys)
    # Equal cases are numbered, whatever stands between them.
    assert keys[1] == f"{keys[0]}-1" and keys[4] == f"{keys[3]}-1"
    assert [case.key for case in load_cases(cases)] == keys


# ---- Prompts


def make(prompt: Any, case: Any, **more: Any) -> list[Any]:
    cases = load_cases([case]) if not isinstance(case, Path) else load_cases(case)
    maker = prompt_maker(prompt)
    maker.check(cases)
    return asyncio.run(maker.make(cases[0]))


def test_a_template_takes_members() -> None:
    case = {"name": "Ada", "n": 3.14159, "deep": {"er": "x"}, "list": [1, "é"], "none": None}
    assert make("{name}: {n:.2f} {deep.er} {list} {{literal}}{none}", case) == [
        'Ada: 3.14 x [1, "é"] {literal}'
    ]


def test_a_template_takes_pictures(picture: Path) -> None:
    attached = fm.ImageAttachment(picture)
    assert make("Look: {image} What?", {"image": str(picture)}) == ["Look: ", attached, " What?"]
    assert make("{photo:image} What?", {"photo": str(picture)}) == [attached, " What?"]
    assert make("{photo}What?", {"photo": picture}) == [attached, "What?"]
    assert make("What?", {"image": picture}) == [attached, "What?"]
    assert make(["Which?", attached], {"text": "x"}) == ["Which?", attached]
    labelled = make("{a:image=A}{b:image=B}Which?", {"a": str(picture), "b": picture})
    assert [item.label for item in labelled[:2]] == ["A", "B"]
    many = make("{images:image=P}", {"images": [str(picture), str(picture)]})
    assert [item.label for item in many] == ["P1", "P2"]
    assert describe_prompt(many) == "[image: P1]\n[image: P2]"


@pytest.mark.parametrize("empty", [None, "", "  "])
@pytest.mark.parametrize(
    ("prompt", "column"),
    [
        ("What?", "image"),
        ("What is {image}?", "image"),
        ("What?", "images"),
        ("What is {photo:image}?", "photo"),
        ("What is {photo}?", "photo"),
    ],
)
def test_an_empty_cell_is_no_prompt_without_its_picture(
    prompt: str, column: str, empty: str | None, picture: Path
) -> None:
    cases = load_cases([{column: picture, "expected": 1}, {column: empty, "expected": 2}])
    maker = prompt_maker(prompt)
    maker.check(cases)
    asyncio.run(maker.make(cases[0]))
    with pytest.raises(EvaluationError, match=f"case 1 has no picture in '{column}'"):
        asyncio.run(maker.make(cases[1]))


def test_a_picture_that_no_case_has_is_not_missed(picture: Path) -> None:
    assert make("What?", {"image": None, "images": ""}) == ["What?"]
    cases = load_cases([{"image": picture}, {"text": "on purpose"}, {"images": []}])
    maker = prompt_maker("What?")
    maker.check(cases)
    assert [asyncio.run(maker.make(case)) for case in cases[1:]] == [["What?"], ["What?"]]


def test_a_row_without_its_picture_fails_and_says_so(
    tmp_path: Path, picture: Path, model: Models
) -> None:
    table = tmp_path / "cases.csv"
    table.write_text(f"image,expected\n{picture},x\n,y\n")
    result = fm.evaluate(table, "What?", model=model(), progress=False)
    assert [row.failed for row in result] == [False, True]
    assert result.failed[0].error.kind == "EvaluationError"
    assert "case 1 has no picture in 'image'" in result.failed[0].error.message


def test_paths_in_a_file_are_relative_to_it(
    tmp_path: Path, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"image": picture.name, "other": picture.name}) + "\n")
    monkeypatch.chdir("/")
    components = make("{image:image=A}{other:image=B}", cases)
    assert [component.path for component in components] == [picture, picture]
    # The case itself stays as it was written: the file may be moved with its pictures.
    assert load_cases(cases)[0].record == {"image": picture.name, "other": picture.name}


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("{missing}", "names {missing}, which no case has; the cases have: text"),
        ("{0}", "names {0}"),
        ("{}", "names no member"),
        ("{text", "is no template"),
        ("{text!r}", "holds {text!r}, which names no member"),
        (7, "prompt is a int"),
        ([7], "item 0 of the prompt is a int"),
    ],
)
def test_what_is_no_template(prompt: Any, words: str) -> None:
    with pytest.raises(EvaluationError, match=words):
        make(prompt, {"text": "x"})


def test_a_function_gets_what_the_caller_gave() -> None:
    seen = []

    def plain(case: Question) -> str:
        seen.append(case)
        return f"{case.text}?"

    async def later(case: Question) -> list[str]:
        return [case.text, "!"]

    assert make(plain, Question("a", 1)) == ["a?"]
    assert seen == [Question("a", 1)]
    assert make(later, Question("a", 1)) == ["a", "!"]
    with pytest.raises(fm.PromptTypeError, match="int"):
        make(lambda case: 7, {"text": "x"})


def test_a_prompt_is_known_by_what_it_does() -> None:
    def make_one(word: str) -> Callable[[Any], str]:
        return lambda case: f"{word} {case}"

    def description(prompt: Any) -> Any:
        return prompt_maker(prompt).description

    assert description(make_one("a")) == description(make_one("a"))
    assert description(make_one("a")) != description(make_one("b"))
    assert description("x") != description("y")
    # As in a notebook, where a cell that is run again defines a new function of the same text.
    space: dict[str, Any] = {}
    exec("f = lambda case: 'one'\ng = lambda case: 'two'\nh = lambda case: 'one'", space)
    assert description(space["f"])["sha256"] == description(space["h"])["sha256"]
    assert description(space["f"])["sha256"] != description(space["g"])["sha256"]
