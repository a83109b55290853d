"""From what happens to an item to its record, in whichever process the item runs."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import replace
from operator import is_not
from typing import Any

import pytest

from pytest_memeval.case_figures import call_properties, main_figure, measured_sections, process_meta, property_name
from pytest_memeval.case_files import UNSEEN_OUTPUT, left_unseen
from pytest_memeval.case_record import case_result, untouched_result
from pytest_memeval.cases.models import CaseSet
from pytest_memeval.code_scopes import code_scope
from pytest_memeval.custom_metrics import take_up_imported
from pytest_memeval.garbage import spare_collector, spare_collector_again
from pytest_memeval.hooks.forgotten_fixtures import warn_of_meant_fixtures
from pytest_memeval.hooks.sharding import SELECTED
from pytest_memeval.items import CaseFile, CaseItem, owner_of
from pytest_memeval.kind_items import KindFile, KindItem, each_variant, kind_figure, kind_files, kind_meta, kind_result
from pytest_memeval.kinds import KindSet
from pytest_memeval.nodes.cases import StageFailure, fixture_case, setup_of
from pytest_memeval.nodes.keys import FILES, GIVEN, PREFETCHER, PROXY_LINE, RUN, SAID
from pytest_memeval.nodes.tracebacks import hidden_beside_others, keep_refusal, name_item
from pytest_memeval.report.console import without_controls
from pytest_memeval.report.json_report import dumps, own_copy
from pytest_memeval.results import CaseError, CaseResult
from pytest_memeval.resume.items import RESUMPTION
from pytest_memeval.runner import CaseRun
from pytest_memeval.scopes import set_info
from pytest_memeval.session import HANDED, HARNESS, OVERDUE, settings_of


def _first_problem(listing: str) -> str:
    """The first line of a file's problems that is more than their number."""
    lines = listing.strip().splitlines() or ["?"]
    return lines[1] if len(lines) > 1 and _PROBLEM_COUNT.match(lines[0]) else lines[0]


_PROBLEM_COUNT = re.compile(r"\d+ problems in ")


