"""Ranking quality of many combinations at once, from the ranks at which they put the relevant documents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.tuning.queries import LabelledQuery, TuningError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ranks = NDArray[np.int32]

#: Metrics that can be tuned for; the first three take a cut-off.
METRIC_NAMES: tuple[str, ...] = ("ndcg", "recall", "hit", "mrr", "map")
_NEED_CUT_OFF = frozenset({"ndcg", "recall", "hit"})
#: Rank of a document that was not returned: beyond any cut-off.
ABSENT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Metric:
    """``ndcg``, ``recall`` and ``hit`` have a cut-off ``k`` ≥ 1; ``mrr`` and ``map`` may have one."""

    name: str
    k: int | None

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


def parse_metric(text: str) -> Metric:
    """``ndcg@10``, ``recall@5``, ``hit@1``, ``mrr``, ``map@20`` …; ``ndcg`` alone is ``ndcg@10``. TuningError else."""
    match = re.fullmatch(r"([a-z]+)(?:@([0-9]{1,6}))?", text.strip().lower().removeprefix("search."))
    if match is None or match[1] not in METRIC_NAMES:
        name = match[1] if match is not None else text
        raise TuningError(f"unknown metric {text!r}{did_you_mean(name, METRIC_NAMES)}")
    k = int(match[2]) if match[2] else (10 if match[1] in _NEED_CUT_OFF else None)
    if k is not None and k < 1:
        raise TuningError(f"metric {text!r}: a cut-off is at least 1")
    return Metric(match[1], k)


class Truths:
    """The relevant documents of all queries side by side: query after query, a column each.

    ``starts`` has each query's first column.
    """

    def __init__(self, queries: Sequence[LabelledQuery]) -> None:
        import numpy as np

        self.queries = tuple(queries)
        sizes = np.array([len(query.relevant) for query in queries], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.gains: Floats = np.array([gain for query in queries for gain in query.gains], dtype=np.float64)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def columns(self) -> int:
        return int(self.starts[-1])

    def slice_of(self, query: int) -> slice:
        return slice(int(self.starts[query]), int(self.starts[query + 1]))

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(query.group for query in self.queries)

    def ranks_of(self, query: int, ranking: Sequence[str]) -> list[int]:
        """At which place (from 1) a ranking has each relevant document of a query; a repeated id counts once."""
        places = {one: place for place, one in enumerate(dict.fromkeys(ranking), 1)}
        return [places.get(one, ABSENT) for one in self.queries[query].relevant]


def quality(ranks: Ranks, truths: Truths, metric: Metric) -> Floats:
    """The metric of each query (columns) under each combination (rows), in [0, 1].

    ``ranks`` has a row a combination and a column a relevant document of :class:`Truths`, counted from 1,
    :data:`ABSENT` where it was not returned. Formulas as in :mod:`pytest_memeval.metrics.ranking`.
    """
    import numpy as np

    if not len(truths):
        return np.zeros((len(ranks), 0))
    found = ranks <= (ABSENT - 1 if metric.k is None else metric.k)
    starts = truths.starts[:-1]
    if metric.name == "ndcg":
        gained = np.where(found, truths.gains / np.log2(np.where(found, ranks, 1) + 1.0), 0.0)
        reached: Floats = np.add.reduceat(gained, starts, axis=1) / _ideal(truths, metric.k)
        return np.minimum(1.0, reached)
    if metric.name == "recall":
        counts: Floats = np.add.reduceat(found, starts, axis=1, dtype=np.float64) / np.diff(truths.starts)
        return counts
    if metric.name == "hit":
        return np.logical_or.reduceat(found, starts, axis=1).astype(np.float64)
    if metric.name == "mrr":
        first = np.minimum.reduceat(np.where(found, ranks, ABSENT), starts, axis=1)
        return np.where(first == ABSENT, 0.0, 1.0 / first)
    return _average_precision(np.where(found, ranks, ABSENT), truths)


def _ideal(truths: Truths, k: int | None) -> Floats:
    import numpy as np

    ideal = np.empty(len(truths))
    for number, query in enumerate(truths.queries):
        best = np.sort(np.array(query.gains))[::-1][:k]
        ideal[number] = (best / np.log2(np.arange(2, len(best) + 2))).sum()
    return ideal


def _average_precision(ranks: Ranks, truths: Truths) -> Floats:
    import numpy as np

    result = np.empty((len(ranks), len(truths)))
    for number in range(len(truths)):
        own = np.sort(ranks[:, truths.slice_of(number)], axis=1)
        precisions = np.arange(1, own.shape[1] + 1) / own
        result[:, number] = np.where(own == ABSENT, 0.0, precisions).sum(axis=1) / own.shape[1]
    return result
