"""Cases whose worker died: run again where another may have killed it, else recorded as errors."""

from __future__ import annotations

from collections.abc import Callable, Collection
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
    """What the controller does about workers that die. ``collected``: the node ids of the run's cases, as far as xdist
    tells; ``trouble`` is told when the folder cannot be written."""

    def __init__(
        self,
        config: pytest.Config,
        recorder: Recorder,
        collected: Collection[str],
        trouble: Callable[[OSError], None],
    ) -> None:
        self._config = config
        self._recorder = recorder
        self._collected = collected
        self._trouble = trouble
        #: Workers that have died.
        self.deaths = 0
        #: Cases that are to run again → what xdist said of the death, and what is to be said of others that were under
        #: way then.
        self._suspects: dict[str, tuple[Any, str]] = {}

    def acquit(self, crashitem: str, report: Any, sched: Any) -> bool:
        """Whether the worker's death is not to be held against the case at hand, by whoever counts its attempts: the
        case is over, or another may have killed the worker, so that it is to run again."""
        self.deaths += 1
        if crashitem in self._recorder.results:
            # It was over, and the worker died before it said that it goes on to the next.
            report.outcome = "passed"
            report.memeval_over = True
            return True
        if self._may_be_another(report) and not out_of_workers(self._config, after=1) and _again(sched, crashitem):
            report.outcome = "rerun"
            report.memeval_again = True
            self._suspects[crashitem] = report, self._others(report)
            return True
        return False

    def take(self, crashitem: str, report: Any) -> None:
        """Turn xdist's report of the case at hand into an error of its set-up, unless somebody has it run again."""
        if report.outcome == "rerun":
            self._suspects[crashitem] = report, self._others(report)
            return
        self._suspects.pop(crashitem, None)
        self._charge(crashitem, report, self._others(report), last=out_of_workers(self._config, after=1))
        _count_failure(self._config, report)

    def charge_suspects(self) -> None:
        """Cases that were to run again after a worker's death and never came to it: errors, not just not run."""
        for node_id, (first, others) in self._suspects.items():
            if node_id in self._recorder.results:
                continue
            report: Any = pytest.TestReport(node_id, first.location, {}, "failed", first.longrepr, "setup")
            report.node = first.node
            self._charge(node_id, report, others, last=out_of_workers(self._config))
            _forget_rerun(self._config, first)
            self._config.hook.pytest_runtest_logreport(report=report)
        self._suspects.clear()

    def _charge(self, node_id: str, report: Any, others: str, *, last: bool) -> None:
        """Make the report one of an error, and record it. ``last``: whether no worker is left that could run it."""
        known = self._recorder.selected
        case_file, _, case_id = node_id.partition("::")
        case_id = without_variant(case_id, self._names())
        set_path = known.get(node_id, case_file)
        case = self._case(node_id, set_path)
        line = case.line if case is not None else 1
        message = str(report.longrepr)
        if others:
            end = "no worker was left" if last else "the run ended before there was one"
            message = f"{message}; {others}, and {end} to run them one by one"
        report.when, report.duration = "setup", 0.0
        report.location = (case_file, line - 1, case_id)
        report.longrepr = f"{self._place(case_file)}:{line}: [worker] worker_crashed: {message}"
        report.memeval_crash = True
        self._recorder.crashed += 1
        try:
            self._recorder.add(self._crashed(node_id, set_path, case, message))
        except OSError as error:
            self._trouble(error)

    def _others(self, report: Any) -> str:
        """Which cases may have killed the worker as well as the one at hand, in words; empty where none may."""
        if not self._may_be_another(report):
            return ""
        # The workers tell of their cases with the first result.
        open_ones = set(self._recorder.selected or self._collected).difference(self._recorder.results)
        most = min(settings_of(self._config).concurrency, len(open_ones)) - 1
        if most < 1:
            return ""
        return f"up to {most} other case(s) were under way in it ahead of their turn, of which one may have killed it"

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


def out_of_workers(config: pytest.Config, *, after: int = 0) -> bool:
    """Whether xdist puts no worker in the place of one that dies any more, ``after`` so many deaths that it has yet to
    count. False where it does not say."""
    distributed: Any = config.pluginmanager.getplugin("dsession")
    most = getattr(distributed, "_max_worker_restart", None)
    died = getattr(distributed, "_failed_nodes_count", None)
    return isinstance(most, int) and isinstance(died, int) and died + after > most


def _count_failure(config: pytest.Config, report: Any) -> None:
    """Have the death count for ``-x`` and ``--maxfail``: xdist counts what its workers report, and no worker did."""
    distributed: Any = config.pluginmanager.getplugin("dsession")
    count = getattr(distributed, "_handlefailures", None)
    if callable(count):
        count(report)


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


def _forget_rerun(config: pytest.Config, report: Any) -> None:
    """Take back that an item was to be run again, which nobody came to."""
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    reports = terminal.stats.get("rerun", []) if terminal is not None else []
    reports[:] = [other for other in reports if other is not report]


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
