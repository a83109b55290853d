from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_memeval.cases.models import GtMemory
from pytest_memeval.metrics import matching
from pytest_memeval.metrics.matching import (
    MATCHERS,
    SIMILARITIES,
    Matcher,
    MatchResult,
    Pair,
    SimilarityMatcher,
    build_matcher,
    content_similarity,
    match_memories,
    match_texts,
    match_with,
)
from pytest_memeval.values import Memory

#: Few letters, so that texts are often alike.
texts = st.text(alphabet="abc 猫é", max_size=8)
text_lists = st.lists(texts, max_size=5)
shares = st.floats(min_value=0.0, max_value=1.0)
similarities = st.sampled_from(SIMILARITIES)
assignments = st.sampled_from(["greedy", "optimal"])


class TestContentSimilarity:
    @given(st.text(), st.text(), similarities)
    @example("", "", "indel")
    @example("\ud83d", "a", "indel")
    def test_lies_between_0_and_1(self, a: str, b: str, similarity: str) -> None:
        assert 0.0 <= content_similarity(a, b, similarity=similarity) <= 1.0

    @given(st.text(), similarities)
    def test_a_text_is_itself(self, text: str, similarity: str) -> None:
        assert content_similarity(text, text, similarity=similarity) == 1.0

    @given(st.text(), st.text(), st.sampled_from(["indel", "levenshtein"]))
    def test_is_symmetric(self, a: str, b: str, similarity: str) -> None:
        assert content_similarity(a, b, similarity=similarity) == content_similarity(b, a, similarity=similarity)

    @pytest.mark.parametrize("similarity", SIMILARITIES)
    def test_f18_empty_texts(self, similarity: str) -> None:
        assert content_similarity("", "", similarity=similarity) == 1.0
        assert content_similarity("  ", "\n", similarity=similarity) == 1.0
        assert content_similarity("", "a", similarity=similarity) == 0.0

    def test_known_values(self) -> None:
        # "abcd" and "abed": one replaced letter is one edit, or a deletion and an insertion.
        assert content_similarity("abcd", "abed") == 6 / 8
        assert content_similarity("abcd", "abed", similarity="levenshtein") == 3 / 4
        assert content_similarity("abcd", "abed", similarity="difflib") == 6 / 8

    def test_width_and_composition_do_not_matter(self) -> None:
        assert content_similarity("ＡＢＣ，cafe\u0301", "ABC,caf\u00e9") == 1.0

    def test_case_does(self) -> None:
        assert content_similarity("Go", "go") == 0.5

    def test_difflib_depends_on_the_order(self) -> None:
        a, b = "tide", "diet"
        assert content_similarity(a, b, similarity="difflib") == 0.25
        assert content_similarity(b, a, similarity="difflib") == 0.5

    def test_an_unknown_similarity_names_the_nearest(self) -> None:
        with pytest.raises(ValueError, match="unknown similarity 'levenstein'; did you mean 'levenshtein'"):
            content_similarity("a", "b", similarity="levenstein")


def check_one_to_one(result: MatchResult, n_pred: int, n_truth: int) -> None:
    preds = [pair.pred_index for pair in result.pairs]
    truths = [pair.truth_index for pair in result.pairs]
    assert sorted([*preds, *result.unmatched_pred]) == list(range(n_pred))
    assert sorted([*truths, *result.unmatched_truth]) == list(range(n_truth))
    near_preds = [pair.pred_index for pair in result.near_misses]
    near_truths = [pair.truth_index for pair in result.near_misses]
    assert len(set(near_preds)) == len(near_preds)
    assert len(set(near_truths)) == len(near_truths)
    assert set(near_preds) <= set(result.unmatched_pred)
    assert set(near_truths) <= set(result.unmatched_truth)


