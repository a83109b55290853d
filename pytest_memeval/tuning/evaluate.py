"""Weighted reciprocal rank fusion of two routes for all combinations at once.

A document's score is w / (k + r) of the text route plus (1 - w) / (k + r') of the vector route; a route that does not
return it adds nothing. Only the ranks of relevant documents are needed: one more than the number of documents with a
larger score, or with the same score and an id that comes first. So nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_memeval.tuning.quality import ABSENT, Truths
from pytest_memeval.tuning.queries import TuningError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_memeval.tuning.quality import Ranks

    Floats = NDArray[np.float64]

#: Scores held at once: 16 MB.
_CHUNK_FLOATS = 2_000_000


@dataclass(frozen=True)
class RouteRanks:
    """The ranks that each route gives each query's documents.

    ``ids`` are the corpus, sorted. ``text`` has a row a query and a column a document, counted from 1, 0 where the
    route does not return it. ``vector`` likewise; ``None`` where there are no vectors.
    """

    ids: tuple[str, ...]
    text: NDArray[np.int32]
    vector: NDArray[np.int32] | None

    def __post_init__(self) -> None:
        if list(self.ids) != sorted(set(self.ids)):
            raise TuningError("the ids of a rank table are sorted and different")
        for table in (self.text, self.vector):
            if table is not None and (table.ndim != 2 or table.shape != (len(self.text), len(self.ids))):
                raise TuningError(f"a rank table of {table.shape} does not fit {len(self.ids)} documents")


def rank_row(ranking: Sequence[str], columns: Mapping[str, int]) -> NDArray[np.int32]:
    """A ranking as a row of ranks; a repeated id counts once, at its best place. TuningError for an unknown id."""
    import numpy as np

    row = np.zeros(len(columns), dtype=np.int32)
    for place, one in enumerate(dict.fromkeys(ranking), 1):
        if one not in columns:
            raise TuningError(f"a route returned {one!r}, which the corpus does not hold")
        row[columns[one]] = place
    return row


def fused_ranks(routes: RouteRanks, truths: Truths, rrf_k: Sequence[float], text_weight: Sequence[float]) -> Ranks:
    """The rank of each relevant document (columns as in :class:`Truths`) under each pair of ``rrf_k`` and weight.

    Time grows with pairs × queries × returned documents × relevant documents a query; memory stays below 100 MB.
    """
    import numpy as np

    if len(rrf_k) != len(text_weight):
        raise TuningError(f"{len(rrf_k)} values of rrf_k for {len(text_weight)} weights")
    column_of = {one: column for column, one in enumerate(routes.ids)}
    k = np.asarray(rrf_k, dtype=np.float64)[:, None]
    weight = np.asarray(text_weight, dtype=np.float64)[:, None]
    ranks = np.full((len(k), truths.columns), ABSENT, dtype=np.int32)
    for number, query in enumerate(truths.queries):
        text = routes.text[number]
        vector = routes.vector[number] if routes.vector is not None else np.zeros_like(text)
        returned = np.flatnonzero((text > 0) | (vector > 0))
        # Where each relevant document stands among the returned ones; -1 for one that no route returns.
        places = np.full(len(routes.ids), -1)
        places[returned] = np.arange(len(returned))
        wanted = [int(places[column_of[one]]) for one in query.relevant]
        if max(wanted) < 0:
            continue
        step = max(1, _CHUNK_FLOATS // len(returned))
        for start in range(0, len(k), step):
            rows = slice(start, start + step)
            scores = _route_scores(text[returned], k[rows], weight[rows])
            scores += _route_scores(vector[returned], k[rows], 1.0 - weight[rows])
            for column, place in zip(range(*truths.slice_of(number).indices(truths.columns)), wanted, strict=True):
                if place >= 0:
                    ranks[rows, column] = _place(scores, place)
    return ranks


def _route_scores(ranks: NDArray[np.int32], k: Floats, weight: Floats) -> Floats:
    import numpy as np

    # An infinite rank adds exactly nothing.
    far = np.where(ranks > 0, ranks.astype(np.float64), np.inf)
    scores: Floats = weight / (k + far)
    return scores


def _place(scores: Floats, place: int) -> NDArray[np.int64]:
    """The rank of one document in each row. Documents are in the order of their ids, which decides between equals."""
    import numpy as np

    own = scores[:, place, None]
    before: NDArray[np.int64] = np.count_nonzero(scores[:, :place] >= own, axis=1)
    after: NDArray[np.int64] = np.count_nonzero(scores[:, place + 1 :] > own, axis=1)
    # What only a route of weight 0 returns is not returned.
    return np.where(own[:, 0] > 0, before + after + 1, ABSENT)
