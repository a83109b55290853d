"""Which cases count at a stage, in a section or for a metric, and as what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_memeval.metrics.catalog import DERIVED_STAGES, SECTION_STAGES, metric_stages
from pytest_memeval.metrics.thresholds import OPEN_SECTIONS
from pytest_memeval.results import CaseResult, StageStatus

#: How a stage's statuses are counted. ``void`` (a stage it builds on failed) counts as errored.
CATEGORY: Mapping[str, str] = {
    "scored": "scored",
    "errored": "errored",
    "void": "errored",
    "skipped": "skipped",
    "unsupported": "unsupported",
    "unselected": "unselected",
    "no_truth": "no_truth",
    "ran": "no_truth",
    "ran_errored": "no_truth",
}
#: Every category, the one that speaks for a section with several stages first.
CATEGORIES: tuple[str, ...] = ("scored", "errored", "skipped", "unsupported", "unselected", "no_truth")
#: The categories of cases that have labels for a stage.
LABELLED: tuple[str, ...] = ("scored", "errored", "skipped", "unsupported", "unselected")
#: Derived metric → (first ratio, second ratio, the stages that must both be scored).
PRODUCTS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "l2.profile_quality": ("_profile_l1_f1", "_profile_hit_rate", DERIVED_STAGES["l2.profile_quality"]),
}
#: Metric → the stages that it builds on besides its own. They need not be selected or labelled, but where one of them
#: failed, the case is lost to the metric: injection of the pipeline's memories, in a case whose pipeline broke.
BUILT_ON: Mapping[str, tuple[str, ...]] = {
    "inject.pipeline_hit_rate": ("l1", "l15"),
    "inject.pipeline_coverage": ("l1", "l15"),
    "inject.pipeline_redundancy": ("l1", "l15"),
}
#: Statuses of a stage that failed, labelled or not.
FAILED: tuple[str, ...] = ("errored", "void", "ran_errored")


def one_per_case(records: Iterable[CaseResult]) -> list[CaseResult]:
    """One record a node id (the last one given: a rerun replaces), in node id order."""
    latest = {record.node_id: record for record in records}
    return [latest[node_id] for node_id in sorted(latest)]


def stage_category(record: CaseResult, stage: str) -> str:
    """What a case counts as at a stage: one of :data:`CATEGORIES`.

    A case that ended before anything was known of its stages (its process died) counts everywhere as what it is.
    """
    if not record.stages and record.outcome != "scored":
        return record.outcome
    return CATEGORY.get(record.stages.get(stage, "no_truth"), "no_truth")


def stages_category(record: CaseResult, stages: Sequence[str]) -> str:
    """What a case counts as for a metric that needs all of ``stages``.

    The last stage is the one that carries the labels; the others only have to be measured too.
    """
    own = stage_category(record, stages[-1])
    if own != "scored":
        return own
    others = [stage_category(record, stage) for stage in stages[:-1]]
    return next((category for category in others if category != "scored"), "scored")


def is_cut_off(record: CaseResult, section: str, metric: str) -> bool:
    """Whether a stage that the metric builds on failed in this case."""
    return any(record.stages.get(stage) in FAILED for stage in BUILT_ON.get(f"{section}.{metric}", ()))


def metric_statuses(record: CaseResult, section: str) -> dict[str, StageStatus]:
    """Metric → what became of it in this case, where the record says so of single metrics (``section.metric`` among
    its stages). That counts in the place of the stage's status: one of several evaluators can fail alone."""
    if section not in OPEN_SECTIONS:
        return {}
    start = f"{section}."
    return {name[len(start) :]: status for name, status in record.stages.items() if name.startswith(start)}


def count_metric_errors(records: Iterable[CaseResult], section: str) -> dict[str, int]:
    """Metric → cases in which it, and not only its stage, could not be measured; those without any are left out."""
    counts: dict[str, int] = {}
    for record in records:
        for name, status in metric_statuses(record, section).items():
            if CATEGORY.get(status) == "errored":
                counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


def metric_category(record: CaseResult, section: str, metric: str) -> str:
    """What a case counts as for a metric: as at its stages, but errored where a stage that it builds on failed."""
    own = metric_statuses(record, section).get(metric)
    if own is not None:
        return CATEGORY.get(own, "no_truth")
    stages = metric_stages(section, metric)
    if not stages:
        # A project's own metric: a case that says nothing of it was not measured, unless it was lost as a whole.
        return record.outcome if record.outcome != "scored" else "no_truth"
    category = stages_category(record, stages)
    return "errored" if category == "scored" and is_cut_off(record, section, metric) else category


def count_metric(records: Iterable[CaseResult], section: str, metric: str) -> dict[str, int]:
    """How many cases were scored, errored, skipped … for a metric that belongs to stages."""
    counts = dict.fromkeys(CATEGORIES, 0)
    for record in records:
        counts[metric_category(record, section, metric)] += 1
    return counts


def count_stage(records: Iterable[CaseResult], stages: Sequence[str]) -> dict[str, int]:
    """How many cases were scored, errored, skipped … for a metric that needs ``stages``."""
    return count_stage_of(alike(records), stages)


def count_section(records: Iterable[CaseResult], section: str) -> dict[str, int]:
    """The same for a section: a case counts as the first of :data:`CATEGORIES` that any of its stages has."""
    return count_section_of(alike(records), section)


def alike(records: Iterable[CaseResult]) -> list[tuple[CaseResult, int]]:
    """One record for each way in which cases can count, with the number of cases that count so.

    Thousands of cases fare alike at their stages; what they count as is asked of one of them.
    """
    numbers: dict[tuple[object, ...], int] = {}
    first: dict[tuple[object, ...], CaseResult] = {}
    for record in records:
        key = (record.outcome, *record.stages.items(), *record.sections)
        if key in numbers:
            numbers[key] += 1
        else:
            numbers[key], first[key] = 1, record
    return [(first[key], number) for key, number in numbers.items()]


def count_stage_of(groups: Iterable[tuple[CaseResult, int]], stages: Sequence[str]) -> dict[str, int]:
    """:func:`count_stage` of cases that are put together already."""
    counts = dict.fromkeys(CATEGORIES, 0)
    for record, number in groups:
        counts[stages_category(record, stages)] += number
    return counts


def count_section_of(groups: Iterable[tuple[CaseResult, int]], section: str) -> dict[str, int]:
    """:func:`count_section` of cases that are put together already."""
    stages = SECTION_STAGES.get(section, ())
    counts = dict.fromkeys(CATEGORIES, 0)
    for record, number in groups:
        if stages:
            found = {stage_category(record, stage) for stage in stages}
            category = next(name for name in CATEGORIES if name in found)
        else:
            category = "scored" if section in record.sections else "no_truth"
        counts[category] += number
    return counts


def matches(record: CaseResult, filters: Iterable[tuple[str, str]]) -> bool:
    """Whether a case has every (field, value) asked for: its ``difficulty``, its ``source``, one of its tags."""
    fields: Mapping[str, tuple[str, ...]] = {
        "difficulty": (record.difficulty,),
        "source": (record.source,),
        "tag": record.tags,
    }
    return all(value in fields[name] for name, value in filters)
