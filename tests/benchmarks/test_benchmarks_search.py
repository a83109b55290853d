"""Search over 10,000 memories: what the indexes take to build, and a query by each route. No limits to fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmark_processes import run_command

MEMORIES, QUERIES = 10_000, 100

_PROGRAM = """
import asyncio, json, random, time
from pytest_memeval.search.index import SearchIndex
from pytest_memeval.search.params import SearchParams
source = random.Random(1)
latin = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(3, 9))) for _ in range(3000)]
chinese = [chr(0x4E00 + number) for number in range(2500)]
def text(number):
    words = [latin[min(2999, int(source.expovariate(1 / 300)))] for _ in range(20)]
    signs = [chinese[min(2499, int(source.expovariate(1 / 250)))] for _ in range(30)]
    return " ".join(words) if number %% 2 else "".join(signs)
corpus = [(f"case-{number // 5:04d}#{number %% 5}", text(number)) for number in range(%(memories)d)]
def asked(content):
    return " ".join(source.sample(content.split(), 5)) if " " in content else content[4:10]
queries = [(wanted, asked(content)) for wanted, content in source.sample(corpus, %(queries)d)]
async def main():
    index = SearchIndex(corpus)
    figures = {}
    routes = {
        "words": {"bm25_weight": 1},
        "vectors": {"bm25_weight": 0},
        "both": {},
        "words by bm25s": {"bm25_weight": 1, "bm25_k1": 0.9},
    }
    for name, values in routes.items():
        params = SearchParams.of(values)
        started = time.perf_counter()
        await index.search("the first query builds", params)
        built = time.perf_counter()
        found = [[hit.id for hit in await index.search(query, params)] for _, query in queries]
        done = time.perf_counter()
        right = sum(wanted in ids for (wanted, _), ids in zip(queries, found))
        share, seconds = right / len(queries), (done - built) / len(queries)
        figures[name] = {"build": built - started, "query": seconds, "found": share}
    print(json.dumps({"vectors": index.describe()["vectors"], "routes": figures}))
asyncio.run(main())
"""


@pytest.mark.slow
def test_ten_thousand_memories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "search.py"
    program.write_text(_PROGRAM % {"memories": MEMORIES, "queries": QUERIES}, encoding="utf-8")
    done = run_command([sys.executable, str(program)], tmp_path, tmp_path / "output.txt")
    told = json.loads(done.output.strip().splitlines()[-1])
    routes = told["routes"]
    # Each query is a part of the memory that it should find.
    assert all(figures["found"] > 0.9 for figures in routes.values()), routes
    base = routes["words"]["query"]
    with capsys.disabled():
        taken = f"{done.wall:.1f} s, {done.peak:.0f} MB at most"
        print(f"\n{MEMORIES} memories, {QUERIES} queries, {told['vectors']}: {taken}")
        for name, figures in routes.items():
            print(
                f"  {name}: built in {figures['build']:.2f} s, {figures['query'] * 1000:.1f} ms a query"
                f" ({figures['query'] / base:.1f} × words), found {figures['found']:.0%}"
            )
