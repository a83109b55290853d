"""Which predicted memory stands for which labelled one.

Matching compares texts only and is one to one: a labelled memory is found at most once, however often it is
extracted. Similarities lie in [0, 1]; 1 is the same text.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rapidfuzz.distance import Indel, Levenshtein

from pytest_memeval.documents.problems import did_you_mean

SIMILARITIES: tuple[str, ...] = ("indel", "levenshtein", "difflib", "hybrid")
ASSIGNMENTS: tuple[str, ...] = ("greedy", "optimal")
#: Names that :func:`build_matcher` knows → (similarity, assignment).
MATCHERS: dict[str, tuple[str, str]] = {
    "indel": ("indel", "greedy"),
    "levenshtein": ("levenshtein", "greedy"),
    "difflib": ("difflib", "greedy"),
    "optimal": ("indel", "optimal"),
    "hybrid": ("hybrid", "greedy"),
}
DEFAULT_THRESHOLD = 0.5
NEAR_MISS_FLOOR = 0.3

#: From this many pairs on, one vectorised call is worth numpy's import (0.2 s).
_VECTORISE_FROM = 250_000


class Pair(NamedTuple):
    """A labelled and a predicted memory held to be the same one, with their similarity."""

    truth_index: int
    pred_index: int
    similarity: float


@dataclass(frozen=True, slots=True)
class MatchResult:
    """A one-to-one matching. ``pairs`` are in order of ``truth_index``; ``near_misses`` are the best pairs of what was
    left over, most similar first, each index at most once."""

    pairs: tuple[Pair, ...] = ()
    unmatched_pred: tuple[int, ...] = ()
    unmatched_truth: tuple[int, ...] = ()
    near_misses: tuple[Pair, ...] = ()


@runtime_checkable
class Matcher(Protocol):
    """Anything that pairs predicted with labelled texts.

    ``match`` returns ``(truth index, prediction index, similarity)`` triples, each index at most once.
    """

    def match(self, predicted: Sequence[str], truth: Sequence[str]) -> list[tuple[int, int, float]]: ...


class _HasContent(Protocol):
    @property
    def content(self) -> str: ...


def fold(text: str) -> str:
    """The form in which texts are compared: NFKC, white space around it removed. Case is kept."""
    # NFKC leaves ASCII as it is, and most of a large set often is ASCII.
    return text.strip() if text.isascii() else unicodedata.normalize("NFKC", text).strip()


def _indel(a: str, b: str) -> float:
    total = len(a) + len(b)
    return (total - Indel.distance(a, b)) / total if total else 1.0


def _levenshtein(a: str, b: str) -> float:
    longest = max(len(a), len(b))
    return (longest - Levenshtein.distance(a, b)) / longest if longest else 1.0


def _difflib(a: str, b: str) -> float:
    return SequenceMatcher(None, a, b).ratio()


def _hybrid(a: str, b: str, floor: float = 0.0) -> float:
    from pytest_memeval.metrics.hybrid import hybrid_similarity

    return hybrid_similarity(a, b, floor)


# Each as (how texts are prepared, the function of two prepared texts). Distances are whole numbers and divided once, so
# that equal quotients are equal floats: ties, and thresholds met exactly, do not hang on rounding.
_SIMILARITIES: dict[str, tuple[Callable[[str], str], Callable[[str, str], float]]] = {
    "indel": (fold, _indel),
    "levenshtein": (fold, _levenshtein),
    "difflib": (str.strip, _difflib),
    "hybrid": (fold, _hybrid),
}


def _known(kind: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"unknown {kind} {value!r}" + did_you_mean(value, choices))


def content_similarity(a: str, b: str, *, similarity: str = "indel") -> float:
    """How alike two texts are, from 0 to 1.

    - ``indel``: (len(a) + len(b) − d) / (len(a) + len(b)), d the insertions and deletions between them; symmetric.
    - ``levenshtein``: (longest − d) / longest, d the edits between them; symmetric.
    - ``difflib``: ``difflib``'s ratio with the prediction ``a`` first. It depends on the order and, from 200
      characters on, ignores characters that are frequent in ``b``; it is here for comparison with tools that use it.
    - ``hybrid``: overlap in words, characters and meanings, less where the texts contradict each other (see
      :mod:`pytest_memeval.metrics.hybrid`); symmetric.

    All but ``difflib`` compare the texts after NFKC, all without the white space around them. Two empty
    texts are the same text: 1. An empty one against any other: 0. An unknown name raises ValueError.
    """
    _known("similarity", similarity, SIMILARITIES)
    prepare, function = _SIMILARITIES[similarity]
    return function(prepare(a), prepare(b))


def _candidates(predicted: Sequence[str], truth: Sequence[str], similarity: str, floor: float) -> list[Pair]:
    """Every pair with at least ``floor`` similarity."""
    prepare, function = _SIMILARITIES[similarity]
    preds = [prepare(text) for text in predicted]
    truths = [prepare(text) for text in truth]
    if similarity in ("indel", "levenshtein") and len(preds) * len(truths) >= _VECTORISE_FROM:
        return _candidates_vectorised(preds, truths, similarity, floor)
    if similarity == "difflib":
        return _candidates_difflib(preds, truths, floor)
    if similarity == "hybrid":
        function = partial(_hybrid, floor=floor)
    return [
        Pair(t, p, score)
        for t, truth_text in enumerate(truths)
        for p, pred_text in enumerate(preds)
        if (score := function(pred_text, truth_text)) >= floor
    ]


def _candidates_difflib(preds: Sequence[str], truths: Sequence[str], floor: float) -> list[Pair]:
    found = []
    matcher: SequenceMatcher[str] = SequenceMatcher(None)
    for t, truth_text in enumerate(truths):
        matcher.set_seq2(truth_text)  # analysed once for all predictions
        for p, pred_text in enumerate(preds):
            matcher.set_seq1(pred_text)
            # Both are upper bounds of ratio().
            if matcher.real_quick_ratio() >= floor and matcher.quick_ratio() >= floor:
                score = matcher.ratio()
                if score >= floor:
                    found.append(Pair(t, p, score))
    return found


def _candidates_vectorised(preds: Sequence[str], truths: Sequence[str], similarity: str, floor: float) -> list[Pair]:
    import numpy as np
    from rapidfuzz.process import cdist

    scorer = Indel.distance if similarity == "indel" else Levenshtein.distance
    pred_lengths = np.array([len(text) for text in preds])
    found: list[Pair] = []
    step = max(1, 2_000_000 // len(preds))  # bounds the matrix held at once
    for start in range(0, len(truths), step):
        part = truths[start : start + step]
        distances = cdist(part, preds, scorer=scorer, dtype=np.int64, workers=1)
        lengths = np.array([len(text) for text in part])[:, None]
        whole = lengths + pred_lengths if similarity == "indel" else np.maximum(lengths, pred_lengths)
        scores = np.where(whole == 0, 1.0, (whole - distances) / np.maximum(whole, 1))
        rows, columns = np.nonzero(scores >= floor)
        found.extend(
            Pair(start + t, p, score)
            for t, p, score in zip(rows.tolist(), columns.tolist(), scores[rows, columns].tolist(), strict=True)
        )
    return found


def _greedy(candidates: Sequence[Pair]) -> list[Pair]:
    """One-to-one pairs, most similar first; ties by truth index, then prediction index."""
    if len(candidates) == 1:
        return list(candidates)
    taken_truth: set[int] = set()
    taken_pred: set[int] = set()
    chosen = []
    for pair in sorted(candidates, key=lambda pair: (-pair.similarity, pair.truth_index, pair.pred_index)):
        if pair.truth_index not in taken_truth and pair.pred_index not in taken_pred:
            taken_truth.add(pair.truth_index)
            taken_pred.add(pair.pred_index)
            chosen.append(pair)
    return chosen


def _optimal(candidates: Sequence[Pair]) -> list[Pair]:
    """One-to-one pairs with the largest total similarity: the Hungarian method with potentials, O(n²m)."""
    by_key = {(pair.truth_index, pair.pred_index): pair for pair in candidates}
    truths = sorted({pair.truth_index for pair in candidates})
    preds = sorted({pair.pred_index for pair in candidates})
    swapped = len(truths) > len(preds)
    rows, columns = (preds, truths) if swapped else (truths, preds)

    def pair_at(row: int, column: int) -> Pair | None:
        key = (columns[column], rows[row]) if swapped else (rows[row], columns[column])
        return by_key.get(key)

    def cost(row: int, column: int) -> float:
        pair = pair_at(row, column)
        return 0.0 if pair is None else -pair.similarity

    n, m = len(rows), len(columns)
    costs = [[cost(row, column) for column in range(m)] for row in range(n)]
    # 1-based; column 0 is where each augmenting path starts. row_of[j] is the row that column j is given to.
    row_potential = [0.0] * (n + 1)
    column_potential = [0.0] * (m + 1)
    row_of = [0] * (m + 1)
    for row in range(1, n + 1):
        row_of[0] = row
        current = 0
        slack = [math.inf] * (m + 1)
        came_from = [0] * (m + 1)
        visited = [False] * (m + 1)
        while row_of[current]:
            visited[current] = True
            here = row_of[current]
            delta, following = math.inf, 0
            for column in range(1, m + 1):
                if visited[column]:
                    continue
                reduced = costs[here - 1][column - 1] - row_potential[here] - column_potential[column]
                if reduced < slack[column]:
                    slack[column] = reduced
                    came_from[column] = current
                if slack[column] < delta:
                    delta, following = slack[column], column
            for column in range(m + 1):
                if visited[column]:
                    row_potential[row_of[column]] += delta
                    column_potential[column] -= delta
                else:
                    slack[column] -= delta
            current = following
        while current:
            row_of[current] = row_of[came_from[current]]
            current = came_from[current]
    chosen = (pair_at(row_of[column] - 1, column - 1) for column in range(1, m + 1) if row_of[column])
    return [pair for pair in chosen if pair is not None]


def _check_share(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value!r}: it must lie between 0 and 1")


def match_texts(
    predicted: Sequence[str],
    truth: Sequence[str],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    similarity: str = "indel",
    assignment: str = "greedy",
    near_miss_floor: float = NEAR_MISS_FLOOR,
) -> MatchResult:
    """Match predicted with labelled texts one to one.

    Pairs with a similarity of at least ``threshold`` (see :func:`content_similarity`) can match. ``greedy`` takes the
    most similar pair first, ties by (truth index, prediction index); ``optimal`` takes the pairs whose similarities
    have the largest sum. ``near_misses`` pairs, greedily, what was left over and is at least ``near_miss_floor``
    similar. With nothing on one side everything on the other is unmatched. Raises ValueError for unknown names and for
    numbers outside [0, 1].
    """
    _known("similarity", similarity, SIMILARITIES)
    _known("assignment", assignment, ASSIGNMENTS)
    _check_share("the match threshold", threshold)
    _check_share("near_miss_floor", near_miss_floor)
    candidates = _candidates(predicted, truth, similarity, min(threshold, near_miss_floor))
    eligible = [pair for pair in candidates if pair.similarity >= threshold]
    chosen = _greedy(eligible) if assignment == "greedy" else _optimal(eligible)
    return _result(len(predicted), len(truth), chosen, [p for p in candidates if p.similarity >= near_miss_floor])


def _result(n_pred: int, n_truth: int, chosen: Sequence[Pair], near: Sequence[Pair]) -> MatchResult:
    matched_truth = {pair.truth_index for pair in chosen}
    matched_pred = {pair.pred_index for pair in chosen}
    left = [pair for pair in near if pair.truth_index not in matched_truth and pair.pred_index not in matched_pred]
    return MatchResult(
        pairs=tuple(sorted(chosen)),
        unmatched_pred=tuple(index for index in range(n_pred) if index not in matched_pred),
        unmatched_truth=tuple(index for index in range(n_truth) if index not in matched_truth),
        near_misses=tuple(_greedy(left)),
    )


def match_memories(predicted: Sequence[_HasContent], truth: Sequence[_HasContent], **options: Any) -> MatchResult:
    """:func:`match_texts` on the contents of memories; ``options`` are its keyword arguments."""
    return match_texts([memory.content for memory in predicted], [memory.content for memory in truth], **options)


@dataclass(frozen=True, slots=True)
class SimilarityMatcher:
    """The :class:`Matcher` by text similarity: :func:`match_texts` with fixed options."""

    similarity: str = "indel"
    assignment: str = "greedy"
    threshold: float = DEFAULT_THRESHOLD
    near_miss_floor: float = NEAR_MISS_FLOOR

    def __post_init__(self) -> None:
        _known("similarity", self.similarity, SIMILARITIES)
        _known("assignment", self.assignment, ASSIGNMENTS)
        _check_share("the match threshold", self.threshold)
        _check_share("near_miss_floor", self.near_miss_floor)

    def match(self, predicted: Sequence[str], truth: Sequence[str]) -> list[tuple[int, int, float]]:
        return list(self.match_with_leftovers(predicted, truth).pairs)

    def match_with_leftovers(self, predicted: Sequence[str], truth: Sequence[str]) -> MatchResult:
        """As :meth:`match`, with what was left over and near misses."""
        return match_texts(
            predicted,
            truth,
            threshold=self.threshold,
            similarity=self.similarity,
            assignment=self.assignment,
            near_miss_floor=self.near_miss_floor,
        )

    def describe(self) -> dict[str, Any]:
        """What a report says of the matcher."""
        return {
            "kind": "similarity",
            "similarity": self.similarity,
            "assignment": self.assignment,
            "threshold": self.threshold,
            "near_miss_floor": self.near_miss_floor,
        }


def build_matcher(name: str = "indel", threshold: float = DEFAULT_THRESHOLD) -> SimilarityMatcher:
    """The matcher with this name (see :data:`MATCHERS`). ValueError names the nearest for an unknown one."""
    _known("matcher", name, tuple(MATCHERS))
    similarity, assignment = MATCHERS[name]
    return SimilarityMatcher(similarity=similarity, assignment=assignment, threshold=threshold)


def describe_matcher(matcher: Matcher) -> dict[str, Any]:
    """What a report says of a matcher: what it says by ``describe()``, else its class's name."""
    describe = getattr(matcher, "describe", None)
    return dict(describe()) if callable(describe) else {"name": type(matcher).__name__}


