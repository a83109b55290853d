"""Averages, pass rates and the split of variance over trials."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.trials import average_records, pair_agreement, pass_at_k, pass_hat_k, split_variance


def test_counts_are_averaged_before_any_quotient() -> None:
    one = SectionRecord(ratios={"f1": (2, 4), "per.a": (1, 1)}, counts={"near": 1}, tables={"t": {"x": 2}})
    two = SectionRecord(ratios={"f1": (0, 1)}, counts={"near": 2}, tables={"t": {"y": 1}})
    averaged = average_records([one, two])
    assert averaged.ratios == {"f1": (1.0, 2.5), "per.a": (0.5, 0.5)}
    assert averaged.counts == {"near": 1.5}
    assert averaged.tables == {"t": {"x": 1.0, "y": 0.5}}
    with pytest.raises(ValueError, match="no trial"):
        average_records([])


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_rates_are_shares_of_all_choices(trials: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(trials)))
    chosen = list(combinations(trials, k))
    assert pass_hat_k(sum(trials), len(trials), k) == pytest.approx(sum(map(all, chosen)) / len(chosen))
    assert pass_at_k(sum(trials), len(trials), k) == pytest.approx(sum(map(any, chosen)) / len(chosen))


@pytest.mark.parametrize(("passed", "trials", "k"), [(1, 2, 3), (3, 2, 1), (0, 2, 0), (-1, 2, 1)])
def test_impossible_pass_rates(passed: int, trials: int, k: int) -> None:
    for rate in (pass_hat_k, pass_at_k):
        with pytest.raises(ValueError, match="no pass rate"):
            rate(passed, trials, k)


def test_agreement_of_groupings() -> None:
    same = {(0, 1), (2, 3)}
    assert pair_agreement([same, set(same), set(same)]) == (3.0, 3.0)
    assert pair_agreement([{(0, 1)}, {(1, 2)}]) == (0.0, 1.0)
    assert pair_agreement([{(0, 1)}, {(0, 1), (1, 2)}]) == (pytest.approx(2 / 3), 1.0)
    assert pair_agreement([set(), set()]) == (0.0, 0.0)


def test_known_components_are_found() -> None:
    """4,000 cases of 3 trials with variance 0.04 between cases and 0.09 within."""
    draw = random.Random(1)
    figures = []
    for _ in range(4000):
        own = draw.gauss(0.5, 0.2)
        figures.append([(own + draw.gauss(0, 0.3), 1.0) for _ in range(3)])
    split = split_variance(figures)
    assert split is not None
    assert split.between == pytest.approx(0.04, rel=0.1)
    assert split.within == pytest.approx(0.09, rel=0.05)
    assert split.share_within == pytest.approx(0.03 / 0.07, rel=0.1)
    assert split.error == pytest.approx(math.sqrt(0.07 / 4000), rel=0.05)
    assert split.error_twice_trials == pytest.approx(math.sqrt(0.055 / 4000), rel=0.05)
    assert split.advice == "cases"


def test_where_all_variance_is_noise_trials_do_as_well_as_cases() -> None:
    split = split_variance([[(1, 1), (0, 1)], [(0, 1), (1, 1)]] * 5)
    assert split is not None
    assert (split.between, split.share_within, split.advice) == (0.0, 1.0, "trials")
    assert split.error_twice_trials == pytest.approx(split.error_twice_cases)


def test_equal_trials_say_add_cases_and_equal_cases_say_nothing() -> None:
    split = split_variance([[(n % 2, 1)] * 2 for n in range(10)])
    assert split is not None
    assert (split.within, split.share_within, split.advice) == (0.0, 0.0, "cases")
    assert split.error_twice_trials == split.error
    same = split_variance([[(1, 2)] * 2] * 6)
    assert same is not None
    assert (same.error, same.share_within, same.advice) == (0.0, None, "none")


def test_what_cannot_be_split() -> None:
    assert split_variance([]) is None
    assert split_variance([[(1, 1), (0, 1)]] * 4) is None
    assert split_variance([[(1, 1)]] * 9) is None
    assert split_variance([[(0, 0), (0, 0)]] * 9) is None
    assert split_variance([[(math.nan, 1), (0, 1)]] * 9) is None
    with pytest.raises(ValueError, match="different numbers"):
        split_variance([[(1, 1), (0, 1)]] * 5 + [[(1, 1)] * 3])
