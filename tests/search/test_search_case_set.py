"""What search finds in the shipped case set."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.corpus import corpus_of
from pytest_memeval.metrics.search import compute_search
from pytest_memeval.search.fts import FtsIndex
from pytest_memeval.search.index import SearchIndex
from pytest_memeval.search.params import SearchParams

CASES = Path(__file__).parents[2] / "cases" / "v001.yaml"
SHORT = re.compile(r"[\u4e00-\u9fff]{1,2}")


def test_every_chinese_query_of_one_or_two_characters_finds_all_that_holds_it() -> None:
    case_set = load_case_set(CASES)
    memories = corpus_of(case_set).memories
    index = FtsIndex((str(memory.id), memory.content) for memory in memories)
    asked = [query for case in case_set.cases if case.expected_search for query in case.expected_search.queries]
    short = [query for query in asked if SHORT.fullmatch(query.query)]
    assert len(short) >= 5
    assert {len(query.query) for query in short} == {1, 2}
    for query in short:
        found = {identifier for identifier, _ in index.search(query.query)}
        assert {str(memory.id) for memory in memories if query.query in memory.content} <= found, query.query
    # So does every character and every pair of neighbours that any memory holds.
    for memory in memories[:40]:
        for run in re.findall(r"[\u4e00-\u9fff]+", memory.content):
            for part in {*run, *(run[at : at + 2] for at in range(len(run) - 1))}:
                assert str(memory.id) in {identifier for identifier, _ in index.search(part)}, part


def test_both_routes_together_are_no_worse_than_chance_and_each_finds_something_of_its_own() -> None:
    case_set = load_case_set(CASES)
    memories = corpus_of(case_set).memories
    truths = [query for case in case_set.cases if case.expected_search for query in case.expected_search.queries]
    index = SearchIndex([(str(memory.id), memory.content) for memory in memories])

    async def rank(params: SearchParams) -> dict[str, list[str]]:
        return {truth.query: [hit.id for hit in await index.search(truth.query, params)] for truth in truths}

    figures = {
        weight: compute_search(truths, asyncio.run(rank(SearchParams(bm25_weight=weight))))
        for weight in (0.0, 0.5, 1.0)
    }
    index.close()
    found = {weight: one.mean("ndcg@10") for weight, one in figures.items()}
    assert all(value is not None and value > 0.3 for value in found.values()), found
    assert len({round(value, 6) for value in found.values() if value is not None}) == 3
