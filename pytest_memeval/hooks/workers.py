"""The controller's side of workers: what they are told as they start, what they say as they end, and their deaths."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.case_files import UNSEEN_OUTPUT, nodes_of_cases
from pytest_memeval.session import CHOSEN_DIST, INTERRUPTS, RESUME_FROM, refuse_misspelt, settings_of

if TYPE_CHECKING:
    from pytest_memeval.hooks.controller import Controller

#: The ways of sharing out items under which a worker may be asked for some back; "no": ours to choose.
MAY_STEAL = ("no", "worksteal")


class Workers:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._config = controller.config
        #: Those that have started and not ended.
        self.nodes: list[Any] = []
        #: Those that have started.
        self.all_nodes: list[Any] = []
        #: Whether one may have begun with its items.
        self.tests_run = False
        #: xdist's name of this run.
        self.run_uid = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        from pytest_memeval.workers.schedule import outlive

        outlive(node, self._stops_at_once)
        node.workerinput["memeval_steals"] = self._config.stash.get(CHOSEN_DIST, "no") in MAY_STEAL
        self.run_uid = node.workerinput["testrunuid"]
        if self._controller.deaths:
            # Where a worker has died, the next one runs each case in its turn: then it is known which one it was.
            node.workerinput["memeval_in_turn"] = True
        if RESUME_FROM in self._config.stash:
            journal = self._config.stash[RESUME_FROM].journal
            if node.gateway.spec.popen:
                node.workerinput["memeval_resume"] = str(journal)
            else:
                node.workerinput["memeval_resume_lines"] = journal.read_bytes()
        # Workers write the databases to keep themselves, so they have to know where.
        if settings_of(self._config).keep_db:
            node.workerinput["memeval_databases"] = str(self._controller.recorder.databases_folder)

    def _stops_at_once(self) -> bool:
        """Whether xdist is to stop with cases left, otherwise than for their price: what was paid for is kept then."""
        distributed: Any = self._config.pluginmanager.getplugin("dsession")
        budget = self._controller.budget
        return bool(getattr(distributed, "shouldstop", False)) and not (budget is not None and budget.reached)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self.tests_run = True
        # Which of them are cases the workers say with their first record; this serves when none arrives.
        if not self._controller.collected and (cases := nodes_of_cases(self._config, ids)):
            refuse_misspelt(self._config)
            self._controller.collected.update(cases)
            from pytest_memeval.interrupts import Interrupts

            self._config.stash[INTERRUPTS] = Interrupts(lasting=False)
            self._config.stash[INTERRUPTS].listen()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        self.nodes.append(node)
        self.all_nodes.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if node in self.nodes:
            self.nodes.remove(node)
        output = getattr(node, "workeroutput", {})
        if output.get("memeval_in_vain"):
            self._controller.recorder.in_vain += output["memeval_in_vain"]
        if output.get("memeval_left_behind"):
            self._controller.recorder.left_behind += output["memeval_left_behind"]
        if output.get("memeval_cancelled_in_vain"):
            self._controller.recorder.cancelled_in_vain += output["memeval_cancelled_in_vain"]
        if output.get("memeval_late_releases"):
            self._controller.recorder.late_releases += output["memeval_late_releases"]
        self._controller.left_unseen |= UNSEEN_OUTPUT in output
        told = output.get("memeval_selected")
        if told is not None:
            self._controller.recorder.take_process(json.loads(told))

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> bool | None:
        # The first answer counts: pytest-rerunfailures is not asked about a case that is not known to have failed. It
        # would be one attempt less for it, and after the last one its item is left out without a word.
        return (
            True
            if self._controller.is_case(crashitem) and self._controller.crashes.acquit(crashitem, report, sched)
            else None
        )


class CrashedCases:
    """The last to be asked about an item whose worker died: by then it is known whether somebody has it run again."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """A case whose worker died is an error of its set-up, so that every reporter shows it as one."""
        if self._controller.is_case(crashitem):
            self._controller.crashes.take(crashitem, report)
