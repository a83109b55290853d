"""From a case's stage outputs and labels to its figures: pure, so that a stored run can be scored again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_memeval.metrics.catalog import METRICS
from pytest_memeval.metrics.inject import compute_inject, inject_section
from pytest_memeval.metrics.l1 import L1Metrics, compute_l1
from pytest_memeval.metrics.l2 import compute_scenes, compute_sections, l2_section
from pytest_memeval.metrics.l15 import compute_l15
from pytest_memeval.metrics.matching import Matcher, SimilarityMatcher
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.thresholds import MetricPath, Threshold
from pytest_memeval.outputs import Outputs
from pytest_memeval.stages import truth_stages
from pytest_memeval.values import Decision, Memory, Scene

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """How outputs are scored. ``unknown_label``: ``drop`` counts dropped labels apart, ``fp`` as false positives."""

    matcher: Matcher = field(default_factory=SimilarityMatcher)
    unknown_label: str = "drop"
    chained: bool = True

    def describe(self) -> dict[str, Any]:
        """How memories were matched, for the report."""
        describe = getattr(self.matcher, "describe", None)
        name = dict(describe()) if callable(describe) else {"name": type(self.matcher).__name__}
        return {**name, "unknown_label": self.unknown_label}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the labelled memories went.

    ``reached``: labelled index → index of the memory that stands for it among those given to the later stages.
    ``live_ids``: labelled index → id under which it lives in the store, ``None`` for one that was not reached.
    ``by_content``: whether some id was unknown and content had to stand in for it.
    """

    reached: Mapping[int, int]
    live_ids: Mapping[int, str | None]
    by_content: bool = False


def labelled_memories(case: EvalCase) -> list[Memory]:
    """The case's labelled memories as stored ones, with ids ``case_id#index`` and the times of their last sources."""
    times = {message.id: message.time for message in case.conversation}
    truth = case.expected_l1.memories if case.expected_l1 is not None else ()
    memories = []
    for index, label in enumerate(truth):
        moments = [time for source in label.source_message_ids if (time := times.get(source)) is not None]
        memories.append(
            Memory(
                id=f"{case.case_id}#{index}",
                content=label.content,
                dimensions=label.dimensions,
                memory_type=label.memory_type,
                priority=label.priority,
                time_velocity=label.time_velocity,
                source_message_ids=label.source_message_ids,
                created_at=max(moments) if moments else None,
                extra=label.extra,
            )
        )
    return memories


def live_id(memory: Memory, decision: Decision | None) -> str | None:
    """The id under which a new memory's information lives on after conflict resolution; ``None`` where unknown."""
    if decision is None:
        return memory.id
    if decision.result_id is not None:
        return decision.result_id
    if decision.action == "store":
        return memory.id
    if decision.action in ("update", "skip") and len(decision.target_ids) == 1:
        return decision.target_ids[0]
    return None


