"""The end of a run: the last checks, the report, the exit status, and what the terminal says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.case_files import left_unseen, unmatched_beside
from pytest_memeval.garbage import FREEZE_FROM
from pytest_memeval.session import HARNESS

if TYPE_CHECKING:
    from pytest_memeval.hooks.controller import Controller
    from pytest_memeval.runs.recorder import Recorder

#: Statuses of a run that came to its own end.
REGULAR_ENDS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class RunEnd:
    """Of a run with something to report."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._config = controller.config
        self._decides_exit = True
        self._only_lost = False

    def finish(self, session: pytest.Session) -> None:
        controller, recorder = self._controller, self._controller.recorder
        try:
            self._check_judge(recorder)
        except KeyboardInterrupt:  # what was measured is there
            controller.by_hand = controller.interrupted = True
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        with controller.held_back():
            self._finish(session, recorder)

    def _finish(self, session: pytest.Session, recorder: Recorder) -> None:
        controller = self._controller
        if HARNESS in self._config.stash:
            recorder.left_behind += self._config.stash[HARNESS].left_behind
            recorder.cancelled_in_vain += self._config.stash[HARNESS].cancelled_in_vain
            recorder.late_releases += self._config.stash[HARNESS].releases.late
        if not recorder.selected:
            recorder.selected.update({node_id: node_id.partition("::")[0] for node_id in controller.collected})
        # Somebody waits for an interrupted run to end, and reading a large file takes seconds.
        at_leisure = not controller.by_hand or len(recorder.selected) < FREEZE_FROM
        for set_path in sorted(set(recorder.selected.values()) - set(recorder.sets)) if at_leisure else ():
            # No case of the file had its say, yet its gates count.
            controller.crashes.load_set(set_path)
        try:
            if at_leisure:
                # Else they are not run, as all others that the interrupt kept from it.
                controller.charge_suspects()
            notes = self._notes(recorder)
            report = recorder.finish(
                aborted=self._aborted(session, recorder),
                selected=self._only_failed(),
                notes=notes,
                broken=controller.broken.items(),
                interrupted=controller.by_hand,
            )
        except OSError as error:
            controller.report_trouble(error)
            report = recorder.report
        self._tell_junit(recorder, report)
        if controller.workers is not None and controller.deaths:
            from pytest_memeval.scratch import remove_scratch_of

            remove_scratch_of(controller.workers.run_uid)
        status = session.exitstatus
        self._decides_exit = status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if report is None and not controller.trouble and recorder.variants is None:
            return
        # passed_p0 is null where no P0 gate applies: nothing was missed then, and the summary says so.
        missed = report is not None and report["summary"]["passed_p0"] is False
        lost = bool(recorder.not_run()) if recorder.variants is not None else _lost(report)
        if status == pytest.ExitCode.OK and (missed or lost or controller.trouble):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            # A process that died or fell silent can leave a run green: the gates' verdict does not cover that.
            self._only_lost = lost and not missed

    def _notes(self, recorder: Recorder) -> tuple[str, ...]:
        """Why the run ended early, where its own means ran out."""
        budget = self._controller.budget
        notes = budget.notes(recorder) if budget is not None else ()
        if not self._out_of_workers():
            return notes
        from pytest_memeval.report.messages import text

        return (*notes, text("run_note.out_of_workers", count=len(recorder.not_run())))

    def _out_of_workers(self) -> bool:
        """Whether cases were not run because their workers died, and no others took their places."""
        if not self._controller.recorder.not_run():
            return False
        from pytest_memeval.workers.crashes import out_of_workers

        return out_of_workers(self._config)

    def _tell_junit(self, recorder: Recorder, report: Mapping[str, Any] | None) -> None:
        from pytest_memeval.hooks.junit_xml import add_suite_properties

        if report is not None and recorder.variants is None:
            add_suite_properties(self._config, report)
        for name, own in (recorder.variants.reports if recorder.variants is not None else {}).items():
            add_suite_properties(self._config, own, variant=name)

    def _check_judge(self, recorder: Recorder) -> None:
        """Put known answers to the run's judge, where that was asked for and the run came to its end."""
        wanted = recorder.settings.judge_controls
        if wanted < 1 or not recorder.settings.has_judge or self._controller.interrupted or recorder.not_run():
            return
        from pytest_memeval.judge.run_controls import controls_of
        from pytest_memeval.session import harness_of

        judge = harness_of(self._config).build_judge()
        if judge is not None:
            recorder.judge_controls = controls_of(judge, recorder.results.values(), wanted)

    def _aborted(self, session: pytest.Session, recorder: Recorder) -> bool:
        """Whether the run was cut short before its last case."""
        cut = bool(session.shouldstop) or bool(session.shouldfail) or session.exitstatus not in REGULAR_ENDS
        return (cut or self._controller.interrupted or self._out_of_workers()) and bool(recorder.not_run())

    def _only_failed(self) -> bool:
        """Whether ``--lf`` left out files in which nothing failed, unseen, here or in a worker. Cases that it left out
        of a file are missed there; where nothing failed in what was named it leaves out none."""
        return self._controller.left_unseen or left_unseen(self._config)

    def summarize(self, terminalreporter: Any) -> None:
        recorder = self._controller.recorder
        if recorder.report is None and not self._controller.trouble and recorder.variants is None:
            return
        from pytest_memeval.runs.terminal import run_lines, write_lines

        lines = run_lines(
            recorder,
            verbosity=self._config.get_verbosity(),
            decides_exit=self._decides_exit,
            only_lost=self._only_lost,
            trouble=self._controller.trouble,
        )
        terminalreporter.section("memeval")
        write_lines(terminalreporter, list(lines))
        if recorder.report is not None or recorder.variants is not None:
            unmatched = unmatched_beside(self._config, set(recorder.selected.values()))
            write_lines(terminalreporter, [(f"memeval: {line}", {"yellow": True}) for line in unmatched])


def _lost(report: Mapping[str, Any] | None) -> bool:
    return report is not None and report["counts"]["not_run"] > 0
