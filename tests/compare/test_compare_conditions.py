from __future__ import annotations

from typing import Any

import pytest
from compare_samples import changed, counts_case, report_of

from pytest_memeval.compare.build import compare_reports
from pytest_memeval.compare.conditions import Verdict, judge, parse_condition
from pytest_memeval.metrics.thresholds import ThresholdError
from pytest_memeval.report.reader import records_of


def verdict(text: str, a: dict[str, Any], b: dict[str, Any]) -> Verdict:
    return judge(parse_condition(text), records_of(a), records_of(b), compare_reports(a, b))


BEFORE = report_of(
    [counts_case(number, 4, 1, 1, difficulty="hard" if number > 4 else "easy") for number in range(1, 9)]
)
AFTER = report_of(
    [
        counts_case(number, *((2, 2, 2) if number > 4 else (4, 1, 1)), difficulty="hard" if number > 4 else "easy")
        for number in range(1, 9)
    ]
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("l1.dimension_micro_f1 < -0.02", True),
        ("l1.dimension_micro_f1<-0.5", False),
        ("diff:l1.dimension_micro_f1 <= 0", True),
        ("Δ l1.dimension_micro_f1 > 0", False),
        ("Δl1.dimension_micro_f1{difficulty=easy} < 0", False),
        ("l1.dimension_micro_f1{difficulty = hard} < -0.2", True),
        ("l1.per_dimension_f1.family < 0", True),
        ("newly_errored > 0", False),
        ("vanished >= 0", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    found = verdict(text, BEFORE, AFTER)
    assert found.holds is holds
    assert found.fails is holds


def test_rounding_is_no_difference() -> None:
    # 0.8 - 0.8 is never below 0, whatever its last digit says.
    assert verdict("l1.dimension_micro_f1 < 0", BEFORE, BEFORE).holds is False
    assert parse_condition("l1.memory_recall < -0.02").holds(-0.02 - 1e-12) is False


def test_what_cannot_be_told_fails() -> None:
    other = changed(AFTER, matcher={"similarity": "hybrid"})
    for text, after in (("l15.action_accuracy < 0", AFTER), ("l1.dimension_micro_f1 < -0.9", other)):
        found = verdict(text, BEFORE, after)
        assert (found.value, found.holds, found.fails) == (None, None, True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("l1.dimension_micro_f2 < 0", "did you mean 'l1.dimension_micro_f1'"),
        ("l1.dimension_micro_f1", "a condition is"),
        ("l1.dimension_micro_f1 < x", "is not a number"),
        ("newly_erored > 0", "nor a number of cases; did you mean 'newly_errored'"),
        ("something > 0", "is not a metric path"),
        ("< 0", "a condition is"),
        ("l1.memory_recall < nan", "is not a number"),
    ],
)
def test_bad_conditions_are_told(text: str, sentence: str) -> None:
    with pytest.raises(ThresholdError, match=sentence):
        parse_condition(text)
