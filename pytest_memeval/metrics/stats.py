"""95 % intervals for metrics that are sums over clusters.

A *cluster* is what varies independently: a conversation with all its questions; a distillation case is one of its own.
Every metric is a ratio of sums over cases, Σ numerators / Σ denominators. Its interval is, below 30 clusters, that of
the linearised ratio (Cochran, *Sampling Techniques*, 1977, ch. 6) with Student's t, else a percentile bootstrap over
clusters. Wilson's interval is used for proportions with one observation a cluster, and only for those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_memeval.metrics.distributions import t_quantile, wilson
from pytest_memeval.metrics.resampling import resampled_sums
from pytest_memeval.metrics.tallies import quotient

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: With fewer clusters no interval is given.
MIN_CLUSTERS = 5
#: From this many clusters on, the bootstrap takes over from the t interval.
BOOTSTRAP_FROM = 30
RESAMPLES = 2_000
#: A number beyond this size measures nothing, as NaN and infinity do not: sums of squares must stay finite.
LARGEST = 1e100

NO_DENOMINATOR = "nothing to measure"
TOO_FEW = f"fewer than {MIN_CLUSTERS} clusters"
NO_VARIATION = "no variation between clusters"
LEFT_OUT = "left out: the run was interrupted"
NOT_FINITE = "the numbers are too far apart for an interval"

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric's value with its 95 % interval.

    ``value`` is ``None`` with denominator 0. ``low`` and ``high`` are ``None`` together, and then ``reason`` says why.
    ``units`` is Σ denominators; ``cases`` and ``clusters`` count those with a denominator above 0. ``unmeasured``
    counts the cases left out because a number was NaN, infinite or absurdly large.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    units: float = 0
    cases: int = 0
    clusters: int = 0
    unmeasured: int = 0


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric's numerators and denominators, one a case.

    ``low`` and ``high`` bound its values (``None``: no upper bound) and clip the interval. ``proportion`` asks for
    Wilson's interval where every cluster turns out to have one observation of 0 or 1.
    """

    numerators: Sequence[float]
    denominators: Sequence[float]
    low: float = 0.0
    high: float | None = 1.0
    proportion: bool = False


def _measures(numerator: float, denominator: float) -> bool:
    return abs(numerator) <= LARGEST and denominator <= LARGEST  # false for NaN too


class ClusterSums:
    """A ratio's sums per cluster, clusters in order of their names. Sums are rounded once, so that the order in which
    cases come cannot show."""

    def __init__(self, ratio: Ratio, members: Sequence[Sequence[int]], cases: int) -> None:
        numerators, denominators = list(ratio.numerators), list(ratio.denominators)
        if len(numerators) != cases or len(denominators) != cases:
            raise ValueError(f"{len(numerators)} numerators and {len(denominators)} denominators for {cases} cases")
        if any(denominator < 0 for denominator in denominators):
            raise ValueError(f"a denominator is negative: {min(denominators)}")
        self.ratio = ratio
        self.unmeasured = 0
        for position, (numerator, denominator) in enumerate(zip(numerators, denominators, strict=True)):
            if not _measures(numerator, denominator):
                numerators[position] = denominators[position] = 0
                self.unmeasured += 1
        self.cases = sum(1 for denominator in denominators if denominator)
        if len(members) == cases:
            self.numerators = [numerators[one[0]] for one in members]
            self.denominators = [denominators[one[0]] for one in members]
        else:
            self.numerators = [math.fsum(numerators[i] for i in one) for one in members]
            self.denominators = [math.fsum(denominators[i] for i in one) for one in members]
        self.clusters = sum(1 for denominator in self.denominators if denominator)
        self.numerator = math.fsum(self.numerators)
        self.units = math.fsum(self.denominators)
        value = quotient(self.numerator, self.units)
        self.value = value if value is not None and abs(value) <= LARGEST else None
        self.residuals = self._residuals()

    def _residuals(self) -> list[float]:
        """How far each cluster moves the ratio, to first order; they sum to 0."""
        if self.value is None:
            return [0.0] * len(self.numerators)
        value, units = self.value, self.units
        residuals = []
        for x, y in zip(self.numerators, self.denominators, strict=True):
            expected = value * y
            apart = x - expected
            # What rounding alone leaves is no variation.
            residuals.append(apart / units if abs(apart) > 1e-12 * abs(expected) else 0.0)
        return residuals

    @property
    def is_plain_proportion(self) -> bool:
        """Whether each cluster with a denominator has one case, and that is 0 or 1 of 1."""
        return self.cases == self.clusters and all(
            y == 0 or (y == 1 and x in (0, 1)) for x, y in zip(self.numerators, self.denominators, strict=True)
        )

    @property
    def columns(self) -> tuple[Sequence[float], Sequence[float]]:
        return self.numerators, self.denominators

    def estimate(self, interval: Interval | None) -> Estimate:
        return make_estimate(
            self.value,
            interval,
            low=self.ratio.low,
            high=self.ratio.high,
            units=self.units,
            cases=self.cases,
            clusters=self.clusters,
            unmeasured=self.unmeasured,
        )


