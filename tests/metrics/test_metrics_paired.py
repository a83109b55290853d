from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_memeval.metrics import paired
from pytest_memeval.metrics.paired import PairedComparison, holm, paired_difference
from pytest_memeval.metrics.stats import NO_DENOMINATOR, NO_VARIATION, TOO_FEW, Ratio


def names(count: int) -> list[str]:
    return [f"case-{number:04d}" for number in range(count)]


def binary(values: list[int]) -> Ratio:
    return Ratio(values, [1] * len(values))


def swap_p_value(first: Ratio, second: Ratio) -> float:
    """The permutation test by trying every swap of the two variants; half of the ties count."""

    def apart(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> float:
        def quotient(pairs: list[tuple[float, float]]) -> float:
            return math.fsum(x for x, _ in pairs) / math.fsum(y for _, y in pairs)

        return abs(quotient(b) - quotient(a))

    one = list(zip(first.numerators, first.denominators, strict=True))
    two = list(zip(second.numerators, second.denominators, strict=True))
    seen = apart(one, two)
    larger = equal = total = 0
    for mask in itertools.product([False, True], repeat=len(one)):
        a = [y if swap else x for x, y, swap in zip(one, two, mask, strict=True)]
        b = [x if swap else y for x, y, swap in zip(one, two, mask, strict=True)]
        difference = apart(a, b)
        total += 1
        larger += difference > seen + 1e-9
        equal += abs(difference - seen) <= 1e-9
    return (larger + equal / 2) / total


ratios = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=6
)


@given(ratios)
@settings(max_examples=60, deadline=None)  # the first example imports numpy
def test_p_is_the_share_of_swaps(cases: list[tuple[int, int, int, int]]) -> None:
    first = Ratio([c[0] for c in cases], [c[1] for c in cases], high=None)
    second = Ratio([c[2] for c in cases], [c[3] for c in cases], high=None)
    result = paired_difference(first, second, names(len(cases)))
    assert result.p_value is not None
    differing = any((a, b) != (c, d) for a, b, c, d in cases)
    wanted = swap_p_value(first, second) if differing else 1.0
    assert result.p_value == pytest.approx(wanted, abs=1e-9)
    back = paired_difference(second, first, names(len(cases)))
    assert back.p_value == pytest.approx(result.p_value, abs=1e-9)
    assert back.difference == pytest.approx(-(result.difference or 0), abs=1e-12)


@pytest.mark.parametrize(("ups", "downs"), [(0, 1), (3, 3), (9, 1), (12, 30), (1, 80)])
def test_mid_p_of_binary_outcomes_is_the_mid_p_mcnemar_test(ups: int, downs: int) -> None:
    n = ups + downs
    first = binary([0] * ups + [1] * downs + [1, 0])
    second = binary([1] * ups + [0] * downs + [1, 0])
    few = min(ups, downs)
    mass = [math.comb(n, k) / 2**n for k in range(n + 1)]
    mid = 2 * math.fsum(mass[:few]) + mass[few] if ups != downs else 1 - mass[few] / 2
    result = paired_difference(first, second, names(n + 2))
    assert result.method == "binomial"
    assert result.p_value == pytest.approx(mid)


def test_sampled_swaps_come_near_to_all_swaps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    first = Ratio([rng.randint(0, 5) for _ in range(14)], [5] * 14)
    second = Ratio([rng.randint(1, 5) for _ in range(14)], [5] * 14)
    exact = paired_difference(first, second, names(14))
    assert exact.method == "exact"
    monkeypatch.setattr(paired, "EXACT_UP_TO", 3)
    sampled = paired_difference(first, second, names(14))
    assert sampled.method == "sampled"
    assert exact.p_value is not None
    assert 0.01 < exact.p_value < 0.99
    assert sampled.p_value == pytest.approx(exact.p_value, abs=0.02)
    assert sampled == paired_difference(first, second, names(14))


@pytest.mark.parametrize("count", [10, 60])
def test_interval(count: int) -> None:
    rng = random.Random(5)
    before = [rng.randint(0, 8) for _ in range(count)]
    first, second = Ratio(before, [10] * count), Ratio([x + 1 + x % 2 for x in before], [10] * count)
    result = paired_difference(first, second, names(count))
    assert result.low is not None
    assert result.high is not None
    assert result.difference is not None
    assert 0.1 <= result.low < result.difference < result.high <= 0.2
    assert result.p_value is not None
    assert result.p_value < 0.01
    assert result.clusters == count


def test_cases_of_one_conversation_are_swapped_together() -> None:
    # Six cases but two clusters: only four swaps, of which two are as large and count half.
    result = paired_difference(binary([0] * 6), binary([1] * 6), ["a", "a", "a", "b", "b", "b"])
    assert result.p_value == 1 / 4
    assert result.reason == TOO_FEW


