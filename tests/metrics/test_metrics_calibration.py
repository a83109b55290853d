from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.metrics.calibration import (
    THRESHOLDS,
    LabelledPair,
    Point,
    accuracy_difference,
    best_point,
    calibrate,
    point_at,
    read_pairs,
)
from pytest_memeval.metrics.matching import SIMILARITIES

SHIPPED = Path(__file__).parents[2] / "cases" / "matching_pairs.jsonl"


def write(path: Path, *pairs: Any) -> Path:
    lines = [pair if isinstance(pair, str) else json.dumps(pair, ensure_ascii=False) for pair in pairs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_thresholds_are_the_decimals_that_they_look_like() -> None:
    assert THRESHOLDS[0] == 0.05
    assert THRESHOLDS[-1] == 0.95
    assert 0.15 in THRESHOLDS
    assert len(THRESHOLDS) == 19


def test_pairs_are_read_with_lines_and_clusters(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.jsonl",
        {"a": "x", "b": "y", "same": True, "kind": "k", "lang": "en", "entity": "e"},
        {"a": "x", "b": "z", "same": False},
    )
    assert read_pairs(path) == [
        LabelledPair("x", "y", True, "k", "en", "e", 1),
        LabelledPair("x", "z", False, cluster="line 2", line=2),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": "x", "b": "y"}', ":1:1: the pair has no 'same'"),
        ('{"a": "x", "same": true}', "the pair has no 'b'"),
        ('{"a": "x", "b": "y", "same": "yes"}', "'same' is true or false, not 'yes'"),
        ('{"a": "x", "b": "y", "same": 1}', "'same' is true or false"),
        ('{"a": 3, "b": "y", "same": true}', "'a' is text"),
        ('{"a": "x", "b": "y", "same": true, "knd": "z"}', "unknown key 'knd' in a pair; did you mean 'kind'?"),
        ("[1]", "a pair has to be a mapping"),
        ("", "no pairs"),
    ],
)
def test_a_bad_pair_is_named_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        read_pairs(write(tmp_path / "p.jsonl", line))
    assert message in str(error.value)


def test_counts_at_a_threshold() -> None:
    pairs = [LabelledPair("", "", same) for same in (True, True, False, False, False)]
    point = point_at(pairs, [0.9, 0.4, 0.5, 0.2, 0.1], 0.5)
    assert (point.tp, point.fp, point.fn, point.tn) == (1, 1, 1, 2)
    assert (point.precision, point.recall, point.f1, point.accuracy) == (0.5, 0.5, 0.5, 0.6)


def test_shares_without_a_denominator_are_none() -> None:
    point = Point(0.5, 0, 0, 0, 3)
    assert (point.precision, point.recall, point.f1, point.accuracy) == (None, None, None, 1.0)


def test_of_equally_good_thresholds_the_one_nearest_the_default_is_best() -> None:
    curve = [Point(threshold, 1, 0, 0, 1) for threshold in THRESHOLDS]
    assert best_point(curve).threshold == 0.5
    assert best_point([point for point in curve if point.threshold != 0.5]).threshold == 0.45


def test_a_separable_set_is_separated() -> None:
    pairs = [LabelledPair("likes tea", "likes teas", True, "near", "en", f"n{i}") for i in range(6)]
    pairs += [LabelledPair("likes tea", "has a boat", False, "far", "en", f"f{i}") for i in range(6)]
    found = calibrate(pairs, "indel", threshold=0.95)
    assert found.best.accuracy == 1.0
    assert found.best_interval == (0.5, 0.5)
    assert found.chosen.recall == 0.0
    assert found.by_kind["far"] == (6, 6)
    assert found.by_lang["en"][1] == 12


def test_few_clusters_give_no_interval() -> None:
    found = calibrate([LabelledPair("a", "b", True, cluster="one")] * 30, "indel")
    assert found.best_interval is None
    assert found.accuracy.low is None


def test_nothing_cannot_be_calibrated_on() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        calibrate([], "indel")


@given(
    st.lists(
        st.builds(
            LabelledPair,
            st.text("ab ", max_size=5),
            st.text("ab ", max_size=5),
            st.booleans(),
            cluster=st.sampled_from("xyz"),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(SIMILARITIES),
)
def test_counts_add_up_and_recall_falls(pairs: list[LabelledPair], similarity: str) -> None:
    found = calibrate(pairs, similarity, resamples=20)
    assert all(point.tp + point.fp + point.fn + point.tn == len(pairs) for point in found.curve)
    hits = [point.tp + point.fp for point in found.curve]
    assert hits == sorted(hits, reverse=True)
    assert found.best.accuracy == max(point.accuracy or 0.0 for point in found.curve)


def test_a_similarity_does_not_differ_from_itself() -> None:
    pairs = read_pairs(SHIPPED)
    found = accuracy_difference(pairs, ("indel", 0.5), ("indel", 0.5))
    assert (found.difference, found.p_value) == (0.0, 1.0)


# -- the shipped pairs


def test_the_shipped_pairs_are_balanced_and_of_two_languages() -> None:
    pairs = read_pairs(SHIPPED)
    assert len(pairs) >= 200
    assert sum(pair.same for pair in pairs) * 2 == len(pairs)
    assert {pair.lang for pair in pairs} == {"zh", "en", "mixed"}
    assert {"negation", "entity_swap"} <= {pair.kind for pair in pairs}
    assert len({(pair.a, pair.b) for pair in pairs}) == len(pairs)


def test_hybrid_does_better_on_the_shipped_pairs_than_any_similarity_of_letters() -> None:
    """Even where each of those has the threshold that suits it best on these pairs."""
    pairs = read_pairs(SHIPPED)
    for similarity in ("indel", "levenshtein", "difflib"):
        best = calibrate(pairs, similarity, resamples=1).best
        found = accuracy_difference(pairs, (similarity, best.threshold), ("hybrid", 0.5))
        assert found.low is not None
        assert found.low > 0
