"""The controller's hooks: takes records from wherever items ran, gates and reports once, sets the exit status."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.case_files import UNSEEN_OUTPUT, left_unseen, nodes_of_cases, unmatched_beside, unmatched_folders
from pytest_memeval.session import CHOSEN_DIST, HANDED, HARNESS, INTERRUPTS, RESUME_FROM, refuse_misspelt, settings_of

if TYPE_CHECKING:
    from pytest_memeval.compare.baseline import Baseline
    from pytest_memeval.hooks.budget import Budget
    from pytest_memeval.hooks.stopping import Stopper
    from pytest_memeval.interrupts import Interrupts
    from pytest_memeval.runs.recorder import Recorder
    from pytest_memeval.workers.crashes import Crashes

PHASES = ("setup", "call", "teardown")
#: pytest's options under which nothing is run: it shows what there is.
_SHOWING = ("collectonly", "setuponly", "setupplan", "showfixtures", "show_fixtures_per_test")
#: The ways of sharing out items under which a worker may be asked for some back; "no": ours to choose.
MAY_STEAL = ("no", "worksteal")
#: Those that outlive a worker as they are, or run each item in every worker.
NEVER_OURS = ("load", "each")
#: Statuses of a run that came to its own end.
REGULAR_ENDS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Controller:
    """Does nothing, and imports nothing, until the first record of a case arrives."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        config.add_cleanup(self._leave_interrupts)
        self._recorder: Recorder | None = None
        self._reruns: set[str] = set()
        #: What became of the cases of workers that died; made when there is something to ask.
        self._crashes: Crashes | None = None
        self._progress_at = time.monotonic()
        self._collected: set[str] = set()
        #: Whether a worker may have begun with its items, under xdist.
        self._tests_run = False
        #: Case files that could not be read → the first thing that is wrong.
        self._broken: dict[str, str] = {}
        #: Whether somebody, or pytest itself, stopped the run.
        self._interrupted = False
        #: Whether a worker left out files unseen.
        self._left_unseen = False
        #: Whether it was somebody, who waits for the process to end.
        self._by_hand = False
        #: The workers that have started, under xdist.
        self._nodes: list[Any] = []
        #: What could not be written → why: (key of the sentence, error).
        self._trouble: list[tuple[str, str]] = []
        self._decides_exit = True
        self._only_lost = False
        #: xdist's name of this run, empty without it.
        self._run_uid = ""
        #: What the run is compared with.
        self.baseline: Baseline | None = None
        #: Whether a part that an option names, and every case needs, cannot be made.
        self._refused = False
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
    def _interrupts(self) -> Interrupts | None:
        return self.config.stash.get(INTERRUPTS, None)

    def _leave_interrupts(self) -> None:
        if self._interrupts is not None:
            # Whoever has interrupted the run, and is impatient, gets no traceback of the process's end.
            (self._interrupts.stay if self._by_hand else self._interrupts.leave)()

    @property
    def recorded(self) -> Recorder | None:
        """The recorder if any case has left something to record."""
        return self._recorder

    @property
    def crashes(self) -> Crashes:
        if self._crashes is None:
            from pytest_memeval.workers.crashes import Crashes

            self._crashes = Crashes(self.config, self.recorder, self._collected, self._report_trouble)
        return self._crashes

    # -- collection --------------------------------------------------------------------------------------------

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        problem: str | None = getattr(report, "memeval_broken", None)
        if problem is not None:
            self._broken[report.nodeid] = problem

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items: list[Any] = session.items  # of any class: what they have tells
        cases = {
            item.nodeid: getattr(item, "memeval_set", None) or item.case_file.nodeid
            for item in items
            if hasattr(item, "memeval_set") or hasattr(item, "case_file")
        }
        if cases and not self._evaluates_nothing():
            self.recorder.selected.update(cases)

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

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        from pytest_memeval.workers.schedule import outlive

        outlive(node, self._stops_at_once)
        node.workerinput["memeval_steals"] = self.config.stash.get(CHOSEN_DIST, "no") in MAY_STEAL
        self._run_uid = node.workerinput["testrunuid"]
        if self._crashes is not None and self._crashes.deaths:
            # Where a worker has died, the next one runs each case in its turn: then it is known which one it was.
            node.workerinput["memeval_in_turn"] = True
        if RESUME_FROM in self.config.stash:
            journal = self.config.stash[RESUME_FROM].journal
            if node.gateway.spec.popen:
                node.workerinput["memeval_resume"] = str(journal)
            else:
                node.workerinput["memeval_resume_lines"] = journal.read_bytes()
        # Workers write the databases to keep themselves, so they have to know where.
        if settings_of(self.config).keep_db:
            node.workerinput["memeval_databases"] = str(self.recorder.databases_folder)

    def _stops_at_once(self) -> bool:
        """Whether xdist is to stop with cases left, otherwise than for their price: what was paid for is kept then."""
        distributed: Any = self.config.pluginmanager.getplugin("dsession")
        return bool(getattr(distributed, "shouldstop", False)) and not (self.budget is not None and self.budget.reached)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._tests_run = True
        # Which of them are cases the workers say with their first record; this serves when none arrives.
        if not self._collected and (cases := nodes_of_cases(self.config, ids)):
            refuse_misspelt(self.config)
            self._collected.update(cases)
            from pytest_memeval.interrupts import Interrupts

            self.config.stash[INTERRUPTS] = Interrupts(lasting=False)
            self.config.stash[INTERRUPTS].listen()

    def _evaluates_nothing(self) -> bool:
        if self.config.pluginmanager.hasplugin("memeval-plan"):
            return True
        return any(getattr(self.config.option, name, False) for name in _SHOWING)

    # -- records -----------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        if self._interrupts is not None:
            self._interrupts.raise_lost()
        # After every reporter: what is sent after a crash below must not reach one before the crash itself.
        result = yield
        self._look_at(report)
        return result

    def _refuse(self, report: pytest.TestReport) -> None:
        """End the run where a part that an option names cannot be made, as where the name leads nowhere, which is known
        earlier: every case needs it."""
        refused: str | None = getattr(report, "memeval_ends_run", None)
        if refused is not None and not self._evaluates_nothing():
            from pytest_memeval.report.console import without_controls

            self._refused = True
            pytest.exit(without_controls(refused), returncode=pytest.ExitCode.USAGE_ERROR)

    def _look_at(self, report: pytest.TestReport) -> None:
        self._refuse(report)
        # Shown with the case's line; the short summary has no room for it.
        report.__dict__.pop("memeval_alone", None)
        outcome: str = report.outcome
        if outcome == "rerun" and report.when in PHASES:
            # A crash that is run again (phase "???") has no teardown to drop.
            self._reruns.add(report.nodeid)
        if getattr(report, "memeval_used", False) and not self._evaluates_nothing():
            refuse_misspelt(self.config)
        envelope = getattr(report, "memeval_envelope", None)
        if envelope is not None and not self._evaluates_nothing():
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
                self._report_trouble(error)
        if worker is not None and record is not None and not rerun:
            # Of attempts that are run again the last may leave the same record as the one before, and counts.
            self._last_taken[worker] = record
        # Terminal and HTML reporters keep every report, and need not keep these texts with it.
        report.__dict__.pop("memeval_record", None)
        del report.memeval_envelope

    def _report_trouble(self, error: OSError) -> None:
        """A folder that cannot be written must not take the rest of the run with it."""
        from pytest_memeval.runs.files import PredictionsNotWritten, SummaryNotWritten

        what = "not_written"
        if isinstance(error, PredictionsNotWritten):
            what = "predictions_not_written"
        elif isinstance(error, SummaryNotWritten):
            what = "summary_not_written"
        if (what, str(error)) not in self._trouble:
            self._trouble.append((what, str(error)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        self._nodes.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if node in self._nodes:
            self._nodes.remove(node)
        output = getattr(node, "workeroutput", {})
        if output.get("memeval_in_vain"):
            self.recorder.in_vain += output["memeval_in_vain"]
        if output.get("memeval_left_behind"):
            self.recorder.left_behind += output["memeval_left_behind"]
        if output.get("memeval_late_releases"):
            self.recorder.late_releases += output["memeval_late_releases"]
        self._left_unseen |= UNSEEN_OUTPUT in output
        told = output.get("memeval_selected")
        if told is not None:
            self.recorder.take_process(json.loads(told))

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> bool | None:
        # The first answer counts: pytest-rerunfailures is not asked about a case that is not known to have failed. It
        # would be one attempt less for it, and after the last one its item is left out without a word.
        return True if self._is_case(crashitem) and self.crashes.acquit(crashitem, report, sched) else None

    def take_crash(self, crashitem: str, report: Any) -> None:
        """A case whose worker died is an error of its set-up, so that every reporter shows it as one."""
        if self._is_case(crashitem):
            self.crashes.take(crashitem, report)

    def _is_case(self, node_id: str) -> bool:
        return node_id in self._collected or (self._recorder is not None and node_id in self._recorder.selected)

    # -- the end -----------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        try:
            result = yield
        except Exception as error:
            from pytest_memeval.workers.last_words import hidden_interrupt

            interrupt = hidden_interrupt(error)
            if interrupt is None:
                raise
            raise interrupt from None
        if self._crashes is not None:
            # Before pytest asks whether anything failed; after an interrupt their workers may still tell of them.
            self._crashes.charge_suspects()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # pytest announces its own stops (--maxfail, broken files) in the same way.
        self._interrupted = True
        self._by_hand = excinfo.type is KeyboardInterrupt
        if self._by_hand and self._interrupts is not None:
            self._interrupts.has_come_through()
        if self._by_hand:
            from pytest_memeval.workers.last_words import be_no_signal, cut_off_reports, show_places

            for report in cut_off_reports(excinfo.value):
                self._tell_again(report)
            show_places(excinfo, last_only=self._recorder is not None and not self.config.option.fulltrace)
            be_no_signal()
        # Without cases it is the workers' and xdist's own affair, as soon as there are tests whose teardown a second
        # interrupt would cut short.
        concerned = self._recorder is not None or bool(self._collected) or not self._tests_run
        if self._by_hand and self._nodes and concerned:
            from pytest_memeval.workers.last_words import hand_on, last_words

            hand_on(self._nodes)
            for name, node, given in last_words(self.config, self._nodes):
                if name == "testreport":
                    given["rep"].node = node
                    self.config.hook.pytest_runtest_logreport(report=given["rep"])
                else:
                    self.pytest_testnodedown(node, None)

    def _tell_again(self, report: pytest.TestReport) -> None:
        """Tell of a report what an interrupt kept from being told: the result of a test, the record of a case."""
        terminal: Any = self.config.pluginmanager.getplugin("terminalreporter")
        told = terminal is None or any(one is report for each in terminal.stats.values() for one in each)
        if report.when == "call" and not told:
            self.config.hook.pytest_runtest_logreport(report=report)
        elif hasattr(report, "memeval_envelope"):
            self._look_at(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (self._recorder is None and not self._collected) or self._evaluates_nothing():
            return
        recorder = self.recorder
        if self._refused and not recorder.results:
            return  # nothing was measured
        try:
            self._check_judge(recorder)
        except KeyboardInterrupt:  # what was measured is there
            self._by_hand = self._interrupted = True
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        with self._interrupts.held_back() if self._interrupts is not None else nullcontext():
            self._finish(session, recorder)

    def _finish(self, session: pytest.Session, recorder: Recorder) -> None:
        from pytest_memeval.garbage import FREEZE_FROM

        if HARNESS in self.config.stash:
            recorder.left_behind += self.config.stash[HARNESS].left_behind
            recorder.late_releases += self.config.stash[HARNESS].releases.late
        if not recorder.selected:
            recorder.selected.update({node_id: node_id.partition("::")[0] for node_id in self._collected})
        # Somebody waits for an interrupted run to end, and reading a large file takes seconds.
        at_leisure = not self._by_hand or len(recorder.selected) < FREEZE_FROM
        for set_path in sorted(set(recorder.selected.values()) - set(recorder.sets)) if at_leisure else ():
            # No case of the file had its say, yet its gates count.
            self.crashes.load_set(set_path)
        try:
            if self._crashes is not None and at_leisure:
                # Else they are not run, as all others that the interrupt kept from it.
                self._crashes.charge_suspects()
            notes = self._notes(recorder)
            report = recorder.finish(
                aborted=self._aborted(session),
                selected=self._only_failed(),
                notes=notes,
                broken=self._broken.items(),
                interrupted=self._by_hand,
            )
        except OSError as error:
            self._report_trouble(error)
            report = recorder.report
        self._tell_junit(recorder, report)
        if self._crashes is not None and self._crashes.deaths:
            from pytest_memeval.scratch import remove_scratch_of

            remove_scratch_of(self._run_uid)
        status = session.exitstatus
        self._decides_exit = status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if report is None and not self._trouble and recorder.variants is None:
            return
        # passed_p0 is null where no P0 gate applies: nothing was missed then, and the summary says so.
        missed = report is not None and report["summary"]["passed_p0"] is False
        lost = bool(recorder.not_run()) if recorder.variants is not None else _lost(report)
        if status == pytest.ExitCode.OK and (missed or lost or self._trouble):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            # A process that died or fell silent can leave a run green: the gates' verdict does not cover that.
            self._only_lost = lost and not missed

    def _notes(self, recorder: Recorder) -> tuple[str, ...]:
        """Why the run ended early, where its own means ran out."""
        notes = self.budget.notes(recorder) if self.budget is not None else ()
        if not self._out_of_workers():
            return notes
        from pytest_memeval.report.messages import text

        return (*notes, text("run_note.out_of_workers", count=len(recorder.not_run())))

    def _out_of_workers(self) -> bool:
        """Whether cases were not run because their workers died, and no others took their places."""
        if not self.recorder.not_run():
            return False
        from pytest_memeval.workers.crashes import out_of_workers

        return out_of_workers(self.config)

    def _tell_junit(self, recorder: Recorder, report: Mapping[str, Any] | None) -> None:
        from pytest_memeval.hooks.junit_xml import add_suite_properties

        if report is not None and recorder.variants is None:
            add_suite_properties(self.config, report)
        for name, own in (recorder.variants.reports if recorder.variants is not None else {}).items():
            add_suite_properties(self.config, own, variant=name)

    def _check_judge(self, recorder: Recorder) -> None:
        """Put known answers to the run's judge, where that was asked for and the run came to its end."""
        wanted = recorder.settings.judge_controls
        if wanted < 1 or not recorder.settings.has_judge or self._interrupted or recorder.not_run():
            return
        from pytest_memeval.judge.run_controls import controls_of
        from pytest_memeval.session import harness_of

        judge = harness_of(self.config).build_judge()
        if judge is not None:
            recorder.judge_controls = controls_of(judge, recorder.results.values(), wanted)

    def _aborted(self, session: pytest.Session) -> bool:
        """Whether the run was cut short before its last case."""
        cut = bool(session.shouldstop) or bool(session.shouldfail) or session.exitstatus not in REGULAR_ENDS
        return (cut or self._interrupted or self._out_of_workers()) and bool(self.recorder.not_run())

    def _only_failed(self) -> bool:
        """Whether ``--lf`` left out files in which nothing failed, unseen, here or in a worker. Cases that it left out
        of a file are missed there; where nothing failed in what was named it leaves out none."""
        return self._left_unseen or left_unseen(self.config)

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        recorder = self._recorder
        if recorder is None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            for line in unmatched_folders(self.config):
                terminalreporter.write_line(f"memeval: {line}", yellow=True)
        if recorder is None or (recorder.report is None and not self._trouble and recorder.variants is None):
            return
        from pytest_memeval.runs.terminal import run_lines, write_lines

        lines = run_lines(
            recorder,
            verbosity=self.config.get_verbosity(),
            decides_exit=self._decides_exit,
            only_lost=self._only_lost,
            trouble=self._trouble,
        )
        terminalreporter.section("memeval")
        write_lines(terminalreporter, list(lines))
        if recorder.report is not None or recorder.variants is not None:
            unmatched = unmatched_beside(self.config, set(recorder.selected.values()))
            write_lines(terminalreporter, [(f"memeval: {line}", {"yellow": True}) for line in unmatched])


class CrashedCases:
    """The last to be asked about an item whose worker died: by then it is known whether somebody has it run again."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        self._controller.take_crash(crashitem, report)


def _lost(report: Mapping[str, Any] | None) -> bool:
    return report is not None and report["counts"]["not_run"] > 0
