"""Choice, cross-validation, tests of significance and sensitivity, on tables small enough to know the answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_memeval.tuning.crossval import CrossValidation, cross_validate
from pytest_memeval.tuning.selection import Measured
from pytest_memeval.tuning.sensitivity import sensitivities
from pytest_memeval.tuning.significance import gain_p_value, worst_alternative_p_value
from pytest_memeval.tuning.space import make_space

SPACE = make_space({"rrf_k": [60, 10, 30], "bm25_weight": [0.5, 0.7]})


def measured(values: list[list[float]]) -> Measured:
    """A row a combination of SPACE (the current values are the first), a column a group of one query."""
    table = np.array(values, dtype=float)
    groups = tuple(f"g{number:02d}" for number in range(table.shape[1]))
    return Measured(SPACE, list(SPACE.combinations()), 0, table, np.ones(table.shape[1]), groups)


def test_of_equals_the_one_that_changes_least_is_best() -> None:
    table = measured([[0.5, 0.5]] * 6)
    assert table.best(table.sums.sum(axis=1)) == 0
    better = measured([[0.5, 0.5], [0.4, 0.4], [0.6, 0.6], [0.6, 0.6], [0.6, 0.6], [0.6, 0.6]])
    # rrf_k = 30 is nearer to 60 than 10 is, and leaves the weight alone.
    assert better.params[better.best(better.sums.sum(axis=1))] == {**better.params[0], "rrf_k": 30}


def test_a_parameter_that_adds_nothing_sure_goes_back() -> None:
    sure = [0.9, 0.8, 0.9, 0.8]
    noisy = [0.95, 0.85, 0.9, 0.75]
    noisier = [value + 0.05 * (-1) ** place for place, value in enumerate(sure)]
    table = measured([[0.1] * 4, [0.1] * 4, sure, noisy, [0.1] * 4, noisier])
    assert table.params[table.best(table.sums.sum(axis=1))]["bm25_weight"] in (0.5, 0.7)
    assert table.params[table.choose()] == {**table.params[0], "rrf_k": 10}


def test_p_value_of_a_gain_counts_every_sign() -> None:
    # Six groups that all gain: of 64 choices of signs only one reaches that.
    table = measured([[0.0] * 6, [0.0] * 6, [0.1, 0.2, 0.1, 0.3, 0.1, 0.1], *[[0.0] * 6] * 3])
    assert gain_p_value(table, 2) == 1 / 64
    assert gain_p_value(table, 0) == 1
    assert worst_alternative_p_value(table) > 0.9


def test_p_value_of_a_gain_grows_with_what_was_tried() -> None:
    generator = np.random.default_rng(3)
    gain = generator.normal(0.1, 0.15, 20)
    alone = measured([[0.0] * 20, [0.0] * 20, gain.tolist(), *[[0.0] * 20] * 3])
    others = [generator.normal(0, 0.15, 20).tolist() for _ in range(4)]
    among = measured([[0.0] * 20, others[0], gain.tolist(), *others[1:]])
    assert gain_p_value(alone, 2) < gain_p_value(among, 2)


def test_current_values_better_than_all_others() -> None:
    worse = [[0.9] * 8, *([0.5 + 0.01 * row + 0.02 * (column % 2) for column in range(8)] for row in range(5))]
    assert worst_alternative_p_value(measured(worse)) == 1 / 256
    worse[3] = [0.9, 0.8] * 4
    assert worst_alternative_p_value(measured(worse)) > 0.05
    assert worst_alternative_p_value(measured([[0.5] * 8] * 6)) == 1


def test_cross_validation_does_not_repeat_luck() -> None:
    """Each combination shines on one group only: whatever is chosen on the rest gains nothing on the group left out."""
    table = np.full((6, 6), 0.5)
    table[np.arange(1, 6), np.arange(1, 6)] = 1.0
    found = cross_validate(measured(table.tolist()), folds=6)
    assert found.repeats == 1
    assert found.apparent_gain >= 0
    assert found.gain == 0
    assert not found.beyond_zero


def test_cross_validation_finds_a_gain_that_holds() -> None:
    table = np.full((6, 12), 0.5)
    table[2] += np.linspace(0.1, 0.3, 12)
    found = cross_validate(measured(table.tolist()), folds=5, seed=1)
    assert found.gain == pytest.approx(0.2)
    assert found.beyond_zero
    assert found.choices == (({"rrf_k": 10, "bm25_weight": 0.5}, 1.0),)
    assert found == cross_validate(measured(table.tolist()), folds=5, seed=1)
    # Equal gains everywhere have no interval, yet they are gains.
    table[2] = 0.75
    same = cross_validate(measured(table.tolist()))
    assert (same.low, same.gain, same.beyond_zero) == (None, 0.25, True)


def test_cross_validation_of_one_group() -> None:
    found = cross_validate(measured([[0.5], [0.6], [0.5], [0.5], [0.5], [0.5]]))
    assert found.gain is None
    assert not found.beyond_zero
    assert found.as_dict()["interval"] is None
    assert not CrossValidation(2, 1, 0.1, reason="x").beyond_zero


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 9), st.integers(2, 12), st.integers(0, 5))
def test_folds_leave_every_group_out_once(folds: int, groups: int, seed: int) -> None:
    from pytest_memeval.tuning.crossval import _deal

    deal = _deal(np.random.default_rng(seed), groups, min(folds, groups))
    assert sorted(one for left_out, _ in deal for one in left_out.tolist()) == list(range(groups))
    for left_out, kept in deal:
        assert sorted([*left_out.tolist(), *kept.tolist()]) == list(range(groups))
        assert len(left_out) in (groups // len(deal), -(-groups // len(deal)))


def test_sensitivity_curves() -> None:
    combinations = list(SPACE.combinations())
    rows = {tuple(one[name] for name in SPACE.names): number for number, one in enumerate(combinations)}
    values = np.array([[0.5, 0.5], [0.5, 0.5], [0.7, 0.7], [0.7, 0.7], [0.6, 0.6], [0.6, 0.6]])
    best = combinations[2]
    found = sensitivities(SPACE, rows, values, ["a", "b"], best)
    assert found["rrf_k"].marginal == pytest.approx((0.5, 0.7, 0.6))
    assert found["rrf_k"].at_best == pytest.approx((0.5, 0.7, 0.6))
    assert found["rrf_k"].spread == pytest.approx(0.2)
    assert found["rrf_k"].changed_queries == 2
    assert found["bm25_weight"].marginal == pytest.approx((0.6, 0.6))
    assert (found["bm25_weight"].effect, found["bm25_weight"].noise) == ("none", 0.0)
    # What was not measured is no zero, and leaves the effect unknown.
    values[1] = np.nan
    part = sensitivities(SPACE, rows, values, ["a", "b"], best)
    assert part["rrf_k"].measured == (1, 2, 2)
    assert part["rrf_k"].marginal == pytest.approx((0.5, 0.7, 0.6))
    assert part["rrf_k"].effect is None
    values[:] = np.nan
    assert sensitivities(SPACE, rows, values, ["a", "b"], None)["rrf_k"].marginal == (None, None, None)