class TestMatchTexts:
    @given(text_lists, text_lists, shares, similarities, assignments)
    def test_is_one_to_one(
        self, predicted: list[str], truth: list[str], threshold: float, similarity: str, assignment: str
    ) -> None:
        result = match_texts(predicted, truth, threshold=threshold, similarity=similarity, assignment=assignment)
        check_one_to_one(result, len(predicted), len(truth))
        for pair in (*result.pairs, *result.near_misses):
            alike = content_similarity(predicted[pair.pred_index], truth[pair.truth_index], similarity=similarity)
            assert pair.similarity == alike
        assert all(pair.similarity >= threshold for pair in result.pairs)
        # Nothing that could still be matched is left over.
        assert all(0.3 <= pair.similarity < threshold for pair in result.near_misses)

    @given(text_lists, text_lists, st.randoms(use_true_random=False), assignments)
    def test_order_does_not_matter_without_ties(
        self, predicted: list[str], truth: list[str], rng: random.Random, assignment: str
    ) -> None:
        """The total similarity of what is matched depends on order only through ties."""
        scores = [content_similarity(p, t) for p in predicted for t in truth]
        if len(set(scores)) < len(scores):
            return
        before = match_texts(predicted, truth, assignment=assignment)
        pred_order, truth_order = list(range(len(predicted))), list(range(len(truth)))
        rng.shuffle(pred_order)
        rng.shuffle(truth_order)
        after = match_texts([predicted[i] for i in pred_order], [truth[i] for i in truth_order], assignment=assignment)
        moved = sorted((truth_order[pair.truth_index], pred_order[pair.pred_index]) for pair in after.pairs)
        if assignment == "greedy":
            assert moved == [(pair.truth_index, pair.pred_index) for pair in before.pairs]
        assert math.fsum(p.similarity for p in after.pairs) == pytest.approx(
            math.fsum(p.similarity for p in before.pairs)
        )

    def test_f17_one_to_one(self) -> None:
        result = match_texts(["A"] * 3, ["A", "B"])
        assert result.pairs == (Pair(0, 0, 1.0),)
        assert result.unmatched_pred == (1, 2)
        assert result.unmatched_truth == (1,)

    def test_f18_empty_sides(self) -> None:
        assert match_texts([], []) == MatchResult()
        assert match_texts([], ["a"]) == MatchResult(unmatched_truth=(0,))
        assert match_texts(["a"], []) == MatchResult(unmatched_pred=(0,))
        assert match_texts([""], [""]).pairs == (Pair(0, 0, 1.0),)

    def test_ties_go_to_the_first_truth_then_the_first_prediction(self) -> None:
        result = match_texts(["same", "same"], ["same", "same"])
        assert result.pairs == (Pair(0, 0, 1.0), Pair(1, 1, 1.0))

    @pytest.mark.parametrize("similarity", ["indel", "levenshtein", "difflib"])
    def test_the_threshold_itself_matches(self, similarity: str) -> None:
        for tenth in range(1, 10):
            a, b = "x" * tenth + "v" * (10 - tenth), "x" * tenth + "y" * (10 - tenth)
            threshold = tenth / 10
            options: dict[str, Any] = {"similarity": similarity, "near_miss_floor": 1.0}
            assert match_texts([a], [b], threshold=threshold, **options).pairs == (Pair(0, 0, threshold),)
            assert not match_texts([a], [b], threshold=math.nextafter(threshold, 1), **options).pairs

    def test_near_misses(self) -> None:
        # Rewordings stay below the threshold: 0.42.
        result = match_texts(["他是深圳的一名后端工程师"], ["在深圳做后端开发"], threshold=0.5)
        assert not result.pairs
        assert [(pair.truth_index, pair.pred_index) for pair in result.near_misses] == [(0, 0)]
        assert 0.3 <= result.near_misses[0].similarity < 0.5

    def test_near_misses_are_the_best_ones_first(self) -> None:
        predicted, truth = ["abcdwwwwww", "abcxxxxxxx"], ["abcdefghij"]
        near = match_texts(predicted, truth).near_misses
        assert near == (Pair(0, 0, 0.4),)
        assert match_texts(predicted, truth, near_miss_floor=0.45).near_misses == ()

    def test_f32_a_negation_is_a_match(self) -> None:
        """String similarity cannot tell them apart: a known limit."""
        assert match_texts(["用户不喜欢喝咖啡"], ["用户喜欢喝咖啡"]).pairs
        assert match_texts(["dislikes coffee"], ["likes coffee"]).pairs

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"similarity": "indle"}, "did you mean 'indel'"),
            ({"assignment": "optimum"}, "did you mean 'optimal'"),
            ({"threshold": 1.5}, "threshold is 1.5"),
            ({"threshold": math.nan}, "threshold is nan"),
            ({"near_miss_floor": -0.1}, "near_miss_floor is -0.1"),
        ],
    )
    def test_bad_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            match_texts(["a"], ["b"], **options)

    def test_large_sets_give_the_same_pairs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = random.Random(4)
        predicted = ["".join(rng.choices("abcdef", k=rng.randint(0, 12))) for _ in range(30)]
        truth = ["".join(rng.choices("abcdef", k=rng.randint(0, 12))) for _ in range(20)]
        for similarity in ("indel", "levenshtein"):
            one_by_one = match_texts(predicted, truth, similarity=similarity)
            monkeypatch.setattr(matching, "_VECTORISE_FROM", 1)
            assert match_texts(predicted, truth, similarity=similarity) == one_by_one
            monkeypatch.undo()
        assert one_by_one.pairs


