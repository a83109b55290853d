"""Cases whose worker died: run again where another may have killed it, else recorded as errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.case_files import SUFFIXES
from pytest_memeval.session import harness_of, settings_of
from pytest_memeval.settings.variants import variant_in, without_variant

if TYPE_CHECKING:
    from pytest_memeval.cases.models import CaseSet, EvalCase
    from pytest_memeval.results import CaseError, CaseResult
    from pytest_memeval.runs.recorder import Recorder


class Crashes:
    """What the controller does about workers that die. ``trouble`` is told when the folder cannot be written."""

    def __init__(self, config: pytest.Config, recorder: Recorder, trouble: Callable[[OSError], None]) -> None:
        self._config = config
        self._recorder = recorder
        self._trouble = trouble
        #: Workers that have died.
        self.deaths = 0
        #: Cases at hand when a worker died that had others in flight → what xdist said.
        self._suspects: dict[str, str] = {}

    def acquit(self, crashitem: str, report: Any, sched: Any) -> bool:
        """Whether the worker's death is not to be held against the case at hand, by whoever counts its attempts: the
        case is over, or another may have killed the worker, so that it is to run again."""
        self.deaths += 1
        if crashitem in self._recorder.results:
            # It was over, and the worker died before it said that it goes on to the next.
            report.outcome = "passed"
            report.memeval_over = True
            return True
        if self._may_be_another(report) and _again(sched, crashitem):
            report.outcome = "rerun"
            report.memeval_again = True
            self._suspects[crashitem] = str(report.longrepr)
            return True
        return False

    def take(self, crashitem: str, report: Any) -> None:
        """Turn xdist's report of the case at hand into an error of its set-up, unless somebody has it run again."""
        if report.outcome == "rerun":
            self._suspects[crashitem] = str(report.longrepr)
            return
        known = self._recorder.selected
        case_file, _, case_id = crashitem.partition("::")
        case_id = without_variant(case_id, self._names())
        set_path = known.get(crashitem, case_file)
        case = self._case(crashitem, set_path)
        line = case.line if case is not None else 1
        message = str(report.longrepr)
        self._suspects.pop(crashitem, None)
        report.when, report.duration = "setup", 0.0
        report.location = (case_file, line - 1, case_id)
        report.longrepr = f"{self._place(case_file)}:{line}: [worker] worker_crashed: {message}"
        report.memeval_crash = True
        self._recorder.crashed += 1
        try:
            self._recorder.add(self._crashed(crashitem, set_path, case, message))
        except OSError as error:
            self._trouble(error)

    def charge_suspects(self) -> None:
        """Cases that were to run again after a worker's death and never came to it: errors, not just not run."""
        recorder = self._recorder
        for node_id, message in self._suspects.items():
            if node_id not in recorder.results:
                recorder.crashed += 1
                set_path = recorder.selected.get(node_id, node_id.partition("::")[0])
                case = self._case(node_id, set_path)
                try:
                    recorder.add(self._crashed(node_id, set_path, case, message))
                except OSError as error:
                    self._trouble(error)

    def _may_be_another(self, report: Any) -> bool:
        """Whether the worker had other cases in flight, of which one may have killed it."""
        given = getattr(report.node, "workerinput", {})
        return settings_of(self._config).concurrency > 1 and not given.get("memeval_in_turn", False)

    def _case(self, node_id: str, set_path: str) -> EvalCase | None:
        """The case of an item that left no word itself; its file is loaded here for that."""
        case_set = self.load_set(set_path)
        case_id = without_variant(node_id, self._names()).partition("::")[2]
        cases = case_set.cases if case_set is not None and node_id.startswith(f"{set_path}::") else ()
        return next((case for case in cases if case.case_id == case_id), None)

    def load_set(self, set_path: str) -> CaseSet | None:
        """The case set of a file that no process may have told of; the run learns of it."""
        from pytest_memeval.documents.problems import DocumentError
        from pytest_memeval.kinds import kind_of
        from pytest_memeval.scopes import set_info

        path = self._config.rootpath / set_path
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            return None
        harness = harness_of(self._config)
        kind = kind_of(path)
        if kind is not None:
            if set_path not in self._recorder.sets:
                info = set_info(kind.load(path, harness), set_path, harness.settings.gates_from("ini"))
                self._recorder.take_process({"sets": [info.to_json()]})
            return None
        try:
            case_set = harness.case_set(path)
        except DocumentError:
            return None
        if set_path not in self._recorder.sets:
            info = set_info(case_set, set_path, harness.settings.gates_from("ini"))
            self._recorder.take_process({"sets": [info.to_json()]})
        return case_set

    def _crashed(self, node_id: str, set_path: str, case: EvalCase | None, message: str) -> CaseResult:
        from pytest_memeval.case_record import untouched_result
        from pytest_memeval.results import CaseError, CaseResult

        error = CaseError("worker", "worker_crashed", message)
        variant = variant_in(node_id, set_path, self._names())
        if case is None:
            case_id = without_variant(node_id, self._names()).partition("::")[2]
            own = self._crashed_of_kind(node_id, set_path, error)
            return replace(own or CaseResult(node_id, set_path, case_id, "errored", errors=(error,)), variant=variant)
        settings = harness_of(self._config).run_settings
        return untouched_result(
            case, node_id=node_id, set_path=set_path, settings=settings, errors=(error,), variant=variant
        )

    def _names(self) -> tuple[str, ...]:
        return settings_of(self._config).variant_names

    def _crashed_of_kind(self, node_id: str, set_path: str, error: CaseError) -> CaseResult | None:
        """The record of a crashed case of another kind than distillation; ``None`` for any other item."""
        from pytest_memeval.kinds import kind_of, untouched

        kind = kind_of(self._config.rootpath / set_path)
        if kind is None:
            return None
        cases = kind.load(self._config.rootpath / set_path, harness_of(self._config)).cases
        plain = without_variant(node_id, self._names())
        case = next((case for case in cases if plain == f"{set_path}::{case.case_id}"), None)
        if case is None:
            return None
        return untouched(case, kind.name, node_id=node_id, set_path=set_path, errors=(error,))

    def _place(self, name: str) -> str:
        try:
            return (self._config.rootpath / name).relative_to(self._config.invocation_params.dir).as_posix()
        except ValueError:
            return name


def _again(sched: Any, node_id: str) -> bool:
    """Have the item run once more; False for a scheduler that cannot."""
    try:
        sched.mark_test_pending(node_id)
    except NotImplementedError:
        return False
    return True


def forget_passed(config: pytest.Config, node_id: str) -> None:
    """Take back that an item passed whose worker died before its end: it is run again, and would count twice."""
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    for name in ("passed", "xfailed", "xpassed") if terminal is not None else ():
        reports = terminal.stats.get(name, [])
        reports[:] = [report for report in reports if report.nodeid != node_id]


def teardown_after(report: pytest.TestReport) -> pytest.TestReport:
    """The end of an item that had none: its worker died, or its debugger was left."""
    end = pytest.TestReport(
        nodeid=report.nodeid,
        location=report.location,
        keywords=dict(report.keywords),
        outcome="passed",
        longrepr=None,
        when="teardown",
        duration=0.0,
    )
    end.node = getattr(report, "node", None)  # type: ignore[attr-defined]  # set by xdist on every report
    return end
