"""Resamples of clusters, against the plain loop that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_memeval.metrics.resampling import resampled_sums


def one_by_one(table: np.ndarray, seed: int, resamples: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    clusters = len(table)
    rows = [np.bincount(generator.integers(0, clusters, clusters), minlength=clusters) for _ in range(resamples)]
    return np.array(rows, dtype=np.float64) @ table


# The last two have more draws than are kept, in one chunk and in several.
@pytest.mark.parametrize(
    ("clusters", "resamples"), [(1, 5), (2, 7), (31, 200), (250, 2_000), (251, 2_000), (999, 2_000)]
)
@pytest.mark.parametrize("seed", [0, 3])
def test_draws_are_those_of_one_resample_after_the_other(clusters: int, resamples: int, seed: int) -> None:
    table = np.random.default_rng(9).integers(0, 50, (clusters, 4)).astype(np.float64)
    assert np.array_equal(resampled_sums(table, seed, resamples), one_by_one(table, seed, resamples))


def test_another_table_of_the_same_size_is_drawn_alike() -> None:
    first = resampled_sums(np.eye(40), 0, 100)
    assert np.array_equal(resampled_sums(2 * np.eye(40), 0, 100), 2 * first)
    assert np.array_equal(resampled_sums(np.eye(40), 0, 100), first)
    assert not np.array_equal(resampled_sums(np.eye(40), 1, 100), first)
