"""The controller's hooks: takes records from wherever items ran, gates and reports once, sets the exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.plugin import SUFFIXES, harness_of, matches_files, settings_of

if TYPE_CHECKING:
    from pytest_memeval.recorder import Recorder

#: A progress line is written about this many times in a run.
PROGRESS_LINES = 10
#: Runs of fewer cases need none.
PROGRESS_FROM = 50


class Controller:
    """Does nothing, and imports nothing, until the first record of a case arrives."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._recorder: Recorder | None = None
        self._reruns: set[str] = set()
        self._collected: set[str] = set()
        self._gate_missed = False
        self._interrupted = False

    @property
    def recorder(self) -> Recorder:
        if self._recorder is None:
            from pytest_memeval.recorder import Recorder

            self._recorder = Recorder(settings_of(self.config))
        return self._recorder

    # -- collection --------------------------------------------------------------------------------------------

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        cases = {item.nodeid: file.nodeid for item in session.items if (file := getattr(item, "case_file", None))}
        if cases and not self._evaluates_nothing():
            self.recorder.selected.update(cases)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        # Which of them are cases the workers say with their first record; this serves when none arrives.
        for node_id in ids:
            name, _, rest = node_id.partition("::")
            if rest and Path(name).suffix in SUFFIXES and matches_files(self.config, self.config.rootpath / name):
                self._collected.add(node_id)

    def _evaluates_nothing(self) -> bool:
        option = self.config.option
        return bool(option.collectonly or getattr(option, "setuponly", False) or getattr(option, "setupplan", False))

    # -- records -----------------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "rerun":  # type: ignore[comparison-overlap]  # a word of the rerun plugins
            self._reruns.add(report.nodeid)
        envelope = getattr(report, "memeval_envelope", None)
        if envelope is None or self._evaluates_nothing():
            return
        again = report.nodeid in self._reruns
        self._reruns.discard(report.nodeid)
        self.recorder.take(envelope, rerun=again)
        del report.memeval_envelope  # type: ignore[attr-defined]  # terminal and HTML reporters keep every report
        self._progress()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        told = getattr(node, "workeroutput", {}).get("memeval_selected")
        if told is not None:
            self.recorder.take_process(json.loads(told))

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """A case whose worker died is an error of its set-up, so that every reporter shows it as one."""
        known = self._recorder.selected if self._recorder is not None else {}
        if crashitem not in known and crashitem not in self._collected:
            return
        report.when = "setup"
        report.duration = 0.0
        name = crashitem.partition("::")[0]
        report.location = (name, 0, crashitem.partition("::")[2])
        self.recorder.crashed += 1
        self.recorder.add(_crashed(crashitem, name, self._case(crashitem), str(report.longrepr)))

    def _case(self, node_id: str) -> Any:
        name, _, case_id = node_id.partition("::")
        cases = harness_of(self.config).case_set(self.config.rootpath / name).cases
        return next((case for case in cases if case.case_id == case_id), None)

    def _progress(self) -> None:
        recorder = self.recorder
        total, done = len(recorder.selected), len(recorder.results)
        if total < PROGRESS_FROM or self.config.get_verbosity() < 0 or done % max(1, total // PROGRESS_LINES):
            return
        terminal = self.config.pluginmanager.getplugin("terminalreporter")
        if terminal is None:
            return
        errored = sum(result.outcome == "errored" for result in recorder.results.values())
        terminal.ensure_newline()
        terminal.write_line(f"memeval: {done} of {total} cases, {errored} errored")

    # -- the end -----------------------------------------------------------------------------------------------

    def pytest_keyboard_interrupt(self) -> None:
        self._interrupted = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._recorder is None and not self._collected:
            return
        if self._evaluates_nothing():
            return
        recorder = self.recorder
        if not recorder.selected:
            recorder.selected.update({node_id: node_id.partition("::")[0] for node_id in self._collected})
        report = recorder.finish(aborted=self._aborted(session))
        if report is None:
            return
        # passed_p0 is null where no P0 gate applies: nothing was missed then, and the summary says so.
        self._gate_missed = report["summary"]["passed_p0"] is False
        if session.exitstatus == pytest.ExitCode.OK and self._gate_missed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _aborted(self, session: pytest.Session) -> bool:
        return self._interrupted or bool(session.shouldstop) or bool(session.shouldfail)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._recorder is None or self._recorder.report is None:
            return
        from pytest_memeval.report.console import console_text
        from pytest_memeval.report.terminal import summary_lines

        recorder = self._recorder
        terminalreporter.section("memeval")
        lines = summary_lines(
            recorder.report,
            lang=recorder.settings.lang,
            verbosity=self.config.get_verbosity(),
            folder=None if recorder.folder is None else _shown(recorder.folder),
        )
        encoding = getattr(terminalreporter._tw._file, "encoding", None)
        for text, markup in lines:
            terminalreporter.write_line(console_text(text, encoding), **markup)


def _crashed(node_id: str, set_path: str, case: Any, message: str) -> Any:
    from pytest_memeval.results import CaseError, CaseResult
    from pytest_memeval.runner import RunSettings, untouched_result

    error = CaseError("worker", "worker_crashed", message)
    if case is None:
        return CaseResult(node_id, set_path, node_id.partition("::")[2], "errored", errors=(error,))
    return untouched_result(case, node_id=node_id, set_path=set_path, settings=RunSettings(), errors=(error,))


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
