"""Builds cases from rows that were read, checking every value against registry, templates and the case itself."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from pytest_memeval.cases.conversation import ConversationError, parse_conversation, parse_time
from pytest_memeval.cases.fieldtypes import Row
from pytest_memeval.cases.labels import LabelReader
from pytest_memeval.cases.models import (
    EvalCase,
    GtConflictAction,
    GtMemory,
    GtScene,
    InjectGroundTruth,
    L1GroundTruth,
    L2GroundTruth,
    L15GroundTruth,
    SearchGroundTruth,
    SearchQuery,
)
from pytest_memeval.cases.names import check_case_id, check_tag
from pytest_memeval.cases.reporting import ProblemLog
from pytest_memeval.documents.canonical import content_hash
from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.documents.tree import Node
from pytest_memeval.metrics.thresholds import Threshold, ThresholdError, check_key, parse_threshold
from pytest_memeval.values import Memory, Message, Scene

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates

_REFERENCE = re.compile(r"(?P<case>.+)#(?P<index>[0-9]+)")
_DIGITS = re.compile(r"[0-9]+")


class CaseBuilder:
    """Builds the cases of one file. ``registry`` or ``templates`` of ``None`` leave what needs them unchecked.

    ``references`` collects search truths that name another case's memory: (case id, index, node, own case's id); they
    can only be checked when all cases are known.
    """

    def __init__(self, log: ProblemLog, tz: tzinfo, registry: Registry | None, templates: Templates | None) -> None:
        self.log = log
        self.tz = tz
        self.templates = templates
        self.references: list[tuple[str, int, int, str]] = []
        self._sections: dict[tuple[str, str], str] = {}
        self.registry = registry
        self.labels = LabelReader(log, registry)

    def build(self, row: Row, case_id: str) -> EvalCase:
        """The case of a row; its problems so far are the log's case problems."""
        get = row.get
        if "case_id" in row.places:
            self._check(row.places["case_id"], check_case_id(case_id))
        tags = self._texts(get("tags"))
        for at, tag in get("tags") or ():
            self._check(at, check_tag(tag))
        l1 = self._l1(get("expected_l1"))
        count = len(l1.memories) if l1 else 0
        existing = tuple(self._existing_memory(memory) for _, memory in get("existing_memories") or ())
        scenes = tuple(self._existing_scene(scene, existing) for _, scene in get("existing_scenes") or ())
        self._check_unique(get("existing_memories"), "memory_id")
        self._check_unique(get("existing_scenes"), "scene_id")
        return EvalCase(
            case_id=case_id,
            source=get("source", "unspecified"),
            difficulty=get("difficulty", "unspecified"),
            tags=tuple(dict.fromkeys(tags)),
            timeout=get("timeout"),
            now=self._time(row, "now"),
            conversation=self._conversation(get("conversation")),
            existing_memories=existing,
            existing_scenes=scenes,
            expected_l1=l1,
            expected_l15=self._l15(get("expected_l15"), count, existing),
            expected_l2=self._l2(get("expected_l2"), count),
            expected_inject=self._inject(get("expected_inject"), count),
            expected_search=self._search(get("expected_search_results"), case_id, count),
            expect=self._expect(get("expect")),
            annotations={name: self._l1(value) for name, _, _, value in get("annotations") or ()},
            extra=get("extra", {}),
            notes=get("notes"),
            path=self.log.document.path,
            line=self.log.line(row.at),
            content_hash=content_hash(self.log.node(row.at)),
        )

    # -- memories and labels

    def _l1(self, row: Row | None) -> L1GroundTruth | None:
        if row is None:
            return None
        return L1GroundTruth(tuple(self._gt_memory(memory) for _, memory in row.get("memories") or ()))

    def _gt_memory(self, row: Row) -> GtMemory:
        get = row.get
        dimensions = self.labels.dimensions(row)
        if not dimensions and "dimensions" not in row.values:
            self.log.value(row.at, "a labelled memory needs at least one dimension")
        if not get("content", "").strip():
            self.log.value(row.places.get("content", row.at), "a labelled memory needs a content: this one is blank")
        self.labels.check_values(row)
        return GtMemory(
            content=get("content", ""),
            dimensions=dimensions,
            memory_type=get("memory_type"),
            priority=get("priority"),
            time_velocity=get("time_velocity"),
            source_message_ids=self._texts(get("source_message_ids")),
            extra=get("extra", {}),
            line=self.log.line(row.at),
        )

    def _existing_memory(self, row: Row) -> Memory:
        get = row.get
        dimensions = self.labels.dimensions(row)
        self.labels.check_values(row)
        return Memory(
            id=get("memory_id", ""),
            content=get("content", ""),
            dimensions=dimensions,
            memory_type=get("memory_type"),
            priority=get("priority"),
            time_velocity=get("time_velocity"),
            source_message_ids=self._texts(get("source_message_ids")),
            created_at=self._time(row, "created_at"),
            extra=get("extra", {}),
        )

    # -- the later stages' truths

    def _existing_scene(self, row: Row, existing: tuple[Memory, ...]) -> Scene:
        known = [memory.id or "" for memory in existing]
        for at, memory_id in row.get("memory_ids") or ():
            self._check_known(at, memory_id, known, "existing memory")
        return Scene(row.get("scene_id", ""), row.get("title", ""), self._texts(row.get("memory_ids")))

    def _l15(self, row: Row | None, count: int, existing: tuple[Memory, ...]) -> L15GroundTruth | None:
        if row is None:
            return None
        known = [memory.id or "" for memory in existing]
        seen: dict[int, int] = {}
        actions = []
        for _, entry in row.get("actions") or ():
            get = entry.get
            index = get("new_memory_index")
            for at, candidate in get("candidate_ids") or ():
                self._check_known(at, candidate, known, "existing memory")
            if index is None or get("action") is None:  # reported where it was read
                continue
            place = entry.places["new_memory_index"]
            self._check_index(place, index, count)
            if index in seen:
                self.log.value(place, f"a second action for memory {index} (the first is in line {seen[index]})")
            line = self.log.line(entry.at)
            seen.setdefault(index, line)
            actions.append(
                GtConflictAction(
                    new_memory_index=index,
                    action=get("action"),
                    candidate_ids=self._texts(get("candidate_ids")),
                    merged_content=get("merged_content"),
                    reason=get("reason"),
                    line=line,
                )
            )
        return L15GroundTruth(tuple(actions))

    def _l2(self, row: Row | None, count: int) -> L2GroundTruth | None:
        if row is None:
            return None
        scenes = tuple(
            GtScene(scene.get("label", ""), self._indices(scene.get("memories"), count))
            for _, scene in row.get("scenes") or ()
        )
        sections: dict[str, dict[int, str]] = {}
        for mode, mode_at, _, entries in row.get("template_section") or ():
            known_mode = self._check_mode(mode_at, mode)
            placed: dict[int, str] = {}
            for index_text, index_at, section_at, section in entries:
                if _DIGITS.fullmatch(index_text) is None:
                    self.log.value(index_at, f"{index_text!r} is not the index of a labelled memory")
                    continue
                index = int(index_text)
                self._check_index(index_at, index, count)
                placed[index] = self._section(section_at, mode, section) if known_mode else section
            sections[mode] = placed
        return L2GroundTruth(self._texts(row.get("scene_labels")), scenes, sections)

    def _check_mode(self, at: int, mode: str) -> bool:
        if self.templates is None:
            return False
        if self.templates.get(mode) is None:
            if self.templates.unfit is not None:
                self.log.value(at, f"no template for mode {mode!r}: {self.templates.unfit}")
                return False
            self.log.value(at, f"no template for mode {mode!r}{did_you_mean(mode, self.templates.modes)}")
            return False
        return True

    def _section(self, at: int, mode: str, section: str) -> str:
        found = self._sections.get((mode, section))
        if found is not None:
            return found
        template = self.templates.get(mode) if self.templates else None
        if self.templates is None or template is None:
            return section
        spec = self.templates.find_section(mode, section)
        if spec is None:
            known = [name for part in template.sections for name in (part.title, part.id)]
            self.log.value(at, f"mode {mode!r} has no section {section!r}{did_you_mean(section, known)}")
            return section
        self._sections[mode, section] = spec.id
        return spec.id

    def _inject(self, row: Row | None, count: int) -> InjectGroundTruth | None:
        if row is None:
            return None
        mode = row.get("mode", "")
        if mode:
            self._check_mode(row.places["mode"], mode)
        return InjectGroundTruth(
            mode,
            self._conversation(row.get("subsequent_conversation")),
            self._indices(row.get("referenced_memory_indices"), count),
        )

    def _search(self, entries: list[Any] | None, case_id: str, count: int) -> SearchGroundTruth | None:
        if entries is None:
            return None
        queries = []
        for entry in entries:
            if len(entry) == 4:  # the mapping form
                query, place, relevant, grades = entry[0], entry[1], entry[3], None
            else:
                row = entry[1]
                query, place = row.get("query", ""), row.at
                relevant, grades = row.get("relevant") or [], row.get("grades")
                if grades is not None and len(grades) != len(relevant):
                    self.log.value(row.places["grades"], f"{len(grades)} grades for {len(relevant)} relevant memories")
            if not query.strip():
                self.log.value(place, "the query is empty")
            ids = tuple(self._memory_id(at, text, case_id, count) for at, text in relevant)
            if len(set(ids)) < len(ids):
                self.log.value(place, f"a memory stands twice among the relevant ones of {query!r}")
            queries.append(SearchQuery(query, ids, tuple(float(grade) for _, grade in grades or ())))
        return SearchGroundTruth(tuple(queries))

    def _memory_id(self, at: int, text: str, case_id: str, count: int) -> str:
        if _DIGITS.fullmatch(text):
            self._check_index(at, int(text), count)
            return f"{case_id}#{int(text)}"
        match = _REFERENCE.fullmatch(text)
        if match is None:
            self.log.value(at, f"{text!r} is neither the index of a labelled memory nor an id case_id#index")
            return text
        if match["case"] == case_id:
            self._check_index(at, int(match["index"]), count)
        else:
            self.references.append((match["case"], int(match["index"]), at, case_id))
        return f"{match['case']}#{int(match['index'])}"

    def _expect(self, entries: list[tuple[str, int, int, str]] | None) -> tuple[Threshold, ...]:
        thresholds = []
        for path, _, bound_at, bound in entries or ():
            try:
                threshold = parse_threshold(path, bound)
                if self.registry is not None:
                    check_key(threshold.path, self.registry.ids)
                thresholds.append(threshold)
            except ThresholdError as error:
                self.log.structure(bound_at, f"expect: {error}")
        return tuple(thresholds)

    # -- single values

    def _conversation(self, at: int | None) -> tuple[Message, ...]:
        if at is None:
            return ()
        node = self.log.node(at)
        if node.is_mapping:
            self.log.structure(at, "a conversation is text or a list of messages, not a mapping")
            return ()
        try:
            return parse_conversation(node.text if node.is_scalar else node.texts(), self.tz)
        except ConversationError as error:
            elements = list(node.elements()) if node.is_sequence else []
            for fault in error.faults:
                report = self.log.structure if fault.structural else self.log.value
                if fault.message is not None:
                    report(_key_of(elements[fault.message], fault.key), fault.text)
                elif fault.line is not None:
                    self.log.value(at, fault.text, line=node.line_of_text(fault.line))
            return ()

    def _time(self, row: Row, key: str) -> datetime | None:
        text = row.get(key)
        if text is None:
            return None
        try:
            return parse_time(text, self.tz)
        except ValueError as error:
            self.log.value(row.places[key], f"{key}: {error}")
            return None

    def _indices(self, entries: list[tuple[int, int]] | None, count: int) -> tuple[int, ...]:
        for at, index in entries or ():
            self._check_index(at, index, count)
        return tuple(index for _, index in entries or ())

    def _check_index(self, at: int, index: int, count: int) -> None:
        if index >= count:
            there = f"has {count} (0 to {count - 1})" if count else "has none"
            self.log.value(at, f"memory index {index} is out of range: expected_l1 {there}")

    def _check_known(self, at: int, value: str, known: list[str], what: str) -> None:
        if value not in known:
            self.log.value(at, f"no {what} {value!r}{did_you_mean(value, known)}")

    def _check_unique(self, entries: list[tuple[int, Row]] | None, key: str) -> None:
        seen: dict[str, int] = {}
        for _, row in entries or ():
            value = row.get(key)
            if value in seen:
                self.log.value(row.places[key], f"{key} {value!r} a second time (the first is in line {seen[value]})")
            elif value is not None:
                seen[value] = self.log.line(row.places[key])

    def _check(self, at: int, complaint: str | None) -> None:
        if complaint is not None:
            self.log.structure(at, complaint)

    @staticmethod
    def _texts(entries: list[tuple[int, str]] | None) -> tuple[str, ...]:
        return tuple(text for _, text in entries or ())


def _key_of(message: Node, key: str | None) -> int:
    """The index of a message's key, else of the message."""
    if key is not None and message.is_mapping:
        for name, _ in message.items():
            if name.text == key:
                return name.at
    return message.at
