"""Searching a grid with a function: what is asked, what fails, what an interrupt leaves."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tuning_planted import agreeing_corpus, query, steep_corpus

from pytest_memeval.search.fusion import fuse
from pytest_memeval.tuning.grid import GridSearch, MeasurementError
from pytest_memeval.tuning.queries import QuerySet, TuningError
from pytest_memeval.tuning.rankers import CallableRanker, RouteRanker, ids_of
from pytest_memeval.tuning.space import Params, SpaceError
from pytest_memeval.values import Hit

QUERIES = [query(f"q{number}", f"q{number}#0", group=f"g{number}") for number in range(8)]


def deeper_is_better(text: str, params: Params) -> list[str]:
    """Finds the right document among as many as ``depth``; it stands third."""
    return [f"{text}#{place}" for place in (2, 1, 0, 3)][: int(params["depth"])]


def test_a_function_is_tuned() -> None:
    grid = GridSearch({"depth": [1, 3, 4]})
    result = grid.search(deeper_is_better, QUERIES)
    assert grid.status == result.conclusion == "conclusive"
    assert grid.best_params == result.recommended_params == {"depth": 3}
    assert (result.current_params, result.current_score, result.best_score) == ({"depth": 1}, 0.0, 0.5)
    assert [(one["params"]["depth"], one["score"]) for one in result.all_results] == [(1, 0.0), (3, 0.5), (4, 0.5)]
    assert result.diagnosis is None
    json.dumps(result.section(), allow_nan=False)


def test_a_function_and_the_rank_tables_agree() -> None:
    """The built-in search asked one query at a time gives what the vectorised grid gives."""
    corpus = steep_corpus(6)
    ranker = corpus.ranker()
    tables = ranker._routes(1.2, 0.75)
    assert tables.vector is not None
    number_of = {one.query: number for number, one in enumerate(corpus.queries)}

    def order(row: Any) -> list[str]:
        return [tables.ids[column] for column in np.argsort(row, kind="stable") if row[column]]

    def search(text: str, params: Params) -> list[Hit]:
        routes = [order(table[number_of[text]]) for table in (tables.text, tables.vector) if table is not None]
        weight = float(params["bm25_weight"])
        return fuse(routes, rrf_k=float(params["rrf_k"]), weights=(weight, 1 - weight), top_k=int(params["top_k"]))

    axes = {"rrf_k": [0, 10, 60], "bm25_weight": [0, 0.3, 0.5, 1], "top_k": [1, 5, 30]}
    current = {"rrf_k": 60, "bm25_weight": 0.5, "top_k": 20}
    for metric in ("ndcg@10", "map", "mrr", "recall@20", "hit@1"):
        by_tables = GridSearch(axes, current, metric=metric).search(ranker, corpus.queries)
        by_calls = GridSearch(axes, current, metric=metric).search(search, corpus.queries)
        assert [one["params"] for one in by_tables.all_results] == [one["params"] for one in by_calls.all_results]
        assert [one["score"] for one in by_tables.all_results] == pytest.approx(
            [one["score"] for one in by_calls.all_results]
        )
        assert by_tables.conclusion == by_calls.conclusion


def test_failures_are_counted_and_never_zeros() -> None:
    def search(text: str, params: Params) -> list[str]:
        if params["depth"] == 4 and text == "q5":
            raise ValueError("key sk-abcdefghijklmnop is wrong")
        return deeper_is_better(text, params)

    result = GridSearch({"depth": [1, 2, 3, 4]}).search(search, QUERIES)
    assert result.failures == {"ValueError: key <redacted> is wrong": 1}
    assert [one["score"] for one in result.all_results] == [0.0, 0.0, 0.5, None]
    assert result.unmeasured == {"failed": 1, "not_reached": 0}
    assert result.best_params == {"depth": 3}
    assert result.param_sensitivity["depth"].at_best == (0.0, 0.0, 0.5, None)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_function_that_exits_or_hangs_is_one_failure_a_call(threads: int) -> None:
    async def search(text: str, params: Params) -> list[str]:
        if params["depth"] == 2:
            sys.exit("no more")
        if params["depth"] == 3 and text == "q5":
            await asyncio.sleep(3600)
        if params["depth"] == 4:
            raise TimeoutError("its own")
        return deeper_is_better(text, params)

    ranker = CallableRanker(search, threads=threads, timeout=0.2)
    result = GridSearch({"depth": [1, 2, 3, 4]}).search(ranker, QUERIES)
    assert result.failures == {
        "SystemExit: no more": 8,
        "TimeoutError: its own": 8,
        "TimeoutError: no answer within 0.2 s": 1,
    }
    assert [one["score"] for one in result.all_results] == [0.0, None, None, None]


def test_current_values_that_fail_stop_at_once() -> None:
    asked: list[Params] = []

    def search(text: str, params: Params) -> list[str]:
        asked.append(params)
        if text == "q1":
            raise TimeoutError
        return []

    with pytest.raises(MeasurementError, match=r"1 of 8 queries failed \(1 × TimeoutError\)"):
        GridSearch({"depth": [1, 2, 3]}).search(search, QUERIES)
    assert asked == [{"depth": 1}] * 8


def test_where_nothing_but_the_current_values_works_nothing_is_concluded() -> None:
    def search(text: str, params: Params) -> list[str]:
        if params["depth"] != 1:
            raise RuntimeError
        return [f"{text}#0"]

    grid = GridSearch({"depth": [1, 2]})
    result = grid.search(search, QUERIES)
    assert (result.conclusion, result.reason, grid.status) == (None, "nothing_to_compare", "unmeasured")
    assert result.recommended_params is None


def test_an_interrupt_leaves_what_was_found() -> None:
    calls = 0

    def search(text: str, params: Params) -> list[str]:
        nonlocal calls
        calls += 1
        if calls > 3 * len(QUERIES):
            raise KeyboardInterrupt
        return deeper_is_better(text, params)

    seen: list[tuple[int, int, float | None]] = []
    result = GridSearch({"depth": [1, 2, 3, 4, 5]}).search(search, QUERIES, progress=lambda *one: seen.append(one))
    assert result.partial
    assert result.unmeasured == {"failed": 0, "not_reached": 2}
    assert sum(one["score"] is None for one in result.all_results) == 2
    assert [(done, total) for done, total, _ in seen] == [(2, 5), (3, 5)]
    assert result.section()["partial"] is True


def test_the_order_of_queries_and_threads_does_not_matter() -> None:
    grid = {"depth": [1, 2, 3, 4]}
    one = GridSearch(grid).search(deeper_is_better, QUERIES).section()
    ranker = CallableRanker(deeper_is_better, threads=4)
    assert GridSearch(grid).search(ranker, QuerySet(tuple(reversed(QUERIES)))).section() == one


def test_async_functions_and_all_forms_of_answers() -> None:
    async def search(text: str, params: Params) -> dict[str, Any]:
        return {"hits": [{"id": one} for one in deeper_is_better(text, params)]}

    assert GridSearch({"depth": [1, 3]}).search(search, QUERIES).best_params == {"depth": 3}
    assert ids_of([Hit("a", 1.0), "b", {"id": "c"}]) == ["a", "b", "c"]
    assert ids_of({"ids": []}) == []
    bad: Sequence[tuple[Any, str]] = (
        ("abc", "no list of ids but str"),
        (None, "no list of ids but NoneType"),
        ({"rows": []}, "neither 'ids' nor 'hits' but \\['rows'\\]"),
        ([{"id": 3}], "no id that is text"),
        ([""], "no id that is text"),
    )
    for answer, message in bad:
        with pytest.raises(TuningError, match=message):
            ids_of(answer)


def test_ids_that_the_corpus_does_not_hold_are_told() -> None:
    ranker = CallableRanker(lambda text, params: [f"{text}#O", f"{text}#0"], frozenset(f"q{n}#0" for n in range(8)))
    result = GridSearch({"depth": [1, 2]}).search(ranker, QUERIES)
    assert result.warnings == ("8 returned ids are not in the corpus, such as 'q0#O'; did you mean 'q0#0'?",)
    assert result.current_score == pytest.approx(1 / np.log2(3))


def test_remarks() -> None:
    def notes(axes: dict[str, list[float]], metric: str = "ndcg@10") -> list[str]:
        corpus = agreeing_corpus(6)
        return [note for note, _ in GridSearch(axes, metric=metric).search(corpus.ranker(), corpus.queries).notes]

    assert notes({"top_k": [5, 20]}) == ["top_k_below"]
    assert notes({"top_k": [10, 20]}) == ["top_k_beyond"]
    assert notes({"top_k": [10, 20]}, "map") == ["top_k_open"]
    assert notes({"rrf_k": [10, 20]}, "recall@10") == ["ceiling"]


def test_bad_arguments() -> None:
    with pytest.raises(TuningError, match="at least 2 folds, not 1"):
        GridSearch({"rrf_k": [1]}, folds=1)
    with pytest.raises(TuningError, match="unknown metric"):
        GridSearch({"rrf_k": [1]}, metric="f1")
    with pytest.raises(TuningError, match="a seed is"):
        GridSearch({"rrf_k": [1]}, seed=-1)
    with pytest.raises(SpaceError, match="unknown parameter 'depth'"):
        GridSearch({"depth": [1]}).search(RouteRanker(steep_corpus(1).ranker()._routes), QUERIES)
    with pytest.raises(TuningError, match="more than 50,000,000 measurements"):
        GridSearch({"depth": list(range(90_000))}).search(deeper_is_better, QUERIES * 100)
