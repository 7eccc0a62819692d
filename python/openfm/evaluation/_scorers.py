"""How good an answer is: scorers for texts, numbers, labels and structured answers.

A scorer is any function ``scorer(answer, case)`` of an answer and its case, plain or async, that
returns a number (usually from 0 to 1), a bool, a Score, or None where the case does not apply. The
answer is text, or the value of a structured answer: dicts, lists, numbers. Those made here are
dataclasses, so that a run can record exactly what it was scored with.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._errors import EvaluationError
from ._values import dumps, plain

__all__ = [
    "Score",
    "Scorer",
    "contains",
    "exact",
    "fields_f1",
    "label_match",
    "numeric",
    "regex",
    "set_f1",
]

Scorer = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Score:
    """What a scorer says of an answer. ``value`` None: the case does not apply. ``got`` and
    ``wanted`` are what was compared, for tables and confusion matrices."""

    value: float | None
    reason: str | None = None
    got: Any = None
    wanted: Any = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise EvaluationError(f"a score must be a finite number, not {self.value}")


# ---- Looking up


def field_of(answer: Any, name: str | None) -> Any:
    """The answer, or its field; None where a structured answer lacks that. Raises EvaluationError
    for an answer that can have no fields: a 0 would look like a wrong answer."""
    if name is not None and not isinstance(answer, (Mapping, list, tuple)):
        kind = "text" if isinstance(answer, str) else f"a {type(answer).__name__}"
        raise EvaluationError(
            f"the answer is {kind}, which has no field {name!r}; ask for structured answers with a "
            "schema, or score without a field"
        )
    return member(answer, name)


def member(value: Any, name: str | None) -> Any:
    """The member of a structured value by name, or by path: "total", "lines.0.price"."""
    if name is None:
        return value
    for step in [name] if isinstance(value, Mapping) and name in value else name.split("."):
        if isinstance(value, Mapping):
            if step not in value:
                return None
            value = value[step]
        elif isinstance(value, (list, tuple)) and step.lstrip("-").isdigit():
            index = int(step)
            if not -len(value) <= index < len(value):
                return None
            value = value[index]
        else:
            return None
    return value


def expected_of(case: Mapping[str, Any], name: str) -> Any:
    found = member(case, name)
    if found is None and name not in case:
        raise EvaluationError(
            f"the case has no {name!r} to compare with; it has: {', '.join(case)}. Name the member "
            "with expected=..."
        )
    return found


def _wanted(case: Mapping[str, Any], expected: str, field: str | None) -> Any:
    """What a case expects of a field: its own value, or that field of a structured one."""
    value = expected_of(case, expected)
    if field is None or not isinstance(value, Mapping):
        return value
    if not _has_field(value, field):
        raise EvaluationError(
            f"what the case expects under {expected!r} has no field {field!r}; it has: "
            f"{', '.join(map(str, value)) or 'none'}. Where nothing is expected, say null"
        )
    return member(value, field)


def _has_field(value: Mapping[str, Any], name: str) -> bool:
    """Whether a field of that name, or the one that its path begins with, is there; null counts."""
    return name in value or name.partition(".")[0] in value


def normal(text: Any, ignore_case: bool) -> Any:
    """Texts that look alike are alike: composed characters, white space at the ends."""
    if not isinstance(text, str):
        return text
    text = unicodedata.normalize("NFC", text).strip()
    return text.casefold() if ignore_case else text


def _same(got: Any, wanted: Any, ignore_case: bool) -> bool:
    got, wanted = normal(got, ignore_case), normal(wanted, ignore_case)
    if isinstance(got, bool) != isinstance(wanted, bool):
        # A table of texts says "true" where a schema says true.
        return isinstance(wanted, str) and wanted.casefold() == str(got).casefold()
    if isinstance(got, (int, float)) and isinstance(wanted, str):
        number = to_number(wanted)
        return number is not None and got == number
    if isinstance(got, (Mapping, list)):
        return dumps(plain(got)) == dumps(plain(wanted))
    return bool(got == wanted)


_NUMBER = re.compile(r"[-+]?(?:\d[\d,' \u00a0]*\d|\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?")


def to_number(value: Any) -> float | None:
    """A number, or the first one in a text ("about 1,234.5 EUR" is 1234.5); None without one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        return None
    for match in _NUMBER.finditer(value):
        if any(character.isdigit() for character in match.group()):
            return float(re.sub(r"[,' \u00a0]", "", match.group()))
    return None


