"""What a grid is tried on: the rank tables of two routes, or a function that searches."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.own_code import named, own_errors
from pytest_memeval.search.params import SearchParams
from pytest_memeval.tuning.diagnosis import Diagnosis, diagnose
from pytest_memeval.tuning.evaluate import RouteRanks, fused_ranks
from pytest_memeval.tuning.quality import ABSENT, Truths
from pytest_memeval.tuning.queries import LabelledQuery, TuningError
from pytest_memeval.tuning.space import DEFAULTS, Params, SpaceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_memeval.tuning.quality import Ranks

#: Combinations that are handed over at a time by rank tables.
_BATCH = 500


@dataclass(frozen=True)
class Batch:
    """Ranks of some combinations: ``rows`` are their places in the list asked for, ``ranks`` a row for each (see
    :func:`~pytest_memeval.tuning.quality.quality`), ``failed`` which queries (columns) got no answer; a column
    is enough where none failed."""

    rows: Sequence[int]
    ranks: Ranks
    failed: NDArray[np.bool_]


class Ranker(Protocol):
    """Ranks the relevant documents of all queries under combinations, a batch at a time, in any order."""

    #: Failed calls by what went wrong.
    failures: Counter[str]
    #: What a reader should know of the answers.
    warnings: list[str]

    def check(self, names: Sequence[str]) -> None:
        """Raises SpaceError for a parameter that cannot be tuned here."""

    def ranks(self, params: Sequence[Params], truths: Truths) -> Iterator[Batch]: ...

    def diagnosis(self, params: Params, truths: Truths) -> Diagnosis | None:
        """What the two routes return with these parameters, where there are two."""


class RouteRanker:
    """The built-in search: fusion of rank tables, which depend on ``bm25_k1`` and ``bm25_b`` only.

    ``routes(k1, b)`` gives the tables of all queries, in the order of the queries of ``Truths``.
    """

    def __init__(self, routes: Callable[[float, float], RouteRanks]) -> None:
        self._routes = routes
        self._kept: tuple[tuple[float, float], RouteRanks] | None = None
        self.failures: Counter[str] = Counter()
        self.warnings: list[str] = []

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in DEFAULTS:
                raise SpaceError(f"unknown parameter {name!r}{did_you_mean(name, DEFAULTS)}")

    def ranks(self, params: Sequence[Params], truths: Truths) -> Iterator[Batch]:
        import numpy as np

        by_tables: dict[_Key, list[int]] = {}
        for row, one in enumerate(params):
            by_tables.setdefault(_key(one), []).append(row)
        for key, all_rows in sorted(by_tables.items()):
            for start in range(0, len(all_rows), _BATCH):
                rows = all_rows[start : start + _BATCH]
                failed = np.zeros((len(rows), 1), dtype=bool)
                yield Batch(rows, self._fused(key, [params[row] for row in rows], truths), failed)

    def diagnosis(self, params: Params, truths: Truths) -> Diagnosis:
        return diagnose(self._tables(_key(params)), truths)

    def _tables(self, key: _Key) -> RouteRanks:
        """The tables for BM25's constants, kept until others are asked for."""
        if self._kept is None or self._kept[0] != key:
            self._kept = key, self._routes(*key)
        return self._kept[1]

    def _fused(self, key: _Key, params: Sequence[Params], truths: Truths) -> Ranks:
        """Each pair of k and weight is ranked once; ``top_k`` only cuts."""
        import numpy as np

        asked = [SearchParams.of(one) for one in params]
        pairs = [(one.rrf_k, one.bm25_weight) for one in asked]
        different = list(dict.fromkeys(pairs))
        place = {pair: number for number, pair in enumerate(different)}
        ranks = fused_ranks(self._tables(key), truths, [k for k, _ in different], [weight for _, weight in different])
        wanted = ranks[[place[pair] for pair in pairs]]
        shown = np.array([one.top_k for one in asked])
        cut: Ranks = np.where(wanted <= shown[:, None], wanted, ABSENT).astype(np.int32)
        return cut


#: bm25_k1, bm25_b
_Key = tuple[float, float]


def _key(params: Mapping[str, Any]) -> _Key:
    found = SearchParams.of(params)
    return found.bm25_k1, found.bm25_b


#: Ranked ids, or why there are none.
_Answer = tuple[list[str], str | None]