def best_total(predicted: Sequence[str], truth: Sequence[str], threshold: float) -> float:
    """The largest total similarity of any one-to-one assignment, by trying them all."""
    size = max(len(predicted), len(truth))
    best = 0.0
    for order in itertools.permutations(range(size)):
        scores = [
            content_similarity(predicted[p], truth[t])
            for t, p in enumerate(order)
            if t < len(truth) and p < len(predicted)
        ]
        best = max(best, math.fsum(score for score in scores if score >= threshold))
    return best


class TestOptimalAssignment:
    @given(text_lists, text_lists, st.sampled_from([0.0, 0.3, 0.5, 0.8]))
    def test_has_the_largest_total(self, predicted: list[str], truth: list[str], threshold: float) -> None:
        result = match_texts(predicted, truth, threshold=threshold, assignment="optimal")
        total = math.fsum(pair.similarity for pair in result.pairs)
        assert total == pytest.approx(best_total(predicted, truth, threshold), abs=1e-9)
        greedy = match_texts(predicted, truth, threshold=threshold)
        assert total >= math.fsum(pair.similarity for pair in greedy.pairs) - 1e-9

    def test_may_split_an_exact_match(self) -> None:
        predicted, truth = ["abcdef", "abcdxyz"], ["abcdef", "defuvw"]
        greedy = match_texts(predicted, truth, threshold=0.4)
        optimal = match_texts(predicted, truth, threshold=0.4, assignment="optimal")
        assert [(p.truth_index, p.pred_index) for p in greedy.pairs] == [(0, 0)]
        assert [(p.truth_index, p.pred_index) for p in optimal.pairs] == [(0, 1), (1, 0)]


class TestMatchers:
    def test_match_memories_compares_contents(self) -> None:
        result = match_memories([Memory("1", "b"), Memory("2", "a")], [GtMemory("a")], threshold=0.9)
        assert result.pairs == (Pair(0, 1, 1.0),)

    @pytest.mark.parametrize("name", MATCHERS)
    def test_each_name_builds_its_matcher(self, name: str) -> None:
        matcher = build_matcher(name, 0.7)
        assert isinstance(matcher, Matcher)
        assert matcher.describe()["threshold"] == 0.7
        assert (matcher.describe()["similarity"], matcher.describe()["assignment"]) == MATCHERS[name]
        assert matcher.match(["ab", "cd"], ["cd"]) == [(0, 1, 1.0)]

    def test_unknown_names(self) -> None:
        with pytest.raises(ValueError, match="unknown matcher 'diflib'; did you mean 'difflib'"):
            build_matcher("diflib")
        with pytest.raises(ValueError, match="threshold is 2"):
            build_matcher("indel", 2.0)
        with pytest.raises(ValueError, match="unknown assignment"):
            SimilarityMatcher(assignment="best")

    def test_a_foreign_matcher_gets_leftovers_and_near_misses(self) -> None:
        class First:
            def match(self, predicted: Sequence[str], truth: Sequence[str]) -> list[tuple[int, int, float]]:
                return [(0, 1, 0.9)]

        result = match_with(First(), ["likes tea", "x", "unrelated"], ["y", "likes tee"])
        assert result.pairs == (Pair(0, 1, 0.9),)
        assert result.unmatched_pred == (0, 2)
        assert result.unmatched_truth == (1,)
        assert [(pair.truth_index, pair.pred_index) for pair in result.near_misses] == [(1, 0)]

    @pytest.mark.parametrize(
        ("triples", "message"),
        [
            ([(0, 0, 1.0), (0, 1, 1.0)], "truth 0 or prediction 1 twice"),
            ([(0, 0, 1.0), (1, 0, 1.0)], "truth 1 or prediction 0 twice"),
            ([(5, 0, 1.0)], "truth 5 with prediction 0, but there are 2 truths and 2 predictions"),
            ([(-1, 0, 1.0)], "truth -1"),
            ([(0, 0, math.nan)], "similarity nan"),
        ],
    )
    def test_f17_a_foreign_matcher_is_held_to_one_to_one(
        self, triples: list[tuple[int, int, float]], message: str
    ) -> None:
        class Broken:
            def match(self, predicted: Sequence[str], truth: Sequence[str]) -> list[tuple[int, int, float]]:
                return triples

        with pytest.raises(ValueError, match=message):
            match_with(Broken(), ["a", "b"], ["a", "b"])
