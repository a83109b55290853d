"""Case files and cases as pytest nodes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from functools import cache
from inspect import Parameter, Signature
from operator import is_not
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.cases.models import CaseSet, EvalCase
from pytest_memeval.direct import Assets, can_be_direct, set_up
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.fixtures import PREFETCHER, PROXY_LINE, RUN, SAID, StageFailure, fixture_case
from pytest_memeval.garbage import spare_collector
from pytest_memeval.kind_items import KindFile, KindItem, kind_figure, kind_files, kind_meta, kind_result
from pytest_memeval.kinds import KindRun, KindSet
from pytest_memeval.metrics.thresholds import parse_path
from pytest_memeval.plugin import HANDED, SHARED_OPTIONS, harness_of
from pytest_memeval.report.json_report import dumps
from pytest_memeval.results import CaseError, CaseResult
from pytest_memeval.resuming import RESUMPTION
from pytest_memeval.runner import CaseRun, untouched_result
from pytest_memeval.scopes import set_info
from pytest_memeval.scoring import case_value
from pytest_memeval.sharding import SELECTED
from pytest_memeval.stages import CHAIN, truth_stages
from pytest_memeval.values import DISTILL_STAGES

if TYPE_CHECKING:
    from _pytest.fixtures import FuncFixtureInfo

    from pytest_memeval.harness import Harness
    from pytest_memeval.metrics.sections import SectionRecord

_PROBLEM_COUNT = re.compile(r"\d+ problems in ")
#: Stages that have a fixture.
FIXTURE_STAGES: tuple[str, ...] = ("l1", "l15", "l2", "template", "inject")
TAGS = pytest.StashKey[set[str]]()
#: The case sets collected in this process by node id, whether or not any of their cases is left to run.
FILES = pytest.StashKey[dict[str, CaseSet]]()


def _run_case_for(stages: tuple[str, ...]) -> Callable[..., None]:
    """The test function of a case with these stages: its argument names are the fixtures that measure them."""
    names = ["memeval_case", *(f"memeval_{stage}" for stage in stages), "memeval_measured"]

    def run_case(**fixtures: Any) -> None:
        fixtures["memeval_measured"].check_expectations()

    run_case.__name__ = run_case.__qualname__ = "run_case"
    # pytest reads argument names from the signature; what varies here is only which stages are asked for.
    run_case.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return run_case


class CaseFile(pytest.File):
    """A case set. Its file errors are one collection error that lists all of them."""

    case_set: CaseSet
    #: What its cases are run with, once the first of them was.
    assets: Assets | None = None
    #: What ``request.module`` gives: a case file is none.
    obj = None

    @property
    def harness(self) -> Harness:
        return harness_of(self.config)

    def collect(self) -> Iterator[CaseItem]:
        try:
            case_set = self.harness.case_set(self.path)
            if not case_set.problems:
                self.harness.prompt_set(case_set.meta.prompts)
        except DocumentError as error:
            raise self.CollectError(self._listing(error.problems)) from None
        except ValueError as error:
            raise self.CollectError(f"{self._shown(self.path)}: {error}") from None
        if case_set.problems:
            raise self.CollectError(self._listing(case_set.problems))
        if case_set.registry is not None:
            try:
                self.harness.settings.check_keys(case_set.registry, own_gates=case_set.meta.gates is not None)
            except ValueError as error:
                raise self.CollectError(f"{self._shown(self.path)}: {error}") from None
        self.case_set = case_set
        self.config.stash.setdefault(FILES, {})[self.nodeid] = case_set
        self._register_tags(case_set)
        functions: dict[tuple[str, ...], tuple[Callable[..., None], FuncFixtureInfo | None, bool]] = {}
        for case in case_set.cases:
            stages = self._fixture_stages(case)
            function, info, direct = functions.get(stages) or (_run_case_for(stages), None, False)
            item = CaseItem.from_parent(
                self, name=case.case_id, case=case, stages=stages, function=function, fixtureinfo=info
            )
            item.direct = direct if info is not None else can_be_direct(item)
            functions[stages] = function, item._fixtureinfo, item.direct
            yield item

    def _fixture_stages(self, case: EvalCase) -> tuple[str, ...]:
        selected = self.harness.run_settings.stages
        scored = [stage for stage in truth_stages(case) if selected is None or stage in selected]
        wanted = {needed for stage in scored for needed in (*CHAIN[stage], stage)}
        return tuple(stage for stage in DISTILL_STAGES if stage in wanted and stage in FIXTURE_STAGES)

    def _register_tags(self, case_set: CaseSet) -> None:
        # --strict-markers and a strict -m know only what the ini lists.
        known: set[str] = self.config.stash.setdefault(TAGS, set())
        for tag in sorted({tag for case in case_set.cases for tag in case.tags} - known):
            known.add(tag)
            self.config.addinivalue_line("markers", f"{tag}: tag of evaluation cases")

    def _shown(self, path: Path) -> str:
        try:
            return path.relative_to(self.config.invocation_params.dir).as_posix()
        except ValueError:
            return str(path)

    def _listing(self, problems: Any) -> str:
        lines = [str(problem).replace(str(problem.path), self._shown(problem.path), 1) for problem in problems]
        count = f"{len(lines)} problems in {self._shown(self.path)}:\n" if len(lines) > 1 else ""
        return count + "\n".join(lines)


class CaseItem(pytest.Function):
    """One case as a pytest item; fixtures, marks and reports work as for any test function."""

    case: EvalCase
    #: The stages whose fixtures the item asks for.
    stages: tuple[str, ...]
    #: Whether the item may make the values of the plugin's fixtures itself.
    direct: bool = False

    @classmethod
    def from_parent(cls, parent: Any, **kw: Any) -> CaseItem:
        case, stages, function = kw.pop("case"), kw.pop("stages"), kw.pop("function")
        self: CaseItem = super().from_parent(parent, callobj=function, **kw)
        self.case = case
        self.stages = stages
        self.add_marker("memeval")
        for word in dict.fromkeys((case.difficulty, case.source, *case.tags)):
            self.add_marker(word)
        return self

    def setup(self) -> None:
        if not (self.direct and set_up(self)):
            super().setup()

    def getparent(self, cls: type[Any]) -> Any:
        # A fixture of scope module is set up with the file, which is what a module is to a test function.
        return super().getparent(cls) or (self.parent if cls is pytest.Module else None)

    @property
    def case_file(self) -> CaseFile:
        parent = self.parent
        assert isinstance(parent, CaseFile)
        return parent

    def reportinfo(self) -> tuple[Path, int, str]:
        # pytest writes dots in this text as '::' where it ends the node id, and nobody could paste that back.
        shown = self.name if "." not in self.name else f"case {self.name}"
        return self.path, self.case.line - 1, shown

    @property
    def place(self) -> str:
        """``file:line`` relative to the current folder, so that editors and terminals can jump there."""
        return f"{self.case_file._shown(self.path)}:{self.case.line}"


def select_items(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply ``--memeval-limit`` and ``--memeval-sample`` to every case set, and close what is tagged slow or
    integration. Cases are counted in the order of their file, however items were shuffled."""
    settings = harness_of(config).settings
    by_file: dict[str, list[CaseItem | KindItem]] = {}
    for item in items:
        if isinstance(item, CaseItem | KindItem):
            by_file.setdefault(_file_of(item), []).append(item)
            for word in SHARED_OPTIONS:
                if word in item.case.tags and not config.getoption(f"--run-{word}", False):
                    item.add_marker(pytest.mark.skip(reason=f"tagged {word}: opened by --run-{word}"))
    if settings.limit is None and settings.sample is None:
        return
    kept: set[CaseItem | KindItem] = set()
    for node_id, own in by_file.items():
        own.sort(key=lambda item: item.case.line)
        if settings.sample is not None and settings.sample < len(own):
            chosen = random.Random(f"{settings.seed}:{node_id}").sample(range(len(own)), settings.sample)
            own = [own[index] for index in sorted(chosen)]
        kept.update(own[: settings.limit])
    dropped = [item for item in items if isinstance(item, CaseItem | KindItem) and item not in kept]
    if dropped:
        items[:] = [item for item in items if not isinstance(item, CaseItem | KindItem) or item in kept]
        config.hook.pytest_deselected(items=dropped)


