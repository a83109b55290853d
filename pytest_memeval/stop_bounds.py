"""How much a single case can count at a gate, known from its labels before it is run: what early stopping rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from pytest_memeval.case_counts import PRODUCTS, matches
from pytest_memeval.cases.models import EvalCase
from pytest_memeval.kinds import KindCase
from pytest_memeval.metrics.thresholds import MetricPath

#: Most hits and most misses of one unit (a case, or the cases that share a text).
Bounds = tuple[float, float]
#: Sections in which each case counts once at each metric.
_ONE_A_CASE = ("qa", "rag", "locomo", "longmemeval")

_Size = Callable[[EvalCase], float]


def _memories(case: EvalCase) -> float:
    return len(case.expected_l1.memories) if case.expected_l1 is not None else 0


def _dimensions(case: EvalCase) -> float:
    return sum(len(memory.dimensions) for memory in case.expected_l1.memories) if case.expected_l1 is not None else 0


def _actions(case: EvalCase) -> float:
    return len(case.expected_l15.actions) if case.expected_l15 is not None else 0


def _placements(case: EvalCase) -> float:
    return sum(map(len, case.expected_l2.template_section.values())) if case.expected_l2 is not None else 0


def _scenes(case: EvalCase) -> float:
    return max(len(case.expected_l2.scenes), len(case.expected_l2.scene_labels)) if case.expected_l2 is not None else 0


def _pairs(case: EvalCase) -> float:
    scenes = case.expected_l2.scenes if case.expected_l2 is not None else ()
    return len({pair for scene in scenes for pair in combinations(sorted(set(scene.memories)), 2)})


def _queries(case: EvalCase) -> float:
    return len(case.expected_search.queries) if case.expected_search is not None else 0


def _referenced(case: EvalCase) -> float:
    return len(set(case.expected_inject.referenced_memory_indices)) if case.expected_inject is not None else 0


#: Metrics whose denominator is at most the number of some labels.
_LABELLED: Mapping[str, _Size] = {
    "l1.strict_match_rate": lambda case: float(case.expected_l1 is not None),
    "l1.dimension_micro_recall": _dimensions,
    "l1.memory_recall": _memories,
    "l1.memory_type_accuracy": _memories,
    "l1.time_velocity_accuracy": _memories,
    "l1.priority_within_10": _memories,
    "l15.action_accuracy": _actions,
    "l15.decision_accuracy": _actions,
    "l15.action_accuracy_reached": _actions,
    "l15.decision_accuracy_reached": _actions,
    "l15.merged_content_match": _actions,
    "l2.section_hit_rate": _placements,
    "l2.section_miss_rate": _placements,
    "l2._profile_hit_rate": _placements,
    "l2.scene_label_recall": _scenes,
    "l2.scene_grouping_recall": _pairs,
    "inject.reference_coverage": _referenced,
    "inject.pipeline_coverage": _referenced,
    **{f"search.{name}": _queries for name in ("ndcg", "mrr", "recall", "hit", "map")},
}
#: Metrics that count wrong predictions too, of which no label says how many there can be.
_F1: Mapping[str, _Size] = {"l1.dimension_micro_f1": _dimensions, "l2._profile_l1_f1": _dimensions}
_PRECISION: Mapping[str, _Size] = {"l1.dimension_micro_precision": _dimensions, "l1.memory_precision": _memories}


def case_bounds(path: MetricPath, case: EvalCase | KindCase, most_wrong: float) -> tuple[Bounds, ...] | None:
    """The most hits and misses of one case at the metric, for each of its ratios; ``None`` where nothing bounds them.

    ``most_wrong`` is the number of wrong predictions that no case is taken to exceed, for F1 and precision.
    """
    subject: Any = case
    product = PRODUCTS.get(path.base)
    names = product[:2] if product is not None else (path.metric,)
    if not matches(subject, path.filters):
        return ((0.0, 0.0),) * len(names)
    if isinstance(case, KindCase):
        spec = path.spec
        one = path.section in _ONE_A_CASE and spec is not None and (spec.low, spec.high) == (0.0, 1.0)
        return ((1.0, 1.0),) if one else None
    found = [_bounds(f"{path.section}.{name}", path.key, case, most_wrong) for name in names]
    return None if None in found else tuple(bounds for bounds in found if bounds is not None)


def _bounds(metric: str, key: str | None, case: EvalCase, most_wrong: float) -> Bounds | None:
    if metric.startswith("l1.per_dimension_"):
        memories = case.expected_l1.memories if case.expected_l1 is not None else ()
        labelled: float = sum(key in memory.dimensions for memory in memories)
        rule = metric.rpartition("_")[2]
    elif metric == "l15.action_recall":
        labelled = sum(one.action == key for one in case.expected_l15.actions) if case.expected_l15 is not None else 0
        rule = "recall"
    else:
        rules = (("recall", _LABELLED), ("f1", _F1), ("precision", _PRECISION))
        rule, sizes = next(((name, sizes) for name, sizes in rules if metric in sizes), ("", {}))
        if not rule:
            return None
        labelled = sizes[metric](case)
    if rule == "recall":
        return labelled, labelled
    if metric.startswith("l1.") and case.expected_l1 is None:
        return 0.0, 0.0
    if metric == "l2._profile_l1_f1" and not _placements(case):
        return 0.0, 0.0
    # Of an F1 of 2 tp / (2 tp + fp + fn) the hits are 2 tp, the misses fp + fn.
    return (2 * labelled, labelled + most_wrong) if rule == "f1" else (labelled, most_wrong)


def unit_bounds(
    path: MetricPath, units: Sequence[Sequence[EvalCase | KindCase]], most_wrong: float
) -> list[list[Bounds]] | None:
    """For each ratio of the metric a bound for each unit; ``None`` where a case's share has no bound."""
    columns: list[list[Bounds]] = []
    for cases in units:
        each = [case_bounds(path, case, most_wrong) for case in cases]
        if None in each:
            return None
        rows = [row for row in each if row is not None]
        if not columns:
            columns = [[] for _ in rows[0]]
        for at, column in enumerate(columns):
            column.append((sum(row[at][0] for row in rows), sum(row[at][1] for row in rows)))
    return columns
