"""Rules about the labels of one case."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_memeval.cases.findings import Finding, Rule, finding, sound_cases
from pytest_memeval.cases.models import CaseSet, EvalCase, GtMemory

#: Labelled memories of one case that are more alike than this say the same.
SAME_MEMORY = 0.85


def memories_of(case: EvalCase) -> tuple[GtMemory, ...]:
    return case.expected_l1.memories if case.expected_l1 is not None else ()


def same_memory_twice(case_set: CaseSet) -> Iterator[Finding]:
    """Two labelled memories of a case are nearly the same text (indel similarity above 0.85)."""
    from pytest_memeval.metrics.matching import content_similarity

    for case in sound_cases(case_set):
        memories = memories_of(case)
        for index, memory in enumerate(memories):
            for earlier in range(index):
                alike = content_similarity(memory.content, memories[earlier].content)
                if alike > SAME_MEMORY:
                    message = f"memories {earlier} and {index} are nearly the same text (similarity {alike:.2f})"
                    yield finding("same-memory-twice", "warning", case_set, memory.line, message, case.case_id)


def assistant_only_source(case_set: CaseSet) -> Iterator[Finding]:
    """All source messages of a memory are the assistant's, whose words alone are no memory."""
    for case in sound_cases(case_set):
        roles = {message.id: message.role for message in case.conversation}
        for index, memory in enumerate(memories_of(case)):
            said = [roles[source] for source in memory.source_message_ids if source in roles]
            if said and all(role in ("assistant", "system", "tool") for role in said):
                message = f"memory {index} comes from the assistant's messages alone"
                yield finding("assistant-only-source", "warning", case_set, memory.line, message, case.case_id)


def velocity_differs(case_set: CaseSet) -> Iterator[Finding]:
    """A memory's velocity is not the one that the registry gives to all of its dimensions."""
    registry = case_set.registry
    if registry is None:
        return
    for case in sound_cases(case_set):
        for index, memory in enumerate(memories_of(case)):
            usual = {found.time_velocity for label in memory.dimensions if (found := registry.get(label)) is not None}
            if memory.time_velocity is not None and len(usual) == 1 and memory.time_velocity not in usual:
                message = (
                    f"memory {index} is {memory.time_velocity}, the registry's {', '.join(memory.dimensions)} is "
                    f"{usual.pop()}"
                )
                yield finding("velocity-differs", "hint", case_set, memory.line, message, case.case_id)


def action_missing(case_set: CaseSet) -> Iterator[Finding]:
    """A labelled memory of a case with a store has no conflict action."""
    for case in sound_cases(case_set):
        memories = memories_of(case)
        if not case.existing_memories or not memories:
            continue
        if case.expected_l15 is None:
            message = "the case has existing_memories, but no expected_l15"
            yield finding("actions-missing", "hint", case_set, case.line, message, case.case_id)
            continue
        decided = {action.new_memory_index for action in case.expected_l15.actions}
        for index, memory in enumerate(memories):
            if index not in decided:
                message = f"memory {index} has no action in expected_l15"
                yield finding("action-missing", "warning", case_set, memory.line, message, case.case_id)


def action_targets(case_set: CaseSet) -> Iterator[Finding]:
    """An action has a number of targets that it cannot have, or merged content where nothing is merged."""
    for case in sound_cases(case_set):
        for action in case.expected_l15.actions if case.expected_l15 is not None else ():
            count = len(action.candidate_ids)
            fault = None
            if action.action == "store" and count:
                fault = f"'store' has no targets, this one names {count}"
            elif action.action == "update" and count != 1:
                fault = f"'update' replaces exactly one stored memory, this one names {count}"
            elif action.action == "merge" and count < 2:
                fault = f"'merge' makes one of at least two stored memories, this one names {count}"
            elif action.action == "skip" and not count:
                fault = "'skip' says which stored memory says it already, this one names none"
            elif action.action in ("store", "skip") and action.merged_content:
                fault = f"{action.action!r} merges nothing, but there is merged_content"
            if fault is not None:
                message = f"memory {action.new_memory_index}: {fault}"
                yield finding("action-targets", "warning", case_set, action.line, message, case.case_id)


