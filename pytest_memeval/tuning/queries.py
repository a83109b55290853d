"""What a tuning run searches and what it should find: the labelled memories and the queries of a case set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_memeval.documents.problems import did_you_mean

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase


class TuningError(ValueError):
    """An input with which nothing can be tuned; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A memory of the corpus; ``id`` is ``case_id#index``."""

    id: str
    content: str


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query, the ids that it should find (best first) with their gains, and the group it varies with (its case)."""

    query: str
    relevant: tuple[str, ...]
    gains: tuple[float, ...]
    group: str


@dataclass(frozen=True)
class QuerySet:
    """The queries that measure something. ``without_truth`` counts those that were left out: nothing is relevant."""

    queries: tuple[LabelledQuery, ...]
    without_truth: int = 0

    @property
    def groups(self) -> tuple[str, ...]:
        """The different groups, in the order of their names."""
        return tuple(sorted({query.group for query in self.queries}))


def labelled_query(
    query: str, relevant: Sequence[str], grades: Sequence[float] = (), group: str = ""
) -> LabelledQuery | None:
    """A query with distinct relevant ids; ``None`` where nothing is relevant. A gain of 0 is no relevance.

    TuningError for grades that do not fit the ids, or are negative or not finite.
    """
    if grades and len(grades) != len(relevant):
        raise TuningError(f"query {query!r}: {len(grades)} grades for {len(relevant)} relevant ids")
    gains: dict[str, float] = {}
    for identifier, gain in zip(relevant, grades or [1.0] * len(relevant), strict=True):
        if not 0 <= gain < 1e100:
            raise TuningError(f"query {query!r}: a grade is a number from 0, not {gain!r}")
        if gain > 0:
            gains[identifier] = max(float(gain), gains.get(identifier, 0.0))
    return LabelledQuery(query, tuple(gains), tuple(gains.values()), group) if gains else None


def queries_of(cases: Iterable[EvalCase], *, group_by: str = "case") -> QuerySet:
    """All labelled queries of the cases; each belongs to its case's group, or with ``group_by="query"`` to its own."""
    found: list[LabelledQuery] = []
    without = 0
    for case in cases:
        for number, one in enumerate(case.expected_search.queries if case.expected_search is not None else ()):
            group = case.case_id if group_by == "case" else f"{case.case_id}/{number:04d}"
            query = labelled_query(one.query, one.relevant, one.grades, group)
            if query is None:
                without += 1
            else:
                found.append(query)
    return QuerySet(tuple(found), without)


def check_truths(queries: Iterable[LabelledQuery], corpus: Sequence[str]) -> None:
    """TuningError where the corpus is empty, holds an id twice, or lacks an id that a query should find."""
    if not corpus:
        raise TuningError("the corpus is empty: no case has labelled memories (expected_l1)")
    known = set(corpus)
    if len(known) < len(corpus):
        seen: set[str] = set()
        for one in corpus:
            if one in seen:
                raise TuningError(f"the corpus holds the id {one!r} twice")
            seen.add(one)
    for query in queries:
        for one in query.relevant:
            if one not in known:
                raise TuningError(
                    f"query {query.query!r} of {query.group} should find {one!r}, which the corpus does not hold"
                    f"{did_you_mean(one, corpus)}"
                )
