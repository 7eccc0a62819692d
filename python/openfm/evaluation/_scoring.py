"""Scorers by name, and what they say of a row."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._cases import Case
from ._errors import EvaluationError
from ._row import Row
from ._scorers import Score, Scorer, exact, fields_f1
from ._values import code_fingerprint, dumps, plain

__all__ = ["NamedScorer", "name_scorers", "score_row"]


@dataclass(frozen=True)
class NamedScorer:
    """A scorer, its name in the result, and what tells it from another of that name."""

    name: str
    scorer: Scorer
    fingerprint: str

    @property
    def is_slow(self) -> bool:
        """Whether it waits for something, so that it may take as long as an answer."""
        return inspect.iscoroutinefunction(self.scorer) or inspect.iscoroutinefunction(
            getattr(self.scorer, "__call__", None)  # noqa: B004  its function is what is looked at
        )

    @property
    def is_ours(self) -> bool:
        """Whether it is one of this package's, which read a case's members by name."""
        return type(self.scorer).__module__.startswith(f"{__package__}.")

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "scorer": _shown(self.scorer), "sha256": self.fingerprint}


def name_scorers(
    scorers: Any, cases: Sequence[Case], schema: Mapping[str, Any] | None
) -> list[NamedScorer]:
    """Scorers as the caller gave them: a dict by name, a list, or one.

    None: where cases have ``expected``, ``exact()``, or ``fields_f1()`` if that has fields.
    """
    if scorers is None:
        scorers = _default(cases, schema)
    if isinstance(scorers, Mapping):
        pairs = [(str(name), scorer) for name, scorer in scorers.items()]
    else:
        if callable(scorers):
            scorers = [scorers]
        if isinstance(scorers, str) or not isinstance(scorers, Iterable):
            raise EvaluationError(
                "scorers must be a function of (answer, case), a list of such or a dict by name, "
                f"not {type(scorers).__name__}"
            )
        pairs = []
        for scorer in scorers:
            name = plain_name = _name_of(scorer)
            number = 2
            while any(name == taken for taken, _ in pairs):
                name, number = f"{plain_name} {number}", number + 1
            pairs.append((name, scorer))
    for name, scorer in pairs:
        if not callable(scorer) or isinstance(scorer, type):
            hint = "; call it, as in exact()" if isinstance(scorer, type) else ""
            raise EvaluationError(f"the scorer {name!r} is no function of (answer, case){hint}")
    return [NamedScorer(name, scorer, code_fingerprint(scorer)) for name, scorer in pairs]


def _default(cases: Sequence[Case], schema: Mapping[str, Any] | None) -> list[Scorer]:
    expected = [case.data["expected"] for case in cases if case.data.get("expected") is not None]
    if not expected:
        return []
    if all(isinstance(item, Mapping) for item in expected):
        return [fields_f1()]
    names = list((schema or {}).get("properties") or ())
    return [exact(names[0] if len(names) == 1 else None)]


def _name_of(scorer: Any) -> str:
    if dataclasses.is_dataclass(scorer) and not isinstance(scorer, type):
        field = getattr(scorer, "field", None)
        name = type(scorer).__name__
        return f"{name} {field}" if isinstance(field, str) else name
    found = getattr(scorer, "__name__", None) or type(scorer).__name__
    return str(found)


def _shown(scorer: Any) -> str:
    if dataclasses.is_dataclass(scorer):
        return repr(scorer)
    return str(getattr(scorer, "__qualname__", type(scorer).__qualname__))


async def score_row(
    row: Row,
    case: Case,
    scorers: Sequence[NamedScorer],
    typed: Callable[[str], Any] | None = None,
) -> bool:
    """Scores an answered row by those scorers that have not scored it yet; whether any had not.

    ``typed`` reads an answer's JSON as the caller's own functions get it. A scorer that raises
    leaves its message on the row and stops nothing.
    """
    if row.failed:
        return False
    current = {scorer.name: scorer.fingerprint for scorer in scorers}
    changed = False
    for name in [name for name in row.scored_with if current.get(name) != row.scored_with[name]]:
        row.scores.pop(name, None)
        row.score_errors.pop(name, None)
        del row.scored_with[name]
        changed = True
    for scorer in scorers:
        if scorer.name in row.scored_with and scorer.name not in row.score_errors:
            continue
        changed = True
        row.score_errors.pop(scorer.name, None)
        try:
            if scorer.is_ours:
                found = scorer.scorer(row.answer, case.data)
            else:
                answer = row.answer if typed is None else typed(dumps(row.answer))
                found = scorer.scorer(answer, case.source)
            if inspect.isawaitable(found):
                found = await found
            row.scores[scorer.name] = _score(found)
        except Exception as error:
            row.score_errors[scorer.name] = f"{type(error).__name__}: {error}"
        row.scored_with[scorer.name] = scorer.fingerprint
    return changed


def _score(found: Any) -> Score:
    if isinstance(found, Score):
        # What was compared goes into files; an object that has no JSON form is known by its text.
        return dataclasses.replace(found, got=_json(found.got), wanted=_json(found.wanted))
    if found is None:
        return Score(None)
    if isinstance(found, (bool, int, float)):
        return Score(float(found))
    if hasattr(found, "item"):
        return _score(found.item())
    raise EvaluationError(
        f"a scorer returns a number, a bool, a Score or None, not {type(found).__name__}"
    )


def _json(value: Any) -> Any:
    try:
        return plain(value)
    except EvaluationError:
        return str(value)
