"""Tests that may be looked at after every case: is a set's ratio above or below a number, told from a part of the set?

The clusters of a set are drawn in random order without replacement, and the question is about the whole set, so that
nothing is supposed of other cases. A gambler bets on each next cluster; the odds are such that, if the claim is wrong,
the capital is a non-negative supermartingale that starts at 1. By Ville's inequality it then ever reaches 1 / level
with a probability of at most ``level``, whenever one looks and stops. (Waudby-Smith and Ramdas, *Estimating means of
bounded random variables by betting*, JRSS B 2024, section 5 for drawing without replacement; Ville, 1939.)

A ratio Σx / Σy is above r if and only if Σ(x − r·y) > 0, which is a mean of bounded numbers: with a cluster's *hits* x
and *misses* y − x at most what is known beforehand, x − r·y lies in [−r · most misses, (1 − r) · most hits].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Shares of what may be staked at most. The capital is the mean of one gambler's for each, so that nothing has to be
#: tuned: it grows like the best of them, behind by no more than a factor of their number.
STAKES: tuple[float, ...] = (0.04, 0.1, 0.2, 0.35, 0.55, 0.75, 0.9, 0.98)
#: Points between a threshold and 1 at which the two ratios of a product are bounded.
POINTS = 24
#: Sums of counts and averages of trials are exact to far less than this.
SLACK = 1e-9
#: What rounding can leave of a sum that is 0, for each unit of it.
_ROUNDING = 1e-12


class Unbounded(ValueError):
    """A cluster has more hits or misses than it was said to have at most: what the tests rest on does not hold."""


class RatioClaims:
    """Evidence, cluster by cluster, that a set's ratio is above, and that it is below, each of some numbers.

    ``points`` are the numbers, each within [0, 1]. ``most`` has a pair (most hits, most misses) for every cluster of
    the set, in the order in which they are drawn; clusters with (0, 0) cannot count and are no part of the game.
    ValueError for a point outside the range or a negative bound.
    """

    def __init__(self, points: Sequence[float], most: Sequence[tuple[float, float]]) -> None:
        import numpy as np

        if any(not 0.0 <= point <= 1.0 for point in points):
            raise ValueError(f"points lie within [0, 1], not {list(points)}")
        if any(not (0.0 <= hits < math.inf and 0.0 <= misses < math.inf) for hits, misses in most):
            raise ValueError("the most hits and misses of a cluster are finite and not negative")
        self.points = tuple(points)
        self._r: Floats = np.array(points, dtype=np.float64)
        self._stakes: Floats = np.array(STAKES, dtype=np.float64)[:, None]
        self._most = [tuple(pair) for pair in most]
        self._position = 0
        self._left = sum(1 for hits, misses in self._most if hits or misses)
        # From each cluster on: the largest bounds, and their sums. Which clusters are left is known, their order not.
        self._largest = [(0.0, 0.0)] * (len(self._most) + 1)
        self._total = [(0.0, 0.0)] * (len(self._most) + 1)
        for at in range(len(self._most) - 1, -1, -1):
            (hits, misses), large, total = self._most[at], self._largest[at + 1], self._total[at + 1]
            self._largest[at] = max(large[0], hits), max(large[1], misses)
            self._total[at] = total[0] + hits, total[1] + misses
        self._sum: Floats = np.zeros(len(points))
        shape = (len(STAKES), len(points))
        self._above: Floats = np.zeros(shape)
        self._below: Floats = np.zeros(shape)
        #: log of the highest capital so far, per point; infinite once there is no doubt left.
        self.above: Floats = np.zeros(len(points))
        self.below: Floats = np.zeros(len(points))
        self.numerator = self.denominator = 0.0

    @property
    def seen(self) -> int:
        """Clusters added so far."""
        return self._position

    @property
    def value(self) -> float | None:
        """The ratio over the clusters so far; ``None`` where nothing was measured."""
        return self.numerator / self.denominator if self.denominator else None

    def capital(self) -> tuple[Floats, Floats]:
        """The capital now, of bets on above and on below, per point: what is 1 or less on average where the bet's
        claim is wrong."""
        import numpy as np

        return np.exp(self._above).mean(axis=0), np.exp(self._below).mean(axis=0)

    def add(self, numerator: float, denominator: float) -> None:
        """The next cluster's sums. Raises Unbounded for what is more than was said, IndexError after the last one."""
        import numpy as np

        hits, misses = self._most[self._position]
        if not (-SLACK <= numerator <= hits + SLACK and -SLACK <= denominator - numerator <= misses + SLACK):
            raise Unbounded(
                f"{numerator:g} of {denominator:g}, where at most {hits:g} hits and {misses:g} misses were expected"
            )
        large_hits, large_misses = self._largest[self._position]
        self._position += 1
        if not hits and not misses:
            return
        value = numerator - self._r * denominator
        # If the claim were just wrong, the clusters that are left would make up for those so far.
        expected = -self._sum / self._left
        surplus = value - expected
        low, high = -self._r * large_misses, (1 - self._r) * large_hits
        for logs, room, gain in ((self._above, expected - low, surplus), (self._below, high - expected, -surplus)):
            bets = room > SLACK
            odds = np.divide(gain, room, out=np.zeros_like(room), where=bets)
            logs += np.log1p(self._stakes * np.maximum(odds, -1.0))
        self._left -= 1
        self._sum += value
        self.numerator += numerator
        self.denominator += denominator
        self.above = np.maximum(self.above, _log_mean(self._above))
        self.below = np.maximum(self.below, _log_mean(self._below))
        left_hits, left_misses = self._total[self._position]
        # Whatever the clusters that are left turn out to be.
        nothing = _ROUNDING * (1 + self.denominator + left_hits + left_misses)
        self.above[self._sum - self._r * left_misses > nothing] = math.inf
        self.below[self._sum + (1 - self._r) * left_hits < -nothing] = math.inf

    def lower_bound(self, level: float) -> float | None:
        """The highest point that the ratio is above, with every lower point; ``None`` for none of them. Wrong with a
        probability of at most ``level`` over all times together."""
        return _furthest(zip(self.points, self.above, strict=True), level)

    def upper_bound(self, level: float) -> float | None:
        """The lowest point that the ratio is below, with every higher point."""
        return _furthest(zip(reversed(self.points), reversed(self.below), strict=True), level)


