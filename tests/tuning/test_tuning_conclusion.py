"""Planted effects are found, planted nothing is called nothing, and luck is not called a gain."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tuning_planted import PlantedCorpus, agreeing_corpus, noise_ranks, query, steep_corpus

from pytest_memeval.tuning.analysis import TuningResult, analyse
from pytest_memeval.tuning.grid import GridSearch
from pytest_memeval.tuning.quality import Metric, Truths, quality
from pytest_memeval.tuning.space import ParamSpace, make_space

RRF_K = [10, 30, 60, 90, 120]
WEIGHTS = [0.3, 0.4, 0.5, 0.6, 0.7]


def tune(corpus: PlantedCorpus, grid: dict[str, list[float]], *, vectors: bool = True, **options: Any) -> TuningResult:
    search = GridSearch(grid, **options)
    result = search.search(corpus.ranker(vectors=vectors), corpus.queries)
    assert search.status == result.conclusion
    assert search.best_params == result.best_params
    return result


def test_a_planted_rrf_k_is_found() -> None:
    result = tune(steep_corpus(), {"rrf_k": RRF_K})
    assert result.conclusion == "conclusive"
    assert result.recommended_params == result.best_params == {"rrf_k": 10}
    assert result.best_score == result.best_ndcg10 == 1.0
    assert result.current_score == pytest.approx(1 / np.log2(3))
    assert result.p_value is not None
    assert result.p_value < 0.001
    assert result.cross_validation is not None
    assert result.cross_validation.gain == pytest.approx(1 - 1 / np.log2(3))
    assert result.param_sensitivity["rrf_k"].effect == "beyond_noise"
    assert result.param_sensitivity["rrf_k"].changed_queries == 16
    assert [note for note, _ in result.notes] == ["edge"]


def test_what_does_not_matter_stays_as_it_is() -> None:
    """Of two tuned parameters only the planted one is changed."""
    result = tune(steep_corpus(), {"rrf_k": RRF_K, "top_k": [10, 15, 20]})
    assert result.recommended_params == {"rrf_k": 10, "top_k": 20}
    assert result.param_sensitivity["top_k"].effect == "none"
    assert result.param_sensitivity["top_k"].spread == 0


def test_the_current_value_can_be_the_right_one() -> None:
    result = tune(steep_corpus(), {"rrf_k": RRF_K}, current={"rrf_k": 10})
    assert result.conclusion == "conclusive"
    assert result.reason == "current_is_best"
    assert result.recommended_params == {"rrf_k": 10}


def test_where_both_routes_agree_nothing_can_matter() -> None:
    result = tune(agreeing_corpus(), {"rrf_k": RRF_K, "bm25_weight": WEIGHTS})
    assert result.conclusion == "inconclusive_no_effect"
    assert result.reason == "no_effect_same_order"
    assert result.recommended_params is None
    assert result.diagnosis is not None
    assert result.diagnosis.same_order == 12 == result.diagnosis.queries
    assert result.diagnosis.at_different_ranks == 0
    assert result.diagnosis.in_both == 12 * 14
    assert result.diagnosis.overlap == 1
    assert {one.effect for one in result.param_sensitivity.values()} == {"none"}


def test_an_empty_text_route_is_diagnosed() -> None:
    corpus = PlantedCorpus()
    for number in range(8):
        corpus.add([(0, rank) for rank in range(1, 12)], 3, f"case-{number}")
    result = tune(corpus, {"rrf_k": RRF_K})
    assert (result.conclusion, result.reason) == ("inconclusive_no_effect", "no_effect_text_empty")
    assert result.diagnosis is not None
    assert (result.diagnosis.empty_text, result.diagnosis.empty_vector) == (8, 0)


def test_without_vectors_fusion_cannot_be_tuned() -> None:
    result = tune(steep_corpus(8), {"rrf_k": RRF_K, "bm25_k1": [0.5, 1.2]}, vectors=False)
    assert result.conclusion == "inconclusive_bm25_only"
    assert result.recommended_params is None
    assert result.reason_details == {"parameters": "rrf_k"}
    # The others can.
    alone = tune(steep_corpus(8), {"bm25_k1": [0.5, 1.2]}, vectors=False)
    assert alone.conclusion == "inconclusive_no_effect"
    assert alone.reason == "no_effect"


def test_a_gain_on_few_queries_is_not_enough() -> None:
    corpus = agreeing_corpus(12)
    steep = steep_corpus(2)
    for number in range(2):
        ranks = [(1, 26 + number), (8, 8), *((rank, 0) for rank in range(2, 8))]
        ranks += [(0, rank) for rank in range(1, 40) if rank not in (8, 26 + number)]
        corpus.add(ranks, 0, f"case-9{number}")
    assert tune(steep, {"rrf_k": RRF_K}).reason == "few_groups"
    result = tune(corpus, {"rrf_k": RRF_K})
    assert result.conclusion == "inconclusive_below_noise"
    assert result.best_params == {"rrf_k": 10}
    assert result.recommended_params is None


def test_queries_of_one_case_are_one_observation() -> None:
    corpus = steep_corpus()
    one_case = [query(one.query, *one.relevant, group="the only case") for one in corpus.queries]
    result = GridSearch({"rrf_k": RRF_K}).search(corpus.ranker(), one_case)
    assert result.conclusion == "inconclusive_below_noise"
    assert result.groups == 1
    assert result.cross_validation is not None
    assert result.cross_validation.gain is None


def test_no_queries() -> None:
    search = GridSearch({"rrf_k": RRF_K})
    assert search.status == "not_run"
    result = search.search(steep_corpus(1).ranker(), [])
    assert (search.status, result.best_params, result.recommended_params) == ("no_queries", None, None)
    assert result.section()["all_results"] == []


GRIDS: dict[str, dict[str, list[float]]] = {
    "one alternative": {"rrf_k": [10, 60]},
    "one parameter": {"rrf_k": RRF_K},
    "two parameters": {"rrf_k": RRF_K, "bm25_weight": WEIGHTS},
}


def null_result(space: ParamSpace, kind: str, queries: int, seed: int) -> TuningResult:
    generator = np.random.default_rng(seed)
    truths = Truths([query("q", "a", group=f"{number:03d}") for number in range(queries)])
    params = list(space.combinations())
    # The current values come first.
    params.sort(key=lambda one: one != {name: space.current[name] for name in one})
    ranks = noise_ranks(generator, kind, queries, space.shape).reshape(len(params), queries)
    metric = Metric("ndcg", 10)
    return analyse(space, metric, params, quality(ranks, truths, metric), ranks, truths, folds=5, seed=0)


@pytest.mark.parametrize("kind", ["independent", "smooth", "rare", "skewed"])
def test_luck_is_rarely_called_a_gain(kind: str) -> None:
    """A short form of the next test."""
    space = make_space(GRIDS["two parameters"])
    found = Counter(null_result(space, kind, 16, seed).conclusion for seed in range(15))
    assert found["conclusive"] <= 2
    assert found["inconclusive_below_noise"] >= 13


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_false_conclusions_under_the_null(capsys: pytest.CaptureFixture[str]) -> None:
    """At most 5 % of data sets in which every combination is equally good are called conclusive."""
    total: Counter[str | None] = Counter()
    lines = []
    for grid, axes in GRIDS.items():
        for kind in ("independent", "smooth", "rare", "skewed"):
            space = make_space(axes)
            found = Counter(
                null_result(space, kind, queries, 1000 * queries + seed).conclusion
                for queries in (8, 16, 40)
                for seed in range(25)
            )
            total += found
            lines.append(f"  {grid}, {kind}: {found['conclusive']} of {found.total()}")
    with capsys.disabled():
        print(f"\nfalse 'conclusive': {total['conclusive']} of {total.total()} data sets without any effect")
        print("\n".join(lines))
    assert total.total() == 900
    assert total["conclusive"] <= 0.05 * total.total()
    # The test would prove nothing on data that never vary.
    assert total["inconclusive_below_noise"] > 0.8 * total.total()
