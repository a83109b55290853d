"""What two routes return for the queries: why fusing them differently can, or cannot, matter."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pytest_memeval.tuning.evaluate import RouteRanks
from pytest_memeval.tuning.quality import Truths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Depth at which the routes' first hits are compared.
DEPTH = 10


@dataclass(frozen=True)
class Diagnosis:
    """Counts over all queries.

    ``overlap`` is the mean over queries of the documents that both routes have among their first ten, divided by those
    that either has; ``None`` where no query has any. ``in_both`` counts (query, document) pairs that both routes
    return, ``at_different_ranks`` those of them whose ranks differ: only these, and documents of one route
    alone, can move when fusion changes. ``relevant_in_both`` and ``relevant_in_neither`` count relevant documents.
    """

    queries: int
    vectors: bool
    empty_text: int
    empty_vector: int
    overlap: float | None
    in_both: int
    at_different_ranks: int
    same_order: int
    relevant: int
    relevant_in_both: int
    relevant_in_neither: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(routes: RouteRanks, truths: Truths) -> Diagnosis:
    """The diagnosis of two routes' rank tables. ``same_order`` counts queries that both routes rank alike."""
    import numpy as np

    text = routes.text
    vector = routes.vector if routes.vector is not None else np.zeros_like(text)
    both = (text > 0) & (vector > 0)
    relevant = np.zeros(text.shape, dtype=bool)
    column_of = {one: column for column, one in enumerate(routes.ids)}
    for number, query in enumerate(truths.queries):
        relevant[number, [column_of[one] for one in query.relevant]] = True
    return Diagnosis(
        queries=len(truths),
        vectors=routes.vector is not None,
        empty_text=int((~(text > 0).any(axis=1)).sum()),
        empty_vector=int((~(vector > 0).any(axis=1)).sum()),
        overlap=_overlap(text, vector),
        in_both=int(both.sum()),
        at_different_ranks=int((both & (text != vector)).sum()),
        same_order=int((text == vector).all(axis=1).sum()),
        relevant=int(relevant.sum()),
        relevant_in_both=int((relevant & both).sum()),
        relevant_in_neither=int((relevant & (text == 0) & (vector == 0)).sum()),
    )


def _overlap(text: NDArray[np.int32], vector: NDArray[np.int32]) -> float | None:
    first, second = ((table > 0) & (table <= DEPTH) for table in (text, vector))
    either = (first | second).sum(axis=1)
    if not either.any():
        return None
    shares = (first & second).sum(axis=1)[either > 0] / either[either > 0]
    return float(shares.mean())