def why_no_interval(value: float | None, clusters: int) -> str:
    if value is None:
        return NO_DENOMINATOR
    return TOO_FEW if clusters < MIN_CLUSTERS else NO_VARIATION


def make_estimate(
    value: float | None,
    interval: Interval | None,
    *,
    low: float,
    high: float | None,
    units: float,
    cases: int,
    clusters: int,
    unmeasured: int,
) -> Estimate:
    """An estimate with its interval clipped to [``low``, ``high``], or with the reason for having none."""
    if value is None or interval is None:
        return Estimate(value, None, None, why_no_interval(value, clusters), units, cases, clusters, unmeasured)
    below, above = interval
    if not (math.isfinite(below) and math.isfinite(above)):
        return Estimate(value, None, None, NOT_FINITE, units, cases, clusters, unmeasured)
    clipped = (max(low, below), above if high is None else min(high, above))
    return Estimate(value, *clipped, None, units, cases, clusters, unmeasured)


def t_interval(value: float, residuals: Iterable[float], clusters: int) -> Interval:
    """value ± t(G − 1) · √(G / (G − 1) · Σ residual²) for G clusters, G > 1."""
    error = math.sqrt(clusters / (clusters - 1) * math.fsum(residual * residual for residual in residuals))
    reach = t_quantile(0.975, clusters - 1) * error
    return value - reach, value + reach


