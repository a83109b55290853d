"""Cases that are built in code: their labels are read as those of a file are, so that a slip is told and not scored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cases.build import CaseBuilder
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
from pytest_memeval.cases.reporting import ProblemLog, place_of
from pytest_memeval.cases.tables import CASE
from pytest_memeval.documents.json_parser import parse_json
from pytest_memeval.documents.problems import Problem
from pytest_memeval.metrics.thresholds import Threshold, ThresholdError, check_key
from pytest_memeval.values import Memory, Scene, kind_of_value

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates

#: What stands for the file in the problems of a case that has none.
NO_FILE = Path("<case>")
#: Places in the text that a case is written as, which nobody sees.
_ELSEWHERE = re.compile(r" \(the first is in line \d+\)")


class _WrongType(TypeError):
    """Something in the case that is none of the public classes."""


def checked(case: EvalCase, registry: Registry, templates: Templates) -> EvalCase:
    """The case as a file would give it: labels by their ids where display names, aliases or titles are written, and
    everything that a file would not be taken for among its ``problems``, each with its place in the case."""
    try:
        written = _case(case)
        found, problems = _read(written, case, registry, templates)
        problems += [_problem(case, f"expect: {text}") for text in _bad_thresholds(case, registry)]
    except _WrongType as error:
        found, problems = None, [_problem(case, str(error))]
    if problems:
        return replace(case, problems=(*case.problems, *problems))
    return case if found is None else _resolved(case, found)


def problem_text(problem: Problem) -> str:
    """A case's problem as its item shows it: with the place of the case where it has one, else with its id."""
    if problem.line:
        return f"{problem.path}:{problem.line}: [case] {problem.message}"
    return f"[case] {problem.case_id}: {problem.message}"


def _problem(case: EvalCase, message: str) -> Problem:
    return Problem(case.path or NO_FILE, case.line if case.path else 0, 0, message, case.case_id)


def _bad_thresholds(case: EvalCase, registry: Registry) -> Iterable[str]:
    for threshold in case.expect:
        if not isinstance(threshold, Threshold):
            raise _WrongType(f"expect: a Threshold is needed here, not {kind_of_value(threshold)}")
        try:
            check_key(threshold.path, registry.ids)
        except ThresholdError as error:
            yield str(error)


# -- the case as a file has it


def _case(case: EvalCase) -> dict[str, Any]:
    l1, l15, l2, inject, search = (
        _is(getattr(case, name), kind, name)
        for name, kind in (
            ("expected_l1", L1GroundTruth),
            ("expected_l15", L15GroundTruth),
            ("expected_l2", L2GroundTruth),
            ("expected_inject", InjectGroundTruth),
            ("expected_search", SearchGroundTruth),
        )
    )
    return _written(
        case_id=case.case_id,
        source=case.source,
        difficulty=case.difficulty,
        tags=case.tags,
        timeout=case.timeout,
        existing_memories=[
            _memory(one, memory_id=f"#{at}" if one.id is None else one.id)
            for at, one in enumerate(_all(case.existing_memories, Memory, "existing_memories"))
        ],
        existing_scenes=[
            _written(scene_id=one.id or f"#{at}", title=one.title, memory_ids=one.memory_ids)
            for at, one in enumerate(_all(case.existing_scenes, Scene, "existing_scenes"))
        ],
        expected_l1=None if l1 is None else _l1(l1, "expected_l1"),
        expected_l15=None
        if l15 is None
        else {
            "actions": [
                _written(
                    new_memory_index=one.new_memory_index, action=one.action, candidate_ids=list(one.candidate_ids)
                )
                for one in _all(l15.actions, GtConflictAction, "expected_l15.actions")
            ]
        },
        expected_l2=None
        if l2 is None
        else _written(
            scene_labels=l2.scene_labels,
            scenes=[
                _written(label=one.label, memories=one.memories)
                for one in _all(l2.scenes, GtScene, "expected_l2.scenes")
            ],
            template_section=l2.template_section,
        ),
        expected_inject=None
        if inject is None
        else _written(mode=inject.mode, referenced_memory_indices=inject.referenced_memory_indices),
        expected_search_results=None
        if search is None
        else [
            _written(query=one.query, relevant=one.relevant, grades=one.grades or None)
            for one in _all(search.queries, SearchQuery, "expected_search.queries")
        ],
        annotations={
            name: _l1(value, f"annotations.{name}") if isinstance(value, L1GroundTruth) else value
            for name, value in case.annotations.items()
            if value is not None
        },
    )


def _l1(truth: L1GroundTruth, place: str) -> dict[str, Any]:
    return {"memories": [_memory(one) for one in _all(truth.memories, GtMemory, f"{place}.memories")]}


