"""Kinds of case files besides distillation: how such a file becomes tests and what its cases leave behind.

A distillation set is read, run and scored by modules of its own. Every other kind (``rag``, ``qa``, a published data
set) comes in through here, and journals, reports, gates, concurrency and workers treat its items as any others:

- A :class:`Kind` recognises its files, loads one into a :class:`KindSet` (a :class:`KindCase` for every item) and
  makes a :class:`KindRun` of a case.
- :class:`KindRun` is one item's work. It is awaited once, on the process's loop, in the item's turn or ahead of it,
  and fills in what the case's record needs: statuses, sections, errors, outputs, calls.
- :mod:`pytest_memeval.kind_items` makes the pytest nodes. A kind whose items are nested (a conversation with many
  questions) gives a file class of its own; its items stay :class:`~pytest_memeval.kind_items.KindItem`.

To add a kind: a module with a ``KIND`` object, named in :data:`KINDS`. Importing the module has to be cheap.

What a record holds. ``sections`` maps a report section (``rag``, ``qa`` …) to a
:class:`~pytest_memeval.metrics.sections.SectionRecord`, whose ratios are added up over cases. ``statuses`` says of each
labelled stage what became of it. Where a section's metrics can fail one by one, a status under ``section.metric`` says
what became of that metric, and counts for it in the place of the stage's.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.custom_metrics import SECTION, CaseMetrics, CustomMetric, registered
from pytest_memeval.results import CallRecord, CaseError, CaseResult, SetInfo, StageResult, StageStatus
from pytest_memeval.time_limit import GRACE, TimeLimit

if TYPE_CHECKING:
    from pytest_memeval.documents.problems import Problem
    from pytest_memeval.harness import Harness
    from pytest_memeval.loops import LoopThread
    from pytest_memeval.metrics.sections import SectionRecord
    from pytest_memeval.metrics.thresholds import Gate, Threshold
    from pytest_memeval.resuming import Resumption

#: Kind → where its :class:`Kind` object is.
KINDS: Mapping[str, str] = {"qa": "pytest_memeval.qa.kind:KIND", "rag": "pytest_memeval.rag.kind:KIND"}
#: Bytes of a file that tell its kind, where no line of it says ``kind:``.
HEAD = 64 * 1024
#: Sections of a distillation set.
DISTILL_SECTIONS: tuple[str, ...] = ("l1", "l15", "l2", "inject", "search")

_DECLARED = re.compile(rb"(?:^|\n)kind[ \t]*:[ \t]*[\"']?(\w+)[\"']?[ \t]*(?:#[^\n]*)?\r?(?:\n|$)")


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
        :data:`HEAD` bytes. (``kind: <name>`` in YAML is seen without asking.)"""
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


