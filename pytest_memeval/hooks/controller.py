"""The controller's hooks: takes records from wherever items ran, and hands on what else comes up to whom it concerns:
workers to :mod:`.workers`, an interrupt to :mod:`.interrupted`, the end to :mod:`.run_end`."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.case_files import nodes_of_cases, unmatched_folders
from pytest_memeval.session import CHOSEN_DIST, HANDED, INTERRUPTS, RESUME_FROM, refuse_misspelt, settings_of

if TYPE_CHECKING:
    from pytest_memeval.compare.baseline import Baseline
    from pytest_memeval.hooks.budget import Budget
    from pytest_memeval.hooks.run_end import RunEnd
    from pytest_memeval.hooks.stopping import Stopper
    from pytest_memeval.hooks.workers import Workers
    from pytest_memeval.interrupts import Interrupts
    from pytest_memeval.runs.recorder import Recorder
    from pytest_memeval.workers.crashes import Crashes

PHASES = ("setup", "call", "teardown")
#: pytest's options under which nothing is run: it shows what there is.
_SHOWING = ("collectonly", "setuponly", "setupplan", "showfixtures", "show_fixtures_per_test")
#: Those that outlive a worker as they are, or run each item in every worker.
NEVER_OURS = ("load", "each")


class Controller:
    """Does nothing, and imports nothing, until the first record of a case arrives."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        config.add_cleanup(self._leave_interrupts)
        #: What belongs to a run under xdist, from when it makes its workers.
        self.workers: Workers | None = None
        self._end: RunEnd | None = None
        self._recorder: Recorder | None = None
        self._reruns: set[str] = set()
        #: What became of the cases of workers that died; made when there is something to ask.
        self._crashes: Crashes | None = None
        self._progress_at = time.monotonic()
        #: The node ids of cases that workers have collected.
        self.collected: set[str] = set()
        #: Case files that could not be read → the first thing that is wrong.
        self.broken: dict[str, str] = {}
        #: Whether somebody, or pytest itself, stopped the run.
        self.interrupted = False
        #: Whether it was somebody, who waits for the process to end.
        self.by_hand = False
        #: Whether a worker left out files unseen.
        self.left_unseen = False
        #: What could not be written → why: (key of the sentence, error).
        self.trouble: list[tuple[str, str]] = []
        #: What the run is compared with.
        self.baseline: Baseline | None = None
        #: Whether a part that an option names, and every case needs, cannot be made.
        self.refused = False
        #: The record that each worker sent last: one that is interrupted meanwhile cannot tell whether it has.
        self._last_taken: dict[Any, str] = {}
        #: What the run may cost, where there is a limit.
        self.budget: Budget | None = None
        #: What leaves out the cases of decided sets, where that was asked for.
        self.stopper: Stopper | None = None

    @property
    def recorder(self) -> Recorder:
        if self._recorder is None:
            from pytest_memeval.runs.recorder import Recorder

            refuse_misspelt(self.config)
            self._recorder = Recorder(settings_of(self.config), baseline=self.baseline)
            if RESUME_FROM in self.config.stash:
                self._recorder.go_on_with(self.config.stash[RESUME_FROM])
        return self._recorder

    @property
    def interrupts(self) -> Interrupts | None:
        return self.config.stash.get(INTERRUPTS, None)

    def _leave_interrupts(self) -> None:
        if self.interrupts is not None:
            # Whoever has interrupted the run, and is impatient, gets no traceback of the process's end.
            (self.interrupts.stay if self.by_hand else self.interrupts.leave_over)()

    def held_back(self) -> AbstractContextManager[None]:
        """Interrupts wait for what is nearly over."""
        return self.interrupts.held_back() if self.interrupts is not None else nullcontext()

    @property
    def recorded(self) -> Recorder | None:
        """The recorder if any case has left something to record."""
        return self._recorder

    @property
    def crashes(self) -> Crashes:
        if self._crashes is None:
            from pytest_memeval.workers.crashes import Crashes

            self._crashes = Crashes(self.config, self.recorder, self.collected, self.report_trouble)
        return self._crashes

    @property
    def deaths(self) -> int:
        """How many workers have died."""
        return 0 if self._crashes is None else self._crashes.deaths

    def charge_suspects(self) -> None:
        if self._crashes is not None:
            self._crashes.charge_suspects()

    def is_case(self, node_id: str) -> bool:
        return node_id in self.collected or (self._recorder is not None and node_id in self._recorder.selected)

    # -- collection --------------------------------------------------------------------------------------------

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        problem: str | None = getattr(report, "memeval_broken", None)
        if problem is not None:
            self.broken[report.nodeid] = problem

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items: list[Any] = session.items  # of any class: what they have tells
        cases = {
            item.nodeid: getattr(item, "memeval_set", None) or item.case_file.nodeid
            for item in items
            if hasattr(item, "memeval_set") or hasattr(item, "case_file")
        }
        if cases and not self.evaluates_nothing():
            self.recorder.selected.update(cases)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        from pytest_memeval.hooks.workers import CrashedCases, Workers

        self.workers = Workers(self)
        self.config.pluginmanager.register(self.workers, "memeval-workers")
        self.config.pluginmanager.register(CrashedCases(self), "memeval-crashed-cases")

    @pytest.hookimpl(trylast=True, optionalhook=True)  # xdist makes its own last of all, a project the first
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        chosen = config.stash.get(CHOSEN_DIST, "no")
        if chosen in NEVER_OURS:
            return None
        from pytest_memeval.workers.schedule import scheduling

        settings = settings_of(config)
        stops = settings.stop_when_decided
        return scheduling(
            config,
            log,
            chosen,
            lambda ids: bool(nodes_of_cases(config, ids)),
            ahead=settings.concurrency > 1 or stops,
            in_turn=stops,
        )

    def evaluates_nothing(self) -> bool:
        if self.config.pluginmanager.hasplugin("memeval-plan"):
            return True
        return any(getattr(self.config.option, name, False) for name in _SHOWING)

    # -- records -----------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        interrupts = self.interrupts
        if interrupts is not None:
            interrupts.raise_lost()
        # After every reporter: what is sent after a crash below must not reach one before the crash itself.
        result = yield
        self.look_at(report)
        return result

    def _refuse(self, report: pytest.TestReport) -> None:
        """End the run where a part that an option names cannot be made, as where the name leads nowhere, which is known
        earlier: every case needs it."""
        refused: str | None = getattr(report, "memeval_ends_run", None)
        if refused is not None and not self.evaluates_nothing():
            from pytest_memeval.report.console import without_controls

            self.refused = True
            pytest.exit(without_controls(refused), returncode=pytest.ExitCode.USAGE_ERROR)

    def look_at(self, report: pytest.TestReport) -> None:
        self._refuse(report)
        # Shown with the case's line; the short summary has no room for it.
        report.__dict__.pop("memeval_alone", None)
        outcome: str = report.outcome
        if outcome == "rerun" and report.when in PHASES:
            # A crash that is run again (phase "???") has no teardown to drop.
            self._reruns.add(report.nodeid)
        if getattr(report, "memeval_used", False) and not self.evaluates_nothing():
            refuse_misspelt(self.config)
        envelope = getattr(report, "memeval_envelope", None)
        if envelope is not None and not self.evaluates_nothing():
            again = report.nodeid in self._reruns
            self._reruns.discard(report.nodeid)
            self._take(report, rerun=again)
            if self.budget is not None:
                self.budget.check(self.recorder)
            if self.stopper is not None:
                self.stopper.check(self.recorder)
            self._tell_progress()
        if getattr(report, "memeval_again", False) or getattr(report, "memeval_over", False):
            from pytest_memeval.hooks.junit_xml import forget_attempt
            from pytest_memeval.workers.crashes import forget_passed

            forget_attempt(self.config, report)
            if not hasattr(report, "memeval_over"):
                forget_passed(self.config, report.nodeid)
        if getattr(report, "memeval_crash", False):
            from pytest_memeval.workers.crashes import teardown_after

            # The item's end never came: reporters that wait for it, such as the HTML one, get it here.
            self.config.hook.pytest_runtest_logreport(report=teardown_after(report))

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if self.config.get_verbosity() < 0 or now - self._progress_at < self.recorder.settings.progress:
            return
        self._progress_at = now
        terminal = self.config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            from pytest_memeval.runs.terminal import write_progress

            write_progress(terminal, self.recorder)

    def _take(self, report: Any, *, rerun: bool) -> None:
        # What is done is taken off the report piece by piece: an interrupt may come in between, and the rest is due.
        if report.memeval_envelope != "{}":
            self.recorder.take_process(json.loads(report.memeval_envelope))
            report.memeval_envelope = "{}"
        record = getattr(report, "memeval_record", None)
        handed = self.config.stash.get(HANDED, None)
        worker = getattr(report, "node", None)
        known = record is not None and worker is not None and self._last_taken.get(worker) == record
        if record is not None and not rerun and not known:
            try:
                self.recorder.take(record, handed[1] if handed is not None and handed[0] is record else None)
            except OSError as error:
                self.report_trouble(error)
        if worker is not None and record is not None and not rerun:
            # Of attempts that are run again the last may leave the same record as the one before, and counts.
            self._last_taken[worker] = record
        # Terminal and HTML reporters keep every report, and need not keep these texts with it.
        report.__dict__.pop("memeval_record", None)
        del report.memeval_envelope

    def report_trouble(self, error: OSError) -> None:
        """A folder that cannot be written must not take the rest of the run with it."""
        from pytest_memeval.runs.files import PredictionsNotWritten, SummaryNotWritten

        what = "not_written"
        if isinstance(error, PredictionsNotWritten):
            what = "predictions_not_written"
        elif isinstance(error, SummaryNotWritten):
            what = "summary_not_written"
        if (what, str(error)) not in self.trouble:
            self.trouble.append((what, str(error)))

    # -- the end -----------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        try:
            result = yield
        except Exception as error:
            from pytest_memeval.workers.last_words import hidden_interrupt

            interrupt = hidden_interrupt(error)
            if interrupt is None and isinstance(error, EOFError | OSError) and self._was_interrupted():
                interrupt = KeyboardInterrupt().with_traceback(error.__traceback__)
            if interrupt is None:
                raise
            raise interrupt from None
        # Before pytest asks whether anything failed; after an interrupt their workers may still tell of them.
        self.charge_suspects()
        return result

    def _was_interrupted(self) -> bool:
        return self.interrupts is not None and self.interrupts.has_come_in_vain()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # pytest announces its own stops (--maxfail, broken files) in the same way.
        self.interrupted = True
        self.by_hand = excinfo.type is KeyboardInterrupt
        if self.by_hand:
            if self.interrupts is not None:
                self.interrupts.has_come_through()
            from pytest_memeval.hooks.interrupted import hear_out

            hear_out(self, excinfo)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (self.recorded is None and not self.collected) or self.evaluates_nothing():
            return
        if self.refused and not self.recorder.results:
            return  # nothing was measured
        with self.held_back():
            from pytest_memeval.hooks.run_end import RunEnd

            self._end = RunEnd(self)
        self._end.finish(session)
        if self.by_hand and self.workers is not None:
            from pytest_memeval.workers.last_words import be_gone_soon

            be_gone_soon(self.config, self.workers.all_nodes)

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_sessionfinish")
    def pytest_end_quietly(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Outside of what pytest says last. (It looks at no other names.)"""
        result = yield
        if self.interrupts is not None and not self.by_hand:
            self.interrupts.over(int(session.exitstatus))
        return result

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        if self.recorded is None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            for line in unmatched_folders(self.config):
                terminalreporter.write_line(f"memeval: {line}", yellow=True)
        if self._end is not None:
            self._end.summarize(terminalreporter)
