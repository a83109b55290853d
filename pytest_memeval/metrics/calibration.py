"""How well a text similarity tells pairs of texts that say the same from pairs that do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean
from pytest_memeval.metrics.matching import DEFAULT_THRESHOLD, SIMILARITIES, content_similarity
from pytest_memeval.metrics.paired import PairedDifference, paired_difference
from pytest_memeval.metrics.stats import MIN_CLUSTERS, RESAMPLES, Estimate, Interval, Ratio, ratio_estimate
from pytest_memeval.metrics.tallies import quotient

#: 0.05, 0.10 … 0.95, as the decimals they are.
THRESHOLDS: tuple[float, ...] = tuple(number / 100 for number in range(5, 100, 5))
PAIR_KEYS = ("a", "b", "same", "kind", "lang", "entity", "template", "note")


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts and whether they say the same. ``cluster`` names pairs that were not written independently."""

    a: str
    b: str
    same: bool
    kind: str = ""
    lang: str = ""
    cluster: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """What a threshold does to the pairs: the counts, and from them the shares."""

    threshold: float
    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def precision(self) -> float | None:
        return quotient(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float | None:
        return quotient(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float | None:
        return quotient(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    @property
    def accuracy(self) -> float | None:
        return quotient(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn)

    def as_dict(self) -> dict[str, float | int | None]:
        return {
            "threshold": self.threshold,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "accuracy": self.accuracy,
            "tp": self.tp,
            "fp": self.fp,
            "fn": self.fn,
            "tn": self.tn,
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """A similarity on labelled pairs.

    ``curve`` has a point for each threshold. ``best`` is the point of the highest accuracy, ``best_interval`` where
    95 % of resamples have theirs (``None``: fewer than 5 clusters). ``chosen`` is the point at the threshold that was
    to be judged, and ``accuracy`` its accuracy with interval; ``by_kind`` and ``by_lang`` give (right, pairs) there.
    """

    similarity: str
    curve: tuple[Point, ...]
    best: Point
    best_interval: Interval | None
    chosen: Point
    accuracy: Estimate
    by_kind: Mapping[str, tuple[int, int]]
    by_lang: Mapping[str, tuple[int, int]]

    def as_dict(self) -> dict[str, Any]:
        interval = None if self.best_interval is None else list(self.best_interval)
        return {
            "best": {**self.best.as_dict(), "threshold_interval": interval},
            "chosen": {**self.chosen.as_dict(), "accuracy_interval": interval_of(self.accuracy)},
            "by_kind": {name: {"right": right, "pairs": count} for name, (right, count) in self.by_kind.items()},
            "by_lang": {name: {"right": right, "pairs": count} for name, (right, count) in self.by_lang.items()},
            "curve": [point.as_dict() for point in self.curve],
        }


def interval_of(estimate: Estimate | PairedDifference) -> list[float] | None:
    return None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]


def read_pairs(path: Path) -> list[LabelledPair]:
    """The pairs of a JSON Lines file, one mapping a line: ``a``, ``b`` (texts), ``same`` (true or false), and as wanted
    ``kind``, ``lang``, ``entity`` (pairs about one thing are one cluster), ``template`` and ``note``.

    Raises DocumentError with every fault and its line.
    """
    from pytest_memeval.documents.reader import read_document

    document = read_document(path, syntax="jsonl")
    problems: list[Problem] = []
    pairs: list[LabelledPair] = []
    for node in document.root.elements():
        if not node.is_mapping:
            problems.append(node.problem(f"a pair has to be a mapping with 'a', 'b' and 'same', not {node.describe()}"))
            continue
        values = {key.text: value for key, value in node.items()}
        for key, value in node.items():
            if key.text not in PAIR_KEYS:
                problems.append(key.problem(f"unknown key {key.text!r} in a pair{did_you_mean(key.text, PAIR_KEYS)}"))
            elif key.text != "same" and not isinstance(value.value(), str):
                problems.append(value.problem(f"{key.text!r} is text, not {value.describe()}"))
        missing = [key for key in ("a", "b", "same") if key not in values]
        if missing:
            problems.append(node.problem(f"the pair has no {' and no '.join(map(repr, missing))}"))
            continue
        same = values["same"].value()
        if not isinstance(same, bool):
            problems.append(values["same"].problem(f"'same' is true or false, not {values['same'].text!r}"))
            continue

        def text(key: str, values: Mapping[str, Any] = values) -> str:
            return str(values[key].text) if key in values else ""

        cluster = text("entity") or f"line {node.line}"
        pairs.append(LabelledPair(text("a"), text("b"), same, text("kind"), text("lang"), cluster, node.line))
    if not pairs and not problems:
        problems.append(Problem(path, 0, 0, "the file has no pairs"))
    if problems:
        raise DocumentError(problems)
    return pairs


def similarities_of(pairs: Sequence[LabelledPair], similarity: str) -> list[float]:
    """The similarity of each pair, in order."""
    return [content_similarity(pair.a, pair.b, similarity=similarity) for pair in pairs]


def point_at(pairs: Sequence[LabelledPair], scores: Sequence[float], threshold: float) -> Point:
    """Count what "at least ``threshold``" gets right. Pairs that say the same are the positive ones."""
    tp = fp = fn = tn = 0
    for pair, score in zip(pairs, scores, strict=True):
        if score >= threshold:
            tp, fp = tp + pair.same, fp + (not pair.same)
        else:
            fn, tn = fn + pair.same, tn + (not pair.same)
    return Point(threshold, tp, fp, fn, tn)


def best_point(curve: Iterable[Point]) -> Point:
    """The point of the highest accuracy; of equal ones that nearest to 0.5, then the lower."""
    return min(curve, key=_preference)


def _preference(point: Point) -> tuple[float, float, float]:
    return (-(point.accuracy or 0.0), *_nearness(point.threshold))


def _nearness(threshold: float) -> tuple[float, float]:
    return round(abs(threshold - DEFAULT_THRESHOLD), 9), threshold


def calibrate(
    pairs: Sequence[LabelledPair],
    similarity: str,
    *,
    threshold: float | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Calibration:
    """How ``similarity`` does on labelled pairs at each of :data:`THRESHOLDS`.

    ``threshold`` is the one to be judged (chosen elsewhere, so that its accuracy is not flattered); without it 0.5.
    Intervals are over clusters of pairs. ValueError for an unknown similarity or no pairs.
    """
    if not pairs:
        raise ValueError("there are no pairs to calibrate on")
    scores = similarities_of(pairs, similarity)
    curve = tuple(point_at(pairs, scores, one) for one in THRESHOLDS)
    judged = DEFAULT_THRESHOLD if threshold is None else threshold
    right = right_at(pairs, scores, judged)
    return Calibration(
        similarity=similarity,
        curve=curve,
        best=best_point(curve),
        best_interval=_best_interval(pairs, scores, seed, resamples),
        chosen=point_at(pairs, scores, judged),
        accuracy=ratio_estimate(right, [1] * len(pairs), [pair.cluster for pair in pairs], seed=seed),
        by_kind=_breakdown([pair.kind for pair in pairs], right),
        by_lang=_breakdown([pair.lang for pair in pairs], right),
    )


def right_at(pairs: Sequence[LabelledPair], scores: Sequence[float], threshold: float) -> list[int]:
    """1 for each pair that the threshold decides rightly, else 0."""
    return [int((score >= threshold) == pair.same) for pair, score in zip(pairs, scores, strict=True)]


def _breakdown(names: Sequence[str], right: Sequence[int]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for name, one in zip(names, right, strict=True):
        if name:
            hits, count = found.get(name, (0, 0))
            found[name] = hits + one, count + 1
    return dict(sorted(found.items()))


def _best_interval(
    pairs: Sequence[LabelledPair], scores: Sequence[float], seed: int, resamples: int
) -> Interval | None:
    """The 2.5 and 97.5 percentiles of the best threshold when clusters are drawn anew."""
    import numpy as np

    from pytest_memeval.metrics.resampling import resampled_sums

    clusters = sorted({pair.cluster for pair in pairs})
    if len(clusters) < MIN_CLUSTERS:
        return None
    number = {name: position for position, name in enumerate(clusters)}
    # Columns in the order in which equally good thresholds are preferred: the first maximum is the one.
    order = sorted(THRESHOLDS, key=_nearness)
    table = np.zeros((len(clusters), len(order)))
    for column, threshold in enumerate(order):
        for pair, right in zip(pairs, right_at(pairs, scores, threshold), strict=True):
            table[number[pair.cluster], column] += right
    winners = resampled_sums(table, seed, resamples).argmax(axis=1)
    low, high = np.percentile(np.array(order)[winners], [2.5, 97.5])
    return float(low), float(high)


def accuracy_difference(
    pairs: Sequence[LabelledPair], first: tuple[str, float], second: tuple[str, float], *, seed: int = 0
) -> PairedDifference:
    """Accuracy of the second (similarity, threshold) − that of the first on the same pairs, over clusters."""
    ones = [1] * len(pairs)
    one, two = (
        Ratio(right_at(pairs, similarities_of(pairs, similarity), threshold), ones, -1.0)
        for similarity, threshold in (first, second)
    )
    return paired_difference(one, two, [pair.cluster for pair in pairs], seed=seed)


#: Similarities of letters alone, against which one that knows more is held.
STRING_SIMILARITIES: tuple[str, ...] = tuple(name for name in SIMILARITIES if name != "hybrid")
