"""Smallest differences and needed cases follow from the spread, and the real test finds what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.metrics.paired import PairedComparison
from pytest_memeval.metrics.power import (
    clusters_needed,
    detectable_difference,
    difference_spread,
    gate_margin,
    value_spread,
)
from pytest_memeval.metrics.stats import Ratio, ratio_estimate

DEVIATIONS = st.floats(1e-3, 10.0)
CLUSTERS = st.integers(5, 5000)


def names(count: int) -> list[str]:
    return [f"case-{number:04}" for number in range(count)]


def test_the_spread_of_plain_scores_is_their_standard_deviation() -> None:
    scores = [0.1, 0.4, 0.5, 0.9, 0.8, 0.3]
    spread = value_spread((Ratio(scores, [1.0] * 6),), names(6))
    assert spread.value == pytest.approx(0.5)
    assert spread.deviation == pytest.approx(float(np.std(scores, ddof=1)))
    assert spread.clusters == 6


def test_the_spread_is_what_the_interval_is_made_of() -> None:
    numerators, denominators = [3.0, 1, 4, 1, 5, 2], [4.0, 2, 6, 3, 5, 5]
    estimate = ratio_estimate(numerators, denominators, names(6))
    spread = value_spread((Ratio(numerators, denominators),), names(6))
    assert spread.deviation is not None
    assert estimate.high is not None
    assert estimate.value is not None
    # t(0.975; 5) = 2.5706
    assert estimate.high - estimate.value == pytest.approx(2.570582 * spread.deviation / math.sqrt(6), rel=1e-6)


def test_cases_of_one_conversation_are_one_cluster() -> None:
    ratio = Ratio([1.0, 0, 1, 1, 0, 1], [1.0] * 6)
    assert value_spread((ratio,), ["a", "a", "b", "b", "c", "c"]).clusters == 3
    assert value_spread((ratio,), ["a", "a", "b", "b", "c", "c"]).deviation is None


@pytest.mark.parametrize(
    ("numerators", "denominators", "value"),
    [([1.0] * 6, [1.0] * 6, 1.0), ([1.0, 0, 1, 0], [1.0] * 4, 0.5), ([0.0] * 6, [0.0] * 6, None), ([], [], None)],
    ids=["no variation", "too few", "no denominator", "no case"],
)
def test_no_spread_where_nothing_can_be_told(
    numerators: list[float], denominators: list[float], value: float | None
) -> None:
    spread = value_spread((Ratio(numerators, denominators),), names(len(numerators)))
    assert spread.deviation is None
    assert spread.value == value


def test_the_difference_of_a_run_with_itself_has_no_spread() -> None:
    statistic = (Ratio([3.0, 1, 4, 1, 5, 2], [4.0, 2, 6, 3, 5, 5]),)
    spread = difference_spread(statistic, statistic, names(6))
    assert spread.value == 0.0
    assert spread.deviation is None


def test_a_product_has_the_spread_of_both_factors() -> None:
    generator = np.random.default_rng(3)
    scores = [Ratio(list(generator.random(40)), [1.0] * 40) for _ in range(2)]
    product = value_spread((scores[0], scores[1]), names(40))
    one, two = (value_spread((ratio,), names(40)) for ratio in scores)
    assert one.value is not None
    assert two.value is not None
    shares = [
        two.value * (x - one.value) + one.value * (y - two.value)
        for x, y in zip(scores[0].numerators, scores[1].numerators, strict=True)
    ]
    assert product.value == pytest.approx(one.value * two.value)
    assert product.deviation == pytest.approx(float(np.std(shares, ddof=1)))


@given(DEVIATIONS, CLUSTERS)
def test_more_cases_find_smaller_differences(deviation: float, clusters: int) -> None:
    one = detectable_difference(deviation, clusters)
    assert detectable_difference(deviation, clusters * 4) <= one / 2 + 1e-12
    assert detectable_difference(deviation, clusters, power=0.9) > one
    assert detectable_difference(deviation, clusters, alpha=0.01) > one
    assert 0 < gate_margin(deviation, clusters) < one


@given(DEVIATIONS, st.floats(1e-3, 1.0))
def test_the_needed_cases_are_the_fewest_that_do(deviation: float, difference: float) -> None:
    needed = clusters_needed(deviation, difference)
    if needed is None:
        assert detectable_difference(deviation, 1_000_000) > difference
        return
    assert detectable_difference(deviation, needed) <= difference
    if needed > 5:
        assert detectable_difference(deviation, needed - 1) > difference


def test_a_textbook_value() -> None:
    # Two-sided 5 %, power 80 %, d = 0.5: 33 or 34 pairs (Cohen 1988, table 2.4.1, and any calculator).
    assert clusters_needed(1.0, 0.5) in (33, 34)


@pytest.mark.parametrize("bad", [{"power": 0.0}, {"power": 1.0}, {"alpha": 0.0}, {"alpha": 1.5}])
def test_probabilities_lie_between_0_and_1(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        detectable_difference(1.0, 10, **bad)


def test_senseless_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        clusters_needed(1.0, 0.0)
    with pytest.raises(ValueError, match="at least 2"):
        detectable_difference(1.0, 1)
    with pytest.raises(ValueError, match="at least 2"):
        gate_margin(1.0, 1)


def test_the_paired_test_finds_the_detectable_difference_four_times_in_five() -> None:
    generator = np.random.default_rng(11)
    clusters, found, repeats = 40, 0, 250
    units = generator.integers(1, 7, size=(repeats, clusters)).astype(float)
    first = generator.normal(0.6, 0.2, size=(repeats, clusters))
    noise = generator.normal(0.0, 0.15, size=(repeats, clusters))
    # A long run of such clusters has this spread; each repetition sees only its own 40.
    many = generator.integers(1, 7, size=20_000).astype(float)
    apart = generator.normal(0.0, 0.15, size=20_000)
    spread = difference_spread(
        (Ratio([0.0] * 20_000, list(many)),), (Ratio(list(apart * many), list(many)),), names(20_000)
    )
    assert spread.deviation is not None
    planted = detectable_difference(spread.deviation, clusters)
    for own, one, shift in zip(units, first, noise, strict=True):
        a = Ratio(list(one * own), list(own))
        b = Ratio(list((one + shift + planted) * own), list(own))
        result = PairedComparison(names(clusters)).differences({"m": ((a,), (b,))})["m"]
        found += result.p_value is not None and result.p_value <= 0.05
    # 80 % ± three standard errors of 250 repetitions.
    assert 0.72 <= found / repeats <= 0.88
