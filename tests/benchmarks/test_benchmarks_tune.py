"""How long a large grid takes, and how much memory: figures to read, no limits to fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmark_processes import run_command

COMBINATIONS, QUERIES, MEMORIES = 2_000, 50, 1_000

_PROGRAM = """
import random, time
from pytest_memeval.search.lexical import LexicalEmbedder
from pytest_memeval.tuning.builtin import BuiltinRoutes, vector_ranks
from pytest_memeval.tuning.grid import GridSearch
from pytest_memeval.tuning.queries import Document, labelled_query
from pytest_memeval.tuning.rankers import RouteRanker
source = random.Random(1)
words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(3, 9))) for _ in range(3000)]
def text(size):
    return " ".join(words[min(2999, int(source.expovariate(1 / 300)))] for _ in range(size))
corpus = [Document(f"case-{number // 5:03d}#{number %% 5}", text(20)) for number in range(%(memories)d)]
queries = []
for number in range(%(queries)d):
    wanted = source.sample(corpus, 3)
    asked = " ".join(source.sample(wanted[0].content.split(), 5))
    queries.append(labelled_query(asked, [one.id for one in wanted], (), f"case-{number:03d}"))
started = time.perf_counter()
vectors = vector_ranks(corpus, queries, LexicalEmbedder([one.content for one in corpus]))
embedded = time.perf_counter()
grid = GridSearch(%(grid)r)
assert len(grid.space) == %(combinations)d
result = grid.search(RouteRanker(BuiltinRoutes(corpus, queries, vectors)), queries)
done = time.perf_counter()
print(f"{result.conclusion}: vectors {embedded - started:.1f} s, grid and conclusion {done - embedded:.1f} s")
"""
GRIDS = {
    "fusion only": {"rrf_k": list(range(5, 205, 2)), "bm25_weight": [one / 20 for one in range(20)]},
    "all five": {
        "rrf_k": [10, 20, 40, 60, 100],
        "bm25_weight": [0.3, 0.4, 0.5, 0.6, 0.7],
        "top_k": [5, 10, 20, 50],
        "bm25_k1": [0.6, 0.9, 1.2, 1.6],
        "bm25_b": [0.2, 0.4, 0.6, 0.75, 0.9],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRIDS))
def test_large_grid(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "tune.py"
    values = {"memories": MEMORIES, "queries": QUERIES, "combinations": COMBINATIONS, "grid": GRIDS[name]}
    program.write_text(_PROGRAM % values, encoding="utf-8")
    done = run_command([sys.executable, str(program)], tmp_path, tmp_path / "output.txt")
    assert "conclusive" in done.output
    with capsys.disabled():
        print(
            f"\n{name}: {COMBINATIONS} combinations, {QUERIES} queries, {MEMORIES} memories:"
            f" {done.wall:.1f} s, {done.cpu:.1f} s of CPU, {done.peak:.0f} MB at most; {done.output.strip()}"
        )