def _file_of(item: CaseItem | KindItem) -> str:
    """The node id of the case set that the item belongs to."""
    return item.memeval_set if isinstance(item, KindItem) else item.case_file.nodeid


def owner_of(item: pytest.Item) -> str | None:
    """The case set that the item counts for; ``None`` for one that enters no aggregate."""
    if isinstance(item, CaseItem | KindItem):
        return _file_of(item)
    marker = item.get_closest_marker("memeval")
    if marker is None or not marker.kwargs.get("gate", False):
        return None
    case = marker.kwargs.get("case")
    return case.partition("::")[0] if isinstance(case, str) else item.nodeid.partition("::")[0]


def _first_problem(listing: str) -> str:
    """The first line of a file's problems that is more than their number."""
    lines = listing.strip().splitlines() or ["?"]
    return lines[1] if len(lines) > 1 and _PROBLEM_COUNT.match(lines[0]) else lines[0]


class CaseHooks:
    """Turns what happens to an item into its record, in whichever process the item runs."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._selected: dict[str, str] | None = None
        self._told: set[str] = set()
        self._errors: list[CaseError] = []
        self._skipped = False
        self._shown: tuple[object, list[tuple[str, float]]] = (None, [])
        self._last_meta: tuple[object, ...] = ()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.failed and isinstance(collector, CaseFile | KindFile):
            # xdist hands such attributes on: the controller tells of the file in the report.
            report.memeval_broken = _first_problem(report.longreprtext)  # type: ignore[attr-defined]
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._selected = {item.nodeid: owner for item in session.items if (owner := owner_of(item)) is not None}
        spare_collector(len(self._selected))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        owner = owner_of(item)
        if owner is None:
            if call.when == "teardown":
                _forget(item)
            return (yield)
        if call.when == "setup":
            self._errors, self._skipped = [], False
        if isinstance(item, CaseItem) and call.excinfo is not None and isinstance(call.excinfo.value, StageFailure):
            _locate(call.excinfo.value, item)
        run = item.stash.get(RUN, None)
        properties = self._properties(run) if run is not None and call.when != "setup" else []
        item.user_properties[:] = [
            *((name, value) for name, value in item.user_properties if not name.startswith("memeval.")),
            *properties,
            *(call_properties(run, item) if call.when == "teardown" and run is not None else ()),
        ]
        report: pytest.TestReport = yield
        self._note(call, report, run)
        if call.when == "setup" and SAID in item.stash and run is not None:
            # The case's own work in the place of the wait for what was left of it.
            report.duration = max(0.0, report.duration - run.waited + run.seconds)
        if call.when == "call" and run is not None:
            main = kind_figure(item, run) if isinstance(item, KindItem) else main_figure(run)
            if main:
                report.memeval_main = main + self._alone(item)  # type: ignore[attr-defined]
        if call.when == "teardown":
            self._hand_over(report, item, owner, run)
            _forget(item)
        return report

    def _alone(self, item: pytest.Item) -> str:
        """Said with ``-v``: why the case could not be prepared ahead."""
        prefetcher = self.config.stash.get(PREFETCHER, None) if self.config.get_verbosity() > 0 else None
        why = prefetcher.reason(item) if prefetcher is not None else None
        return "" if why is None else f" (in its turn: {why})"

    def _note(self, call: pytest.CallInfo[None], report: pytest.TestReport, run: CaseRun | None) -> None:
        if call.when == "teardown":
            return
        expected = hasattr(report, "wasxfail")
        if report.skipped and not expected:
            self._skipped = True
        elif (report.failed or expected) and call.excinfo is not None:
            # What was expected to fail was measured all the same, and counts as any other case does.
            error = call.excinfo.value
            if isinstance(error, StageFailure) and error.kind is not None:
                self._errors.append(CaseError(error.stage, error.kind, error.text))
            elif call.when == "setup" and not (isinstance(error, StageFailure) and run is not None and run.errors):
                text = error.text if isinstance(error, StageFailure) else call.excinfo.exconly(tryshort=True)
                self._errors.append(CaseError("setup", "fixture_error", text))
            elif call.when == "call" and not isinstance(error, (pytest.fail.Exception, AssertionError)):
                self._errors.append(CaseError("call", "test_error", call.excinfo.exconly(tryshort=True)))

    def _properties(self, run: CaseRun) -> list[tuple[str, float]]:
        """The case's scalar figures, flat. Reports are kept until the session ends: one case's share them, and all
        cases share the names."""
        sections = measured_sections(run)
        if self._shown[0] is not sections:
            self._shown = (
                sections,
                [
                    (_property_name(section, name), value)
                    for section, record in sections.items()
                    for name, value in record.values().items()
                    if value is not None
                ],
            )
        return self._shown[1]

    def _hand_over(self, report: Any, item: pytest.Item, owner: str, run: CaseRun | None) -> None:
        """Give the report what the controller takes from it: as texts, since it may travel to another process.

        ``memeval_record`` is the case's result as it is written to the journal, ``memeval_envelope`` what the process
        says besides, mostly nothing.
        """
        envelope, result = self._envelope(item, owner, run)
        report.memeval_envelope = dumps(envelope) if envelope else "{}"
        if result is not None:
            report.memeval_record = text = dumps(result.to_json())
            own = run is None or (isinstance(run, CaseRun) and not run.provided)
            if own and not hasattr(self.config, "workerinput"):
                # Known to be what reading the text gives. Where a project's fixture gave figures, that is not sure.
                self.config.stash[HANDED] = (text, with_own_texts(result))

    def _envelope(self, item: pytest.Item, owner: str, run: CaseRun | None) -> tuple[dict[str, Any], CaseResult | None]:
        """What the process says with this item's end, and the case's result."""
        harness = harness_of(self.config)
        envelope: dict[str, Any] = {}
        case_set = item.case_file.case_set if isinstance(item, CaseItem) else None
        of_kind = isinstance(item, KindItem)
        case = item.case if isinstance(item, CaseItem) else None if of_kind else fixture_case(item)
        if isinstance(item, KindItem):
            result: CaseResult | None = kind_result(item, run, self._errors, skipped=self._skipped)
            told = kind_meta(item, run)
            if told is not None and self._once("meta", dumps(told)):
                envelope["meta"] = told
        elif run is not None:
            result = run.case_result(
                node_id=item.nodeid, set_path=owner, extra_errors=self._errors, skipped=self._skipped
            )
            parts = (owner, run.engine, run.llm, run.prompts, run.registry)
            if len(self._last_meta) != len(parts) or any(map(is_not, parts, self._last_meta)):
                self._last_meta = parts
                meta = process_meta(run, owner, harness)
                if self._once("meta", dumps(meta)):
                    envelope["meta"] = meta
        elif case is not None:
            result = untouched_result(
                case,
                node_id=item.nodeid,
                set_path=owner,
                settings=harness.run_settings,
                errors=self._errors or (() if self._skipped else (CaseError("setup", "not_measured", "no stage ran"),)),
                skipped=self._skipped,
            )
        else:
            result = None
        line = item.stash.get(PROXY_LINE, None)
        if result is not None and line is not None:
            result = replace(result, calls=(*result.calls, *line.calls))
        resumption = item.stash.get(RESUMPTION, None)
        if result is not None and resumption is not None:
            result = replace(result, resume_key=resumption.key)
            if resumption.state:
                envelope["resumption"] = {"node_id": item.nodeid, **resumption.to_json()}
        if case_set is None and case is not None and case.path is not None:
            case_set = harness.case_set(case.path)
        collected: dict[str, CaseSet] = self.config.stash.setdefault(FILES, {})
        sets: dict[str, CaseSet | KindSet] = {**collected, **kind_files(self.config)}
        if case_set is not None:
            sets[owner] = case_set
        new = [name for name in sets if self._once("set", name)]
        if new:
            gates = harness.settings.gates_from("ini")
            envelope["sets"] = [set_info(sets[name], name, gates).to_json() for name in new]
        if self._once("selected", ""):
            envelope["selected"] = self._selected or {}
            envelope["shared_out"] = self.config.stash.get(SELECTED, {})
            envelope["pid"] = os.getpid()
        return envelope, result

    def _once(self, kind: str, what: str) -> bool:
        key = f"{kind}:{what}"
        if key in self._told:
            return False
        self._told.add(key)
        return True

    def pytest_keyboard_interrupt(self) -> None:
        if hasattr(self.config, "workerinput"):
            # A worker hears of an interrupt from the terminal and from the controller; once is enough to end it, and
            # what it does on its way out must not be cut off.
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # A worker whose cases all crashed elsewhere still says what it had to run.
        output = getattr(self.config, "workeroutput", None)
        whole = self.config.stash.get(SELECTED, {})
        if output is not None and (self._selected or whole) and self._once("selected", ""):
            output["memeval_selected"] = dumps({"selected": self._selected or {}, "shared_out": whole})


def _locate(failure: StageFailure, item: CaseItem) -> None:
    """Let the message start with the place of the case.

    A fixture of a wider scope raises the same exception for each of its items, so the text before is kept.
    """
    shown = item.case_file._shown(item.path)
    text = failure.text.replace(f"{item.path}:", f"{shown}:")
    failure.msg = text if text.startswith(f"{shown}:") else f"{item.place}: [{failure.stage}] {text}"


def with_own_texts(result: CaseResult) -> CaseResult:
    """The result with copies, in JSON's types, of all that an engine gave: it may go on to change its objects."""
    outputs, facts = json.loads(dumps([result.outputs, result.facts])) if result.outputs or result.facts else ({}, ())
    return replace(result, outputs=outputs, facts=tuple(facts))


