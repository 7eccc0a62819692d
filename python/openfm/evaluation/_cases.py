"""Cases: what is asked, and what is expected. From Python values, data frames, files, folders."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from .._native import build_info
from ..prompt import Attachment
from ._errors import EvaluationError
from ._values import fingerprint, plain

__all__ = ["IMAGE_FIELDS", "Case", "load_cases"]

# Members that are pictures without saying so.
IMAGE_FIELDS: Final = ("image", "images")

# How files of the library's formats are named beside the format's own name. By these a folder's
# pictures are told from its other files; what they really are is looked at when they are sent.
_OTHER_SUFFIXES: Final = {"jpeg": (".jpg", ".jpe"), "heic": (".heif",)}


@dataclass(frozen=True)
class Case:
    """One case. ``data`` are its members by name; ``source`` is what the caller gave, which is what
    a prompt function is called with; ``key`` tells it from the others, from run to run."""

    index: int
    data: Mapping[str, Any]
    source: Any
    key: str
    #: The members as JSON, as they were given.
    record: Mapping[str, Any]
    #: Where relative paths of pictures start; None for the working directory.
    folder: Path | None = None


def load_cases(cases: Any) -> list[Case]:
    """Reads cases from a list of dicts or dataclasses, a pandas or polars frame, the path of a
    JSONL or CSV file, or a folder of pictures.

    Paths of pictures in a file are relative to that file. A folder gives one case a picture, with
    ``image``, ``name`` and, for a picture in a subfolder, ``expected``: the subfolder's name.
    Raises EvaluationError.
    """
    folder: Path | None = None
    sources: list[Any]
    if isinstance(cases, (str, os.PathLike)):
        path = Path(os.fsdecode(os.fspath(cases)))
        if path.is_dir():
            sources, folder = list(_of_folder(path)), path.absolute()
        else:
            sources, folder = _of_file(path), path.parent.absolute()
    elif _is_frame(cases):
        sources = _of_frame(cases)
    elif isinstance(cases, Mapping):
        raise EvaluationError("cases is one dict; give a list of dicts, one for each case")
    elif isinstance(cases, Iterable):
        sources = list(cases)
    else:
        raise EvaluationError(
            f"cases is a {type(cases).__name__}; give a list of dicts or dataclasses, a pandas or "
            "polars frame, the path of a .jsonl or .csv file, or a folder of pictures"
        )
    if not sources:
        where = f" in {cases}" if isinstance(cases, (str, os.PathLike)) else ""
        raise EvaluationError(f"there are no cases{where}")

    seen: Counter[str] = Counter()
    loaded: list[Case] = []
    for index, source in enumerate(sources):
        data = _members(source, index)
        record = plain(data, f"case {index}")
        # Equal cases are told apart by their order, so that each is answered.
        print_of_data = fingerprint(record)[:24]
        occurrence = seen[print_of_data]
        seen[print_of_data] += 1
        key = print_of_data if occurrence == 0 else f"{print_of_data}-{occurrence}"
        if folder is not None:
            data = _resolved(data, folder)
            source = data
        loaded.append(Case(index, data, source, key, record, folder))
    return loaded


def _members(source: Any, index: int) -> dict[str, Any]:
    if isinstance(source, Case):
        return dict(source.data)
    if isinstance(source, Mapping):
        return {str(name): value for name, value in source.items()}
    if dataclasses.is_dataclass(source) and not isinstance(source, type):
        return {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}
    hint = ' such as {"text": ...}' if isinstance(source, str) else ""
    raise EvaluationError(
        f"case {index} is a {type(source).__name__}; a case is a dict{hint} or a dataclass"
    )


def _resolved(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """With the pictures' paths as they are found from the working directory."""
    resolved = dict(data)
    for name in IMAGE_FIELDS:
        value = resolved.get(name)
        if isinstance(value, (list, tuple)):
            resolved[name] = [_path(item, folder) for item in value]
        elif value is not None:
            resolved[name] = _path(value, folder)
    return resolved


def _path(value: Any, folder: Path) -> Any:
    if isinstance(value, Attachment) or not isinstance(value, (str, os.PathLike)) or value == "":
        return value
    return folder / value