class KindRun(ABC):
    """One case's work and what it leaves behind.

    A subclass implements :meth:`measure` and fills in ``sections``, ``statuses``, ``errors``, ``results`` (stage →
    :class:`~pytest_memeval.results.StageResult`: its calls and seconds), ``outputs`` (JSON), ``facts``. What
    :meth:`measure` raises becomes an error of :attr:`stage`. ``why_skipped`` makes the item a skip.
    """

    #: The stage that is charged with what :meth:`measure` raises.
    stage = "setup"

    def __init__(
        self,
        case: KindCase,
        *,
        kind: str,
        loop: LoopThread,
        label: str = "",
        timeout: float | None = None,
        passing: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.case = case
        self.kind = kind
        self.label = label or case.case_id
        self.sections: dict[str, SectionRecord] = {}
        self.statuses: dict[str, StageStatus] = {}
        self.errors: list[CaseError] = []
        self.results: dict[str, StageResult] = {}
        self.outputs: dict[str, Any] = {}
        self.facts: list[dict[str, Any]] = []
        self.why_skipped: str | None = None
        #: The values that the run was made with: a prepared one serves only an item that got the same.
        self.values: Mapping[str, Any] = {}
        #: Seconds for which somebody waited for the run.
        self.waited = 0.0
        self.seconds = 0.0
        #: Whether the case is taken from an earlier run; ``None`` until somebody has looked.
        self.resumption: Resumption | None = None
        #: The project's own metrics.
        self.custom = CaseMetrics(case, kind)
        #: Thresholds that every case has by default; they hold only where the case has the metric.
        self.default_expect: tuple[Threshold, ...] = ()
        #: Which trial of the case this is, from 0: what is asked is told apart by it.
        self.trial = 0
        #: For a later trial: the first one, which is over, and whose findings serve for all of them.
        self.first: KindRun | None = None
        self.time_limit = case.timeout if case.timeout is not None else timeout
        self.limit = TimeLimit(self.time_limit)
        self._loop = loop
        self._passing: tuple[type[BaseException], ...] = (KeyboardInterrupt, *passing)
        self._lock: asyncio.Lock | None = None
        self._done = False

    @abstractmethod
    async def measure(self) -> None:
        """Do the case's work, within its time limit."""

    def meta(self, set_path: str) -> Mapping[str, Any]:
        """What the head of the report says of this run: any of ``engine {name, version}``, ``supported_stages``,
        ``model {provider, name, endpoint}``, ``judge``, ``matcher``, ``prompts {set: {versions, hashes, notes}}``."""
        return {}

    def over_time(self, limit: float) -> None:
        """Called in the place of the rest of :meth:`measure` when the time limit is over. Charges :attr:`stage`."""
        self.fail(CaseError(self.stage, "timeout", f"the case's time limit of {limit:g} s is over"))

    def fail(self, error: CaseError) -> None:
        """Add an error and mark its stage as errored."""
        self.errors.append(error)
        self.statuses[error.stage] = "errored"

    def close(self) -> None:
        """Release what the run has opened; a subclass that opens something extends this."""
        self.values = {}

    # -- how it is run ---------------------------------------------------------------------------------------------

    async def work_ahead(self) -> None:
        """Do the work, unless it is done; whoever comes second waits for the first."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._done:
                await self._work()
                self._done = True

    async def _work(self) -> None:
        started = time.perf_counter()
        try:
            if not await self.limit.keep(self._measure_all):
                self.over_time(self.time_limit or 0.0)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled the case: something inside of what it calls was.
            self._broken(error)
        except self._passing:
            raise
        except BaseException as error:
            self._broken(error)
        finally:
            self.seconds += time.perf_counter() - started

    async def _measure_all(self) -> None:
        """The case's work, then the project's own metrics on what came of it."""
        await self.measure()
        if registered(self.kind):
            await self.custom.begin(self.outputs, self._status_of_metric)

    def _status_of_metric(self, metric: CustomMetric) -> StageStatus | None:
        return "void" if self.errors else "no_truth" if self.why_skipped is not None or metric.stages else None

    def complete(self) -> None:
        """Compute the project's own metrics that cannot be awaited."""
        if self.custom.done or not registered(self.kind):
            return
        self.custom.finish(self.outputs, self._status_of_metric, self._loop.run)
        self.errors += self.custom.errors
        self.statuses.update(self.custom.statuses)
        if self.custom.section is not None:
            self.sections = {**self.sections, SECTION: self.custom.section}

    def _broken(self, error: BaseException) -> None:
        from pytest_memeval.failures import case_error

        self.fail(case_error(self.stage, error))

    @property
    def is_done(self) -> bool:
        """Whether the work has come to its end, whatever that was."""
        return self._done

    def give_up(self) -> None:
        """Leave the work as it is: its time limit is over, and it holds the loop."""
        self._done = True
        self.over_time(self.time_limit or 0.0)

    def still_runs(self) -> bool:
        """Whether the time limit is not over though more than its seconds have passed. May be asked from any thread."""
        return self.limit.still_runs()

    def finish(self) -> None:
        """Wait until the work is done; blocks. A loop that does not come back in time is left behind."""
        from pytest_memeval.loops import LoopBlocked

        started = time.perf_counter()
        try:
            # Work that awaits ends by its own limit; the grace is for what holds the loop without awaiting.
            limit = None if self.time_limit is None else self.time_limit + GRACE
            self._loop.run(self.work_ahead(), timeout=limit, still_in_time=self.still_runs)
        except LoopBlocked:
            self.give_up()
        finally:
            self.waited += time.perf_counter() - started
        self.complete()

    # -- going on with an earlier run ----------------------------------------------------------------------------

    def resume_key(self) -> str:
        """What the case's outputs depend on, in the form of :mod:`pytest_memeval.resume_key`; empty where nobody can
        tell, and the case is never taken from an earlier run."""
        return ""

    def restore(self, record: CaseResult) -> bool:
        """Take the record of an earlier run in the place of the work. False, and nothing changed, where it cannot."""
        # The project's own metrics are computed anew.
        self.sections = {name: section for name, section in record.sections.items() if name != SECTION}
        self.statuses = {name: was for name, was in record.stages.items() if not name.startswith(f"{SECTION}.")}
        self.outputs, self.facts = dict(record.outputs), [dict(fact) for fact in record.facts]
        self.results = {self.stage: StageResult(calls=record.calls, seconds=record.timings.get(self.stage, 0.0))}
        self.seconds = record.duration_seconds
        self._done = True
        return True

    # -- what it leaves --------------------------------------------------------------------------------------------

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        return tuple(call for result in self.results.values() for call in result.calls)

    @property
    def step_seconds(self) -> Mapping[str, float]:
        """Seconds by parts of the work, as a kind's reports want them."""
        return {}

    def asserted(self) -> Sequence[str] | None:
        """What is asserted of the case besides thresholds and does not hold, in sentences; ``None``: nothing is
        asserted."""
        return None

    def missed(self) -> list[str]:
        """A sentence for each of the case's own thresholds and assertions that does not hold; empty while it has
        errors."""
        if self.errors:
            return []
        said = list(self.asserted() or ())
        added = self._defaults()
        if not added and not self.case.expect:
            return said
        from pytest_memeval.expectations import missed_expectations

        return [*missed_expectations(self.sections, (*self.case.expect, *added), added), *said]

    def trial_records(self, *, node_id: str, set_path: str) -> tuple[Mapping[str, Any], ...]:
        """Each trial by itself, where the case is measured several times."""
        return ()

    def _defaults(self) -> tuple[Threshold, ...]:
        """The default thresholds that are about this case: on a metric that it has no threshold of its own on."""
        if not self.default_expect:
            return ()
        from pytest_memeval.expectations import fits_filters

        named = {threshold.path for threshold in self.case.expect}
        sections = (*sections_of(self.kind), "metrics")
        return tuple(
            threshold
            for threshold in self.default_expect
            if threshold.path.section in sections
            and threshold.path not in named
            and fits_filters(threshold.path, self.case)
        )

    @property
    def has_expectations(self) -> bool:
        """Whether the case can fail by itself."""
        return self.asserted() is not None or bool(self.case.expect or self._defaults())

    def case_result(
        self, *, node_id: str, set_path: str, extra_errors: Sequence[CaseError] = (), skipped: bool = False
    ) -> CaseResult:
        """Everything recorded of the case, as far as it got."""
        errors = (*self.errors, *extra_errors)
        statuses = dict(self.statuses)
        for stage in self.case.stages:
            statuses.setdefault(stage, "skipped" if skipped else "void" if errors else "unselected")
        return CaseResult(
            **described(self.case, self.kind, node_id, set_path),
            outcome="skipped" if skipped else "errored" if errors else "scored",
            stages=statuses,
            sections={} if skipped else dict(self.sections),
            errors=errors,
            missed_expectations=() if errors or skipped else tuple(self.missed()),
            has_expectations=self.has_expectations,
            outputs=dict(self.outputs),
            facts=tuple(self.facts),
            calls=self.calls,
            duration_seconds=self.seconds,
            timings={
                **{stage: result.seconds for stage, result in self.results.items()},
                "waited": self.waited,
                **self.step_seconds,
            },
            trials=() if skipped else self.trial_records(node_id=node_id, set_path=set_path),
        )


def described(case: KindCase, kind: str, node_id: str, set_path: str) -> dict[str, Any]:
    """The fields of a record that say which case it is of."""
    return {
        "node_id": node_id,
        "set": set_path,
        "case_id": case.case_id,
        "kind": kind,
        "source": case.source,
        "difficulty": case.difficulty,
        "tags": case.tags,
        "line": case.line,
        "content_hash": case.content_hash,
        "cluster": case.cluster,
    }


def untouched(
    case: KindCase,
    kind: str,
    *,
    node_id: str,
    set_path: str,
    errors: Sequence[CaseError] = (),
    skipped: bool = False,
    unselected: bool = False,
) -> CaseResult:
    """The record of a case of which nothing ran: skipped, invalid, or stopped in a fixture."""
    status: StageStatus = "unselected" if unselected else "skipped" if skipped else "void"
    return CaseResult(
        **described(case, kind, node_id, set_path),
        outcome="skipped" if skipped or unselected else "errored",
        stages=dict.fromkeys(case.stages, status),
        errors=tuple(errors),
        has_expectations=bool(case.expect),
    )


def set_info(case_set: KindSet, path: str, ini_gates: Sequence[Gate] = ()) -> SetInfo:
    """What gates and reports need to know of a file."""
    if case_set.gates is not None:
        gates = tuple((str(gate), "file") for gate in case_set.gates)
    elif ini_gates:
        gates = tuple((str(gate), "ini") for gate in ini_gates)
    else:
        gates = tuple((text, "default") for text in kind_named(case_set.kind).default_gates)
    return SetInfo(
        path=path,
        kind=case_set.kind,
        version=case_set.version,
        cases=len(case_set.cases),
        gates=gates,
        truth_counts=dict(Counter(stage for case in case_set.cases for stage in case.stages)),
        warnings=tuple(str(warning).replace(str(case_set.path), path, 1) for warning in case_set.warnings),
        note=case_set.note,
        protocol=case_set.extra.get("protocol"),
    )


# -- which files are of which kind ---------------------------------------------------------------------------------


def kind_named(name: str) -> Kind:
    """The kind under its name. KeyError for one that there is not."""
    module, _, attribute = KINDS[name].partition(":")
    kind: Kind = getattr(importlib.import_module(module), attribute)
    return kind


def kind_of(path: Path) -> Kind | None:
    """The kind of a case file; ``None`` for a distillation set, and for what nobody recognises. Never raises."""
    if not KINDS:
        return None
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD).removeprefix(b"\xef\xbb\xbf")
            if path.suffix.lower() not in (".json", ".jsonl"):
                found = _DECLARED.search(head) or _DECLARED.search(head + stream.read())
                if found is not None:
                    name = found[1].decode()
                    return kind_named(name) if name in KINDS else None
                if re.search(rb"(?:^|\n)dataset[ \t]*:", head) is None:
                    return None
    except (OSError, ValueError):
        return None
    for name in KINDS:
        kind = kind_named(name)
        if kind.recognizes(path, head):
            return kind
    return None


def sections_of(kind: str) -> tuple[str, ...]:
    """The report sections that a set of this kind can have figures in, besides ``metrics``."""
    return kind_named(kind).sections if kind in KINDS else DISTILL_SECTIONS
