"""Search: how good are the rankings that a case's queries get?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_memeval.metrics.ranking import average_precision, hit_at, ndcg, recall_at, reciprocal_rank
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.tallies import quotient

if TYPE_CHECKING:
    from pytest_memeval.cases.models import SearchQuery

#: Cut-offs that are always reported; gates and expectations add theirs.
CUTOFFS: tuple[int, ...] = (1, 3, 5, 10)


@dataclass(frozen=True, slots=True)
class RRFMetrics:
    """Figures of a case's queries, or of several cases' added up.

    ``sums`` holds for each name (``ndcg@10``, ``recall@10``, ``hit@10``, ``mrr``, ``map``) the sum over the ``queries``
    that have a relevant memory; a mean lies in [0, 1] and is ``None`` without such a query. ``excluded`` counts the
    queries without any relevant memory: nothing can be found there, so they are in no mean.
    """

    queries: int = 0
    excluded: int = 0
    sums: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def mean(self, name: str) -> float | None:
        """The mean of a measure over the queries. KeyError for a name that was not computed."""
        return quotient(self.sums[name], self.queries) if self.queries else None

    def section(self) -> SectionRecord:
        """The section ``search`` of a report."""
        return SectionRecord(
            ratios={name: (total, self.queries) for name, total in self.sums.items()},
            counts={"queries": self.queries + self.excluded, "excluded_queries": self.excluded},
            details=self.details,
        )


def compute_search(
    truths: Sequence[SearchQuery], rankings: Mapping[str, Sequence[str]], *, cutoffs: Sequence[int] = CUTOFFS
) -> RRFMetrics:
    """Score one case's rankings (query → ids, best first; a repeated id counts once).

    NDCG, recall and hit at each cut-off; MRR and MAP over the whole ranking that was given. Grades count in NDCG; for
    the others an id is relevant if its grade is above 0. A query that ``rankings`` lacks raises KeyError: it was not
    measured, which is not the same as an empty ranking, whose figures are 0. ValueError for a cut-off below 1.
    """
    names = [f"{name}@{k}" for name in ("ndcg", "recall", "hit") for k in cutoffs] + ["mrr", "map"]
    found: dict[str, list[float]] = {name: [] for name in names}
    rows: list[dict[str, Any]] = []
    excluded = 0
    for truth in truths:
        ranking = list(dict.fromkeys(rankings[truth.query]))
        figures = _figures(truth, ranking, cutoffs)
        rows.append({"query": truth.query, "relevant": list(truth.relevant), "ids": ranking[:10], **(figures or {})})
        if figures is None:
            excluded += 1
            continue
        for name, figure in figures.items():
            found[name].append(figure)
    sums = {name: math.fsum(figures) for name, figures in found.items()}
    return RRFMetrics(len(rows) - excluded, excluded, sums, {"queries": rows})


def _figures(truth: SearchQuery, ranking: Sequence[str], cutoffs: Sequence[int]) -> dict[str, float] | None:
    """Measure → value of one query, ``None`` where nothing is relevant."""
    grades = truth.grades or (1.0,) * len(truth.relevant)
    relevant = [identifier for identifier, grade in zip(truth.relevant, grades, strict=True) if grade > 0]
    figures: dict[str, float | None] = {}
    for k in cutoffs:
        figures[f"ndcg@{k}"] = ndcg(ranking, truth.relevant, k, grades=truth.grades)
        figures[f"recall@{k}"] = recall_at(ranking, relevant, k)
        figures[f"hit@{k}"] = hit_at(ranking, relevant, k)
    figures["mrr"] = reciprocal_rank(ranking, relevant)
    figures["map"] = average_precision(ranking, relevant)
    return None if not relevant else {name: figure for name, figure in figures.items() if figure is not None}


def aggregate_search(items: Iterable[RRFMetrics]) -> RRFMetrics:
    """The sums of several cases' figures: a mean of the result is over all queries. Order does not matter."""
    metrics = list(items)
    names = dict.fromkeys(name for one in metrics for name in one.sums)
    return RRFMetrics(
        queries=sum(one.queries for one in metrics),
        excluded=sum(one.excluded for one in metrics),
        sums={name: math.fsum(one.sums.get(name, 0.0) for one in metrics) for name in names},
    )