def f1(true: float, given: float, wanted: float) -> tuple[float, float, float]:
    """F1, precision and recall. Nothing wanted and nothing given is right."""
    if not given and not wanted:
        return 1.0, 1.0, 1.0
    precision = true / given if given else 0.0
    recall = true / wanted if wanted else 0.0
    return (
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        precision,
        recall,
    )


# ---- Texts and values


@dataclass(frozen=True)
class exact:
    """1 where the answer, or its ``field``, equals what the case expects."""

    field: str | None = None
    expected: str = "expected"
    ignore_case: bool = False

    def __call__(self, answer: Any, case: Mapping[str, Any]) -> Score:
        got, wanted = field_of(answer, self.field), _wanted(case, self.expected, self.field)
        return Score(float(_same(got, wanted, self.ignore_case)), got=got, wanted=wanted)


@dataclass(frozen=True)
class contains:
    """1 where the answer's text holds what the case expects: all of it, where that is a list."""

    field: str | None = None
    expected: str = "expected"
    ignore_case: bool = True

    def __call__(self, answer: Any, case: Mapping[str, Any]) -> Score:
        got, wanted = field_of(answer, self.field), _wanted(case, self.expected, self.field)
        text = normal(got if isinstance(got, str) else dumps(plain(got)), self.ignore_case)
        parts = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        missing = [part for part in parts if str(normal(part, self.ignore_case)) not in text]
        reason = f"missing: {', '.join(map(str, missing))}" if missing else None
        return Score(float(not missing), reason, got, wanted)


@dataclass(frozen=True)
class regex:
    """1 where the pattern is found in the answer's text. ``pattern`` None: the case holds it, under
    ``expected``."""

    pattern: str | None = None
    field: str | None = None
    expected: str = "expected"
    ignore_case: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if self.pattern is not None:
            self._compile(self.pattern)

    def _compile(self, pattern: Any) -> re.Pattern[str]:
        try:
            return re.compile(pattern, re.IGNORECASE if self.ignore_case else 0)
        except (re.error, TypeError) as error:
            raise EvaluationError(f"{pattern!r} is no regular expression: {error}") from None

    def __call__(self, answer: Any, case: Mapping[str, Any]) -> Score:
        got = field_of(answer, self.field)
        pattern = self.pattern if self.pattern is not None else expected_of(case, self.expected)
        text = got if isinstance(got, str) else dumps(plain(got))
        compiled = self._compile(pattern)
        found = compiled.fullmatch(text) if self.whole else compiled.search(text)
        return Score(float(found is not None), got=got, wanted=pattern)


@dataclass(frozen=True)
class numeric:
    """1 where the number is within ``tolerance`` (absolute) or ``relative`` (a share of the
    expected one) of the expected. The first number of a text counts."""

    field: str | None = None
    expected: str = "expected"
    tolerance: float = 0.0
    relative: float = 0.0

    def __call__(self, answer: Any, case: Mapping[str, Any]) -> Score:
        got, wanted = field_of(answer, self.field), _wanted(case, self.expected, self.field)
        target = to_number(wanted)
        if target is None:
            raise EvaluationError(f"the case expects {wanted!r} under {self.expected!r}: no number")
        number = to_number(got)
        if number is None:
            return Score(0.0, "no number in the answer", got, wanted)
        allowed = max(self.tolerance, self.relative * abs(target))
        # A tolerance of 0.1 must hold for 1.1 and 1.0.
        right = math.isclose(number, target, rel_tol=1e-12, abs_tol=allowed * (1 + 1e-9))
        return Score(float(right), None if right else f"off by {number - target:g}", got, wanted)


# ---- Structured answers


@dataclass(frozen=True)
class set_f1:
    """F1 of a list against the expected one: order does not count, repetitions do."""

    field: str | None = None
    expected: str = "expected"
    ignore_case: bool = True

    def __call__(self, answer: Any, case: Mapping[str, Any]) -> Score:
        got, wanted = field_of(answer, self.field), _wanted(case, self.expected, self.field)
        given, target = self._counted(got), self._counted(wanted)
        hits = sum((given & target).values())
        value, precision, recall = f1(hits, sum(given.values()), sum(target.values()))
        return Score(value, None, got, wanted, {"precision": precision, "recall": recall})

    def _counted(self, value: Any) -> Counter[str]:
        if value is None or value == "":
            return Counter()
        if isinstance(value, str):
            # What a table can hold: "milk, bread".
            items: Sequence[Any] = re.split(r"[,;\n]", value)
        elif isinstance(value, (list, tuple, set, frozenset)):
            items = list(value)
        else:
            items = [value]
        return Counter(
            key
            for item in items
            if (key := dumps(plain(normal(item, self.ignore_case)))) not in ('""', "null")
        )


