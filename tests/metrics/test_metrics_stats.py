from __future__ import annotations

import dataclasses
import json
import math
import random
from dataclasses import asdict
from statistics import NormalDist

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_memeval.metrics import stats
from pytest_memeval.metrics.distributions import t_quantile, wilson
from pytest_memeval.metrics.stats import (
    BOOTSTRAP_FROM,
    NO_DENOMINATOR,
    NO_VARIATION,
    NOT_FINITE,
    TOO_FEW,
    ClusterBootstrap,
    Estimate,
    Ratio,
    product_estimate,
    proportion_estimate,
    ratio_estimate,
)


def names(count: int) -> list[str]:
    return [f"case-{number:04d}" for number in range(count)]


def figures(count: int, seed: int = 0) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    denominators = [rng.randint(1, 5) for _ in range(count)]
    return [rng.randint(0, denominator) for denominator in denominators], denominators


class TestDistributions:
    @pytest.mark.parametrize(
        ("probability", "degrees", "value"),
        [
            # Closed forms: tan for one degree, √2·x / √(1 − x²) with x = 2p − 1 for two.
            (0.975, 1, math.tan(math.pi * 0.475)),
            (0.975, 2, math.sqrt(2) * 0.95 / math.sqrt(1 - 0.95**2)),
            # Printed tables.
            (0.975, 4, 2.7764451),
            (0.975, 5, 2.5705818),
            (0.975, 9, 2.2621572),
            (0.975, 28, 2.0484071),
            (0.995, 10, 3.1692727),
            (0.95, 29, 1.6991270),
        ],
    )
    def test_t_quantile(self, probability: float, degrees: int, value: float) -> None:
        assert t_quantile(probability, degrees) == pytest.approx(value, abs=1e-6)
        assert t_quantile(1 - probability, degrees) == pytest.approx(-value, abs=1e-6)

    def test_t_nears_the_normal_distribution(self) -> None:
        reaches = [t_quantile(0.975, degrees) for degrees in (1, 2, 3, 10, 30, 100, 1000)]
        assert reaches == sorted(reaches, reverse=True)
        assert t_quantile(0.975, 100_000) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-4)
        assert t_quantile(0.5, 3) == 0

    @pytest.mark.parametrize(("probability", "degrees"), [(0.0, 3), (1.0, 3), (math.nan, 3), (0.9, 0)])
    def test_t_quantile_outside_its_range(self, probability: float, degrees: int) -> None:
        with pytest.raises(ValueError, match="no quantile"):
            t_quantile(probability, degrees)

    def test_wilson(self) -> None:
        # 8 of 10: a common textbook value.
        low, high = wilson(8, 10) or (0, 0)
        assert low == pytest.approx(0.4901625, abs=1e-6)
        assert high == pytest.approx(0.9433178, abs=1e-6)
        assert wilson(0, 0) is None
        with pytest.raises(ValueError, match="3 successes of 2"):
            wilson(3, 2)

    @given(st.integers(1, 10**9), st.data())
    def test_wilson_holds_the_share(self, n: int, data: st.DataObject) -> None:
        successes = data.draw(st.integers(0, n))
        interval = wilson(successes, n)
        assert interval is not None
        low, high = interval
        assert 0 <= low <= successes / n <= high <= 1
        mirrored = wilson(n - successes, n)
        assert mirrored is not None
        assert mirrored[0] == pytest.approx(1 - high, abs=1e-9)
        assert mirrored[1] == pytest.approx(1 - low, abs=1e-9)