# ---- Folders and files


def _suffixes() -> frozenset[str]:
    """Of the formats that the library knows; of one that needs something installed first, too: to
    be told of that is better than a case that is missing."""
    known = build_info()
    return frozenset(
        suffix
        for name in (*known["image_formats"], *known["missing_image_formats"])
        for suffix in (f".{name}", *_OTHER_SUFFIXES.get(name, ()))
    )


def _of_folder(folder: Path) -> Iterator[dict[str, Any]]:
    suffixes = _suffixes()
    found = False
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith(".") or os.path.splitext(name)[1].lower() not in suffixes:
                continue
            found = True
            relative = Path(parent, name).relative_to(folder)
            case: dict[str, Any] = {"image": relative, "name": relative.as_posix()}
            if len(relative.parts) > 1:
                case["expected"] = relative.parts[-2]
            yield case
    if not found:
        raise EvaluationError(
            f"the folder {folder} holds no pictures ({', '.join(sorted(suffixes))})"
        )


def _of_file(path: Path) -> list[Any]:
    kind = path.suffix.lower()
    if kind not in (".jsonl", ".ndjson", ".csv", ".tsv"):
        raise EvaluationError(
            f"{path} is no file of cases that is known; give .jsonl (one JSON object a line), "
            ".csv or .tsv" + ("" if path.exists() else ". There is no such file or folder either")
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise EvaluationError(f"cannot read the cases of {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise EvaluationError(f"{path}, line {line}: not UTF-8; save the file as UTF-8") from None
    if kind in (".jsonl", ".ndjson"):
        return list(_of_json_lines(path, text))
    return list(_of_table(path, text, "\t" if kind == ".tsv" else ","))


def _of_json_lines(path: Path, text: str) -> Iterator[Any]:
    # Not splitlines(), which also splits at characters that JSON strings may hold.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise EvaluationError(f"{path}, line {number}: no JSON ({error})") from None
        if not isinstance(value, dict):
            raise EvaluationError(
                f"{path}, line {number}: a case is a JSON object, this is {_json_kind(value)}"
            )
        yield value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; write null where there is none")


def _json_kind(value: Any) -> str:
    names = {list: "an array", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _of_table(path: Path, text: str, delimiter: str) -> Iterator[dict[str, Any]]:
    reader = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
    # A long text is a good field. The limit is the module's, not the reader's: it is put back.
    limit = csv.field_size_limit()
    csv.field_size_limit(max(limit, len(text)))
    try:
        names = reader.fieldnames or []
        doubled = [name for name, count in Counter(names).items() if count > 1]
        if doubled:
            raise EvaluationError(f"{path}: two columns are named {doubled[0]!r}")
        for row in reader:
            if None in row:
                raise EvaluationError(
                    f"{path}, line {reader.line_num}: more values than the {len(names)} columns "
                    f"({', '.join(names)})"
                )
            missing = [name for name, value in row.items() if value is None]
            if missing:
                raise EvaluationError(
                    f"{path}, line {reader.line_num}: no value for the column {missing[0]!r}"
                )
            yield dict(row)
    except csv.Error as error:
        # The line on which the row begins: a quote that is not closed takes all that follow.
        line = reader.line_num + 1
        raise EvaluationError(f"{path}, line {line}: no CSV ({error})") from None
    finally:
        csv.field_size_limit(limit)


# ---- Data frames


def _is_frame(value: Any) -> bool:
    # By name: neither library is a dependency, and none is imported for this.
    return any(
        kind.__name__ in ("DataFrame", "LazyFrame")
        and kind.__module__.partition(".")[0] in ("pandas", "polars")
        for kind in type(value).__mro__
    )


def _of_frame(frame: Any) -> list[Any]:
    if hasattr(frame, "collect"):
        frame = frame.collect()
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")
    return [{name: _cell(value) for name, value in row.items()} for row in rows]


def _cell(value: Any) -> Any:
    """A cell as a Python value; what the frame calls missing is None."""
    if hasattr(value, "isoformat") and value != value:
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        return _cell(value.item())
    return value