class ClusterBootstrap:
    """The clusters of a set's cases, and intervals of any number of metrics over them.

    ``clusters`` names each case's cluster. All metrics asked for in one call share their resamples: each resample draws
    as many clusters as there are, with replacement, from the clusters in order of their names. The same input gives the
    same intervals whatever order the cases come in. ``resample=False`` leaves out every interval that needs resamples,
    for whoever cannot wait. ValueError for less than one resample.
    """

    def __init__(
        self, clusters: Sequence[str], *, seed: int = 0, resamples: int = RESAMPLES, resample: bool = True
    ) -> None:
        if resamples < 1:
            raise ValueError(f"at least one resample is needed, not {resamples}")
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(clusters):
            positions.setdefault(name, []).append(position)
        self._members = [positions[name] for name in sorted(positions)]
        self._cases = len(clusters)
        self.seed = seed
        self.resamples = resamples
        self.resample = resample

    def __len__(self) -> int:
        return len(self._members)

    def sums(self, ratio: Ratio) -> ClusterSums:
        """The ratio's sums per cluster. ValueError for lists of another length or a negative denominator."""
        return ClusterSums(ratio, self._members, self._cases)

    def paired_sums(self, first: Ratio, second: Ratio) -> tuple[ClusterSums, ClusterSums, int]:
        """The sums of two ratios without the cases in which either measures nothing, and how many those are."""
        pairs = [list(zip(one.numerators, one.denominators, strict=True)) for one in (first, second)]
        positions = range(min(len(pairs[0]), len(pairs[1])))
        dropped = [i for i in positions if not (_measures(*pairs[0][i]) and _measures(*pairs[1][i]))]
        for i in dropped:
            pairs[0][i] = pairs[1][i] = (0, 0)
        one, two = (
            self.sums(replace(ratio, numerators=[x for x, _ in own], denominators=[y for _, y in own]))
            for ratio, own in zip((first, second), pairs, strict=True)
        )
        return one, two, len(dropped)

    def estimates(self, ratios: Mapping[str, Ratio]) -> dict[str, Estimate]:
        """Each ratio's value and interval, under the same names in the same order."""
        sums = {name: self.sums(ratio) for name, ratio in ratios.items()}
        intervals: dict[str, Interval | None] = {}
        waiting: list[str] = []
        for name, one in sums.items():
            intervals[name] = None
            if one.value is None or one.clusters < MIN_CLUSTERS or not any(one.residuals):
                continue
            if one.ratio.proportion and one.is_plain_proportion:
                intervals[name] = wilson(one.numerator, one.clusters)
            elif one.clusters < BOOTSTRAP_FROM:
                intervals[name] = t_interval(one.value, one.residuals, one.clusters)
            else:
                waiting.append(name)
        if not self.resample:
            estimates = {name: one.estimate(intervals[name]) for name, one in sums.items()}
            return {**estimates, **{name: replace(estimates[name], reason=LEFT_OUT) for name in waiting}}
        columns = [sums[name].columns for name in waiting]
        intervals.update(zip(waiting, self.percentiles(columns, lambda quotients: quotients[0]), strict=True))
        return {name: one.estimate(intervals[name]) for name, one in sums.items()}

    def product(self, first: Ratio, second: Ratio, *, low: float = 0.0, high: float | None = 1.0) -> Estimate:
        """The product of two ratios: the delta method below 30 clusters, else the bootstrap of the product.

        ``units`` and ``cases`` are those of ``second``; ``clusters`` is the smaller of the two ratios' numbers.
        """
        one, two, unmeasured = self.paired_sums(first, second)
        value = None if one.value is None or two.value is None else one.value * two.value
        clusters = min(one.clusters, two.clusters)
        interval: Interval | None = None
        left_out = False
        if one.value is not None and two.value is not None and value is not None and clusters >= MIN_CLUSTERS:
            residuals = [two.value * a + one.value * b for a, b in zip(one.residuals, two.residuals, strict=True)]
            left_out = not self.resample and clusters >= BOOTSTRAP_FROM and any(residuals)
            if not left_out:
                interval = self.combined(one, two, value, residuals, clusters, lambda a, b: a * b)
        estimate = make_estimate(
            value,
            interval,
            low=low,
            high=high,
            units=two.units,
            cases=two.cases,
            clusters=clusters,
            unmeasured=unmeasured,
        )
        return replace(estimate, reason=LEFT_OUT) if left_out else estimate

    def combined(
        self,
        one: ClusterSums,
        two: ClusterSums,
        value: float,
        residuals: Sequence[float],
        clusters: int,
        combine: Callable[[Floats, Floats], Floats],
    ) -> Interval | None:
        """The interval of ``combine`` of two ratios, whose linearised residuals are given."""
        if not any(residuals):
            return None
        if clusters < BOOTSTRAP_FROM:
            return t_interval(value, residuals, clusters)
        return self.percentiles([(*one.columns, *two.columns)], lambda quotients: combine(quotients[0], quotients[1]))[
            0
        ]

    def percentiles(
        self, statistics: Sequence[tuple[Sequence[float], ...]], value: Callable[[list[Floats]], Floats]
    ) -> list[Interval | None]:
        """The 2.5 and 97.5 percentiles of each statistic over the resamples.

        A statistic is ``value`` of the quotients of its columns (numerators, denominators, …, one number a cluster).
        Resamples with a denominator of 0 are left out; ``None`` where none remains.
        """
        if not statistics:
            return []
        import numpy as np

        width = len(statistics[0])
        table = np.array([column for columns in statistics for column in columns], dtype=np.float64).T
        resampled = resampled_sums(np.ascontiguousarray(table), self.seed, self.resamples)
        results: list[Interval | None] = []
        for start in range(0, len(statistics) * width, width):
            block = resampled[:, start : start + width]
            kept = block[(block[:, 1::2] > 0).all(axis=1)]
            if not len(kept):
                results.append(None)
                continue
            low, high = np.percentile(value([kept[:, i] / kept[:, i + 1] for i in range(0, width, 2)]), [2.5, 97.5])
            results.append((float(low), float(high)))
        return results


def ratio_estimate(
    numerators: Sequence[float],
    denominators: Sequence[float],
    clusters: Sequence[str],
    *,
    low: float = 0.0,
    high: float | None = 1.0,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Σ numerators / Σ denominators over cases with its 95 % interval, clipped to [``low``, ``high``].

    One number a case in each list; ``clusters`` names each case's cluster. Fewer than 5 clusters, or no variation
    between them: no interval, with the reason. A case with denominator 0 is left out; one with NaN or infinity too, and
    is counted as unmeasured. ValueError for lists of unequal length or a negative denominator.
    """
    ratio = Ratio(numerators, denominators, low, high)
    return ClusterBootstrap(clusters, seed=seed, resamples=resamples).estimates({"": ratio})[""]


def proportion_estimate(
    numerators: Sequence[float], denominators: Sequence[float], clusters: Sequence[str], *, seed: int = 0
) -> Estimate:
    """As :func:`ratio_estimate`, with Wilson's interval where every cluster has one observation of 0 or 1."""
    ratio = Ratio(numerators, denominators, proportion=True)
    return ClusterBootstrap(clusters, seed=seed).estimates({"": ratio})[""]


def product_estimate(
    first: Ratio,
    second: Ratio,
    clusters: Sequence[str],
    *,
    low: float = 0.0,
    high: float | None = 1.0,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The product of two ratios over the same cases with its interval (see :meth:`ClusterBootstrap.product`)."""
    return ClusterBootstrap(clusters, seed=seed, resamples=resamples).product(first, second, low=low, high=high)
