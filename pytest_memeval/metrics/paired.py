"""Two variants on the same cases: how far apart they are, and whether that could be chance.

Both methods were chosen by simulation on the counts of a real run (``tests/metrics/test_metrics_paired_simulated.py``):

- The interval is that of the jackknife over clusters, with Student's t. Clusters in which the variants agree say little
  of how widely the difference varies, and one with many units outweighs its neighbours, so t has as many degrees of
  freedom as there are *differing* clusters, and no more than the effective number of all (Kish, *Survey Sampling*,
  1965, ch. 8). The linearised ratio with t(G − 1) covered only 90–93 % with 10 clusters, a percentile bootstrap 92–94 %
  with 80.
- p is that of the sign-flip permutation test with mid-p: at 10 clusters so many swaps tie that the plain p rejects a
  true null in less than 3 % of comparisons where 5 % are asked for. With fewer than five differing clusters no test by
  swaps can reject at that level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, TypeAlias

from pytest_memeval.metrics.distributions import t_quantile
from pytest_memeval.metrics.stats import (
    LARGEST,
    MIN_CLUSTERS,
    NO_DENOMINATOR,
    NO_VARIATION,
    TOO_FEW,
    Ratio,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: With fewer differing clusters no p lies at or below 0.05: of 2 ** 4 swaps the seen one and its mirror are equal.
FEWEST_TELLING = 5
#: Up to this many differing clusters every swap is counted.
EXACT_UP_TO = 16
SAMPLED_SWAPS = 10_000
#: From so many degrees of freedom on, t is taken as that of so many; its reach no longer changes in the third digit.
_MOST_DEGREES = 1_000
_CHUNK = 2_000_000
#: A metric's value is the product of the quotients of its ratios; nearly all have one.
Statistic: TypeAlias = "tuple[Ratio, ...]"


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How much a second variant differs from a first on the same clusters (second − first), with its 95 % interval.

    ``p_value`` is two-sided; ``method`` says how it was found: ``exact`` (all swaps), ``binomial`` (all swaps, in
    closed form) or ``sampled``. All are ``None`` where a variant's denominator is 0. ``clusters`` counts those measured
    in both, ``differing`` those in which the variants' counts differ. Where there is no interval, ``reason`` says why.
    """

    difference: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    p_value: float | None = None
    method: str | None = None
    clusters: int = 0
    unmeasured: int = 0
    differing: int = 0


def paired_difference(first: Ratio, second: Ratio, clusters: Sequence[str], *, seed: int = 0) -> PairedDifference:
    """``second`` − ``first`` with its interval and the p value of the sign-flip permutation test over clusters.

    Both ratios hold one entry a case, in the same order as ``clusters``. See :meth:`PairedComparison.differences`.
    """
    return PairedComparison(clusters, seed=seed).differences({"": ((first,), (second,))})[""]


