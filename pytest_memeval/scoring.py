"""From a case's stage outputs and labels to its figures: pure, so that a stored run can be scored again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_memeval.live_memories import (
    LiveIds,
    decisions_by_memory,
    labelled_memories,
    live_content,
    live_id,
    valid_targets,
)
from pytest_memeval.metrics.inject import compute_inject, inject_section
from pytest_memeval.metrics.l1 import PRIORITY_TOLERANCE, L1Metrics, compute_l1
from pytest_memeval.metrics.l2 import compute_scenes, compute_sections, l2_section
from pytest_memeval.metrics.l15 import compute_l15
from pytest_memeval.metrics.matching import Matcher, SimilarityMatcher, describe_matcher
from pytest_memeval.metrics.search import CUTOFFS, compute_search
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.outputs import Outputs
from pytest_memeval.values import Decision, Memory

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """How outputs are scored. ``unknown_label``: ``drop`` counts dropped labels apart, ``fp`` as false positives.
    ``cutoffs`` are those of the search figures."""

    matcher: Matcher = field(default_factory=SimilarityMatcher)
    unknown_label: str = "drop"
    chained: bool = True
    cutoffs: tuple[int, ...] = CUTOFFS

    def describe(self) -> dict[str, Any]:
        """How memories were matched, for the report."""
        return {**describe_matcher(self.matcher), "unknown_label": self.unknown_label}


class CaseScorer:
    """Scores one case's outputs, stage by stage; what several stages need is computed once."""

    def __init__(
        self,
        case: EvalCase,
        outputs: Outputs,
        options: ScoringOptions,
        *,
        priority_tolerance: float = PRIORITY_TOLERANCE,
    ) -> None:
        self.case = case
        self.outputs = outputs
        self.options = options
        self._priority_tolerance = priority_tolerance
        self._decided: tuple[object, object, Mapping[int, Decision]] | None = None

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
            priority_tolerance=self._priority_tolerance,
            unknown_label="fp" if self.options.unknown_label == "fp" else "drop",
        )

    def forget_match(self) -> None:
        """Match anew when asked: the memories are others."""
        for name in ("l1", "section_l1"):
            self.__dict__.pop(name, None)

    def _facts(self, kind: str, stage: str | None = None) -> int:
        return sum(
            1
            for fact in self.outputs.facts
            if fact.get("kind") == kind and (stage is None or fact.get("stage", stage) == stage)
        )

    @cached_property
    def _labelled_memories(self) -> list[Memory]:
        return labelled_memories(self.case)

    @property
    def reached(self) -> Mapping[int, int]:
        """Labelled index → index of the memory that stands for it among those given to conflict resolution."""
        if not self.options.chained:
            return {index: index for index in range(len(self._labelled_memories))}
        if self.l1 is None:
            return {}
        return {matched.pair.truth_index: matched.pair.pred_index for matched in self.l1.pairs}

    def live_ids(self, placed: Iterable[str]) -> LiveIds:
        """Where each labelled memory lives, for a stage that placed the ids ``placed``.

        An id comes from the memory, or from the decision about it. Where there is none, or where it is not among those
        placed and the engine placed something that is no id it ever gave, the placed text most like the memory's
        content stands in for it: an engine without ids lists contents.
        """
        groups = dict.fromkeys(placed)
        known: dict[int, tuple[str | None, str]] = {}
        for index in range(len(self._labelled_memories)):
            memory, decision = self._stands_for(index)
            if memory is not None:
                known[index] = (live_id(memory, decision), live_content(memory, decision))
        given = {identity for identity, _ in known.values()} | self._ids_given
        strange = [name for name in groups if name not in given]
        ids: dict[int, str | None] = dict.fromkeys(range(len(self._labelled_memories)))
        by_content = False
        for index, (identity, content) in known.items():
            if identity is None or (identity not in groups and strange):
                alike = self.options.matcher.match(strange, [content]) if strange else []
                if alike or identity is None:
                    by_content = True
                    identity = strange[alike[0][1]] if alike else content
            ids[index] = identity
        return LiveIds(ids, by_content)

    def _stands_for(self, index: int) -> tuple[Memory | None, Decision | None]:
        """The memory that stands for a labelled one, with the decision about it."""
        if not self.options.chained:
            return self._labelled_memories[index], None
        place = self.reached.get(index)
        if place is None or self.outputs.l1 is None:
            return None, None
        return self.outputs.l1[place], self._decisions.get(place)

    @property
    def _decisions(self) -> Mapping[int, Decision]:
        """The decisions that count, by the memory that they are about. Kept for the outputs they were read from."""
        l1, l15 = self.outputs.l1, self.outputs.l15
        if self._decided is None or self._decided[0] is not l1 or self._decided[1] is not l15:
            self._decided = l1, l15, decisions_by_memory(self.case, l1 or (), l15 or ())
        return self._decided[2]

    @property
    def _ids_given(self) -> set[str | None]:
        """Every id that the engine was given or gave itself."""
        given: set[str | None] = set(self._existing_ids)
        if self.options.chained:
            given |= {memory.id for memory in self.outputs.l1 or ()}
            given |= {decision.result_id for decision in self.outputs.l15 or ()}
        else:
            given |= {memory.id for memory in self._labelled_memories}
        return given

    def labelled_ids(self, placed: Iterable[str]) -> LiveIds:
        """As :meth:`live_ids`, for a store that was filled with the labelled memories."""
        labelled = CaseScorer(self.case, self.outputs, replace(self.options, chained=False))
        return labelled.live_ids(placed)

    @cached_property
    def section_l1(self) -> SectionRecord | None:
        """The L1 figures; the labelled memories stand beside them, so that a report can be read without its cases."""
        if self.l1 is None or self.case.expected_l1 is None:
            return None
        section = self.l1.section()
        truth = [
            {
                "content": memory.content,
                "dimensions": list(memory.dimensions),
                "memory_type": memory.memory_type,
                "priority": memory.priority,
                "time_velocity": memory.time_velocity,
                "source_message_ids": list(memory.source_message_ids),
            }
            for memory in self.case.expected_l1.memories
        ]
        return replace(section, details={**section.details, "truth": truth})

    def section_l15(self) -> SectionRecord:
        truth = self.case.expected_l15
        metrics = compute_l15(
            truth.actions if truth is not None else (),
            [self._with_target_ids(decision) for decision in self.outputs.l15 or ()],
            reached=self.reached,
            bad_decisions=self._facts("bad_decision"),
            valid_target_ids=valid_targets(self.case, self._new_memories),
            memory_count=len(self._new_memories),
            matcher=self.options.matcher,
        )
        return metrics.section()

    @property
    def _new_memories(self) -> Sequence[Memory]:
        """What conflict resolution was given."""
        return (self.outputs.l1 or ()) if self.options.chained else self._labelled_memories

    def _with_target_ids(self, decision: Decision) -> Decision:
        """An engine without ids names a stored memory by its content."""
        contents = {memory.content: memory.id for memory in self.case.existing_memories if memory.id is not None}
        known = self._existing_ids
        targets = tuple(target if target in known else contents.get(target, target) for target in decision.target_ids)
        return decision if targets == decision.target_ids else replace(decision, target_ids=targets)

    def section_l2(self, *, scenes: bool, sections: bool, with_l1: bool = True) -> SectionRecord:
        """The figures of section ``l2``: those of ``scenes`` (stage l2), of ``sections`` (stage template), or both."""
        truth = self.case.expected_l2
        placed = made = None
        if truth is not None and sections and self.outputs.template is not None:
            placed = compute_sections(
                truth.template_section,
                self.outputs.template,
                self.live_ids(self._placed("template")).ids,
                ignored_ids=self._ignored_ids(self._placed("template")),
            )
        if truth is not None and scenes and self.outputs.l2 is not None:
            made = compute_scenes(
                truth,
                self.outputs.l2,
                self.live_ids(self._placed("l2")).ids,
                matcher=self.options.matcher,
                loaded_ids={scene.id for scene in self.case.existing_scenes},
            )
        return l2_section(placed, made, self.l1 if with_l1 and placed is not None else None)

    def _placed(self, stage: str) -> list[str]:
        """The ids that a stage's output names."""
        groups: list[Sequence[str]] = []
        if stage == "l2":
            groups = [scene.memory_ids for scene in self.outputs.l2 or ()]
        elif stage == "template":
            truth = self.case.expected_l2
            modes = truth.template_section if truth is not None else {}
            shown = (self.outputs.template or {}).items()
            groups = [section.memory_ids for mode, sections in shown if mode in modes for section in sections]
        elif stage == "inject":
            groups = [block.memory_ids for block in self.outputs.inject_pipeline or ()]
        elif stage == "inject_labelled":
            groups = [block.memory_ids for block in self.outputs.inject_labelled or ()]
        return [name for group in groups for name in group]

    def matched_by_content(self, stage: str) -> bool:
        """Whether some memory of the stage's output had to be looked up by its content, for want of an id."""
        if stage == "inject":
            labelled = self.outputs.inject_labelled is not None and self.labelled_ids(self._placed("inject_labelled"))
            pipeline = self.outputs.inject_pipeline is not None and self.live_ids(self._placed("inject"))
            return any(found and found.by_content for found in (labelled, pipeline))
        return stage in ("l2", "template") and self.live_ids(self._placed(stage)).by_content

    @property
    def _existing_ids(self) -> set[str]:
        return {memory.id for memory in self.case.existing_memories if memory.id is not None}

    def _ignored_ids(self, placed: Iterable[str]) -> set[str]:
        """The stored memories' ids, and their contents where those stand for an id."""
        contents = {memory.content for memory in self.case.existing_memories}
        return self._existing_ids | contents.intersection(placed)

    def section_inject(self) -> SectionRecord:
        truth = self.case.expected_inject
        referenced = dict.fromkeys(truth.referenced_memory_indices if truth is not None else ())
        labelled = pipeline = None
        budget = next((fact.get("token_budget") for fact in self.outputs.facts if fact["kind"] == "inject_setup"), None)
        fate: dict[str, bool] = {}
        if self.outputs.inject_labelled is not None:
            live = self.labelled_ids(self._placed("inject_labelled")).ids
            labelled = compute_inject(self.outputs.inject_labelled, _ids_of(referenced, live), budget=budget)
        if self.outputs.inject_pipeline is not None:
            live = self.live_ids(self._placed("inject")).ids
            ids = _ids_of(referenced, live)
            # A memory that was not reached stays in the denominator: it was to be injected and cannot be.
            unreached = sum(live.get(index) is None for index in referenced)
            pipeline = compute_inject(self.outputs.inject_pipeline, ids, unreached=unreached, budget=budget)
            shown = {name for block in self.outputs.inject_pipeline if block.present for name in block.memory_ids}
            fate = {str(index): live.get(index) in shown for index in referenced}
        section = inject_section(labelled, pipeline)
        # Which of the referenced memories arrived in the pipeline's own blocks, by their index.
        return replace(section, details={**section.details, "fate": fate}) if fate else section

    def section_search(self) -> SectionRecord:
        """The figures of the queries, with what searched and how much there was to search in."""
        truth = self.case.expected_search
        hits = self.outputs.search or {}
        rankings = {query: [hit.id for hit in found] for query, found in hits.items()}
        section = compute_search(
            truth.queries if truth is not None else (), rankings, cutoffs=self.options.cutoffs
        ).section()
        setup = [fact for fact in self.outputs.facts if fact.get("kind") == "search_setup"]
        if not setup:
            return section
        known = {key: value for key, value in setup[-1].items() if key not in ("kind", "stage")}
        return replace(section, details={**section.details, "setup": known})

    def stage_metrics(self, stage: str) -> SectionRecord | None:
        """One stage's own figures, as soon as its output is there."""
        if stage == "l1":
            return self.section_l1
        if stage == "l15":
            return self.section_l15()
        if stage == "l2":
            return self.section_l2(scenes=True, sections=False)
        if stage == "template":
            return self.section_l2(scenes=False, sections=True)
        if stage == "inject":
            return self.section_inject()
        if stage == "search":
            return self.section_search()
        return None

    def sections(self, scored: Collection[str]) -> dict[str, SectionRecord]:
        """The case's figures by report section, for the stages that were scored."""
        result: dict[str, SectionRecord] = {}
        if "l1" in scored and (first := self.section_l1) is not None:
            result["l1"] = first
        if "l15" in scored:
            result["l15"] = self.section_l15()
        if "l2" in scored or "template" in scored:
            result["l2"] = self.section_l2(scenes="l2" in scored, sections="template" in scored, with_l1="l1" in scored)
        if "inject" in scored:
            result["inject"] = self.section_inject()
        if "search" in scored:
            result["search"] = self.section_search()
        return result


def _ids_of(indices: Iterable[int], live: Mapping[int, str | None]) -> set[str]:
    return {identity for index in indices if (identity := live.get(index)) is not None}