@dataclass(frozen=True)
class fields_f1:
    """F1 over the fields of a structured answer.

    A field counts as given where it is there and not null, and as right where it equals the
    expected one; numbers within ``tolerance``. Lists are compared as sets, field by field.
    ``fields`` names those that count, None all that are expected; ``details`` holds each field's
    own score.
    """

    fields: tuple[str, ...] | None = None
    expected: str = "expected"
    tolerance: float = 0.0
    ignore_case: bool = True

    def __post_init__(self) -> None:
        if self.fields is not None:
            if isinstance(self.fields, str):
                raise EvaluationError(f"fields must be a list of names, not {self.fields!r}")
            object.__setattr__(self, "fields", tuple(self.fields))

    def __call__(self, answer: Any, case: Mapping[str, Any]) -> Score:
        wanted = expected_of(case, self.expected)
        if not isinstance(wanted, Mapping):
            raise EvaluationError(
                f"the case expects {wanted!r} under {self.expected!r}: no fields; for one value "
                "use exact()"
            )
        if not isinstance(answer, Mapping):
            return Score(0.0, "the answer has no fields", answer, wanted)
        names = self.fields if self.fields is not None else tuple(wanted)
        for name in names:
            if not (_has_field(wanted, name) or _has_field(answer, name)):
                raise EvaluationError(
                    f"neither the answer nor what the case expects under {self.expected!r} has a "
                    f"field {name!r}; the latter has: {', '.join(map(str, wanted)) or 'none'}"
                )
        true = given = target = 0.0
        each: dict[str, float] = {}
        for name in names:
            got, want = member(answer, name), member(wanted, name)
            has, needs = got not in (None, "", []), want not in (None, "", [])
            given, target = given + has, target + needs
            each[name] = self._field(got, want) if has and needs else float(has == needs)
            true += each[name] if has and needs else 0
        value, precision, recall = f1(true, given, target)
        wrong = [name for name, score in each.items() if score < 1]
        return Score(
            value,
            f"wrong: {', '.join(wrong)}" if wrong else None,
            {name: member(answer, name) for name in names},
            {name: member(wanted, name) for name in names},
            {"precision": precision, "recall": recall, "fields": each},
        )

    def _field(self, got: Any, want: Any) -> float:
        if isinstance(want, (list, tuple)):
            score = set_f1(expected="it", ignore_case=self.ignore_case)(got, {"it": want})
            return score.value or 0.0
        if isinstance(want, (int, float)) and not isinstance(want, bool):
            score = numeric(expected="it", tolerance=self.tolerance)(got, {"it": want})
            return score.value or 0.0
        return float(_same(got, want, self.ignore_case))


@dataclass(frozen=True)
class label_match:
    """1 where the answer names the picture with the expected label.

    The answer, or its ``field``, is an ImageReference (an object with a ``label``), a label, or the
    text ``[image: LABEL]`` by which a prompt shows it.
    """

    field: str | None = None
    expected: str = "expected"

    def __call__(self, answer: Any, case: Mapping[str, Any]) -> Score:
        got = _label(field_of(answer, self.field))
        wanted = _label(_wanted(case, self.expected, self.field))
        return Score(float(got is not None and got == wanted), got=got, wanted=wanted)


def _label(value: Any) -> str | None:
    if isinstance(value, Mapping):
        for name in ("attachmentLabel", "attachment_label", "label"):
            if isinstance(value.get(name), str):
                return _label(value[name])
        return None
    for name in ("attachment_label", "label"):
        if isinstance(getattr(value, name, None), str):
            return _label(getattr(value, name))
    if not isinstance(value, str):
        return None
    match = re.fullmatch(r"\s*\[image:\s*(.+?)\s*\]\s*", value)
    return unicodedata.normalize("NFC", match.group(1) if match else value.strip())
