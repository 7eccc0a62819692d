"""Scores, intervals and tests, against values that others worked out."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from openfm.evaluation import (
    ConfusionMatrix,
    EvaluationError,
    Score,
    contains,
    exact,
    fields_f1,
    label_match,
    numeric,
    regex,
    set_f1,
)
from openfm.evaluation._scorers import to_number
from openfm.evaluation._statistics import bootstrap_mean, paired_test


@pytest.mark.parametrize(
    ("scorer", "answer", "expected", "value"),
    [
        (exact(), " red\n", "red", 1),
        (exact(), "Red", "red", 0),
        (exact(ignore_case=True), "STRASSE", "straße", 1),
        (exact(), "e\u0301", "é", 1),
        (exact("colour"), {"colour": "red"}, "red", 1),
        (exact("colour"), {"colour": "red"}, {"colour": "red"}, 1),
        (exact("colour"), {"shape": "red"}, "red", 0),
        (exact("a.b.0"), {"a": {"b": [5]}}, 5, 1),
        (exact("n"), {"n": 5}, "5", 1),
        (exact("n"), {"n": 5.0}, 5, 1),
        (exact("n"), {"n": True}, 1, 0),
        (exact("n"), {"n": True}, "true", 1),
        (exact(), {"a": 1, "b": 2}, {"b": 2, "a": 1}, 1),
        (exact(), [1, 2], [2, 1], 0),
        (contains(), "It is a RED circle.", "red", 1),
        (contains(), "It is a red circle.", ["red", "circle"], 1),
        (contains(), "It is a red circle.", ["red", "square"], 0),
        (contains(ignore_case=False), "RED", "red", 0),
        (contains(), {"a": ["milk"]}, "milk", 1),
        (regex(r"\d{4}"), "in 1999", None, 1),
        (regex(r"\d{4}", whole=True), "in 1999", None, 0),
        (regex(), "in 1999", r"19\d\d", 1),
        (numeric(), "about 1,234.50 EUR", 1234.5, 1),
        (numeric(), "-3", "-3", 1),
        (numeric(tolerance=0.1), "1.1", 1.0, 1),
        (numeric(tolerance=0.1), "1.11", 1.0, 0),
        (numeric(relative=0.05), {"n": 1}, 1, 0),
        (numeric("n", relative=0.05), {"n": 104.9}, 100, 1),
        (numeric(), "none at all", 1, 0),
        (set_f1(), ["a", "B"], ["b", "A"], 1),
        (set_f1(), ["a", "b", "c"], ["a", "b", "d"], 2 / 3),
        (set_f1(), ["a", "a"], ["a"], 2 / 3),
        (set_f1(), "milk, bread", ["bread", "milk"], 1),
        (set_f1(), [], [], 1),
        (set_f1(), [], ["a"], 0),
        (set_f1("tags"), {"tags": ["a"]}, {"tags": ["a"]}, 1),
        (label_match(), "[image: A]", "A", 1),
        (label_match(), {"attachmentLabel": "A"}, "A", 1),
        (label_match("pick"), {"pick": "B"}, "A", 0),
    ],
)
def test_a_score(scorer: Any, answer: Any, expected: Any, value: float) -> None:
    assert scorer(answer, {"expected": expected}).value == pytest.approx(value)


@pytest.mark.parametrize("make", [exact, contains, numeric, set_f1, label_match])
@pytest.mark.parametrize("answer", ["red", 5])
def test_a_field_of_an_answer_without_fields_is_no_zero(make: Any, answer: Any) -> None:
    with pytest.raises(EvaluationError, match="has no field 'colour'"):
        make("colour")(answer, {"expected": "red"})


@pytest.mark.parametrize("make", [exact, contains, numeric, set_f1, label_match])
def test_a_field_that_is_expected_nowhere_is_neither_a_one_nor_a_zero(make: Any) -> None:
    case = {"expected": {"colour": "red", "tip": None}}
    with pytest.raises(EvaluationError, match=r"no field 'color'; it has: colour, tip\."):
        make("color")({"colour": "red"}, case)
    with pytest.raises(EvaluationError, match="no field 'color.0'"):
        make("color.0")({"colour": "red"}, case)


def test_a_field_that_is_nowhere_at_all_has_no_f1() -> None:
    case = {"expected": {"colour": "red", "tip": None}}
    assert exact("tip")({}, case).value == 1
    assert fields_f1(("tip", "colour"))({"colour": "red"}, case).value == 1
    assert fields_f1(("extra",))({"extra": 1}, case).value == 0
    with pytest.raises(EvaluationError, match=r"field 'color'; the latter has: colour, tip"):
        fields_f1(("color",))({"colour": "red"}, case)


def test_fields_are_scored_one_by_one() -> None:
    wanted = {"shop": "Bakery", "total": 12.5, "items": ["bread", "milk"], "tip": None}
    score = fields_f1(tolerance=0.01)(
        {"shop": "bakery", "total": 12.505, "items": ["bread"], "tip": 1.0}, {"expected": wanted}
    )
    # Right: 1 + 1 + 2/3 (F1 of half the items); given: 4; wanted: 3.
    right = 2 + 2 / 3
    precision, recall = right / 4, right / 3
    assert score.value == pytest.approx(2 * precision * recall / (precision + recall))
    assert score.details["fields"] == pytest.approx(
        {"shop": 1, "total": 1, "items": 2 / 3, "tip": 0}
    )
    assert score.reason == "wrong: items, tip"
    assert fields_f1(("shop",))({"shop": "x"}, {"expected": wanted}).value == 0
    assert fields_f1()("no object", {"expected": wanted}).value == 0
    with pytest.raises(EvaluationError, match="no fields"):
        fields_f1()({}, {"expected": "text"})


def test_f1_is_that_of_the_definition() -> None:
    """Against precision and recall counted over sets, for random ones."""
    generator = random.Random(5)
    for _ in range(200):
        got = {generator.randrange(8) for _ in range(generator.randrange(7))}
        wanted = {generator.randrange(8) for _ in range(generator.randrange(7))}
        hits = len(got & wanted)
        dice = 2 * hits / (len(got) + len(wanted)) if got or wanted else 1
        assert set_f1()(list(got), {"expected": list(wanted)}).value == pytest.approx(dice)


def test_numbers_in_texts() -> None:
    for text, number in [
        ("1,000", 1000.0),
        ("1 000 000", 1e6),
        ("x=-2.5e3 m", -2500.0),
        (".5", 0.5),
        ("- 7", 7.0),
        ("", None),
        ("..", None),
        (True, None),
    ]:
        assert to_number(text) == number, text


def test_what_cannot_be_scored_says_why() -> None:
    with pytest.raises(EvaluationError, match="no 'expected' to compare with; it has: text"):
        exact()("x", {"text": "y"})
    with pytest.raises(EvaluationError, match="no number"):
        numeric()("1", {"expected": "x"})
    with pytest.raises(EvaluationError, match="no regular expression"):
        regex("(")
    with pytest.raises(EvaluationError, match="a list of names"):
        fields_f1("shop")  # type: ignore[arg-type]
    with pytest.raises(EvaluationError, match="finite"):
        Score(math.nan)


def test_a_confusion_matrix_against_counts() -> None:
    generator = random.Random(3)
    labels = ["red", "green", "blue"]
    pairs = [(generator.choice(labels), generator.choice([*labels, "pink"])) for _ in range(300)]
    matrix = ConfusionMatrix.of(pairs)
    assert matrix.labels == ("blue", "green", "red", "pink")
    for i, wanted in enumerate(matrix.labels):
        for j, got in enumerate(matrix.labels):
            assert matrix.counts[i][j] == pairs.count((wanted, got))
    assert matrix.accuracy == sum(a == b for a, b in pairs) / 300
    assert matrix.recall["pink"] is None and matrix.precision["pink"] == 0
    assert matrix.recall["red"] == pairs.count(("red", "red")) / sum(a == "red" for a, _ in pairs)
    assert "<script" not in ConfusionMatrix.of([("<script>", "x")])._repr_html_()


# ---- Statistics


def test_the_bootstrap_agrees_with_numpys() -> None:
    generator = np.random.default_rng(11)
    for values in (generator.random(80), (generator.random(150) < 0.7).astype(float)):
        draws = generator.choice(values, (20_000, len(values))).mean(axis=1)
        low, high = np.quantile(draws, [0.025, 0.975])
        interval = bootstrap_mean([[float(value)] for value in values])
        assert interval is not None and interval.method == "bootstrap"
        width = high - low
        assert interval.low == pytest.approx(low, abs=width * 0.08)
        assert interval.high == pytest.approx(high, abs=width * 0.08)


def test_repeats_are_no_cases() -> None:
    """Asking the same cases four times makes the mean no surer than the cases are."""
    values = [float(index % 3 == 0) for index in range(60)]
    once = bootstrap_mean([[value] for value in values])
    often = bootstrap_mean([[value] * 4 for value in values])
    assert once is not None and often is not None
    assert (often.low, often.high) == (once.low, once.high)
    uneven = bootstrap_mean([[value] * (1 + index % 3) for index, value in enumerate(values)])
    assert uneven is not None and uneven.low < uneven.high


def test_an_interval_where_all_are_alike() -> None:
    # Wilson's interval for 20 of 20 is 0.8389 to 1 (Newcombe 1998 gives the formula).
    all_right = bootstrap_mean([[1.0]] * 20)
    assert all_right is not None and all_right.method == "wilson"
    assert (all_right.low, all_right.high) == pytest.approx((0.8389, 1.0), abs=1e-4)
    none_right = bootstrap_mean([[0.0]] * 20)
    assert none_right is not None and none_right.high == pytest.approx(1 - 0.8389, abs=1e-4)
    assert bootstrap_mean([]) is None


def test_mcnemar_by_the_book() -> None:
    """Discordant pairs 4 and 14: the two-sided exact binomial p is 0.0309."""
    first = [1.0] * 4 + [0.0] * 14 + [1.0] * 30
    second = [0.0] * 4 + [1.0] * 14 + [1.0] * 30
    test = paired_test(first, second)
    assert test is not None and test.method == "McNemar, exact"
    assert test.p == pytest.approx(0.0309, abs=5e-5)
    assert (test.better, test.worse, test.count) == (14, 4, 48)
    assert test.difference == pytest.approx(10 / 48)
    same = paired_test(first, first)
    assert same is not None and same.p == 1


def test_the_permutation_test_against_all_of_them() -> None:
    values = [0.3, -0.1, 0.25, 0.4, 0.2, -0.05, 0.35]
    flips = [
        abs(sum(v if signs >> i & 1 else -v for i, v in enumerate(values)))
        for signs in range(2 ** len(values))
    ]
    p = sum(total >= abs(sum(values)) - 1e-12 for total in flips) / len(flips)
    test = paired_test([0.5] * 7, [0.5 + value for value in values])
    assert test is not None and test.method == "permutation, exact"
    assert test.p == pytest.approx(p)


def test_the_drawn_permutation_test_against_the_normal_limit() -> None:
    generator = np.random.default_rng(2)
    values = generator.normal(0.1, 1, 200)
    z = values.sum() / math.sqrt((values**2).sum())
    test = paired_test([0.5] * 200, [0.5 + float(value) for value in values])
    assert test is not None and "draws" in test.method
    assert test.p == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=0.02)


def test_large_counts_stay_exact() -> None:
    first, second = [0.0] * 3000, [1.0] * 3000
    test = paired_test(first, second)
    assert test is not None and test.p == 0.0 and test.better == 3000
    assert paired_test([], []) is None
