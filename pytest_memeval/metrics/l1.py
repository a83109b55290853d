"""Extraction (L1): were the right memories found, with the right labels?

Over matched pairs and leftovers: TP = |predicted ∩ labelled| dimensions, FP = |predicted − labelled|,
FN = |labelled − predicted|. An unmatched prediction adds its dimensions to FP, an unmatched truth its to FN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pytest_memeval.metrics.matching import Matcher, Pair, SimilarityMatcher, match_with
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.tallies import add_tables, quotient

if TYPE_CHECKING:
    from pytest_memeval.cases.models import GtMemory
    from pytest_memeval.values import Memory

#: A predicted priority within this many points of the labelled one is near enough on a scale from 0 to 100.
PRIORITY_TOLERANCE = 10.0
#: Differences of decimal fractions are not exact.
_ROUNDING = 1e-9
#: No priority scale reaches this far; what is larger is no priority. Keeps every sum of errors finite.
_PRIORITY_LIMIT = 1e12

_DEFAULT_MATCHER = SimilarityMatcher()


@dataclass(frozen=True, slots=True)
class MatchedPair:
    """A matched pair and what is wrong in it.

    ``missed`` are labelled dimensions not predicted, ``extra`` predicted ones not labelled. ``memory_type_right`` and
    ``time_velocity_right`` are ``None`` where the truth has no label; ``priority_error`` (points) is ``None`` where
    either side has none.
    """

    pair: Pair
    missed: tuple[str, ...]
    extra: tuple[str, ...]
    memory_type_right: bool | None
    time_velocity_right: bool | None
    priority_error: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "truth": self.pair.truth_index,
            "pred": self.pair.pred_index,
            "similarity": self.pair.similarity,
            "missed": list(self.missed),
            "extra": list(self.extra),
            "memory_type_right": self.memory_type_right,
            "time_velocity_right": self.time_velocity_right,
            "priority_error": self.priority_error,
        }


@dataclass(frozen=True, slots=True)
class L1Metrics:
    """Counts of one case, or of several added up; every figure is a property of the counts.

    Ratios lie in [0, 1] and are ``None`` where their denominator is 0. ``pairs``, ``unmatched_*`` and ``near_misses``
    are a single case's and empty in an aggregate. ``dropped_as_fp`` of ``fp`` are labels unknown to the registry; they
    belong to no dimension.
    """

    cases: int = 0
    strict_matches: int = 0
    tp: int = 0
    fp: int = 0
    fn: int = 0
    dropped_as_fp: int = 0
    per_dimension: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    confusions: Mapping[str, int] = field(default_factory=dict)
    matched: int = 0
    predicted: int = 0
    labelled: int = 0
    memory_type_right: int = 0
    memory_type_labelled: int = 0
    time_velocity_right: int = 0
    time_velocity_labelled: int = 0
    priority_error: float = 0.0
    priority_compared: int = 0
    priority_within: int = 0
    priority_labelled: int = 0
    #: Matched pairs whose labelled priority met one that is given, and no number to reckon with.
    priority_unusable: int = 0
    dropped_labels: int = 0
    invalid_items: int = 0
    near_miss_count: int = 0
    pairs: tuple[MatchedPair, ...] = ()
    unmatched_pred: tuple[int, ...] = ()
    unmatched_truth: tuple[int, ...] = ()
    near_misses: tuple[Pair, ...] = ()

    @property
    def dimension_micro_f1(self) -> float | None:
        """2·TP / (2·TP + FP + FN)."""
        return quotient(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    @property
    def dimension_micro_precision(self) -> float | None:
        """TP / (TP + FP)."""
        return quotient(self.tp, self.tp + self.fp)

    @property
    def dimension_micro_recall(self) -> float | None:
        """TP / (TP + FN)."""
        return quotient(self.tp, self.tp + self.fn)

    @property
    def per_dimension_f1(self) -> dict[str, float | None]:
        """F1 of each dimension that was labelled or predicted."""
        return {name: quotient(2 * tp, 2 * tp + fp + fn) for name, (tp, fp, fn) in self.per_dimension.items()}

    @property
    def per_dimension_precision(self) -> dict[str, float | None]:
        return {name: quotient(tp, tp + fp) for name, (tp, fp, _) in self.per_dimension.items()}

    @property
    def per_dimension_recall(self) -> dict[str, float | None]:
        return {name: quotient(tp, tp + fn) for name, (tp, _, fn) in self.per_dimension.items()}

    @property
    def strict_match_rate(self) -> float | None:
        """Share of cases in which every memory matched with the same dimensions and nothing was left over."""
        return quotient(self.strict_matches, self.cases)

    @property
    def memory_type_accuracy(self) -> float | None:
        """Right / matched pairs whose truth has a memory type. A prediction without one is wrong."""
        return quotient(self.memory_type_right, self.memory_type_labelled)

    @property
    def time_velocity_accuracy(self) -> float | None:
        """Right / matched pairs whose truth has a time velocity. A prediction without one is wrong."""
        return quotient(self.time_velocity_right, self.time_velocity_labelled)

    @property
    def priority_mae(self) -> float | None:
        """Mean absolute error in points over matched pairs with a priority on both sides; 0 is best, no upper bound."""
        return quotient(self.priority_error, self.priority_compared)

    @property
    def priority_within_10(self) -> float | None:
        """Share of matched pairs with a labelled priority whose error is at most a tenth of the scale; without a
        prediction it is not."""
        return quotient(self.priority_within, self.priority_labelled)

    @property
    def memory_precision(self) -> float | None:
        """Matched / predicted memories."""
        return quotient(self.matched, self.predicted)

    @property
    def memory_recall(self) -> float | None:
        """Matched / labelled memories."""
        return quotient(self.matched, self.labelled)

    def section(self) -> SectionRecord:
        """The section ``l1`` of a report."""
        tp, fp, fn = self.tp, self.fp, self.fn
        ratios: dict[str, tuple[float, float]] = {
            "dimension_micro_f1": (2 * tp, 2 * tp + fp + fn),
            "dimension_micro_precision": (tp, tp + fp),
            "dimension_micro_recall": (tp, tp + fn),
        }
        for name, (one_tp, one_fp, one_fn) in self.per_dimension.items():
            ratios[f"per_dimension_f1.{name}"] = (2 * one_tp, 2 * one_tp + one_fp + one_fn)
            ratios[f"per_dimension_precision.{name}"] = (one_tp, one_tp + one_fp)
            ratios[f"per_dimension_recall.{name}"] = (one_tp, one_tp + one_fn)
        ratios["strict_match_rate"] = (self.strict_matches, self.cases)
        ratios["memory_type_accuracy"] = (self.memory_type_right, self.memory_type_labelled)
        ratios["time_velocity_accuracy"] = (self.time_velocity_right, self.time_velocity_labelled)
        # An error that cannot be told is not left out as if there were none: the whole case is unmeasured.
        error = math.nan if self.priority_unusable else self.priority_error
        ratios["priority_mae"] = (error, self.priority_compared + self.priority_unusable)
        ratios["priority_within_10"] = (self.priority_within, self.priority_labelled)
        ratios["memory_precision"] = (self.matched, self.predicted)
        ratios["memory_recall"] = (self.matched, self.labelled)
        return SectionRecord(
            ratios=ratios,
            counts={
                "total_tp": tp,
                "total_fp": fp,
                "total_fn": fn,
                "dropped_labels": self.dropped_labels,
                "invalid_items": self.invalid_items,
                "near_misses": self.near_miss_count,
            },
            tables={
                "per_dimension_tp": {name: counts[0] for name, counts in self.per_dimension.items()},
                "per_dimension_fp": {name: counts[1] for name, counts in self.per_dimension.items()},
                "per_dimension_fn": {name: counts[2] for name, counts in self.per_dimension.items()},
                "confusions": dict(self.confusions),
            },
            details={
                "pairs": [pair.to_json() for pair in self.pairs],
                "unmatched_pred": list(self.unmatched_pred),
                "unmatched_truth": list(self.unmatched_truth),
                "near_misses": [
                    {"truth": pair.truth_index, "pred": pair.pred_index, "similarity": pair.similarity}
                    for pair in self.near_misses
                ],
            },
        )


def _usable_priority(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _PRIORITY_LIMIT:
        return float(value)
    return None


def _compare(
    pair: Pair, predicted: Memory, truth: GtMemory, missed: Iterable[str], extra: Iterable[str]
) -> MatchedPair:
    wanted, given = _usable_priority(truth.priority), _usable_priority(predicted.priority)
    return MatchedPair(
        pair=pair,
        missed=tuple(sorted(missed)),
        extra=tuple(sorted(extra)),
        memory_type_right=None if truth.memory_type is None else predicted.memory_type == truth.memory_type,
        time_velocity_right=None if truth.time_velocity is None else predicted.time_velocity == truth.time_velocity,
        priority_error=None if wanted is None or given is None else abs(given - wanted),
    )


def _tally_dimensions(
    table: dict[str, list[int]], found: Iterable[str], extra: Iterable[str], missed: Iterable[str]
) -> None:
    for column, names in enumerate((found, extra, missed)):
        for name in names:
            table.setdefault(name, [0, 0, 0])[column] += 1


def compute_l1(
    predicted: Sequence[Memory],
    truth: Sequence[GtMemory],
    *,
    matcher: Matcher | None = None,
    dropped_labels: int = 0,
    invalid_items: int = 0,
    unknown_label: Literal["drop", "fp"] = "drop",
    priority_tolerance: float = PRIORITY_TOLERANCE,
) -> L1Metrics:
    """Score one case's extracted memories against its labelled ones.

    ``matcher`` pairs them by content (default: indel similarity from 0.5, greedy). ``dropped_labels`` says how many
    predicted labels the registry did not know: they are counted, and with ``unknown_label="fp"`` they are false
    positives too, belonging to no dimension, and the case is no strict match. ``invalid_items`` is only counted.
    ``priority_tolerance`` is how far apart two priorities may be for ``priority_within_10``: a tenth of the scale.

    Edges: nothing labelled and nothing predicted is a strict match whose other figures are ``None``; with one side
    empty F1 is 0. An optional label that the truth lacks is not scored; one that only the prediction lacks is wrong in
    the accuracies and in ``priority_within_10``, and out of ``priority_mae``. A priority that is NaN, infinite or
    beyond ±1e12 is taken as missing, but the section's ``priority_mae`` is NaN then: unmeasured. Raises ValueError for
    a negative count or a matcher that is not one to one.
    """
    if dropped_labels < 0 or invalid_items < 0:
        raise ValueError(f"counts cannot be negative: dropped_labels={dropped_labels}, invalid_items={invalid_items}")
    if unknown_label not in ("drop", "fp"):
        raise ValueError(f"unknown_label is {unknown_label!r}: it must be 'drop' or 'fp'")
    result = match_with(matcher or _DEFAULT_MATCHER, [m.content for m in predicted], [m.content for m in truth])

    table: dict[str, list[int]] = {}
    confusions: dict[str, int] = {}
    pairs = []
    for pair in result.pairs:
        one_pred, one_truth = predicted[pair.pred_index], truth[pair.truth_index]
        given, wanted = set(one_pred.dimensions), set(one_truth.dimensions)
        compared = _compare(pair, one_pred, one_truth, wanted - given, given - wanted)
        pairs.append(compared)
        _tally_dimensions(table, given & wanted, compared.extra, compared.missed)
        for missed in compared.missed:
            for extra in compared.extra:
                key = f"{missed}→{extra}"
                confusions[key] = confusions.get(key, 0) + 1
    nothing: AbstractSet[str] = frozenset()
    for index in result.unmatched_pred:
        _tally_dimensions(table, nothing, set(predicted[index].dimensions), nothing)
    for index in result.unmatched_truth:
        _tally_dimensions(table, nothing, nothing, set(truth[index].dimensions))

    per_dimension = {name: (counts[0], counts[1], counts[2]) for name, counts in sorted(table.items())}
    dropped_as_fp = dropped_labels if unknown_label == "fp" else 0
    strict = (
        not result.unmatched_pred
        and not result.unmatched_truth
        and not dropped_as_fp
        and not any(pair.missed or pair.extra for pair in pairs)
    )
    errors = [pair.priority_error for pair in pairs if pair.priority_error is not None]
    return L1Metrics(
        cases=1,
        strict_matches=int(strict),
        tp=sum(counts[0] for counts in per_dimension.values()),
        fp=sum(counts[1] for counts in per_dimension.values()) + dropped_as_fp,
        fn=sum(counts[2] for counts in per_dimension.values()),
        dropped_as_fp=dropped_as_fp,
        per_dimension=per_dimension,
        confusions=dict(sorted(confusions.items())),
        matched=len(pairs),
        predicted=len(predicted),
        labelled=len(truth),
        memory_type_right=sum(pair.memory_type_right is True for pair in pairs),
        memory_type_labelled=sum(pair.memory_type_right is not None for pair in pairs),
        time_velocity_right=sum(pair.time_velocity_right is True for pair in pairs),
        time_velocity_labelled=sum(pair.time_velocity_right is not None for pair in pairs),
        priority_error=math.fsum(errors),
        priority_compared=len(errors),
        priority_within=sum(error <= priority_tolerance + _ROUNDING for error in errors),
        priority_unusable=sum(
            predicted[pair.pred_index].priority is not None
            and _usable_priority(predicted[pair.pred_index].priority) is None
            and _usable_priority(truth[pair.truth_index].priority) is not None
            for pair in result.pairs
        ),
        priority_labelled=sum(_usable_priority(truth[pair.truth_index].priority) is not None for pair in result.pairs),
        dropped_labels=dropped_labels,
        invalid_items=invalid_items,
        near_miss_count=len(result.near_misses),
        pairs=tuple(pairs),
        unmatched_pred=result.unmatched_pred,
        unmatched_truth=result.unmatched_truth,
        near_misses=result.near_misses,
    )


_ADDED = (
    "cases",
    "strict_matches",
    "tp",
    "fp",
    "fn",
    "dropped_as_fp",
    "matched",
    "predicted",
    "labelled",
    "memory_type_right",
    "memory_type_labelled",
    "time_velocity_right",
    "time_velocity_labelled",
    "priority_compared",
    "priority_within",
    "priority_labelled",
    "priority_unusable",
    "dropped_labels",
    "invalid_items",
    "near_miss_count",
)


def aggregate_l1(items: Iterable[L1Metrics]) -> L1Metrics:
    """The sums of several cases' counts: a set's figures. Order does not matter; nothing gives all zeros."""
    metrics = list(items)
    dimensions = sorted({name for one in metrics for name in one.per_dimension})
    zero = (0, 0, 0)
    per_dimension = {}
    for name in dimensions:
        counts = [one.per_dimension.get(name, zero) for one in metrics]
        per_dimension[name] = (sum(c[0] for c in counts), sum(c[1] for c in counts), sum(c[2] for c in counts))
    return L1Metrics(
        per_dimension=per_dimension,
        confusions=add_tables(one.confusions for one in metrics),
        priority_error=math.fsum(one.priority_error for one in metrics),
        **{name: sum(getattr(one, name) for one in metrics) for name in _ADDED},
    )
