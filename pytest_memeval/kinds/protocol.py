"""What a kind of case files has to be and to give: :class:`Kind`, and the sets and cases that it loads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_memeval.documents.problems import Problem
    from pytest_memeval.harness import Harness
    from pytest_memeval.kinds.run import KindRun
    from pytest_memeval.metrics.thresholds import Gate, Threshold
    from pytest_memeval.results import CaseResult


@dataclass(frozen=True)
class KindCase:
    """What every part needs to know of a case, whatever its kind; a kind adds fields in a subclass.

    ``case_id`` is the item's node id without the file: nested names are joined by ``::``. ``stages`` are those that the
    case has labels for. ``cluster`` names what the case shares with others (a conversation, a document), within its
    file: intervals are over clusters. ``problems`` are case errors: the item is collected and errors in set-up.
    """

    case_id: str
    line: int = 1
    source: str = "unspecified"
    difficulty: str = "unspecified"
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    expect: tuple[Threshold, ...] = ()
    stages: tuple[str, ...] = ()
    cluster: str = ""
    content_hash: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class KindSet:
    """A loaded file of a kind. ``problems`` are file errors: with any of them no case of the file runs.

    ``gates`` is ``None`` where the file gives none (the ini's, else the kind's defaults apply), ``()`` for none at all.
    """

    path: Path
    kind: str
    cases: Sequence[KindCase] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    version: str | None = None
    gates: tuple[Gate, ...] | None = None
    note: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class Kind(ABC):
    """One kind of case files."""

    #: Its word in ``kind:`` and in reports.
    name: str
    #: Its main stage, as ``--memeval-stages`` names it.
    stage: str
    #: The report sections that its cases have figures in.
    sections: tuple[str, ...]
    #: Gates of a file without gates of its own.
    default_gates: tuple[str, ...] = ()
    #: Fixtures whose values :meth:`make_run` wants. Session-scoped ones keep its cases able to run ahead.
    fixtures: tuple[str, ...] = ()
    #: Metric path and label of the figure that ``-v`` shows: the first that a case has.
    main_figures: tuple[tuple[str, str], ...] = ()
    #: Whether its runs can be set up in a plan: they ask nobody then, and count what they would ask.
    planned = False

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Whether a ``.json`` or ``.jsonl`` file, or a YAML file with ``dataset:``, is of this kind, by its first
        :data:`~pytest_memeval.kinds.registry.HEAD` bytes. (``kind: <name>`` in YAML is seen without asking.)"""
        return False

    @abstractmethod
    def load(self, path: Path, harness: Harness | None) -> KindSet:
        """Read a file. Never raises for a bad one: every problem is in the set, or with its case.

        ``harness`` gives settings and the cache folder; it is ``None`` for ``memeval validate`` and ``rescore``.
        """

    @abstractmethod
    def make_run(
        self, case: Any, case_set: KindSet, values: Mapping[str, Any], harness: Harness, label: str
    ) -> KindRun:
        """A run of the case that nobody has asked for anything yet. ``values`` are those of :attr:`fixtures`, ``label``
        is the item's node id. Called in the item's process, possibly before its turn."""

    def can_overlap(self, values: Mapping[str, Any]) -> bool:
        """Whether several cases with these fixtures may be under way at once."""
        return True

    def file_class(self) -> Any:
        """The class of the file's collector, a subclass of :class:`pytest_memeval.kind_items.KindFile`; ``None`` for
        that class itself."""
        return None

    def rescore(self, record: CaseResult, case: Any, case_set: KindSet, protocol: Mapping[str, Any]) -> CaseResult:
        """The record scored again from its stored outputs and today's labels; by default it stays as it is.
        ``protocol`` is the run's. Raises OutputError for outputs that cannot be read."""
        return record