class CaseScorer:
    """Scores one case's outputs, stage by stage; what several stages need is computed once."""

    def __init__(self, case: EvalCase, outputs: Outputs, options: ScoringOptions) -> None:
        self.case = case
        self.outputs = outputs
        self.options = options

    @cached_property
    def l1(self) -> L1Metrics | None:
        """The L1 match, also needed where L1 itself is not scored; ``None`` without labels or output."""
        if self.case.expected_l1 is None or self.outputs.l1 is None:
            return None
        return compute_l1(
            self.outputs.l1,
            self.case.expected_l1.memories,
            matcher=self.options.matcher,
            dropped_labels=self._facts("dropped_label"),
            invalid_items=self._facts("invalid_item", stage="l1"),
            unknown_label="fp" if self.options.unknown_label == "fp" else "drop",
        )

    def _facts(self, kind: str, stage: str | None = None) -> int:
        return sum(
            1
            for fact in self.outputs.facts
            if fact.get("kind") == kind and (stage is None or fact.get("stage", stage) == stage)
        )

    @cached_property
    def provenance(self) -> Provenance:
        """Labelled memory → the memory and id that stand for it (metrics: stage input and provenance)."""
        count = len(self.case.expected_l1.memories) if self.case.expected_l1 is not None else 0
        if not self.options.chained:
            return Provenance(
                {index: index for index in range(count)},
                {index: f"{self.case.case_id}#{index}" for index in range(count)},
            )
        match, memories = self.l1, self.outputs.l1
        if match is None or memories is None:
            return Provenance({}, dict.fromkeys(range(count)))
        reached = {matched.pair.truth_index: matched.pair.pred_index for matched in match.pairs}
        decisions: dict[int, Decision] = {}
        for decision in self.outputs.l15 or ():
            decisions.setdefault(decision.memory_index, decision)
        ids: dict[int, str | None] = dict.fromkeys(range(count))
        by_content = False
        for truth_index, pred_index in reached.items():
            memory = memories[pred_index]
            identity = live_id(memory, decisions.get(pred_index))
            if identity is None:
                identity, by_content = self._by_content(memory), True
            ids[truth_index] = identity
        return Provenance(reached, ids, by_content)

    @cached_property
    def _placed_ids(self) -> list[str]:
        """Every id that occurs in scenes, sections and injected blocks, once, in order."""
        seen: dict[str, None] = {}
        groups: list[Sequence[str]] = [scene.memory_ids for scene in self.outputs.l2 or ()]
        groups += [section.memory_ids for sections in (self.outputs.template or {}).values() for section in sections]
        groups += [block.memory_ids for block in self.outputs.inject_pipeline or ()]
        for group in groups:
            seen.update(dict.fromkeys(group))
        return list(seen)

    def _by_content(self, memory: Memory) -> str | None:
        """An engine without ids lists contents where ids are expected: the one most like this memory."""
        pairs = self.options.matcher.match(self._placed_ids, [memory.content])
        return self._placed_ids[pairs[0][1]] if pairs else None

    def section_l15(self) -> SectionRecord:
        actions = self.case.expected_l15.actions if self.case.expected_l15 is not None else ()
        metrics = compute_l15(
            actions,
            self.outputs.l15 or (),
            reached=self.provenance.reached,
            bad_decisions=self._facts("bad_decision"),
            matcher=self.options.matcher,
        )
        return metrics.section()

    def section_l2(self, *, scenes: bool, sections: bool, with_l1: bool = True) -> SectionRecord:
        """The figures of section ``l2``: those of ``scenes`` (stage l2), of ``sections`` (stage template), or both."""
        truth = self.case.expected_l2
        placed = made = None
        if truth is not None and sections and self.outputs.template is not None:
            placed = compute_sections(
                truth.template_section,
                self.outputs.template,
                self.provenance.live_ids,
                ignored_ids=self._existing_ids,
            )
        if truth is not None and scenes and self.outputs.l2 is not None:
            made = compute_scenes(
                truth, self._scenes(self.outputs.l2), self.provenance.live_ids, matcher=self.options.matcher
            )
        return l2_section(placed, made, self.l1 if with_l1 and placed is not None else None)

    def _scenes(self, scenes: Sequence[Scene]) -> list[Scene]:
        """Without those that were only loaded and that aggregation left alone."""
        loaded = {scene.id for scene in self.case.existing_scenes}
        return [scene for scene in scenes if scene.change is not None or scene.id not in loaded]

    @property
    def _existing_ids(self) -> Collection[str]:
        return {memory.id for memory in self.case.existing_memories if memory.id is not None}

    def section_inject(self) -> SectionRecord:
        truth = self.case.expected_inject
        referenced = truth.referenced_memory_indices if truth is not None else ()
        labelled = pipeline = None
        if self.outputs.inject_labelled is not None:
            ids = {f"{self.case.case_id}#{index}" for index in referenced}
            labelled = compute_inject(self.outputs.inject_labelled, ids)
        if self.outputs.inject_pipeline is not None:
            live = self.provenance.live_ids
            reached = [live.get(index) for index in referenced]
            # A memory that was not reached stays in the denominator: it was to be injected and cannot be.
            ids = {
                identity if identity is not None else f"\0unreached#{index}"
                for index, identity in zip(referenced, reached, strict=True)
            }
            pipeline = compute_inject(self.outputs.inject_pipeline, ids)
        return inject_section(labelled, pipeline)

    def stage_metrics(self, stage: str) -> SectionRecord | None:
        """One stage's own figures, as soon as its output is there."""
        if stage == "l1":
            return None if self.l1 is None else self.l1.section()
        if stage == "l15":
            return self.section_l15()
        if stage == "l2":
            return self.section_l2(scenes=True, sections=False)
        if stage == "template":
            return self.section_l2(scenes=False, sections=True)
        if stage == "inject":
            return self.section_inject()
        return None

    def sections(self, scored: Collection[str]) -> dict[str, SectionRecord]:
        """The case's figures by report section, for the stages that were scored."""
        result: dict[str, SectionRecord] = {}
        if "l1" in scored and self.l1 is not None:
            result["l1"] = self.l1.section()
        if "l15" in scored:
            result["l15"] = self.section_l15()
        if "l2" in scored or "template" in scored:
            result["l2"] = self.section_l2(scenes="l2" in scored, sections="template" in scored, with_l1="l1" in scored)
        if "inject" in scored:
            result["inject"] = self.section_inject()
        return result


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


def missed_expectations(sections: Mapping[str, SectionRecord], thresholds: Sequence[Threshold]) -> list[str]:
    """A sentence for each threshold that is missed, or whose metric is null in this case."""
    missed = []
    for threshold in thresholds:
        value = case_value(sections, threshold.path)
        if value is None:
            missed.append(f"{threshold.path} is null here, expected {threshold.op} {threshold.number:g}")
        elif not threshold.holds(value):
            missed.append(f"{threshold.path} is {value:.6g}, expected {threshold.op} {threshold.number:g}")
    return missed


def expectations_of(
    case: EvalCase, selected: Collection[str] | None, default: Sequence[Threshold] = ()
) -> tuple[Threshold, ...]:
    """The case's own thresholds on selected stages (``None``: all), and the defaults for whose metric it has labels."""
    truths = truth_stages(case)

    def stage_of(threshold: Threshold) -> str | None:
        spec = METRICS.get(threshold.path.base)
        return None if spec is None else spec.stage

    named = {threshold.path for threshold in case.expect}
    added = [threshold for threshold in default if threshold.path not in named and stage_of(threshold) in truths]
    return tuple(
        threshold
        for threshold in (*case.expect, *added)
        if selected is None or stage_of(threshold) is None or stage_of(threshold) in selected
    )