class CaseHooks:
    """Turns what happens to an item into its record, in whichever process the item runs."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._selected: dict[str, str] | None = None
        self._told: set[str] = set()
        self._told_sets: set[str] = set()
        self._errors: list[CaseError] = []
        self._skipped = False
        self._shown: tuple[object, list[tuple[str, float]]] = (None, [])
        self._last_meta: tuple[object, ...] = ()
        #: Under ``--memeval-stop-when-decided``: in which order cases count, and for how much at most.
        self._plan: dict[str, Any] | None = None
        self._is_worker = hasattr(config, "workerinput")
        self._done = 0
        #: The item that is past its call, with the report of that, until its end.
        self._called: tuple[pytest.Item, pytest.TestReport] | None = None
        #: The report of an item's end, until somebody is told of it.
        self._untold: pytest.TestReport | None = None
        #: Whether a case's main figure is shown anywhere.
        self._shows_figures = config.get_verbosity("test_cases") > 0

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.passed and report.result and settings_of(self.config).variants:
            report.result = [node for found in report.result for node in each_variant(found)]
        if report.failed and isinstance(collector, CaseFile | KindFile):
            # xdist hands such attributes on: the controller tells of the file in the report.
            report.memeval_broken = _first_problem(report.longreprtext)  # type: ignore[attr-defined]  # one of our own
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._selected = {item.nodeid: owner for item in session.items if (owner := owner_of(item)) is not None}
        spare_collector(len(self._selected))
        take_up_imported()
        if self._selected and getattr(self.config, "workerinput", {}).get("workerid", "gw0") == "gw0":
            warn_of_meant_fixtures(session)
        if settings_of(self.config).stop_when_decided:
            from pytest_memeval.hooks.stopping import make_plan

            gates = settings_of(self.config).gates_from("ini")
            collected: dict[str, CaseSet] = self.config.stash.get(FILES, {})
            sets: dict[str, CaseSet | KindSet] = {**collected, **kind_files(self.config)}
            infos = [set_info(own, path, gates) for path, own in sets.items()]
            self._plan = make_plan(self.config, session.items, infos)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        __tracebackhide__ = hidden_beside_others
        try:
            return (yield)
        except pytest.fail.Exception as error:
            keep_refusal(error, fixturedef, request)
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        owner = owner_of(item)
        if call.excinfo is not None:
            name_item(call.excinfo.value, item)
        if owner is None:
            if call.when == "teardown":
                _forget(item)
            used: pytest.TestReport = yield
            if self._once("used", ""):
                # Tests that enter no aggregate hand over no record by which the controller would hear of cases.
                used.memeval_used = True  # type: ignore[attr-defined]  # one of our own
            return used
        if call.when == "setup":
            self._errors, self._skipped = [], False
        if isinstance(item, CaseItem) and call.excinfo is not None and isinstance(call.excinfo.value, StageFailure):
            _locate(call.excinfo.value, item)
        run = item.stash.get(RUN, None)
        if item.user_properties:
            others = [pair for pair in item.user_properties if not pair[0].startswith("memeval.")]
            item.user_properties[:] = others
        if run is not None and call.when != "setup":
            item.user_properties += self._properties(run)
            if call.when == "teardown":
                item.user_properties += call_properties(run, item.stash.get(PROXY_LINE, None), setup_of(item))
        report: pytest.TestReport = yield
        self._note(call, report, run)
        if (
            isinstance(item, CaseItem)
            and call.excinfo is not None
            and isinstance(call.excinfo.value, pytest.fail.Exception)
        ):
            _shorten(report, item)
        if call.excinfo is not None and getattr(call.excinfo.value, "ends_run", False):
            report.memeval_ends_run = call.excinfo.value.text  # type: ignore[attr-defined]  # one of our own
        if call.when == "setup" and SAID in item.stash and run is not None:
            # The case's own work in the place of the wait for what was left of it.
            report.duration = max(0.0, report.duration - run.waited + run.seconds)
        if call.when == "call" and run is not None and self._shows_figures:
            main = kind_figure(item, run) if isinstance(item, KindItem) else main_figure(run)
            if main:
                report.memeval_main = main + self._alone(item)  # type: ignore[attr-defined]  # one of our own
        if call.when == "call":
            self._called = item, report
        if report.failed and call.when != "teardown" and self._shows_figures and (why := self._alone(item)):
            report.memeval_alone = why  # type: ignore[attr-defined]  # one of our own
        if call.when == "teardown":
            self._hand_over(report, item, owner, run)
            self._called, self._untold = None, report
            _forget(item)
            self._done += 1
            if self._is_worker:  # elsewhere the controller does it, as it takes the records
                spare_collector_again(self._done)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, report: pytest.CollectReport | pytest.TestReport
    ) -> Generator[None, None, None]:
        try:
            return (yield)
        except pytest.exit.Exception:
            # Whoever leaves a debugger leaves the session, without the item's end: its record is made all the same.
            if isinstance(node, pytest.Item) and isinstance(report, pytest.TestReport):
                self._end_now(node, report)
            raise

    def _end_now(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Make the record of an item whose own end will not come, after the last report that did."""
        owner = owner_of(item)
        if owner is None:
            return
        from pytest_memeval.workers.crashes import teardown_after

        end = teardown_after(report)
        self._hand_over(end, item, owner, item.stash.get(RUN, None))
        self._called = None
        item.ihook.pytest_runtest_logreport(report=end)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report is self._untold:
            self._untold = None

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
                    (property_name(section, name), value)
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
        envelope, result, changes = self._envelope(item, owner, run)
        report.memeval_envelope = dumps(envelope) if envelope else "{}"
        if result is not None:
            if any(error.kind == "timeout" for error in result.errors):
                self.config.stash[OVERDUE] = True
            # Known to be what reading the text gives. Where a project's fixture gave figures, that is not sure.
            own = not self._is_worker and (run is None or (isinstance(run, CaseRun) and not run.provided))
            if own:
                changes.update(own_texts(result))
            result = replace(result, **changes) if changes else result
            report.memeval_record = text = dumps(result.to_json())
            if own:
                self.config.stash[HANDED] = (text, result)

    def _envelope(
        self, item: pytest.Item, owner: str, run: CaseRun | None
    ) -> tuple[dict[str, Any], CaseResult | None, dict[str, Any]]:
        """What the process says with this item's end, the case's result, and what is to be changed in that."""
        harness = setup_of(item)
        variant = harness.settings.variant_name
        envelope: dict[str, Any] = {}
        case_set = item.case_file.case_set if isinstance(item, CaseItem) else None
        of_kind = isinstance(item, KindItem)
        case = item.case if isinstance(item, CaseItem) else None if of_kind else fixture_case(item)
        if isinstance(item, KindItem):
            result: CaseResult | None = kind_result(item, run, self._errors, skipped=self._skipped)
            told = _of_variant(kind_meta(item, run), variant)
            if told is not None and self._once("meta", dumps(told)):
                envelope["meta"] = told
        elif run is not None:
            result = case_result(
                run, node_id=item.nodeid, set_path=owner, extra_errors=self._errors, skipped=self._skipped
            )
            parts = (owner, variant, run.engine, run.llm, run.prompts, run.registry)
            if len(self._last_meta) != len(parts) or any(map(is_not, parts, self._last_meta)):
                self._last_meta = parts
                meta = _of_variant(process_meta(run, owner, harness), variant)
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
        changes: dict[str, Any] = {}
        if result is not None and variant is not None:
            changes["variant"] = variant
        line = item.stash.get(PROXY_LINE, None)
        if result is not None and line is not None:
            changes["calls"] = (*result.calls, *line.calls)
        if result is not None and harness.judge_calls:
            own = [replace(call, id=f"{item.nodeid}/judge/{place}") for place, call in enumerate(harness.judge_calls)]
            changes["calls"] = (*changes.get("calls", result.calls), *own)
        harness.judge_calls.clear()
        if result is not None and harness.search.ledger.pending:
            changes["embeddings"] = harness.search.ledger.take().to_json()
        resumption = item.stash.get(RESUMPTION, None)
        if result is not None and resumption is not None:
            changes["resume_key"] = resumption.key
            if resumption.state:
                envelope["resumption"] = {"node_id": item.nodeid, **resumption.to_json()}
        # A fixture may have given another case than the marker's, or one where it names none.
        measured = getattr(run, "case", case) if not of_kind else None
        if case_set is None and measured is not None and measured.path is not None:
            case_set = harness.case_set(measured.path)
        collected: dict[str, CaseSet] = self.config.stash.setdefault(FILES, {})
        sets: dict[str, CaseSet | KindSet] = {**collected, **kind_files(self.config)}
        if case_set is not None:
            sets[owner] = case_set
        new = [name for name in sets if name not in self._told_sets]
        self._told_sets.update(new)
        in_code = case_set is None and measured is not None and item.nodeid.startswith(f"{owner}::")
        in_code = in_code and self._once("code", owner)
        if new or in_code:
            gates = harness.settings.gates_from("ini")
            infos = [set_info(sets[name], name, gates) for name in new]
            infos += [code_scope(owner, gates, harness.registry.ids)] if in_code else ()
            envelope["sets"] = [info.to_json() for info in infos]
        if self._once("selected", ""):
            envelope["selected"] = self._selected or {}
            envelope["shared_out"] = self.config.stash.get(SELECTED, {})
            if self._plan is not None:
                envelope["stopping"] = self._plan
        return envelope, result, changes

    def _once(self, kind: str, what: str) -> bool:
        key = f"{kind}:{what}"
        if key in self._told:
            return False
        self._told.add(key)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if self._is_worker:  # nobody sees what it shows
            from pytest_memeval.workers.last_words import show_places

            show_places(excinfo, last_only=True)
        if self._called is not None:
            # It is said to have passed, or to have failed, already.
            self._end_now(*self._called)
        elif self._untold is not None:
            self.config.hook.pytest_runtest_logreport(report=self._untold)
        elif self._is_worker:
            from pytest_memeval.workers.last_words import cut_off_reports

            for report in cut_off_reports(excinfo.value):
                if hasattr(report, "memeval_envelope"):  # perhaps sent: the controller takes it once
                    self.config.hook.pytest_runtest_logreport(report=report)
        if excinfo.type is KeyboardInterrupt:  # pytest announces its own stops in the same way
            from pytest_memeval.hooks.ended import report_ended

            report_ended(self.config)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # A worker whose cases all crashed elsewhere still says what it had to run.
        output = getattr(self.config, "workeroutput", None)
        whole = self.config.stash.get(SELECTED, {})
        if output is not None and left_unseen(self.config):
            output[UNSEEN_OUTPUT] = True
        if output is not None and HARNESS in self.config.stash:
            output["memeval_left_behind"] = self.config.stash[HARNESS].left_behind
            output["memeval_cancelled_in_vain"] = self.config.stash[HARNESS].cancelled_in_vain
            output["memeval_late_releases"] = self.config.stash[HARNESS].releases.late
        if output is not None and (self._selected or whole) and self._once("selected", ""):
            output["memeval_selected"] = dumps({"selected": self._selected or {}, "shared_out": whole})