def scene_membership(case_set: CaseSet) -> Iterator[Finding]:
    """A labelled memory is in no scene, or in two, of a case that labels scenes."""
    for case in sound_cases(case_set):
        scenes = case.expected_l2.scenes if case.expected_l2 is not None else ()
        if not any(scene.memories for scene in scenes):
            continue
        skipped = {
            action.new_memory_index
            for action in (case.expected_l15.actions if case.expected_l15 is not None else ())
            if action.action == "skip"
        }
        for index, memory in enumerate(memories_of(case)):
            labels = [scene.label for scene in scenes if index in scene.memories]
            message = None
            if not labels and index not in skipped:
                message = f"memory {index} is in no scene of expected_l2"
            elif len(labels) > 1:
                message = f"memory {index} is in {len(labels)} scenes: {', '.join(map(repr, labels))}"
            if message is not None:
                yield finding("scene-membership", "warning", case_set, memory.line, message, case.case_id)


def scene_labels_differ(case_set: CaseSet) -> Iterator[Finding]:
    """``scene_labels`` and the labels of ``scenes`` are not the same."""
    for case in sound_cases(case_set):
        truth = case.expected_l2
        if truth is None or not truth.scenes or not truth.scene_labels:
            continue
        listed, used = set(truth.scene_labels), {scene.label for scene in truth.scenes}
        if listed != used:
            apart = ", ".join(repr(label) for label in sorted(listed ^ used))
            message = f"scene_labels and scenes name different scenes: {apart}"
            yield finding("scene-labels-differ", "warning", case_set, case.line, message, case.case_id)


def times_run_backwards(case_set: CaseSet) -> Iterator[Finding]:
    """A message is older than the one before it, or the case's clock stands before its last message."""
    for case in sound_cases(case_set):
        last = None
        for message in case.conversation:
            if message.time is None:
                continue
            if last is not None and message.time < last:
                text = f"message {message.id} is older than the message before it"
                yield finding("times-run-backwards", "warning", case_set, case.line, text, case.case_id)
            last = message.time
        if case.now is not None and last is not None and case.now < last:
            text = "'now' is before the last message of the conversation"
            yield finding("times-run-backwards", "warning", case_set, case.line, text, case.case_id)


def nothing_relevant(case_set: CaseSet) -> Iterator[Finding]:
    """A search query has no relevant memory, so that it measures nothing."""
    for case in sound_cases(case_set):
        for query in case.expected_search.queries if case.expected_search is not None else ():
            if not query.relevant:
                message = f"the query {query.query!r} has no relevant memory"
                yield finding("nothing-relevant", "warning", case_set, case.line, message, case.case_id)


def labels_left_out(case_set: CaseSet) -> Iterator[Finding]:
    """A memory leaves out a label that all others of the file have."""
    names = ("memory_type", "priority", "time_velocity", "source_message_ids")
    missing: dict[str, list[tuple[EvalCase, int, GtMemory]]] = {name: [] for name in names}
    total = 0
    for case in sound_cases(case_set):
        for index, memory in enumerate(memories_of(case)):
            total += 1
            for name in names:
                if getattr(memory, name) in (None, ()):
                    missing[name].append((case, index, memory))
    for name, places in missing.items():
        # a file in which the label is the exception has decided not to give it
        if not places or 2 * len(places) > total:
            continue
        for case, index, memory in places:
            message = f"memory {index} has no {name}, most memories of this file have one"
            yield finding("label-left-out", "warning", case_set, memory.line, message, case.case_id)


LABEL_RULES: dict[str, Rule] = {
    "same-memory-twice": same_memory_twice,
    "assistant-only-source": assistant_only_source,
    "velocity-differs": velocity_differs,
    "action-missing": action_missing,
    "action-targets": action_targets,
    "scene-membership": scene_membership,
    "scene-labels-differ": scene_labels_differ,
    "times-run-backwards": times_run_backwards,
    "nothing-relevant": nothing_relevant,
    "label-left-out": labels_left_out,
}
