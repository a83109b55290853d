"""A case's thresholds: which apply to it, and which its own figures miss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_memeval.metrics.catalog import metric_stages
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.thresholds import MetricPath, Threshold
from pytest_memeval.report.numbers import number_text, value_text
from pytest_memeval.truths import truth_stages

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.kinds import KindCase


def case_value(sections: Mapping[str, SectionRecord], path: MetricPath) -> float | None:
    """A case's own value of a metric, ``None`` where it has none (not measured, or a denominator of 0)."""
    section = sections.get(path.section)
    if section is None:
        return None
    if path.base == "l2.profile_quality":
        hit, f1 = section.ratios.get("section_hit_rate"), section.ratios.get("_profile_l1_f1")
        if not hit or not f1 or not hit[1] or not f1[1]:
            return None
        return (hit[0] / hit[1]) * (f1[0] / f1[1])
    return section.values().get(path.name)


def missed_expectations(
    sections: Mapping[str, SectionRecord],
    thresholds: Sequence[Threshold],
    optional: Collection[Threshold] = (),
    why: Callable[[Threshold], str | None] = lambda _: None,
) -> list[str]:
    """A sentence for each threshold that is missed, or whose metric is null in this case; ``why`` that is, if known.

    ``optional`` ones hold only where there is something to measure: a default threshold is not about this case.
    """
    missed = []
    for threshold in thresholds:
        value = case_value(sections, threshold.path)
        bound = f"{threshold.op} {number_text(threshold.number)}"
        if value is None:
            if threshold not in optional:
                reason = why(threshold)
                missed.append(f"{threshold.path} is null here, expected {bound}" + (f": {reason}" if reason else ""))
        elif not threshold.holds(value):
            shown = value_text(value, against=threshold.number)
            missed.append(f"{threshold.path} is {shown}, expected {bound}")
    return missed


def expectations_of(
    case: EvalCase, selected: Collection[str] | None, default: Sequence[Threshold] = ()
) -> tuple[Threshold, ...]:
    """The case's own thresholds on selected stages (``None``: all), and the defaults for whose metric it has labels."""
    if not case.expect and not default:
        return ()
    named = {threshold.path for threshold in case.expect}
    added = default_expectations(case, [threshold for threshold in default if threshold.path not in named])
    return tuple(
        threshold
        for threshold in (*case.expect, *added)
        if selected is None or all(stage in selected for stage in _stages_of(threshold))
    )


def default_expectations(case: EvalCase, default: Sequence[Threshold]) -> tuple[Threshold, ...]:
    """The defaults whose metric the case has labels for, and whose filter it meets."""
    truths = truth_stages(case)
    return tuple(
        threshold
        for threshold in default
        if all(stage in truths for stage in _stages_of(threshold)) and fits_filters(threshold.path, case)
    )


def kind_defaults(case: KindCase, sections: Collection[str], default: Sequence[Threshold]) -> tuple[Threshold, ...]:
    """The defaults that are about a case of another kind: on a metric of the kind's ``sections`` on which it has no
    threshold of its own."""
    if not default:
        return ()
    named = {threshold.path for threshold in case.expect}
    return tuple(
        threshold
        for threshold in default
        if threshold.path.section in sections and threshold.path not in named and fits_filters(threshold.path, case)
    )


def fits_filters(path: MetricPath, case: EvalCase | KindCase) -> bool:
    """Whether the case is one of those that the path's filters leave."""
    values = {"difficulty": (case.difficulty,), "source": (case.source,), "tag": case.tags}
    return all(value in values[name] for name, value in path.filters)


def _stages_of(threshold: Threshold) -> tuple[str, ...]:
    """The stages that must be measured for the threshold's metric; none for a custom one."""
    return metric_stages(threshold.path.section, threshold.path.metric)