def _of_variant(meta: Mapping[str, Any] | None, variant: str | None) -> Mapping[str, Any] | None:
    """What is said of a process's run, with the variant that it is of."""
    return meta if meta is None or variant is None else {**meta, "variant": variant}


def _locate(failure: StageFailure, item: CaseItem) -> None:
    """Let the message start with the place of the case.

    A fixture of a wider scope raises the same exception for each of its items, so the text before is kept.
    """
    shown = item.case_file._shown(item.path)
    text = failure.text.replace(f"{item.path}:", f"{shown}:")
    placed = text if text.startswith(f"{shown}:") else f"{item.place}: [{failure.stage}] {text}"
    failure.msg = without_controls(placed)


def _shorten(report: pytest.TestReport, item: CaseItem) -> None:
    """Let pytest's short summary begin with what went wrong: the node id before it names the case already, and few
    terminals have room for the place and an exception's name besides."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        _, found, cause = crash.message.partition(f"{item.place}: [")
        crash.message = f"[{cause}" if found else crash.message


def own_texts(result: CaseResult) -> dict[str, Any]:
    """Copies, in JSON's types, of all in the result that an engine gave: it may go on to change its objects."""
    given = {"outputs": result.outputs} if result.outputs else {}
    several = {name: value for name in ("facts", "trials") if (value := getattr(result, name))}
    return {name: own_copy(value) for name, value in given.items()} | {
        name: tuple(own_copy(value)) for name, value in several.items()
    }


def _forget(item: pytest.Item) -> None:
    """Let the run's data go: thousands of items stay alive until the session ends."""
    keys: tuple[pytest.StashKey[Any], ...] = (RUN, GIVEN, SAID, PROXY_LINE, RESUMPTION)
    for key in keys:
        if key in item.stash:
            del item.stash[key]