def match_with(matcher: Matcher, predicted: Sequence[str], truth: Sequence[str]) -> MatchResult:
    """What ``matcher`` finds, checked and with leftovers.

    Any matcher is held to one-to-one pairs with indices that exist and finite similarities; ValueError otherwise. Near
    misses of a matcher of another kind are leftovers whose texts are alike (``indel``, from 0.3 on).
    """
    if isinstance(matcher, SimilarityMatcher):
        return matcher.match_with_leftovers(predicted, truth)
    chosen = []
    seen_truth: set[int] = set()
    seen_pred: set[int] = set()
    for truth_index, pred_index, similarity in matcher.match(predicted, truth):
        pair = Pair(truth_index, pred_index, float(similarity))
        if not (0 <= truth_index < len(truth) and 0 <= pred_index < len(predicted)):
            raise ValueError(
                f"the matcher paired truth {truth_index} with prediction {pred_index}, but there are {len(truth)} "
                f"truths and {len(predicted)} predictions"
            )
        if truth_index in seen_truth or pred_index in seen_pred:
            raise ValueError(f"the matcher used truth {truth_index} or prediction {pred_index} twice")
        if not math.isfinite(pair.similarity):
            raise ValueError(
                f"the matcher gave truth {truth_index} and prediction {pred_index} the similarity {pair.similarity}"
            )
        seen_truth.add(truth_index)
        seen_pred.add(pred_index)
        chosen.append(pair)
    left_truth = [index for index in range(len(truth)) if index not in seen_truth]
    left_pred = [index for index in range(len(predicted)) if index not in seen_pred]
    alike = _candidates([predicted[i] for i in left_pred], [truth[i] for i in left_truth], "indel", NEAR_MISS_FLOOR)
    near = [Pair(left_truth[pair.truth_index], left_pred[pair.pred_index], pair.similarity) for pair in alike]
    return _result(len(predicted), len(truth), chosen, near)
