"""Evaluating prompts: a table of cases, a model's answers, and how good they are.

::

    import openfm as fm
    from openfm.evaluation import exact

    result = fm.evaluate("cases.jsonl", "Which colour? {image}", scorers=exact(), out="run.jsonl")
    result.confusion_matrix()
    result.to_html("report.html")

Loaded when it is first used: ``import openfm`` costs nothing for it. pandas, polars, matplotlib and
tqdm are used where they are installed.
"""

from __future__ import annotations

from ._cache import Cache
from ._compare import Change, Comparison, compare
from ._confusion import ConfusionMatrix
from ._errors import EvaluationError, RowTimeoutError
from ._judge import llm_judge
from ._progress import Progress
from ._result import Aggregate, EvaluationResult
from ._row import Row, RowError, TokenCounts
from ._run import evaluate, evaluate_async
from ._scorers import (
    Score,
    contains,
    exact,
    fields_f1,
    label_match,
    numeric,
    regex,
    set_f1,
)
from ._statistics import Interval, PairedTest
from ._transcripts import TranscriptTurn, rerun, transcript_cases

__all__ = [
    "Aggregate",
    "Cache",
    "Change",
    "Comparison",
    "ConfusionMatrix",
    "EvaluationError",
    "EvaluationResult",
    "Interval",
    "PairedTest",
    "Progress",
    "Row",
    "RowError",
    "RowTimeoutError",
    "Score",
    "TokenCounts",
    "TranscriptTurn",
    "compare",
    "contains",
    "evaluate",
    "evaluate_async",
    "exact",
    "fields_f1",
    "label_match",
    "llm_judge",
    "numeric",
    "regex",
    "rerun",
    "set_f1",
    "transcript_cases",
]
