"""What the controller does when somebody interrupts the run: nothing that was just being told is lost, and workers are
heard out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.workers.last_words import be_no_signal, cut_off_reports, hand_on, last_words, show_places

if TYPE_CHECKING:
    from pytest_memeval.hooks.controller import Controller


def hear_out(controller: Controller, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Have everybody say what is still to be said when somebody has interrupted the run."""
    for report in cut_off_reports(excinfo.value):
        _tell_again(controller, report)
    show_places(excinfo, last_only=controller.recorded is not None and not controller.config.option.fulltrace)
    be_no_signal()
    workers = controller.workers
    if workers is None or not workers.nodes:
        return
    # Without cases it is the workers' and xdist's own affair, as soon as there are tests whose teardown a second
    # interrupt would cut short.
    if controller.recorded is None and not controller.collected and workers.tests_run:
        return
    hand_on(workers.nodes)
    for name, node, given in last_words(controller.config, workers.nodes):
        if name == "testreport":
            given["rep"].node = node
            controller.config.hook.pytest_runtest_logreport(report=given["rep"])
        else:
            workers.pytest_testnodedown(node, None)


def _tell_again(controller: Controller, report: pytest.TestReport) -> None:
    """Tell of a report what an interrupt kept from being told: the result of a test, the record of a case."""
    terminal: Any = controller.config.pluginmanager.getplugin("terminalreporter")
    told = terminal is None or any(one is report for each in terminal.stats.values() for one in each)
    if report.when == "call" and not told:
        controller.config.hook.pytest_runtest_logreport(report=report)
    elif hasattr(report, "memeval_envelope"):
        controller.look_at(report)