def _log_mean(logs: Floats) -> Floats:
    import numpy as np

    highest: Floats = logs.max(axis=0)
    mean: Floats = highest + np.log(np.exp(logs - highest).mean(axis=0))
    return mean


def _furthest(evidence: Iterable[tuple[float, float]], level: float) -> float | None:
    # Up to the first point that is open: a wrong bound takes a wrong verdict at one certain point, the nearest to the
    # truth, and no more is spent on the many points.
    found = None
    for point, logs in evidence:
        if logs < -math.log(level):
            break
        found = float(point)
    return found


class ThresholdTest:
    """Whether a set's ratio, or product of two ratios, meets a threshold, decided as soon as a part of it shows it.

    ``most`` has a list of bounds for each ratio (see :class:`RatioClaims`). ``threshold`` lies within [0, 1];
    ``upward`` says that the value has to lie above it, else below. A verdict that is wrong for the whole set is given
    with a probability of at most ``pass_level`` where the set misses the threshold, ``fail_level`` where it meets it.
    """

    def __init__(
        self,
        threshold: float,
        most: Sequence[Sequence[tuple[float, float]]],
        *,
        upward: bool = True,
        pass_level: float = 0.025,
        fail_level: float = 0.025,
    ) -> None:
        self.threshold, self.upward = threshold, upward
        levels = (pass_level, fail_level) if upward else (fail_level, pass_level)
        self._above_level, self._below_level = (level / len(most) for level in levels)
        steps = [0] if len(most) == 1 else range(POINTS + 1)
        points = [threshold + (1 - threshold) * step / POINTS for step in steps]
        self.ratios = tuple(RatioClaims(points, own) for own in most)
        #: ``True`` for met, ``False`` for missed, ``None`` for open. Once given it stays.
        self.verdict: bool | None = None

    def add(self, pairs: Sequence[tuple[float, float]]) -> None:
        """The next cluster's (numerator, denominator) of each ratio. Raises as :meth:`RatioClaims.add`."""
        for ratio, (numerator, denominator) in zip(self.ratios, pairs, strict=True):
            ratio.add(numerator, denominator)
        if self.verdict is None:
            above, below = self._is_above(), self._is_below()
            if above != below:
                self.verdict = above == self.upward

    def _is_above(self) -> bool:
        bounds = [ratio.lower_bound(self._above_level) for ratio in self.ratios]
        return None not in bounds and math.prod(filter(None, bounds)) >= self.threshold

    def _is_below(self) -> bool:
        # What is not bounded is at most 1.
        bounds = [ratio.upper_bound(self._below_level) for ratio in self.ratios]
        return any(bound is not None for bound in bounds) and (
            math.prod(1.0 if bound is None else bound for bound in bounds) <= self.threshold
        )

    @property
    def value(self) -> float | None:
        """The value over the clusters so far."""
        values = [ratio.value for ratio in self.ratios]
        return None if None in values else math.prod(value for value in values if value is not None)