def _forget(item: pytest.Item) -> None:
    """Let the run's data go: thousands of items stay alive until the session ends."""
    keys: tuple[pytest.StashKey[Any], ...] = (RUN, SAID, PROXY_LINE, RESUMPTION)
    for key in keys:
        if key in item.stash:
            del item.stash[key]


@cache
def _property_name(section: str, name: str) -> str:
    return f"memeval.{section}.{name}"


def measured_sections(run: CaseRun | KindRun) -> Mapping[str, SectionRecord]:
    """The case's figures as far as it got."""
    if isinstance(run, KindRun):
        return run.sections
    status = run.statuses()
    return run.sections([stage for stage in run.plan.scored if status[stage] == "scored"])


def call_properties(run: CaseRun, item: pytest.Item) -> Iterator[tuple[str, float]]:
    """A case's model calls as flat figures: how many, their tokens, list price and seconds."""
    calls = [call for result in run.results.values() for call in result.calls]
    line = item.stash.get(PROXY_LINE, None)
    if line is not None:
        calls += line.calls
    if not calls:
        return
    from pytest_memeval.llm.cost import price_of_call
    from pytest_memeval.report.entries import usage_of

    harness = harness_of(item.config)
    model = harness.settings.model
    usage = usage_of(replace(call, cost=price_of_call(call, harness.prices, model)) for call in calls)
    for name in ("calls", "input_tokens", "output_tokens", "cost_usd"):
        if usage[name] is not None:
            yield f"memeval.usage.{name}", usage[name]
    yield "memeval.usage.attempts", sum(call.attempts for call in calls)
    seconds: dict[str, float] = {}
    for call in calls:
        seconds[call.stage] = seconds.get(call.stage, 0.0) + call.latency
    for stage, latency in seconds.items():
        yield f"memeval.latency.{stage}", round(latency, 6)


