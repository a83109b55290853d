"""What a set of cases can tell apart: the smallest difference it finds, and how many cases a wanted one needs.

Everything follows from a metric's spread over clusters. With the linearised ratio of sums (Cochran, *Sampling
Techniques*, 1977, ch. 6) a cluster's share of the value is ``r_i = (x_i − R·y_i) / Σy``; the standard error over G
clusters is ``√(G/(G−1) · Σ r_i²)``, and ``spread = error · √G`` is what stays the same when cases of the same kind are
added. A two-sided test at level ``alpha`` then finds a true difference d with probability ``power`` where
``d = (t(1 − alpha/2; G−1) + t(power; G−1)) · spread / √G`` (Cohen, *Statistical Power Analysis*, 1988, ch. 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pytest_memeval.metrics.distributions import t_quantile
from pytest_memeval.metrics.paired import Statistic
from pytest_memeval.metrics.stats import MIN_CLUSTERS, ClusterBootstrap, ClusterSums

#: More clusters than this nobody labels; a difference that needs more is said to be out of reach.
MOST_CLUSTERS = 1_000_000
#: With more degrees of freedom t no longer changes in the third digit, and takes long to find.
_MOST_DEGREES = 1_000


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric's value (or difference of two values) over ``clusters``, and its standard deviation per cluster.

    ``deviation`` is ``None`` with fewer than 5 clusters, or where no cluster differs from the others.
    """

    value: float | None
    deviation: float | None
    clusters: int


def value_spread(statistic: Statistic, clusters: Sequence[str]) -> Spread:
    """The spread of a ratio of sums, or of the product of two: one entry a case in each list, as in ``clusters``."""
    bootstrap = ClusterBootstrap(clusters)
    return _spread(*_linearised([bootstrap.sums(ratio) for ratio in statistic]))


def difference_spread(first: Statistic, second: Statistic, clusters: Sequence[str]) -> Spread:
    """The spread of ``second`` − ``first`` over the cases that both measure."""
    bootstrap = ClusterBootstrap(clusters)
    pairs = [bootstrap.paired_sums(one, two) for one, two in zip(first, second, strict=True)]
    value_a, residuals_a, count_a = _linearised([one for one, _, _ in pairs])
    value_b, residuals_b, count_b = _linearised([two for _, two, _ in pairs])
    if value_a is None or value_b is None:
        return Spread(None, None, min(count_a, count_b))
    residuals = [b - a for a, b in zip(residuals_a, residuals_b, strict=True)]
    return _spread(value_b - value_a, residuals, min(count_a, count_b))


def _linearised(sums: Sequence[ClusterSums]) -> tuple[float | None, list[float], int]:
    """The value of a product of ratios, each cluster's share of its error, and how many clusters it is over."""
    clusters = min(one.clusters for one in sums)
    values = [one.value for one in sums]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None, [], clusters
    value = math.prod(known)
    residuals = [0.0] * len(sums[0].residuals)
    for at, one in enumerate(sums):
        weight = math.prod(known[:at] + known[at + 1 :])
        residuals = [total + weight * own for total, own in zip(residuals, one.residuals, strict=True)]
    return value, residuals, clusters


def _spread(value: float | None, residuals: Sequence[float], clusters: int) -> Spread:
    if value is None or clusters < MIN_CLUSTERS or not any(residuals):
        return Spread(value, None, clusters)
    error = math.sqrt(clusters / (clusters - 1) * math.fsum(own * own for own in residuals))
    return Spread(value, error * math.sqrt(clusters), clusters)


def detectable_difference(deviation: float, clusters: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """The true difference that a two-sided test at ``alpha`` finds with probability ``power``, in the metric's unit.

    ``deviation`` (≥ 0) is that of the difference per cluster. ValueError for fewer than 2 clusters, or for ``power`` or
    ``alpha`` outside (0, 1).
    """
    _check(power, alpha)
    if clusters < 2:
        raise ValueError(f"a difference needs at least 2 clusters, not {clusters}")
    reach = _quantile(1 - alpha / 2, clusters) + max(0.0, _quantile(power, clusters))
    return reach * deviation / math.sqrt(clusters)


def clusters_needed(deviation: float, difference: float, *, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """The fewest clusters with which ``difference`` (> 0) is found with probability ``power``; at least 5.

    ``None`` where a million would not do. ValueError as in :func:`detectable_difference`.
    """
    _check(power, alpha)
    if not difference > 0:
        raise ValueError(f"the wanted difference must be above 0, not {difference}")
    low, high = MIN_CLUSTERS, MOST_CLUSTERS
    if detectable_difference(deviation, high, power=power, alpha=alpha) > difference:
        return None
    while low < high:
        middle = (low + high) // 2
        if detectable_difference(deviation, middle, power=power, alpha=alpha) <= difference:
            high = middle
        else:
            low = middle + 1
    return low


def gate_margin(deviation: float, clusters: int, *, power: float = 0.8) -> float:
    """How far beyond a threshold the true value has to lie for the gate to hold with probability ``power``.

    A gate compares the measured value, which with other cases of the same kind would have been another; a true value
    right at the threshold passes half the time. ValueError as in :func:`detectable_difference`.
    """
    _check(power, 0.05)
    if clusters < 2:
        raise ValueError(f"a margin needs at least 2 clusters, not {clusters}")
    return max(0.0, _quantile(power, clusters)) * deviation / math.sqrt(clusters)


@lru_cache(maxsize=4096)
def _quantile(probability: float, clusters: int) -> float:
    return t_quantile(probability, min(clusters - 1, _MOST_DEGREES))


def _check(power: float, alpha: float) -> None:
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} lies between 0 and 1, not {value}")
