"""What tuning would have gained on queries that it did not see.

The best of many combinations looks better than it is on the queries that made it the best. Here the choice is made
on some groups of queries and measured on the others; each group is left out once in every repetition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_memeval.metrics.stats import NO_VARIATION, TOO_FEW, ratio_estimate
from pytest_memeval.tuning.selection import CLOSE, Measured
from pytest_memeval.tuning.space import Params

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_FOLDS = 5
#: How often the groups are dealt into folds anew: the gain should not hang on one deal.
REPEATS = 10


@dataclass(frozen=True)
class CrossValidation:
    """The mean gain over the current values on queries left out, with its 95 % interval over groups.

    ``gain`` is ``None`` with fewer than two groups. ``low`` and ``high`` are ``None`` together, and then ``reason``
    says why. ``apparent_gain`` is the gain of the chosen combination on the queries that chose it. ``choices`` are the
    tuned parameters that the training parts chose, with the share of each, most frequent first.
    """

    folds: int
    repeats: int
    apparent_gain: float
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    choices: tuple[tuple[Params, float], ...] = ()

    @property
    def beyond_zero(self) -> bool:
        """Whether the gain is above 0 with its interval; without variation between groups, whether it is above 0."""
        if self.gain is None:
            return False
        if self.low is None:
            return self.reason == NO_VARIATION and self.gain > CLOSE
        return self.low > 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "folds": self.folds,
            "repeats": self.repeats,
            "gain": self.gain,
            "interval": None if self.low is None else [self.low, self.high],
            "reason": self.reason,
            "apparent_gain": self.apparent_gain,
            "choices": [{"params": params, "share": share} for params, share in self.choices],
        }


def cross_validate(measured: Measured, *, folds: int = DEFAULT_FOLDS, seed: int = 0) -> CrossValidation:
    """The cross-validated gain of choosing with :meth:`Measured.choose`. Folds are at most as many as groups."""
    import numpy as np

    groups = len(measured.sizes)
    queries = float(measured.sizes.sum())
    apparent = float(measured.differences[measured.choose()].sum()) / queries
    folds = min(folds, groups)
    if folds < 2:
        return CrossValidation(folds, 0, apparent, reason=TOO_FEW)
    generator = np.random.default_rng([seed, groups])
    # With as many folds as groups every deal is the same.
    repeats = 1 if folds == groups else REPEATS
    gained = np.zeros(groups)
    chosen: Counter[int] = Counter()
    for _ in range(repeats):
        for left_out, kept in _deal(generator, groups, folds):
            row = measured.choose(kept)
            gained[left_out] += measured.differences[row, left_out]
            chosen[row] += 1
    gained /= repeats
    estimate = ratio_estimate(gained.tolist(), measured.sizes.tolist(), measured.groups, low=-1.0, high=1.0, seed=seed)
    shares = [(measured.space.tuned(measured.params[row]), n / (folds * repeats)) for row, n in chosen.most_common()]
    return CrossValidation(
        folds, repeats, apparent, estimate.value, estimate.low, estimate.high, estimate.reason, tuple(shares)
    )


def _deal(generator: np.random.Generator, groups: int, folds: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(groups left out, groups kept) of each fold, of sizes that differ by one at most."""
    import numpy as np

    fold_of = np.empty(groups, dtype=np.int64)
    fold_of[generator.permutation(groups)] = np.arange(groups) % folds
    return [(np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)) for fold in range(folds)]
