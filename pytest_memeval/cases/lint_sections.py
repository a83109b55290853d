"""Rules about section and injection truths: what a template can do with a labelled memory, by its rules alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pytest_memeval.cases.findings import Finding, Rule, finding, sound_cases
from pytest_memeval.cases.lint_labels import memories_of
from pytest_memeval.cases.models import CaseSet, EvalCase, GtMemory

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import SectionQuery, Template


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a template can show a memory: every section that may take it, in order; ``sure`` where the first one of
    them takes it whatever else there is."""

    sections: tuple[str, ...]
    sure: bool


def possible_sections(
    template: Template,
    memory: GtMemory,
    *,
    memories: int,
    age: timedelta | None = None,
    registry: Registry | None = None,
) -> Placement:
    """Where ``template`` can show a labelled memory.

    ``memories`` is how many memories there are at most: a section's limit that is not below it cannot push any out.
    ``age`` is the memory's age where known; without it a time window or TTL may or may not take the memory. A memory
    without priority may have any. In an exclusive template a section that surely takes the memory ends the search.
    """
    possible: list[str] = []
    sure = False
    for section in template.sections:
        taken = _takes(section.query, memory, age, registry)
        if taken is False:
            continue
        surely = taken is True and (section.query.limit is None or section.query.limit >= memories)
        if not possible:
            sure = surely
        possible.append(section.id)
        if surely and template.exclusive:
            break
    return Placement(tuple(possible), sure)


def _takes(query: SectionQuery, memory: GtMemory, age: timedelta | None, registry: Registry | None) -> bool | None:
    """Whether a section's conditions hold for a memory: yes, no, or ``None`` for what is not known."""
    carried = [label for label in query.dimensions if label in memory.dimensions]
    if not carried or (query.match == "all" and len(carried) < len(set(query.dimensions))):
        return False
    answers: list[bool | None] = []
    if query.priority_min is not None:
        answers.append(None if memory.priority is None else memory.priority >= query.priority_min)
    if query.time_window is not None:
        answers.append(None if age is None else age <= query.time_window)
    if query.ttl_filter:
        answers.append(_fresh(carried, age, registry))
    if False in answers:
        return False
    return None if None in answers else True


def _fresh(carried: Sequence[str], age: timedelta | None, registry: Registry | None) -> bool | None:
    """Whether one of the dimensions has no TTL, or one that the memory is younger than."""
    if registry is None:
        return None
    limits = [found.ttl_days for label in carried if (found := registry.get(label)) is not None]
    if None in limits:
        return True
    if age is None:
        return None
    return any(limit is not None and age <= timedelta(days=limit) for limit in limits)


def _age(case: EvalCase, memory: GtMemory) -> timedelta | None:
    """How old a memory is by the case's clock: it is as old as the latest of its source messages."""
    times = {message.id: message.time for message in case.conversation}
    spoken = [time for source in memory.source_message_ids if (time := times.get(source)) is not None]
    now = case.now or max((time for time in times.values() if time is not None), default=None)
    latest: datetime | None = max(spoken, default=None)
    return None if now is None or latest is None else now - latest


def _placements(case_set: CaseSet, case: EvalCase, mode: str) -> dict[int, Placement]:
    template = case_set.templates.get(mode) if case_set.templates is not None else None
    if template is None or (case_set.templates is not None and case_set.templates.unfit is not None):
        return {}
    memories = memories_of(case)
    count = len(memories) + len(case.existing_memories)
    return {
        index: possible_sections(template, memory, memories=count, age=_age(case, memory), registry=case_set.registry)
        for index, memory in enumerate(memories)
    }


def _title(case_set: CaseSet, mode: str, section_id: str) -> str:
    section = case_set.templates.find_section(mode, section_id) if case_set.templates is not None else None
    return section.title if section is not None else section_id


def templates_unfit(case_set: CaseSet) -> Iterator[Finding]:
    """Sections or injections are labelled, and the templates are made for another registry: their stages error."""
    unfit = case_set.templates.unfit if case_set.templates is not None else None
    for case in sound_cases(case_set) if unfit is not None else ():
        labelled = case.expected_l2 is not None and any(case.expected_l2.template_section.values())
        if labelled or case.expected_inject is not None:
            message = f"sections and injections cannot be measured: {unfit}"
            yield finding("templates-unfit", "warning", case_set, case.line, message)
            return


def section_impossible(case_set: CaseSet) -> Iterator[Finding]:
    """A section truth names a section that the template can never place the memory in."""
    for case in sound_cases(case_set):
        if case.expected_l2 is None:
            continue
        memories = memories_of(case)
        for mode, truths in case.expected_l2.template_section.items():
            placements = _placements(case_set, case, mode)
            for index, section_id in truths.items():
                placement = placements.get(index)
                if placement is None or section_id in placement.sections:
                    continue
                title = _title(case_set, mode, section_id)
                labels = ", ".join(memories[index].dimensions)
                message = f"mode {mode!r} never shows memory {index} ({labels}) in {title!r}"
                if not placement.sections:
                    message += ": no section of the mode takes it"
                else:
                    message += f": it goes to {_title(case_set, mode, placement.sections[0])!r}"
                line = memories[index].line
                yield finding("section-impossible", "warning", case_set, line, message, case.case_id)


def section_unlabelled(case_set: CaseSet) -> Iterator[Finding]:
    """A mode that is labelled surely shows a memory that has no truth in it: each such placement is a mis-entry."""
    for case in sound_cases(case_set):
        if case.expected_l2 is None:
            continue
        # conflict resolution keeps these from being shown as memories of their own
        elsewhere = {
            action.new_memory_index
            for action in (case.expected_l15.actions if case.expected_l15 is not None else ())
            if action.action != "store"
        }
        memories = memories_of(case)
        for mode, truths in case.expected_l2.template_section.items():
            for index, placement in _placements(case_set, case, mode).items():
                if placement.sure and index not in truths and index not in elsewhere:
                    title = _title(case_set, mode, placement.sections[0])
                    message = f"mode {mode!r} is labelled, but not that it shows memory {index} in {title!r}"
                    line = memories[index].line
                    yield finding("section-unlabelled", "hint", case_set, line, message, case.case_id)


def injection_impossible(case_set: CaseSet) -> Iterator[Finding]:
    """An injection truth refers to a memory that its mode never shows."""
    for case in sound_cases(case_set):
        truth = case.expected_inject
        if truth is None:
            continue
        placements = _placements(case_set, case, truth.mode)
        memories = memories_of(case)
        for index in truth.referenced_memory_indices:
            placement = placements.get(index)
            if placement is not None and not placement.sections:
                labels = ", ".join(memories[index].dimensions)
                message = f"expected_inject: mode {truth.mode!r} never shows memory {index} ({labels})"
                yield finding("injection-impossible", "warning", case_set, memories[index].line, message, case.case_id)


SECTION_RULES: dict[str, Rule] = {
    "templates-unfit": templates_unfit,
    "section-impossible": section_impossible,
    "section-unlabelled": section_unlabelled,
    "injection-impossible": injection_impossible,
}
