"""``--memeval-max-cost``: no new case is started once the run's own requests have cost that much."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.scratch import make_scratch, remove_scratch
from pytest_memeval.session import harness_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_memeval.results import CallRecord
    from pytest_memeval.runs.recorder import Recorder

#: Modules that taking the first record imports.
FIRST_NEEDED = ("runs.recorder", "runs.notes", "llm.cost", "llm.embedding_usage", "report.journal", "report.write")
#: Under this name each worker is told where the sign to stop will be.
STOP_INPUT = "memeval_stop"


class Budget:
    """The controller's side: watches what is spent, ends the session, and says why."""

    def __init__(self, config: pytest.Config, limit: float) -> None:
        self.config = config
        self.limit = limit
        self.reached = False
        self._spent = 0.0
        self._session: pytest.Session | None = None
        self._folder: Path | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session
        # What the first record needs is at hand before it comes: workers go on meanwhile, and spend.
        for name in FIRST_NEEDED:
            importlib.import_module(f"pytest_memeval.{name}")
        harness = harness_of(self.config)
        harness.prices.find(harness.settings.model)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self._folder is None:
            self._folder = make_scratch("stop")
            self.config.add_cleanup(partial(remove_scratch, self._folder))
        node.workerinput[STOP_INPUT] = str(self._folder / "stop")

    @property
    def reason(self) -> str:
        return f"memeval: ${self._spent:.4f} spent, --memeval-max-cost is ${self.limit:g}"

    def check(self, recorder: Recorder) -> None:
        """Called after each record. Cases that are under way end as they do, and are recorded and paid for."""
        self._spent = recorder.costs.spent
        spent = recorder.costs.spent + recorder.costs.of_requests(_calls_under_way(self.config))
        spent += recorder.costs.of_embeddings(harness_of(self.config).search.ledger.pending) or 0.0
        # A sum of many prices may lie a little below the round figure that it stands for.
        if self.reached or spent < self.limit * (1 - 1e-9) or not recorder.not_run():
            return
        self.reached = True
        if self._folder is not None:
            # Workers hold queues of their own, which a shutdown lets them finish.
            (self._folder / "stop").touch()
        distributed: Any = self.config.pluginmanager.getplugin("dsession")
        if distributed is not None:
            distributed.shouldstop = self.reason

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not self.reached or not passes_over(item):
            return None
        if self._session is not None and _is_idle(self.config):
            self._session.shouldstop = self.reason
        return pass_over(item, nextitem)

    def notes(self, recorder: Recorder) -> tuple[str, ...]:
        """What the report says of it."""
        from pytest_memeval.report.messages import text

        left = len(recorder.not_run())
        unpriced = recorder.costs.unpriced_note("--memeval-max-cost")
        if not self.reached or not left:
            return unpriced
        return (
            *unpriced,
            text(
                "run_note.budget",
                spent=f"{recorder.costs.spent:.4f}",
                limit=f"{self.limit:g}",
                count=left,
            ),
        )


class WorkerBudget:
    """A worker's side: passes over the items that are still in its queue when the sign is there."""

    def __init__(self, sign: Path) -> None:
        self._sign = sign
        self._stopped = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        self._stopped = self._stopped or self._sign.exists()
        return pass_over(item, nextitem) if self._stopped and passes_over(item) else None


def passes_over(item: pytest.Item) -> bool:
    """Whether an item is left out once the budget is reached: all but those whose cases are under way already."""
    from pytest_memeval.nodes.keys import PREFETCHER

    prefetcher = item.config.stash.get(PREFETCHER, None)
    if prefetcher is None:
        return True
    prefetcher.hold()
    return not prefetcher.has(item)


def pass_over(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Leave an item out: what the items before it kept up for it is torn down, unless the next one needs it too."""
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(nextitem), when="teardown")
    if call.excinfo is not None:
        # A fixture of the file's or the session's own that breaks on its way out is an error like any other.
        item.ihook.pytest_runtest_logreport(report=pytest.TestReport.from_item_and_call(item, call))
    return True


def _calls_under_way(config: pytest.Config) -> Iterable[CallRecord]:
    """What cases have asked in this process that are not recorded yet."""
    from pytest_memeval.nodes.keys import PREFETCHER

    prefetcher = config.stash.get(PREFETCHER, None)
    return () if prefetcher is None else prefetcher.calls_so_far()


def _is_idle(config: pytest.Config) -> bool:
    from pytest_memeval.nodes.keys import PREFETCHER

    prefetcher = config.stash.get(PREFETCHER, None)
    return prefetcher is None or prefetcher.idle