class TestRatioEstimate:
    def test_linearised_ratio(self) -> None:
        """Worked by hand: R = 6/10, residuals (−.2, −.2, .4, .2, −.2) / 10."""
        estimate = ratio_estimate([1, 1, 1, 2, 1], [2, 2, 1, 3, 2], names(5))
        residuals = [-0.02, -0.02, 0.04, 0.02, -0.02]
        reach = t_quantile(0.975, 4) * math.sqrt(5 / 4 * sum(z * z for z in residuals))
        assert estimate.value == 0.6
        assert estimate.low == pytest.approx(0.6 - reach)
        assert estimate.high == pytest.approx(0.6 + reach)
        assert (estimate.units, estimate.cases, estimate.clusters, estimate.reason) == (10, 5, 5, None)

    @pytest.mark.parametrize("count", [12, BOOTSTRAP_FROM + 10])
    def test_order_of_cases_does_not_show(self, count: int) -> None:
        numerators, denominators = figures(count)
        parts = [value / 7 for value in numerators]
        clusters = names(count)
        before = ratio_estimate(parts, denominators, clusters)
        order = list(range(count))
        random.Random(1).shuffle(order)
        after = ratio_estimate(
            [parts[i] for i in order], [denominators[i] for i in order], [clusters[i] for i in order]
        )
        assert before == after
        assert before.low is not None

    def test_both_methods_agree_on_many_clusters(self) -> None:
        numerators, denominators = figures(400)
        bootstrap = ratio_estimate(numerators, denominators, names(400))
        assert bootstrap.value is not None
        assert bootstrap.low is not None
        assert bootstrap.high is not None
        residuals = [
            (x - bootstrap.value * y) / sum(denominators) for x, y in zip(numerators, denominators, strict=True)
        ]
        reach = 1.96 * math.sqrt(sum(z * z for z in residuals))
        assert bootstrap.low == pytest.approx(bootstrap.value - reach, abs=0.1 * reach)
        assert bootstrap.high == pytest.approx(bootstrap.value + reach, abs=0.1 * reach)

    def test_the_seed_fixes_the_bootstrap(self) -> None:
        numerators, denominators = figures(50)
        first = ratio_estimate(numerators, denominators, names(50))
        assert first == ratio_estimate(numerators, denominators, names(50))
        assert first != ratio_estimate(numerators, denominators, names(50), seed=1)

    def test_cases_of_one_conversation_are_one_cluster(self) -> None:
        numerators, denominators = figures(40)
        clusters = [name[:-1] for name in names(40)]  # four clusters of ten
        estimate = ratio_estimate(numerators, denominators, clusters)
        assert (estimate.low, estimate.reason) == (None, TOO_FEW)
        assert (estimate.cases, estimate.clusters) == (40, 4)
        tens = ratio_estimate(numerators, denominators, [f"c{position % 8}" for position in range(40)])
        by_hand = ratio_estimate(
            [sum(numerators[start::8]) for start in range(8)],
            [sum(denominators[start::8]) for start in range(8)],
            names(8),
        )
        assert (tens.low, tens.high) == (by_hand.low, by_hand.high)

    def test_reasons(self) -> None:
        assert ratio_estimate([], [], []) == Estimate(None, reason=NO_DENOMINATOR)
        assert ratio_estimate([0, 0], [0, 0], names(2)).reason == NO_DENOMINATOR
        assert ratio_estimate([1, 0, 1, 0], [1] * 4, names(4)) == Estimate(0.5, None, None, TOO_FEW, 4, 4, 4)
        assert ratio_estimate([1] * 9, [1] * 9, names(9)).reason == NO_VARIATION
        assert ratio_estimate([0] * 50, [3] * 50, names(50)).reason == NO_VARIATION
        # 1/3 of each: no variation but for rounding.
        assert ratio_estimate([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.3, 0.6, 0.9, 1.2, 1.5, 1.8], names(6)).reason == (
            NO_VARIATION
        )

    def test_a_case_without_denominator_is_left_out(self) -> None:
        numerators, denominators = figures(8)
        with_more = ratio_estimate([*numerators, 0, 0], [*denominators, 0, 0], names(10))
        assert with_more == ratio_estimate(numerators, denominators, names(8))
        assert with_more.clusters == 8

    def test_intervals_are_clipped(self) -> None:
        numerators, denominators = [0, 1, 1, 1, 1, 1], [1] * 6
        estimate = ratio_estimate(numerators, denominators, names(6))
        assert estimate.high == 1.0
        assert ratio_estimate([1, 0, 0, 0, 0, 0], denominators, names(6)).low == 0.0
        open_ended = ratio_estimate(numerators, denominators, names(6), high=None)
        assert open_ended.high is not None
        assert open_ended.high > 1

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308])
    def test_f02_numbers_that_measure_nothing(self, bad: float) -> None:
        numerators, denominators = figures(8)
        clean = ratio_estimate(numerators, denominators, names(8))
        estimate = ratio_estimate([*numerators, bad], [*denominators, 1], names(9))
        assert estimate.unmeasured == 1
        assert (estimate.value, estimate.low, estimate.cases) == (clean.value, clean.low, 8)
        if bad > 0 or math.isnan(bad):
            assert ratio_estimate([*numerators, 1], [*denominators, bad], names(9)).unmeasured == 1
        assert ratio_estimate([bad], [1], names(1)) == Estimate(None, reason=NO_DENOMINATOR, unmeasured=1)

    @given(
        st.lists(
            st.tuples(st.floats(), st.floats(min_value=0) | st.just(math.nan), st.sampled_from("abcdefgh")), max_size=12
        )
    )
    @example([(1e100, 1e-300, name) for name in "abcdef"])
    @example([(1e100 if name == "a" else 1e-100, 5e-324, name) for name in "abcdef"])
    def test_f02_hostile_floats(self, cases: list[tuple[float, float, str]]) -> None:
        estimate = ratio_estimate(
            [c[0] for c in cases], [c[1] for c in cases], [c[2] for c in cases], low=-1e99, high=None
        )
        json.dumps(asdict(estimate), allow_nan=False)
        assert (estimate.low is None) == (estimate.high is None) == (estimate.reason is not None)

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 45)), max_size=60))
    def test_an_interval_holds_its_value(self, cases: list[tuple[int, int, int]]) -> None:
        numerators = [min(x, y) for x, y, _ in cases]
        estimate = ratio_estimate(numerators, [y for _, y, _ in cases], [f"c{c:02d}" for *_, c in cases], resamples=200)
        if estimate.low is not None and estimate.high is not None and estimate.value is not None:
            assert 0 <= estimate.low <= estimate.high <= 1
            if estimate.clusters < BOOTSTRAP_FROM:
                assert estimate.low <= estimate.value <= estimate.high

    def test_f02_an_interval_that_would_be_infinite(self) -> None:
        estimate = ratio_estimate([1e100, -1e100, 1, 1, 1, 1], [1e-80] * 6, names(6), low=-math.inf, high=None)
        assert (estimate.low, estimate.high, estimate.reason) == (None, None, NOT_FINITE)

    def test_resamples_without_denominator(self) -> None:
        percentiles = ClusterBootstrap(names(3)).percentiles([([1, 2, 3], [0, 0, 0])], lambda quotients: quotients[0])
        assert percentiles == [None]

    def test_bad_arguments(self) -> None:
        with pytest.raises(ValueError, match="2 numerators and 1 denominators for 2 cases"):
            ratio_estimate([1, 2], [1], names(2))
        with pytest.raises(ValueError, match="negative: -1"):
            ratio_estimate([1], [-1], names(1))
        with pytest.raises(ValueError, match="at least one resample"):
            ClusterBootstrap([], resamples=0)

    def test_coverage(self) -> None:
        """Of 95 % intervals over 12 clusters of unequal size and quality, about 95 % hold the truth."""
        rng = random.Random(0)
        held = 0
        for _ in range(600):
            numerators, denominators = [], []
            for _ in range(12):
                size, quality = rng.randint(2, 10), rng.betavariate(7, 3)
                denominators.append(size)
                numerators.append(sum(rng.random() < quality for _ in range(size)))
            estimate = ratio_estimate(numerators, denominators, names(12))
            assert estimate.low is not None
            assert estimate.high is not None
            held += estimate.low <= 0.7 <= estimate.high
        assert 0.92 <= held / 600 <= 0.98