class PairedComparison:
    """The clusters that two variants were measured on, and any number of metrics compared over them.

    ``clusters`` names each case's cluster. A metric's result does not depend on which others are asked for with it,
    nor on the order of the cases.
    """

    def __init__(self, clusters: Sequence[str], *, seed: int = 0) -> None:
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(clusters):
            positions.setdefault(name, []).append(position)
        self._members = [positions[name] for name in sorted(positions)]
        self._cases = len(clusters)
        self._seed = seed

    def differences(self, metrics: Mapping[str, tuple[Statistic, Statistic]]) -> dict[str, PairedDifference]:
        """Each metric's second − first, under the same names in the same order.

        Under the null hypothesis the variants are interchangeable within each cluster: every way of swapping them is
        equally likely, and p is the share of swaps whose difference is larger (in size) than the one seen, plus half
        of those whose difference is equal (mid-p). Up to 16 differing clusters all swaps are counted; above that 10,000
        random ones, or all in closed form where every differing cluster differs by the same amount.

        A case in which a number of either variant is NaN, infinite or absurdly large is left out of both and counted.
        ValueError for lists of unequal length or a negative denominator.
        """
        results: dict[str, PairedDifference] = {}
        waiting: dict[str, _Pair] = {}
        for name, (first, second) in metrics.items():
            pair = self._pair(first, second)
            results[name], sampled = pair.result()
            if sampled:
                waiting[name] = pair
        for name, p_value in self._sampled(waiting).items():
            results[name] = _with_p(results[name], p_value)
        return results

    def _pair(self, first: Statistic, second: Statistic) -> _Pair:
        import numpy as np

        columns = [column for ratio in (*first, *second) for column in (ratio.numerators, ratio.denominators)]
        if any(len(column) != self._cases for column in columns):
            raise ValueError(f"{[len(column) for column in columns]} numbers for {self._cases} cases")
        table = np.array(columns, dtype=np.float64).reshape(len(columns), self._cases).T
        if (table[:, 1::2] < 0).any():
            raise ValueError(f"a denominator is negative: {table[:, 1::2].min()}")
        measured = (np.abs(table) <= LARGEST).all(axis=1)
        table[~measured] = 0.0
        if len(self._members) == self._cases:
            sums = table[[one[0] for one in self._members]]
        else:
            # Rounded once, so that the order in which cases come cannot show.
            sums = np.array([[math.fsum(column) for column in table[one].T] for one in self._members])
        half = len(columns) // 2
        sums = sums.reshape(-1, len(columns))
        return _Pair(sums[:, :half], sums[:, half:], int((~measured).sum()))

    def _sampled(self, pairs: Mapping[str, _Pair]) -> dict[str, float]:
        """p of each pair over the same random swaps."""
        if not pairs:
            return {}
        import numpy as np

        clusters = len(self._members)
        table = np.concatenate([pair.steps for pair in pairs.values()], axis=1)
        generator = np.random.default_rng(self._seed)
        # The arrangement that was seen is one of the swaps.
        counts = {name: _Count(equal=1, total=1) for name in pairs}
        step = max(1, _CHUNK // clusters)
        for start in range(0, SAMPLED_SWAPS, step):
            size = min(step, SAMPLED_SWAPS - start)
            moved = generator.integers(0, 2, size=(size, clusters), dtype=np.int8).astype(np.float64) @ table
            at = 0
            for name, pair in pairs.items():
                width = pair.steps.shape[1]
                counts[name].add(pair, moved[:, at : at + width])
                at += width
        return {name: count.p_value for name, count in counts.items()}


def _with_p(result: PairedDifference, p_value: float) -> PairedDifference:
    from dataclasses import replace

    return replace(result, p_value=p_value, method="sampled")


class _Pair:
    """A metric's sums of both variants: a row a cluster, and numerator and denominator of each of its ratios."""

    def __init__(self, first: Floats, second: Floats, unmeasured: int) -> None:
        self.first, self.second, self.unmeasured = first, second, unmeasured
        self.totals = first.sum(axis=0), second.sum(axis=0)
        #: What swapping a cluster's variants adds to the first's sums and takes from the second's.
        self.steps = second - first
        self.differing = (self.steps != 0).any(axis=1)
        values = [float(_value(total[None, :])[0]) for total in self.totals]
        self.known = all(math.isfinite(value) and abs(value) <= LARGEST for value in values)
        self.difference = values[1] - values[0]
        #: Differences this close are equal but for rounding.
        self.slack = 1e-9 * abs(self.difference) + 1e-12 * max(map(abs, values)) if self.known else 0.0

    def result(self) -> tuple[PairedDifference, bool]:
        """All but the p value of a pair that needs sampling, and whether it does."""
        if not self.known:
            return PairedDifference(None, reason=NO_DENOMINATOR, unmeasured=self.unmeasured), False
        measured = (self.first[:, 1::2] > 0).all(axis=1) & (self.second[:, 1::2] > 0).all(axis=1)
        count, differing = int(measured.sum()), int(self.differing.sum())
        low = high = None
        reason: str | None = TOO_FEW
        if count >= MIN_CLUSTERS:
            reach = self._reach()
            reason = NO_VARIATION if reach is None else None
            if reach is not None:
                low, high = self.difference - reach, self.difference + reach
        p_value, method = self._p_value(differing)
        result = PairedDifference(
            self.difference, low, high, reason, p_value, method, count, self.unmeasured, differing
        )
        return result, p_value is None

    def _reach(self) -> float | None:
        """Half the interval's width; ``None`` where no cluster moves the difference."""
        import numpy as np

        here = (self.first[:, 1::2] > 0).any(axis=1) | (self.second[:, 1::2] > 0).any(axis=1)
        first, second = self.first[here], self.second[here]
        without = _value(self.totals[1] - second) - _value(self.totals[0] - first)
        # One without which nothing is left to measure cannot be left out.
        without = without[np.isfinite(without)]
        if len(without) < 2:
            return None
        apart = without - without.mean()
        apart[np.abs(apart) <= self.slack] = 0.0
        if not apart.any():
            return None
        error = math.sqrt((len(without) - 1) / len(without) * float(apart @ apart))
        weights = first[:, -1] / self.totals[0][-1] + second[:, -1] / self.totals[1][-1]
        effective = float(weights.sum() ** 2 / (weights @ weights)) if weights.any() else 1.0
        degrees = max(1.0, min(effective, int(self.differing[here].sum()), _MOST_DEGREES))
        reach = _t_reach(round(degrees, 2)) * error
        return reach if math.isfinite(reach) else None

    def _p_value(self, differing: int) -> tuple[float | None, str]:
        import numpy as np

        if not differing:
            return 1.0, "exact"
        steps = self.steps[self.differing]
        size = abs(steps[0, 0])
        if steps.shape[1] == 2 and not steps[:, 1].any() and (np.abs(steps[:, 0]) == size).all():
            return _binomial(int((steps[:, 0] > 0).sum()), differing), "binomial"
        if differing > EXACT_UP_TO:
            return None, "sampled"
        count = _Count()
        count.add(self, _all_swaps(differing) @ steps)
        return count.p_value, "exact"


def _value(sums: Floats) -> Floats:
    """The product of the quotients in each row; NaN where a denominator is not above 0."""
    import numpy as np

    numerators, denominators = sums[:, ::2], sums[:, 1::2]
    # What subtracting leaves of a denominator that was nothing but one cluster's is rounding.
    there = denominators > 1e-12
    quotients = np.divide(numerators, denominators, out=np.full(numerators.shape, np.nan), where=there)
    product: Floats = quotients.prod(axis=1)
    return product


@dataclass(slots=True)
class _Count:
    """Swaps by whether their difference is larger (in size) than the one seen, or equal."""

    larger: int = 0
    equal: int = 0
    total: int = 0

    def add(self, pair: _Pair, moved: Floats) -> None:
        import numpy as np

        apart = np.abs(_value(pair.totals[1] - moved) - _value(pair.totals[0] + moved)) - abs(pair.difference)
        apart = apart[np.isfinite(apart)]
        self.larger += int((apart > pair.slack).sum())
        self.equal += int((np.abs(apart) <= pair.slack).sum())
        self.total += len(apart)

    @property
    def p_value(self) -> float:
        return (self.larger + self.equal / 2) / self.total


@lru_cache(maxsize=4)
def _all_swaps(clusters: int) -> Floats:
    import numpy as np

    swaps: Floats = ((np.arange(2**clusters)[:, None] >> np.arange(clusters)) & 1).astype(np.float64)
    swaps.flags.writeable = False
    return swaps


@lru_cache(maxsize=4_096)
def _t_reach(degrees: float) -> float:
    """The 97.5 % point of t; between whole degrees of freedom interpolated in their reciprocals."""
    below = math.floor(degrees)
    reach = t_quantile(0.975, below)
    if below == degrees:
        return reach
    share = (1 / below - 1 / degrees) / (1 / below - 1 / (below + 1))
    return reach + share * (t_quantile(0.975, below + 1) - reach)


def _binomial(ups: int, n: int) -> float:
    """Two-sided mid-p sign test of ``ups`` among ``n`` equal steps (the mid-p McNemar test of binary outcomes)."""
    few = min(ups, n - ups)
    ways = 1
    below = 0  # ways to get fewer than ``few``
    for k in range(few):
        below += ways
        ways = ways * (n - k) // (k + 1)
    equal = comb(n, few) * (1 if 2 * few == n else 2)
    return (4 * below + equal) / (1 << (n + 1))


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
