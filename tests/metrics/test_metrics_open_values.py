"""What own figures are over all cases: shares, and values of several kinds; through JSON and over trials."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.aggregate import aggregate_sections
from pytest_memeval.metrics.distributions import wilson
from pytest_memeval.metrics.open_values import mixed_values, shares_of
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.trials import average_records
from pytest_memeval.results import CaseResult


def own(value: object, name: str = "x") -> SectionRecord:
    """A case's record of one metric as the harness makes it."""
    if isinstance(value, str):
        return SectionRecord(tables={name: {value: 1}})
    assert isinstance(value, bool | int | float)
    return SectionRecord(ratios={name: (float(value), 1.0)}, shares=(name,) if isinstance(value, bool) else ())


def section(records: list[SectionRecord], *, clusters: int | None = None) -> dict[str, object]:
    cases = [
        CaseResult(
            f"a.yaml::{n:03}", "a.yaml", f"{n:03}", "scored", sections={"metrics": one}, stages={"metrics.x": "scored"},
            cluster="" if clusters is None else f"c{n % clusters}",
        )
        for n, one in enumerate(records)
    ]  # fmt: skip
    found = aggregate_sections(cases)["metrics"]
    assert found is not None
    return found


@given(st.lists(st.booleans(), min_size=5, max_size=60), st.sampled_from([None, 6]))
def test_a_share_is_within_its_range_and_wilsons_where_each_case_stands_alone(
    values: list[bool], clusters: int | None
) -> None:
    found = section([own(value) for value in values], clusters=clusters)
    interval = found["intervals"]["x"]  # type: ignore[index]  # a section of plain JSON
    if interval is None:
        return
    assert 0 <= interval[0] <= sum(values) / len(values) <= interval[1] <= 1
    if clusters is None:
        assert interval == pytest.approx(list(wilson(sum(values), len(values))))


@pytest.mark.parametrize("other", [1, 0.0, 1.0, 0])
def test_one_number_is_enough_to_know_no_range(other: float) -> None:
    values: list[object] = [True] * 6 + [False, other]
    assert shares_of([own(value) for value in values]) == set()
    found = section([own(value) for value in values])
    assert found["intervals"]["x"][1] > 1  # type: ignore[index]  # a section of plain JSON


def test_a_record_says_it_after_it_has_been_json() -> None:
    for value, shares in ((True, ("x",)), (False, ("x",)), (1, ())):
        for form in (own(value).to_json(), own(value).shown()):
            assert ("shares" in form) is bool(shares)
            assert SectionRecord.from_json(json.loads(json.dumps(form))).shares == shares


def test_trials_are_a_share_where_each_of_them_was() -> None:
    assert average_records([own(True), own(False)]).shares == ("x",)
    assert average_records([own(True), own(1)]).shares == ()
    assert average_records([own(True), SectionRecord()]).shares == ("x",)
    averages = [average_records([own(True), own(n % 2 == 0)]) for n in range(8)]
    low, high = section(averages)["intervals"]["x"]  # type: ignore[index]  # a section of plain JSON
    assert 0 <= low < high <= 1


def test_what_is_of_several_kinds_is_counted_by_them() -> None:
    parts = SectionRecord(ratios={"x.a": (1.0, 1.0), "x.b": (1.0, 1.0)})
    assert mixed_values([own(1), own(True), own("calm"), parts]) == {"x": {"numbers": 2, "texts": 1, "mappings": 1}}
    assert mixed_values([own(1), own(0)]) == mixed_values([own("a"), own("b")]) == mixed_values([parts, parts]) == {}
    # A ratio that measures nothing is no number.
    assert mixed_values([SectionRecord(ratios={"x": (0.0, 0.0)}), own("a")]) == {}