def main_figure(run: CaseRun) -> str:
    """The figure that ``-v`` shows for a case: that of the first scored stage."""
    sections = measured_sections(run)
    for path, label in MAIN_FIGURES:
        value = case_value(sections, path)
        if value is not None:
            return f"{label} {value:.2f}"
    return ""


MAIN_FIGURES = tuple(
    (parse_path(path), label)
    for path, label in (
        ("l1.dimension_micro_f1", "l1 F1"),
        ("l15.action_accuracy", "l15 accuracy"),
        ("l2.section_hit_rate", "section hit"),
        ("l2.scene_grouping_f1", "scene F1"),
        ("inject.reference_coverage", "inject coverage"),
    )
)


def process_meta(run: CaseRun, owner: str, harness: Harness) -> Mapping[str, Any]:
    """Engine, model, prompts and matcher of a case, for the head of the report."""
    prompts, llm = run.prompts, run.llm
    engine = run.engine
    return {
        "engine": {
            "name": str(getattr(engine, "name", type(engine).__name__)),
            "version": None if getattr(engine, "version", None) is None else str(engine.version),  # type: ignore[attr-defined]
        },
        "supported_stages": list(run.supported),
        "model": {
            "provider": getattr(llm, "name", None),
            "name": getattr(llm, "model", None),
            "endpoint": getattr(llm, "endpoint", None),
        },
        "matcher": harness.run_settings.scoring.describe(),
        "prompts": {
            owner: {"versions": dict(prompts.versions), "hashes": dict(prompts.hashes), "notes": list(prompts.notes)}
        },
        "registry": {owner: run.registry.content_hash},
        "templates": {owner: run.templates.content_hash},
    }
