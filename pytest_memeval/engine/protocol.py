"""The interface between the harness and a memory system (an *engine*).

An engine is any object with a ``name``, optionally a ``version`` and ``concurrent``, and one method per stage that it
supports; methods may be plain or ``async``. A stage without a method is "not supported": its metrics are left out,
never zero.

Several cases may be in one engine object at once. Without a word from the engine that holds where all its methods are
``async``; ``concurrent = True`` says it of plain methods too (they then run in several threads), ``concurrent = False``
that its cases have to run one at a time.

====================  ==========================================  =========================================
stage                 method                                      returns
====================  ==========================================  =========================================
(before the stages)   ``load(memories, scenes, ctx)``             nothing; fills the store
(after writing)       ``await_indexed(ctx)`` (optional)           nothing; what was written can be found
(at the end)          ``release(ctx)`` (optional)                 nothing; the store is not used again
``l1``                ``extract(conversation, ctx)``              ``list[Memory]``
(after ``l1``)        ``normalize(memories, ctx)`` (optional)     ``list[Memory]``
``l15``               ``resolve(memories, ctx)``                  ``list[Decision]``, already applied
``l2``                ``aggregate(memories, ctx)``                ``list[Scene]``, already applied
``template``          ``query_template(mode, ctx)``               ``list[Section]``
``inject``            ``inject(mode, conversation, ctx)``         ``list[Block]``
``search``            ``search(query, params, ctx)``              ``list[Hit]``, best first
====================  ==========================================  =========================================

``search`` is measured over the memories of a whole case set. They are given to ``load`` once a process, under ids
``case_id#index``, in a context that all queries of the set share: its ``case_id`` is a word for the set, its databases
and folder belong to this corpus. ``params`` is a mapping with ``top_k, rrf_k, bm25_weight, bm25_k1, bm25_b``; an engine
leaves alone what it does not have. A hit's id, one of its ``source_ids``, or its content tells which memory it is. An
engine may offer ``describe_search(ctx)``, a mapping of plain values that reports show.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Protocol

from pytest_memeval.llm.protocol import ChatModel, Embedder

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates

#: "major.minor" of this interface: a new optional method, argument or attribute raises minor, a changed meaning major.
PROTOCOL_VERSION = "1.0"

#: Stage → the engine method that implements it.
STAGE_METHODS: Mapping[str, str] = {
    "l1": "extract",
    "l15": "resolve",
    "l2": "aggregate",
    "template": "query_template",
    "inject": "inject",
    "search": "search",
}

#: Kinds of facts that an engine (or the harness) notes about a case with ``ctx.record(kind, **fields)``.
RECORD_KINDS: tuple[str, ...] = (
    "dropped_label",  # label, memory_index: unknown to the registry, removed
    "fuzzy_label",  # label, dimension, score, memory_index: accepted by similarity
    "invalid_item",  # stage, reason, item: an element of a model's answer that was dropped
    "bad_decision",  # reason, item: an invented id, an unknown action, a second decision for one memory
    "model_call",  # a row of refine_runs
    "unknown_section",  # by the harness: mode, section, nearest, memories: a section that the mode does not have
    "inject_setup",  # by the harness: mode, token_budget
    "search_setup",  # by the harness: documents, what describe_search() of the engine tells, the parameters
    "note",  # text: anything a reader of the case should know
)


class CaseDatabases(Protocol):
    """A case's own two SQLite databases, opened when first asked for and closed with the case."""

    @property
    def memory(self) -> Connection: ...

    @property
    def wiki(self) -> Connection: ...


@dataclass(frozen=True)
class StageContext:
    """Everything a stage may use besides its input.

    ``clock`` is the case's fixed "now" (aware). ``trial`` counts repetitions from 0. ``record`` notes a fact about
    the case (see :data:`RECORD_KINDS`). ``case_set`` is the case file's path, empty for a case built in code.
    ``folder`` exists and is private to the case and to this store: a case whose stages start from different memories
    (injection from the labelled ones, extraction from the existing ones) has several stores, each with a folder and
    databases of its own. It is removed after the case.
    """

    case_id: str
    databases: CaseDatabases
    prompts: PromptSet
    llm: ChatModel
    registry: Registry
    templates: Templates
    clock: datetime
    record: Callable[..., None]
    get_folder: Callable[[], Path]
    embedder: Embedder | None = None
    trial: int = 0
    case_set: str = ""

    @property
    def folder(self) -> Path:
        return self.get_folder()

    @property
    def memory_db(self) -> Connection:
        return self.databases.memory

    @property
    def wiki_db(self) -> Connection:
        return self.databases.wiki


class StageError(Exception):
    """A stage could not be measured. ``kind`` is a short stable word, ``stage`` is filled in by the runner."""

    def __init__(self, message: str, *, kind: str = "engine_error", stage: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.stage = stage


class EngineSetupError(ValueError):
    """An engine cannot be made here: something that it needs is missing or wrong. One sentence."""


class UnusableAnswer(StageError):
    """A model answered, but not with anything that can be read as the result asked for."""

    def __init__(self, message: str, *, stage: str | None = None) -> None:
        super().__init__(message, kind="unusable_answer", stage=stage)


def supported_stages(engine: object) -> tuple[str, ...]:
    """The engine's stages in pipeline order: what its own ``supported_stages()`` says, else those with a method."""
    declared = getattr(engine, "supported_stages", None)
    if callable(declared):
        stages = set(declared())
        return tuple(stage for stage in STAGE_METHODS if stage in stages)
    return tuple(stage for stage, method in STAGE_METHODS.items() if callable(getattr(engine, method, None)))


def can_overlap(engine: object) -> bool:
    """Whether several cases may be in the engine at once: what its ``concurrent`` says. Without a word of it, plain
    methods may not, since they would run in several threads at once and an engine may keep its state in itself."""
    declared = getattr(engine, "concurrent", None)
    if declared is not None:
        return bool(declared)
    methods = (
        getattr(engine, name, None)
        for name in ("load", "normalize", "await_indexed", "release", *STAGE_METHODS.values())
    )
    return all(inspect.iscoroutinefunction(method) for method in methods if callable(method))


def protocol_problem(engine: object) -> str | None:
    """Why an engine that names the protocol it was written for (``protocol = "1.2"``) cannot be used here, in a
    sentence; ``None`` where it can, or names none."""
    declared = getattr(engine, "protocol", None)
    if declared is None or isinstance(declared, property):  # of a class that tells it once it is made
        return None
    kind = engine if isinstance(engine, type) else type(engine)
    name = getattr(engine, "name", kind.__name__)
    parts = str(declared).split(".")
    if not 1 <= len(parts) <= 2 or not all(part.isdigit() for part in parts):
        return f"engine {name} names the protocol {declared!r}, which is no version such as {PROTOCOL_VERSION}"
    major, minor = int(parts[0]), int(parts[1]) if len(parts) == 2 else 0
    here = [int(part) for part in PROTOCOL_VERSION.split(".")]
    if major == here[0] and minor <= here[1]:
        return None
    return f"engine {name} was written for engine protocol {declared}, and this version has {PROTOCOL_VERSION}"
