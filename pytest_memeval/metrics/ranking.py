"""Ranking quality of one query. Ranks count from 1; a figure is ``None`` where nothing is relevant."""

from __future__ import annotations

import math
from collections.abc import Sequence


def _gains(relevant: Sequence[str], grades: Sequence[float]) -> dict[str, float]:
    """Relevant id → gain, in the order given; an id that is listed twice keeps its larger gain."""
    if grades and len(grades) != len(relevant):
        raise ValueError(f"{len(relevant)} relevant ids but {len(grades)} grades")
    if any(not math.isfinite(grade) or grade < 0 for grade in grades):
        raise ValueError(f"grades must be finite and not negative: {list(grades)}")
    gains: dict[str, float] = {}
    for identifier, gain in zip(relevant, grades or [1.0] * len(relevant), strict=True):
        if gain > 0:
            gains[identifier] = max(gain, gains.get(identifier, 0.0))
    return gains


def _distinct(ranking: Sequence[str], k: int | None) -> list[str]:
    """The first ``k`` different ids: a repeated one counts once, at its best rank, and takes no further place."""
    if k is not None and k < 1:
        raise ValueError(f"a cut-off is at least 1, not {k}")
    return list(dict.fromkeys(ranking))[:k]


def ndcg(ranking: Sequence[str], relevant: Sequence[str], k: int = 10, *, grades: Sequence[float] = ()) -> float | None:
    """Normalised discounted cumulative gain at ``k``, in [0, 1].

    DCG = Σ gain(i) / log2(i + 1) over ranks i ≤ k (Järvelin and Kekäläinen 2002, with the discount in use since), gain
    1 for a relevant id or its grade; divided by the DCG of the best order of the first min(k, distinct relevant)
    places. An empty ranking gives 0. ValueError for k < 1 or grades that do not fit.
    """
    gains = _gains(relevant, grades)
    if not gains:
        return None
    shown = _distinct(ranking, k)
    ideal = sorted(gains.values(), reverse=True)[:k]
    # Divided by the largest gain, so that no sum overflows.
    top = ideal[0]
    reached = math.fsum(gains.get(one, 0.0) / top / math.log2(rank + 1) for rank, one in enumerate(shown, 1))
    best = math.fsum(gain / top / math.log2(rank + 1) for rank, gain in enumerate(ideal, 1))
    return min(1.0, reached / best)


def reciprocal_rank(ranking: Sequence[str], relevant: Sequence[str], k: int | None = None) -> float | None:
    """1 / rank of the first relevant id, 0 if there is none (among the first ``k``). Its mean over queries is MRR."""
    wanted = set(relevant)
    if not wanted:
        return None
    ranks = (rank for rank, one in enumerate(_distinct(ranking, k), 1) if one in wanted)
    first = next(ranks, None)
    return 0.0 if first is None else 1.0 / first


def recall_at(ranking: Sequence[str], relevant: Sequence[str], k: int) -> float | None:
    """Share of the distinct relevant ids that are among the first ``k``."""
    wanted = set(relevant)
    if not wanted:
        return None
    return len(wanted.intersection(_distinct(ranking, k))) / len(wanted)


def hit_at(ranking: Sequence[str], relevant: Sequence[str], k: int) -> float | None:
    """1 if a relevant id is among the first ``k``, else 0."""
    wanted = set(relevant)
    if not wanted:
        return None
    return float(not wanted.isdisjoint(_distinct(ranking, k)))


def average_precision(ranking: Sequence[str], relevant: Sequence[str], k: int | None = None) -> float | None:
    """Σ over relevant hits of precision at their rank / distinct relevant ids. Its mean over queries is MAP."""
    wanted = set(relevant)
    if not wanted:
        return None
    precisions: list[float] = []
    for rank, one in enumerate(_distinct(ranking, k), 1):
        if one in wanted:
            precisions.append((len(precisions) + 1) / rank)
    return math.fsum(precisions) / len(wanted)
