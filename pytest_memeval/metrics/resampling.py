"""Bootstrap resamples of clusters: how often each one is drawn, and the sums that come of it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Floats held at once by a chunk of resamples.
_CHUNK_FLOATS = 1_000_000
# Up to this many floats (4 MB), the draws of a number of clusters are kept for the next metric.
_CACHED_FLOATS = 500_000


def resampled_sums(table: Floats, seed: int, resamples: int) -> Floats:
    """Column sums of ``table`` (a row a cluster, at least one) in each resample, a row each.

    A resample draws as many clusters as there are, with replacement. The same seed gives the same draws.
    """
    import numpy as np

    clusters = len(table)
    if resamples * clusters <= _CACHED_FLOATS:
        sums: Floats = _kept_counts(clusters, seed, resamples) @ table
        return sums
    generator = np.random.default_rng(seed)
    result = np.empty((resamples, table.shape[1]))
    step = max(1, min(resamples, _CHUNK_FLOATS // clusters))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        result[start : start + size] = _draw_counts(generator, clusters, size) @ table
    return result


def _draw_counts(generator: np.random.Generator, clusters: int, resamples: int) -> Floats:
    """The generator's next resamples, a row each: how often each cluster was drawn."""
    import numpy as np

    picks = generator.integers(0, clusters, (resamples, clusters))
    # One count over all rows: row r counts its clusters from r * clusters on.
    picks += np.arange(0, resamples * clusters, clusters)[:, np.newaxis]
    counts = np.bincount(picks.ravel(), minlength=resamples * clusters)
    return counts.reshape(resamples, clusters).astype(np.float64)


@lru_cache(maxsize=8)
def _kept_counts(clusters: int, seed: int, resamples: int) -> Floats:
    """All resamples of a small set. A file's sections, and files of one size, share them."""
    import numpy as np

    counts = _draw_counts(np.random.default_rng(seed), clusters, resamples)
    counts.flags.writeable = False
    return counts
