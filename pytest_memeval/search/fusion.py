"""Weighted reciprocal rank fusion."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_memeval.search.errors import SearchError
from pytest_memeval.values import Hit

#: A ranking: ids best first, or (id, score) pairs whose scores are not looked at.
Ranking = Sequence[str] | Sequence[tuple[str, float]]


def fuse(
    routes: Sequence[Ranking], *, rrf_k: float = 60, weights: Sequence[float] | None = None, top_k: int | None = None
) -> list[Hit]:
    """One ranking out of several: score = Σ over routes of weight / (rrf_k + rank), ranks from 1 (Cormack, Clarke and
    Büttcher 2009, with weights).

    A document that a route lacks gets nothing from it; of an id that a route names twice the first counts, and the
    others take no place. A route of weight 0 adds no documents. Best first, ties by id. Without ``weights`` each route
    has 1. Scores are above 0. Raises :class:`SearchError` for weights or an ``rrf_k`` that are negative, not finite or
    not as many as routes.
    """
    shares = [1.0] * len(routes) if weights is None else [float(weight) for weight in weights]
    if len(shares) != len(routes):
        raise SearchError(f"{len(routes)} routes but {len(shares)} weights")
    if any(not (math.isfinite(share) and share >= 0) for share in shares):
        raise SearchError(f"weights must be finite and not negative: {shares}")
    if not (math.isfinite(rrf_k) and rrf_k >= 0):
        raise SearchError(f"rrf_k must be 0 or more, not {rrf_k:g}")
    parts: dict[str, list[float]] = {}
    for route, share in zip(routes, shares, strict=True):
        if share > 0:
            distinct = dict.fromkeys(entry if isinstance(entry, str) else entry[0] for entry in route)
            for rank, identifier in enumerate(distinct, 1):
                parts.setdefault(identifier, []).append(share / (rrf_k + rank))
    # An exact sum: two documents with the same parts tie, in whatever order the parts come.
    scores = [(identifier, math.fsum(found)) for identifier, found in parts.items()]
    scores.sort(key=lambda pair: (-pair[1], pair[0]))
    return [Hit(identifier, score) for identifier, score in scores[:top_k]]