class TestProportions:
    def test_one_observation_a_cluster_is_wilsons(self) -> None:
        estimate = proportion_estimate([1, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 0], names(7))
        assert (estimate.low, estimate.high) == wilson(4, 6)
        assert (estimate.value, estimate.clusters) == (4 / 6, 6)

    def test_anything_else_is_a_ratio_of_sums(self) -> None:
        numerators, denominators = figures(9)
        assert proportion_estimate(numerators, denominators, names(9)) == ratio_estimate(
            numerators, denominators, names(9)
        )
        # Two cases in one cluster; trials averaged within a case.
        for clusters, shares in (([*names(8), "case-0000"], [1, 0] * 4 + [1]), (names(9), [1, 0.5, 0] * 3)):
            assert proportion_estimate(shares, [1] * 9, clusters) == ratio_estimate(shares, [1] * 9, clusters)

    def test_too_few_or_no_variation(self) -> None:
        assert proportion_estimate([1, 0, 1, 1], [1] * 4, names(4)).reason == TOO_FEW
        assert proportion_estimate([1] * 9, [1] * 9, names(9)).reason == NO_VARIATION


class TestManyAtOnce:
    def test_each_is_as_if_alone(self) -> None:
        count = 40
        ratios = {f"m{seed}": Ratio(*figures(count, seed)) for seed in range(5)}
        ratios["few"] = Ratio([1, 0, 1] + [0] * 37, [1, 1, 1] + [0] * 37)
        ratios["some"] = Ratio([1, 0, 1, 0, 1, 1] + [0] * 34, [1] * 6 + [0] * 34)
        ratios["flat"] = Ratio([1] * count, [1] * count)
        ratios["share"] = Ratio([number % 2 for number in range(count)], [1] * count, proportion=True)
        together = ClusterBootstrap(names(count)).estimates(ratios)
        assert list(together) == list(ratios)
        for name, ratio in ratios.items():
            if name != "share":
                assert together[name] == ratio_estimate(ratio.numerators, ratio.denominators, names(count))
        assert (together["share"].low, together["share"].high) == wilson(20, 40)
        assert together["few"].reason == TOO_FEW
        assert together["flat"].reason == NO_VARIATION

    def test_no_metrics_or_no_cases(self) -> None:
        assert ClusterBootstrap(names(3)).estimates({}) == {}
        assert ClusterBootstrap([]).estimates({"a": Ratio([], [])})["a"].reason == NO_DENOMINATOR
        assert len(ClusterBootstrap(["a", "b", "a"])) == 2


