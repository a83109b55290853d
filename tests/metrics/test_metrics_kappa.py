from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.metrics.kappa import NO_UNITS, SAME_ANSWER, kappa_of_tables


def test_cohens_own_example() -> None:
    """Cohen (1960), table 1: three categories, p = 0.70, e = 0.41, kappa = 0.492."""
    table = [88, 14, 18, 10, 40, 10, 2, 6, 12]
    found = kappa_of_tables([table], 3)
    assert found.value == pytest.approx(0.492, abs=0.0005)
    assert found.agreement == pytest.approx(0.70)
    assert (found.units, found.cases) == (200, 1)
    assert found.reason == "fewer than 5 clusters"


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ([5, 0, 0, 5], 1.0),
        ([0, 5, 5, 0], -1.0),
        ([4, 4, 4, 4], 0.0),
        ([9, 0, 1, 0], 0.0),  # one of them never says yes
        ([45, 15, 25, 15], 0.1304),
    ],
)
def test_known_values(table: list[int], value: float) -> None:
    assert kappa_of_tables([table], 2).value == pytest.approx(value, abs=5e-5)


def test_without_variation_kappa_is_undefined_and_says_why() -> None:
    found = kappa_of_tables([[7, 0, 0, 0]] * 9, 2)
    assert (found.value, found.low, found.agreement, found.reason) == (None, None, 1.0, SAME_ANSWER)


@pytest.mark.parametrize("tables", [[], [[0, 0, 0, 0]] * 8])
def test_without_units_there_is_none(tables: list[list[int]]) -> None:
    found = kappa_of_tables(tables, 2)
    assert (found.value, found.units, found.cases, found.reason) == (None, 0, 0, NO_UNITS)


def test_cases_without_units_are_no_cases() -> None:
    assert kappa_of_tables([[1, 0, 0, 1]] * 4 + [[0, 0, 0, 0]] * 9, 2).cases == 4


def test_perfect_agreement_has_no_interval() -> None:
    found = kappa_of_tables([[1, 0, 0, 1]] * 12, 2)
    assert (found.value, found.low, found.reason) == (1.0, None, "no variation between clusters")


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="9 counts"):
        kappa_of_tables([[1, 2, 3, 4]], 3)


cells = st.lists(st.integers(0, 6), min_size=4, max_size=4)


@given(st.lists(cells, max_size=12))
def test_kappa_is_symmetric_in_its_labellings_and_at_most_1(tables: list[list[int]]) -> None:
    found = kappa_of_tables(tables, 2, resamples=30)
    turned = kappa_of_tables([[a, c, b, d] for a, b, c, d in tables], 2, resamples=30)
    assert found == turned
    if found.value is not None:
        assert -1.0 <= found.value <= 1.0
        assert found.agreement is not None
    if found.low is not None and found.high is not None:
        assert -1.0 <= found.low < found.high <= 1.0 + 1e-12
        assert math.isfinite(found.low)


def test_the_interval_covers_a_known_kappa() -> None:
    """60 cases of ten units each, drawn with a kappa of 0.6: 95 % of intervals hold it, give or take."""
    import numpy as np

    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(60):
        tables = generator.multinomial(10, [0.4, 0.1, 0.1, 0.4], size=60)
        found = kappa_of_tables(tables.tolist(), 2, resamples=300)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.6 <= found.high
    assert covered >= 52