@dataclass
class CallableRanker:
    """A function ``search(query, params)`` that returns ranked ids, called once a query and combination.

    An answer is a list of ids, or of mappings or objects with an ``id``; ``{"ids": …}`` or ``{"hits": …}`` around it is
    accepted. A call that raises, or answers anything else, is a failure: counted under its kind, never a zero.
    ``corpus`` are the ids that can be found; others are counted and take their place in the ranking. Calls of one
    combination run on ``threads`` threads at a time. ``timeout`` bounds, in seconds, each call of an ``async``
    function; a plain function that hangs can only be left behind, by an interrupt.
    """

    search: Callable[[str, Params], Any]
    corpus: frozenset[str] = frozenset()
    threads: int = 1
    timeout: float | None = None
    failures: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    _unknown: Counter[str] = field(default_factory=Counter)

    def check(self, names: Sequence[str]) -> None:
        """Any parameter may be tuned: the function knows its own."""

    def ranks(self, params: Sequence[Params], truths: Truths) -> Iterator[Batch]:
        import numpy as np

        threads = _Threads(self.threads) if self.threads > 1 else None
        try:
            for row, one in enumerate(params):
                call = partial(self._call, one)
                answers = map(call, truths.queries) if threads is None else threads.map(call, truths.queries)
                ranks = np.full((1, truths.columns), ABSENT, dtype=np.int32)
                failed = np.zeros((1, len(truths)), dtype=bool)
                for number, (ids, failure) in enumerate(answers):
                    if failure is not None:
                        self.failures[failure] += 1
                        failed[0, number] = True
                    else:
                        ranks[0, truths.slice_of(number)] = truths.ranks_of(number, ids)
                        self._note_unknown(ids)
                yield Batch([row], ranks, failed)
        finally:
            if threads is not None:
                threads.close()

    def diagnosis(self, params: Params, truths: Truths) -> None:
        return None

    def _call(self, params: Params, query: LabelledQuery) -> tuple[list[str], str | None]:
        try:
            answer = self.search(query.query, dict(params))
            if inspect.isawaitable(answer):
                answer = _wait_for(answer, self.timeout)
            return ids_of(answer), None
        except own_errors() as error:
            return [], _failure(error)

    def _note_unknown(self, ids: Sequence[str]) -> None:
        if not self.corpus:
            return
        self._unknown.update(one for one in ids if one not in self.corpus)
        if self._unknown:
            example = min(self._unknown)
            self.warnings[:] = [
                f"{len(self._unknown)} returned ids are not in the corpus, such as {example!r}"
                f"{did_you_mean(example, sorted(self.corpus))}"
            ]


class _Threads:
    """Some daemon threads that stay for many calls, so that each keeps its connection.

    Not the standard library's pool: the interpreter waits for its threads at the end, so that one call that hangs would
    keep an interrupted run for ever.
    """

    def __init__(self, number: int) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._number = number
        self._closed = False
        for _ in range(number):
            threading.Thread(target=self._serve, name="memeval-tune", daemon=True).start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed:
            job()

    def map(self, call: Callable[[LabelledQuery], _Answer], asked: Sequence[LabelledQuery]) -> list[_Answer]:
        """What ``call``, which raises nothing, gives for each, in order."""
        answers: queue.SimpleQueue[tuple[int, _Answer]] = queue.SimpleQueue()

        def ask(number: int, query: LabelledQuery) -> None:
            answers.put((number, call(query)))

        for number, query in enumerate(asked):
            self._jobs.put(partial(ask, number, query))
        found = dict(answers.get() for _ in asked)
        return [found[number] for number in range(len(asked))]

    def close(self) -> None:
        """End the threads, each with what it is doing."""
        self._closed = True
        for _ in range(self._number):
            self._jobs.put(None)


def _wait_for(answer: Any, timeout: float | None) -> Any:
    from pytest_memeval.llm.sync import run_sync

    async def wait() -> Any:
        try:
            async with asyncio.timeout(timeout) as limit:
                return await answer
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"no answer within {timeout:g} s") from None
            raise

    # On one loop for all calls: what the function keeps open stays usable.
    return run_sync(wait())


def _failure(error: BaseException) -> str:
    from pytest_memeval.llm.redaction import redact

    return redact(" ".join(named(error).split()))[:300]


def ids_of(answer: Any) -> list[str]:
    """The ranked ids of an answer (see :class:`CallableRanker`). TuningError for anything else."""
    if isinstance(answer, Mapping):
        key = next((key for key in ("ids", "hits", "results") if key in answer), None)
        if key is None:
            raise TuningError(f"the answer has neither 'ids' nor 'hits' but {sorted(map(str, answer))[:5]}")
        answer = answer[key]
    if isinstance(answer, str | bytes) or not isinstance(answer, Sequence):
        raise TuningError(f"the answer is no list of ids but {type(answer).__name__}")
    found = []
    for one in answer:
        identifier = (
            one.get("id") if isinstance(one, Mapping) else one if isinstance(one, str) else getattr(one, "id", None)
        )
        if not isinstance(identifier, str) or not identifier:
            raise TuningError(f"a hit has no id that is text: {one!r:.80}")
        found.append(identifier)
    return found