class TestProducts:
    @pytest.mark.parametrize("count", [12, 60])
    def test_value_and_interval(self, count: int) -> None:
        first, second = Ratio(*figures(count, 1)), Ratio(*figures(count, 2))
        estimate = product_estimate(first, second, names(count))
        one = ratio_estimate(first.numerators, first.denominators, names(count))
        two = ratio_estimate(second.numerators, second.denominators, names(count))
        assert one.value is not None
        assert two.value is not None
        assert estimate.value == one.value * two.value
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < estimate.value < estimate.high
        assert estimate.units == two.units

    @pytest.mark.parametrize("count", [12, 60])
    def test_times_a_constant_is_the_other_ratio(self, count: int) -> None:
        numerators, denominators = figures(count, 1)
        estimate = product_estimate(Ratio(numerators, denominators), Ratio([1] * count, [2] * count), names(count))
        alone = ratio_estimate(numerators, denominators, names(count))
        assert alone.low is not None
        assert alone.high is not None
        assert estimate.low == pytest.approx(alone.low / 2)
        assert estimate.high == pytest.approx(alone.high / 2)

    def test_both_methods_agree(self) -> None:
        first, second = Ratio(*figures(29, 1)), Ratio(*figures(29, 2))
        delta = product_estimate(first, second, names(29))
        doubled = [name + suffix for suffix in "ab" for name in names(29)]
        bootstrap = product_estimate(
            Ratio([*first.numerators] * 2, [*first.denominators] * 2),
            Ratio([*second.numerators] * 2, [*second.denominators] * 2),
            doubled,
        )
        assert delta.low is not None
        assert delta.high is not None
        assert bootstrap.low is not None
        assert bootstrap.high is not None
        assert bootstrap.high - bootstrap.low == pytest.approx((delta.high - delta.low) / math.sqrt(2), rel=0.15)

    def test_reasons(self) -> None:
        some = Ratio(*figures(12))
        assert product_estimate(some, Ratio([0] * 12, [0] * 12), names(12)).reason == NO_DENOMINATOR
        assert product_estimate(some, Ratio([1] + [0] * 11, [1] * 3 + [0] * 9), names(12)).reason == TOO_FEW
        flat = Ratio([1] * 12, [2] * 12)
        assert product_estimate(flat, flat, names(12)).reason == NO_VARIATION
        assert product_estimate(flat, flat, names(12)).value == 0.25


def test_without_resamples_only_the_intervals_that_need_them_are_left_out(monkeypatch):
    def refused(*given):
        raise AssertionError("a resample was drawn")

    monkeypatch.setattr(stats, "resampled_sums", refused)
    names = [f"c{number:02}" for number in range(40)]
    spread = stats.Ratio([number % 3 for number in range(40)], [3] * 40)
    few = stats.Ratio([number % 3 for number in range(10)] + [0] * 30, [3] * 10 + [0] * 30)
    plain = stats.Ratio([number % 2 for number in range(40)], [1] * 40, proportion=True)
    level = stats.Ratio([1] * 40, [1] * 40)
    bootstrap = stats.ClusterBootstrap(names, resample=False)
    found = bootstrap.estimates({"spread": spread, "few": few, "plain": plain, "level": level})
    assert list(found) == ["spread", "few", "plain", "level"]
    assert (found["spread"].low, found["spread"].reason) == (None, stats.LEFT_OUT)
    assert found["few"].low is not None
    assert found["plain"].low is not None
    assert found["level"].reason == stats.NO_VARIATION
    assert bootstrap.product(spread, level).reason == stats.LEFT_OUT
    assert bootstrap.product(level, level).reason == stats.NO_VARIATION
    assert bootstrap.product(few, level).low is not None


def test_values_and_sizes_do_not_depend_on_resamples():
    names = [f"c{number:02}" for number in range(40)]
    spread = stats.Ratio([number % 3 for number in range(40)], [3] * 40)
    with_, without = (
        stats.ClusterBootstrap(names, resample=resample).estimates({"": spread})[""] for resample in (True, False)
    )
    assert with_.low is not None
    assert dataclasses.replace(with_, low=None, high=None, reason=stats.LEFT_OUT) == without
