"""``--memeval-max-cost``: no new case is started once the run's own requests have cost that much."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_memeval.recorder import Recorder

#: Under this name each worker is told where the sign to stop will be.
STOP_INPUT = "memeval_stop"


class Budget:
    """The controller's side: watches what is spent, stops the session, and says why."""

    def __init__(self, config: pytest.Config, limit: float) -> None:
        self.config = config
        self.limit = limit
        self.reached = False
        self._session: pytest.Session | None = None
        self._folder: Path | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="memeval-stop-"))
        node.workerinput[STOP_INPUT] = str(self._folder / "stop")

    def check(self, recorder: Recorder) -> None:
        """Called after each record. Cases that are running end as they do, and are recorded and paid for."""
        if self.reached or recorder.spent < self.limit * (1 - 1e-9) or not recorder.not_run():
            return
        self.reached = True
        reason = f"memeval: ${recorder.spent:.4f} spent, --memeval-max-cost is ${self.limit:g}"
        if self._folder is not None:
            # Workers hold queues of their own, which a shutdown lets them finish.
            (self._folder / "stop").touch()
        distributed: Any = self.config.pluginmanager.getplugin("dsession")
        if distributed is not None:
            distributed.shouldstop = reason
        elif self._session is not None:
            self._session.shouldstop = reason

    def notes(self, recorder: Recorder) -> tuple[str, ...]:
        """What the report says of it."""
        left = len(recorder.not_run())
        if not self.reached or not left:
            return ()
        return (
            f"Stopped at the budget: ${recorder.spent:.4f} spent, --memeval-max-cost is ${self.limit:g};"
            f" {left} case(s) were not started. What was answered is in the cache, so a run with a higher limit goes on.",
        )

    def pytest_unconfigure(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class WorkerBudget:
    """A worker's side: passes over the items that are still in its queue when the sign is there."""

    def __init__(self, sign: Path) -> None:
        self._sign = sign
        self._stopped = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        self._stopped = self._stopped or self._sign.exists()
        return True if self._stopped else None
