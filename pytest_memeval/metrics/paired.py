"""Two variants on the same cases: how far apart they are, and whether that could be chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from pytest_memeval.metrics.stats import (
    MIN_CLUSTERS,
    NO_DENOMINATOR,
    RESAMPLES,
    ClusterBootstrap,
    ClusterSums,
    Interval,
    Ratio,
    why_no_interval,
)

#: Up to this many differing clusters every swap is counted.
EXACT_UP_TO = 16
SAMPLED_SWAPS = 10_000
_CHUNK = 2_000_000


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How much a second variant differs from a first on the same clusters (second − first), with its 95 % interval.

    ``p_value`` is two-sided; ``method`` says how it was found: ``exact`` (all swaps), ``binomial`` (all swaps, in
    closed form) or ``sampled``. All are ``None`` where a variant's denominator is 0. ``clusters`` counts those measured
    in both. Where there is no interval, ``reason`` says why.
    """

    difference: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    p_value: float | None = None
    method: str | None = None
    clusters: int = 0
    unmeasured: int = 0


def paired_difference(
    first: Ratio,
    second: Ratio,
    clusters: Sequence[str],
    *,
    binary: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> PairedDifference:
    """``second`` − ``first`` with its interval and the p value of the sign-flip permutation test over clusters.

    Under the null hypothesis the variants are interchangeable within each cluster: every way of swapping them is
    equally likely, and p is the share of swaps whose difference is at least as large as the one seen. With ``binary``
    (one right or wrong a cluster) ties with it count half (mid-p). Up to 16 differing clusters all swaps are counted;
    above that 10,000 random ones, or all in closed form where every differing cluster differs by the same amount.

    Both ratios hold one entry a case, in the same order as ``clusters``. ValueError as in
    :func:`~pytest_memeval.metrics.stats.ratio_estimate`.
    """
    bootstrap = ClusterBootstrap(clusters, seed=seed, resamples=resamples)
    one, two, unmeasured = bootstrap.paired_sums(first, second)
    if one.value is None or two.value is None:
        return PairedDifference(None, reason=NO_DENOMINATOR, unmeasured=unmeasured)
    count = sum(1 for a, b in zip(one.denominators, two.denominators, strict=True) if a and b)
    difference = two.value - one.value
    interval: Interval | None = None
    if count >= MIN_CLUSTERS:
        residuals = [b - a for a, b in zip(one.residuals, two.residuals, strict=True)]
        interval = bootstrap.combined(one, two, difference, residuals, count, lambda a, b: b - a)
    low, high = interval if interval is not None else (None, None)
    reason = None if interval is not None else why_no_interval(difference, count)
    p_value, method = _swap_test(one, two, difference, binary=binary, seed=seed)
    return PairedDifference(difference, low, high, reason, p_value, method, count, unmeasured)


def _swap_test(one: ClusterSums, two: ClusterSums, difference: float, *, binary: bool, seed: int) -> tuple[float, str]:
    # What swapping a cluster's variants adds to the first's sums and takes from the second's.
    steps = [
        (x2 - x1, y2 - y1)
        for x1, y1, x2, y2 in zip(one.numerators, one.denominators, two.numerators, two.denominators, strict=True)
        if x1 != x2 or y1 != y2
    ]
    if not steps:
        return 1.0, "exact"
    size = abs(steps[0][0])
    if all(dy == 0 and abs(dx) == size for dx, dy in steps):
        return _binomial(sum(dx > 0 for dx, _ in steps), len(steps), mid=binary), "binomial"
    larger, equal, total = _count_swaps(one, two, steps, difference, seed)
    share = (larger + equal / 2) / total if binary else (larger + equal) / total
    return share, "exact" if len(steps) <= EXACT_UP_TO else "sampled"


def _binomial(ups: int, n: int, *, mid: bool) -> float:
    """Two-sided sign test of ``ups`` among ``n`` equal steps."""
    few = min(ups, n - ups)
    ways = 1
    below = 0  # ways to get fewer than ``few``
    for k in range(few):
        below += ways
        ways = ways * (n - k) // (k + 1)
    equal = comb(n, few) * (1 if 2 * few == n else 2)
    doubled = 4 * below + (equal if mid else 2 * equal)
    return doubled / (1 << (n + 1))


def _count_swaps(
    one: ClusterSums, two: ClusterSums, steps: Sequence[tuple[float, float]], difference: float, seed: int
) -> tuple[int, int, int]:
    """How many swaps give a difference larger (in size) than the one seen, how many an equal one, how many in all."""
    import numpy as np

    table = np.array(steps, dtype=np.float64)
    exact = len(steps) <= EXACT_UP_TO
    total = 2 ** len(steps) if exact else SAMPLED_SWAPS
    generator = np.random.default_rng(seed)
    # Differences this close are equal but for rounding.
    slack = 1e-9 * abs(difference) + 1e-12 * max(abs(one.value or 0.0), abs(two.value or 0.0))
    # The arrangement that was seen is one of the sampled swaps.
    larger, equal, counted = (0, 0, 0) if exact else (0, 1, 1)
    step = max(1, _CHUNK // len(steps))
    for start in range(0, total, step):
        size = min(step, total - start)
        if exact:
            swapped = (np.arange(start, start + size)[:, None] >> np.arange(len(steps))) & 1
        else:
            swapped = generator.integers(0, 2, size=(size, len(steps)), dtype=np.int8)
        moved = swapped @ table
        first = np.array([one.numerator, one.units]) + moved
        second = np.array([two.numerator, two.units]) - moved
        measured = (first[:, 1] > 0) & (second[:, 1] > 0)
        first, second = first[measured], second[measured]
        apart = np.abs(second[:, 0] / second[:, 1] - first[:, 0] / first[:, 1]) - abs(difference)
        larger += int((apart > slack).sum())
        equal += int((np.abs(apart) <= slack).sum())
        counted += int(measured.sum())
    return larger, equal, counted


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment (Holm 1979) of p values tested together, in the order given, each in [0, 1].

    ``None`` stays ``None`` and is not counted. ValueError for a p value outside [0, 1].
    """
    known = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    if any(not 0.0 <= p <= 1.0 for p, _ in known):
        raise ValueError(f"p values lie in [0, 1]: {[p for p, _ in known]}")
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, position) in enumerate(known):
        highest = min(1.0, max(highest, (len(known) - rank) * p))
        adjusted[position] = highest
    return adjusted
