"""Anytime-valid tests of a set's ratio: fair bets, exact by all orders of small sets."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_memeval.metrics.sequential import RatioClaims, ThresholdTest, Unbounded

Unit = tuple[int, int, int, int]  # hits, misses, and the most of each


@st.composite
def populations(draw: st.DrawFn, most: int = 5) -> list[Unit]:
    units = []
    for _ in range(draw(st.integers(1, most))):
        hits, misses = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        units.append((hits, misses, hits + draw(st.integers(0, 3)), misses + draw(st.integers(0, 3))))
    return units


def ratio(units: list[Unit]) -> float | None:
    hits, misses = sum(unit[0] for unit in units), sum(unit[1] for unit in units)
    return hits / (hits + misses) if hits + misses else None


def claims(order: list[Unit], point: float) -> RatioClaims:
    return RatioClaims([point], [(unit[2], unit[3]) for unit in order])


@settings(max_examples=60, deadline=None)
@given(units=populations(), point=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.75, 0.9, 1.0]))
def test_capital_is_1_on_average_over_all_orders_where_the_claim_is_wrong(units: list[Unit], point: float) -> None:
    """Not an estimate: the mean over every order, at every time, for a set that is at the point, above or below it."""
    value = ratio(units)
    orders = list(itertools.permutations(units))
    total = np.zeros((len(units), 2))
    for order in orders:
        game = claims(list(order), point)
        for at, (hits, misses, _, _) in enumerate(order):
            game.add(hits, hits + misses)
            above, below = game.capital()
            total[at] += above[0], below[0]
    mean = total / len(orders)
    if value is None or value <= point:
        assert mean[:, 0].max() <= 1 + 1e-9
    if value is None or value >= point:
        assert mean[:, 1].max() <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(units=populations(), point=st.sampled_from([0.0, 0.2, 0.5, 0.75, 1.0]), level=st.sampled_from([0.5, 0.2, 0.05]))
def test_a_wrong_claim_is_made_in_no_larger_share_of_orders_than_its_level(
    units: list[Unit], point: float, level: float
) -> None:
    value = ratio(units)
    orders = list(itertools.permutations(units))
    wrong = {"above": 0, "below": 0}
    for order in orders:
        game = claims(list(order), point)
        for hits, misses, _, _ in order:
            game.add(hits, hits + misses)
        wrong["above"] += (value is None or value <= point) and bool(game.above[0] >= -math.log(level))
        wrong["below"] += (value is None or value >= point) and bool(game.below[0] >= -math.log(level))
    assert wrong["above"] <= level * len(orders) + 1e-9
    assert wrong["below"] <= level * len(orders) + 1e-9


@settings(max_examples=100, deadline=None)
@given(units=populations(most=8), point=st.floats(0, 1), seed=st.integers(0, 99))
def test_what_is_said_to_be_certain_is_so(units: list[Unit], point: float, seed: int) -> None:
    """Whatever the clusters still to come are, within their bounds."""
    random.Random(seed).shuffle(units)
    game = claims(units, point)
    for at, (hits, misses, _, _) in enumerate(units):
        game.add(hits, hits + misses)
        rest = units[at + 1 :]
        worst = [*units[: at + 1], *((0, unit[3], 0, 0) for unit in rest)]
        best = [*units[: at + 1], *((unit[2], 0, 0, 0) for unit in rest)]
        if game.above[0] == math.inf:
            assert (ratio(worst) or 0.0) > point - 1e-12
        if game.below[0] == math.inf:
            assert (ratio(best) or 0.0) < point + 1e-12


@given(units=populations(most=8), threshold=st.sampled_from([0.25, 0.5, 0.75]))
def test_at_the_end_a_set_that_is_off_its_threshold_is_decided_rightly(units: list[Unit], threshold: float) -> None:
    """With nothing left to come there is no doubt, for either direction of a gate."""
    value = ratio(units)
    for upward in (True, False):
        test = ThresholdTest(
            threshold, [[(u[2], u[3]) for u in units]], upward=upward, pass_level=1e-9, fail_level=1e-9
        )
        for hits, misses, _, _ in units:
            test.add([(hits, hits + misses)])
        if value is None or value == threshold:
            assert test.verdict is None
        else:
            assert test.verdict is ((value > threshold) == upward)
        assert test.value == value


@given(units=populations(most=6), extra=st.integers(0, 5))
def test_clusters_that_cannot_count_change_nothing(units: list[Unit], extra: int) -> None:
    plain, padded = claims(units, 0.5), claims([*([(0, 0, 0, 0)] * extra), *units], 0.5)
    for _ in range(extra):
        padded.add(0, 0)
    for hits, misses, _, _ in units:
        plain.add(hits, hits + misses)
        padded.add(hits, hits + misses)
        assert padded.capital()[0] == pytest.approx(plain.capital()[0])
        assert padded.above == pytest.approx(plain.above)


def test_a_clear_set_needs_few_clusters() -> None:
    """All right against a threshold of a half: each bet at even odds may nearly double."""
    test = ThresholdTest(0.5, [[(1, 1)] * 1_000])
    while test.verdict is None:
        test.add([(1, 1)])
    assert test.verdict is True
    assert test.ratios[0].seen <= 10


@pytest.mark.parametrize("swapped", [False, True])
def test_a_product_is_bounded_by_its_ratios(swapped: bool) -> None:
    rng = random.Random(3)
    for shares, threshold, wanted in (((0.95, 0.9), 0.5, True), ((0.5, 0.6), 0.6, False), ((0.3, 1.0), 0.5, False)):
        one, two = reversed(shares) if swapped else shares
        test = ThresholdTest(threshold, [[(4, 4)] * 400, [(3, 3)] * 400])
        for _ in range(400):
            first, second = (sum(rng.random() < share for _ in range(3)) for share in (one, two))
            test.add([(first, 3), (second, 3)])
        assert test.verdict is wanted


def test_more_than_was_said_to_be_possible_is_refused() -> None:
    for numerator, denominator in ((3, 3), (0, 5), (-1, 0), (2, 1)):
        game = RatioClaims([0.5], [(2, 4)])
        with pytest.raises(Unbounded, match="at most 2 hits and 4 misses"):
            game.add(numerator, denominator)


def test_no_more_clusters_than_there_are() -> None:
    game = RatioClaims([0.5], [(1, 1)])
    game.add(1, 1)
    with pytest.raises(IndexError):
        game.add(1, 1)


@pytest.mark.parametrize(("points", "most"), [([1.1], [(1, 1)]), ([0.5], [(-1, 1)]), ([0.5], [(1, math.inf)])])
def test_bad_input_is_refused(points: list[float], most: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError):
        RatioClaims(points, most)


def test_no_clusters() -> None:
    test = ThresholdTest(0.5, [[]])
    assert test.verdict is None
    assert test.value is None
