"""Whether a gain found by trying many combinations is more than luck.

Both tests are of the sign-flip kind over groups of queries: if two combinations are equally good, each group's
difference could as well have had the other sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_memeval.tuning.selection import Measured

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Up to so many groups every choice of signs is counted; beyond, so many random ones.
EXACT_UP_TO = 12
SAMPLED_FLIPS = 4_999
_COMPARED = 50
_CHUNK_FLOATS = 4_000_000


def gain_p_value(measured: Measured, row: int, *, seed: int = 0) -> float:
    """One-sided p that a combination is no better than the current values, adjusted for all that were tried.

    The share of sign flips under which the largest studentised gain of *any* combination is at least the one seen for
    ``row`` (single-step maxT, Westfall and Young 1993). 1 where the combination is the current one.
    """
    import numpy as np

    # Combinations that measured the same are one.
    differences = np.unique(measured.differences, axis=0)
    differences = differences[np.any(differences != 0, axis=1)]
    own = measured.differences[row]
    if not own.any():
        return 1.0
    seen = own.sum() / np.sqrt(np.square(own).sum())
    scaled = differences / np.sqrt(np.square(differences).sum(axis=1, keepdims=True))
    return _share_of_flips(scaled, float(seen), seed)


def worst_alternative_p_value(measured: Measured, *, seed: int = 0) -> float:
    """One-sided p that some combination that measured differently is as good as the current values.

    The largest of the single comparisons' p values (intersection-union test, Berger 1982): small only if the current
    values are better than every alternative. 1 where nothing measured differently.
    """
    import numpy as np

    differences = np.unique(measured.differences, axis=0)
    differences = differences[np.any(differences != 0, axis=1)]
    if not len(differences):
        return 1.0
    lost = -differences / np.sqrt(np.square(differences).sum(axis=1, keepdims=True))
    statistics = lost.sum(axis=1)
    # p falls with the statistic but for the shape of the differences, so the lowest ones have the largest.
    lowest = np.argsort(statistics, kind="stable")[:_COMPARED]
    return max(_share_of_flips(lost[[one]], float(statistics[one]), seed) for one in lowest)


def _share_of_flips(scaled: Floats, seen: float, seed: int) -> float:
    """The share of sign flips (the one seen among them) whose largest statistic is at least the one seen."""
    import numpy as np

    groups = scaled.shape[1]
    used = np.flatnonzero(np.any(scaled != 0, axis=0))
    columns = np.ascontiguousarray(scaled[:, used].T)
    exact = len(used) <= EXACT_UP_TO
    total = 2 ** len(used) if exact else SAMPLED_FLIPS
    generator = np.random.default_rng([seed, groups])
    step = max(1, _CHUNK_FLOATS // max(1, len(scaled)))
    reached = 0
    for start in range(0, total, step):
        size = min(step, total - start)
        if exact:
            bits = (np.arange(start, start + size)[:, None] >> np.arange(len(used))) & 1
        else:
            bits = generator.integers(0, 2, size=(size, len(used)), dtype=np.int8)
        reached += int(((1.0 - 2.0 * bits) @ columns >= seen - 1e-9).any(axis=1).sum())
    return reached / total if exact else (reached + 1) / (total + 1)
