"""Cases and their labels as loaded from a case set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.documents.problems import Problem
from pytest_memeval.metrics.thresholds import Gate, Threshold
from pytest_memeval.values import Memory, Message, Scene

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates


@dataclass(frozen=True, slots=True)
class GtMemory:
    """A labelled memory. Optional labels that the author left out are ``None`` and are not scored."""

    content: str
    dimensions: tuple[str, ...] = ()
    memory_type: str | None = None
    priority: float | None = None
    time_velocity: str | None = None
    source_message_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class L1GroundTruth:
    """The memories that extraction should find; an empty tuple says that nothing is worth keeping."""

    memories: tuple[GtMemory, ...] = ()


@dataclass(frozen=True, slots=True)
class GtConflictAction:
    """The right action for the labelled memory ``new_memory_index``; ``candidate_ids`` are its targets."""

    new_memory_index: int
    action: str
    candidate_ids: tuple[str, ...] = ()
    merged_content: str | None = None
    reason: str | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class L15GroundTruth:
    actions: tuple[GtConflictAction, ...] = ()


@dataclass(frozen=True, slots=True)
class GtScene:
    """A labelled scene: its label and the indices of the labelled memories that belong together."""

    label: str
    memories: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class L2GroundTruth:
    """``template_section`` maps mode → labelled memory index → section **id** (titles are resolved on loading)."""

    scene_labels: tuple[str, ...] = ()
    scenes: tuple[GtScene, ...] = ()
    template_section: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InjectGroundTruth:
    mode: str
    subsequent_conversation: tuple[Message, ...] = ()
    referenced_memory_indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query with its relevant memory ids, best first (``case_id#index``), and their grades (empty: binary)."""

    query: str
    relevant: tuple[str, ...] = ()
    grades: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchGroundTruth:
    queries: tuple[SearchQuery, ...] = ()


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One labelled conversation: one pytest item.

    ``line`` is the 1-based line of the case in its file. ``problems`` are case errors: the item is collected and
    errors in setup. ``content_hash`` changes with anything that was written in the case.
    """

    case_id: str
    kind: str = "distill"
    source: str = "unspecified"
    difficulty: str = "unspecified"
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    now: datetime | None = None
    conversation: tuple[Message, ...] = ()
    existing_memories: tuple[Memory, ...] = ()
    existing_scenes: tuple[Scene, ...] = ()
    expected_l1: L1GroundTruth | None = None
    expected_l15: L15GroundTruth | None = None
    expected_l2: L2GroundTruth | None = None
    expected_inject: InjectGroundTruth | None = None
    expected_search: SearchGroundTruth | None = None
    expect: tuple[Threshold, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: str | None = None
    path: Path | None = None
    line: int = 1
    problems: tuple[Problem, ...] = ()
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class CaseSetMeta:
    """The ``meta`` block. ``gates`` is ``None`` where the key is absent (defaults apply), ``()`` where it is empty.

    ``registry``, ``templates`` and ``prompts`` are absolute paths, or ``None`` for the ini's or the shipped ones;
    ``distractors`` is a file of memories that are only searched among.
    """

    version: str | None = None
    created_at: str | None = None
    total_cases: int | None = None
    description: str | None = None
    timezone: str = "UTC"
    gates: tuple[Gate, ...] | None = None
    registry: Path | None = None
    templates: Path | None = None
    prompts: Path | None = None
    distractors: Path | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseSet:
    """A loaded case file. ``problems`` are file errors: with any of them no case of the file runs.

    ``registry`` and ``templates`` are those that the labels were checked against: the file's own, else the ones given
    to the loader; ``None`` only where they could not be loaded.
    """

    path: Path
    kind: str = "distill"
    meta: CaseSetMeta = field(default_factory=CaseSetMeta)
    cases: tuple[EvalCase, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    registry: Registry | None = None
    templates: Templates | None = None