def _memory(memory: GtMemory | Memory, **more: Any) -> dict[str, Any]:
    labelled = isinstance(memory, GtMemory)
    return _written(
        **more,
        content=memory.content,
        # A memory that is there already may be without any.
        dimensions=memory.dimensions if labelled or memory.dimensions else None,
        memory_type=memory.memory_type,
        priority=memory.priority,
        time_velocity=memory.time_velocity,
    )


def _written(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _is(value: Any, kind: type, place: str) -> Any:
    if value is not None and not isinstance(value, kind):
        raise _WrongType(f"{place}: an object of class {kind.__name__} is needed here, not {kind_of_value(value)}")
    return value


def _all(values: Any, kind: type, place: str) -> list[Any]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise _WrongType(f"{place}: a tuple of {kind.__name__} is needed here, not {kind_of_value(values)}")
    found = list(values)
    for at, one in enumerate(found):
        if not isinstance(one, kind):
            raise _WrongType(
                f"{place}[{at}]: an object of class {kind.__name__} is needed here, not {kind_of_value(one)}"
            )
    return found


class _Text:
    """JSON with a line for each value, and what stands in each line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.places: list[str] = []

    def write(self, value: Any, place: str, before: str = "", after: str = "") -> None:
        if isinstance(value, Mapping):
            inner = [(f"{json.dumps(str(key))}: ", f"{place}.{key}".lstrip("."), one) for key, one in value.items()]
            self._nest("{}", inner, place, before, after)
        elif isinstance(value, Iterable) and not isinstance(value, str):
            self._nest("[]", [("", f"{place}[{at}]", one) for at, one in enumerate(value)], place, before, after)
        else:
            self._line(before + json.dumps(_scalar(value)) + after, place)

    def _nest(self, signs: str, inner: list[tuple[str, str, Any]], place: str, before: str, after: str) -> None:
        self._line(before + signs[0], place)
        for at, (head, own, value) in enumerate(inner, 1):
            self.write(value, own, head, "," if at < len(inner) else "")
        self._line(signs[1] + after, place)

    def _line(self, text: str, place: str) -> None:
        self.lines.append(text)
        self.places.append(place)


def _scalar(value: object) -> object:
    if isinstance(value, str) or value is None:
        return value
    plain = isinstance(value, int | float) and math.isfinite(value)
    return value if plain else str(value)


# -- and as it is read


def _read(
    written: Mapping[str, Any], case: EvalCase, registry: Registry, templates: Templates
) -> tuple[EvalCase | None, list[Problem]]:
    text = _Text()
    text.write(written, "")
    document = parse_json("\n".join(text.lines), NO_FILE)
    log = ProblemLog(document)
    log.enter_case(case.case_id)
    row = CASE.read(document.tape, 0, log)
    found = None if row is None else CaseBuilder(log, UTC, registry, templates).build(row, str(case.case_id))
    for at in document.lone_surrogates:
        log.value(at, "half of a surrogate pair is not a character")
    problems = []
    for problem in sorted((*log.file, *log.leave_case()), key=place_of):
        message = _ELSEWHERE.sub("", problem.message)
        place = text.places[problem.line - 1] if 0 < problem.line <= len(text.places) else ""
        said = place and not message.startswith(f"{place} ")
        problems.append(_problem(case, f"{_shown(place)}: {message}" if said else message))
    return found, problems


def _shown(place: str) -> str:
    """The place by the names that the classes have."""
    return place.replace("expected_search_results", "expected_search.queries", 1)


def _resolved(case: EvalCase, found: EvalCase) -> EvalCase:
    """The case with the labels that were found by other names."""
    changes: dict[str, Any] = {}
    if case.expected_l1 is not None and found.expected_l1 is not None:
        changes["expected_l1"] = _with_ids(case.expected_l1, found.expected_l1)
    changes["existing_memories"] = tuple(
        replace(one, dimensions=read.dimensions)
        for one, read in zip(case.existing_memories, found.existing_memories, strict=True)
    )
    if case.expected_l2 is not None and found.expected_l2 is not None:
        changes["expected_l2"] = replace(case.expected_l2, template_section=found.expected_l2.template_section)
    if case.expected_search is not None and found.expected_search is not None:
        changes["expected_search"] = replace(
            case.expected_search,
            queries=tuple(
                replace(one, relevant=read.relevant)
                for one, read in zip(case.expected_search.queries, found.expected_search.queries, strict=True)
            ),
        )
    changed = replace(case, **changes)
    return case if changed == case else changed


def _with_ids(truth: L1GroundTruth, found: L1GroundTruth) -> L1GroundTruth:
    pairs = zip(truth.memories, found.memories, strict=True)
    return replace(truth, memories=tuple(replace(one, dimensions=read.dimensions) for one, read in pairs))