def test_reasons() -> None:
    same = binary([1, 0, 1, 1, 0, 0])
    result = paired_difference(same, same, names(6))
    assert (result.difference, result.p_value, result.low, result.reason) == (0, 1, None, NO_VARIATION)
    nothing = paired_difference(Ratio([0], [0]), Ratio([1], [1]), names(1))
    assert (nothing.difference, nothing.p_value, nothing.reason) == (None, None, NO_DENOMINATOR)


def test_f02_hostile_floats() -> None:
    values = [1.0, math.nan, math.inf, 1e308, 0.5, 0.25, 0.1, 0.9]
    first, second = Ratio(values, [1] * 8), Ratio([0.5] * 7 + [math.nan], [1] * 8)
    result = paired_difference(first, second, names(8))
    # A case that one variant does not measure is left out of both.
    kept = paired_difference(Ratio([1.0, 0.5, 0.25, 0.1], [1] * 4), Ratio([0.5] * 4, [1] * 4), names(4))
    assert (result.unmeasured, result.clusters) == (4, 4)
    assert (result.difference, result.p_value) == (kept.difference, kept.p_value)
    json.dumps(asdict(result), allow_nan=False)


class TestHolm:
    def test_known_values(self) -> None:
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
        assert holm([0.04, None, 0.03]) == [0.06, None, 0.06]
        assert holm([]) == []

    @given(st.lists(st.floats(0, 1), max_size=8))
    def test_properties(self, p_values: list[float]) -> None:
        adjusted = holm(p_values)
        for p, q in zip(p_values, adjusted, strict=True):
            assert q is not None
            assert p <= q <= min(1, len(p_values) * p + 1e-15)
        assert [p for _, p in sorted(zip(adjusted, p_values, strict=True))] == sorted(p_values)

    def test_a_share_outside_its_range(self) -> None:
        with pytest.raises(ValueError, match="p values"):
            holm([0.5, 1.5])
        with pytest.raises(ValueError, match="p values"):
            holm([math.nan])


class TestComparison:
    def test_metrics_do_not_influence_each_other(self) -> None:
        rng = random.Random(8)
        count = 40

        def some() -> Ratio:
            return Ratio([rng.randint(0, 6) for _ in range(count)], [rng.randint(1, 6) for _ in range(count)])

        metrics = {name: ((some(),), (some(),)) for name in "abc"}
        together = PairedComparison(names(count)).differences(metrics)
        for name, (first, second) in metrics.items():
            assert paired_difference(first[0], second[0], names(count)) == together[name]

    def test_a_product_of_two_ratios(self) -> None:
        rng = random.Random(2)
        count = 30
        units = [rng.randint(1, 5) for _ in range(count)]
        ones = Ratio(units, units)
        first, second = (Ratio([rng.randint(0, unit) for unit in units], units) for _ in range(2))
        plain = paired_difference(first, second, names(count))
        same = PairedComparison(names(count)).differences({"": ((ones, first), (ones, second))})[""]
        # A factor that is 1 in every cluster changes nothing.
        assert same.difference == pytest.approx(plain.difference)
        assert same.low == pytest.approx(plain.low)
        assert same.p_value == pytest.approx(plain.p_value, abs=1e-3)

    def test_few_differing_clusters_tell_little(self) -> None:
        before = [1, 0] * 40
        after = [1 - before[0], 1 - before[1], *before[2:]]
        few = paired_difference(binary(before), binary([before[0], 1, *before[2:]]), names(80))
        assert (few.differing, few.clusters) == (1, 80)
        assert few.low is not None
        assert few.low < 0 < (few.high or 0)
        assert few.p_value == 0.5
        even = paired_difference(binary(before), binary(after), names(80))
        assert even.difference == 0
        assert even.p_value is not None
        assert even.p_value > 0.5

    @given(st.lists(st.tuples(*[st.floats(allow_nan=True, allow_infinity=True)] * 4), max_size=25))
    @settings(max_examples=80, deadline=None)
    def test_f02_any_numbers(self, rows: list[tuple[float, float, float, float]]) -> None:
        first = Ratio([row[0] for row in rows], [abs(row[1]) for row in rows])
        second = Ratio([row[2] for row in rows], [abs(row[3]) for row in rows])
        result = paired_difference(first, second, names(len(rows)))
        json.dumps(asdict(result), allow_nan=False)
        assert result.p_value is None or 0 <= result.p_value <= 1
        assert (result.low is None) == (result.high is None)
        assert (result.low is None) == (result.reason is not None)

    def test_lists_that_do_not_fit(self) -> None:
        with pytest.raises(ValueError, match="for 3 cases"):
            paired_difference(binary([1, 0]), binary([1, 1]), names(3))
        with pytest.raises(ValueError, match="negative"):
            paired_difference(Ratio([1], [-1]), binary([1]), names(1))
        assert paired_difference(binary([]), binary([]), []).reason == NO_DENOMINATOR
