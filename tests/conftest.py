"""What all tests of this repository share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from ready_workers import ready_workers

# A machine that is busy with something else is no fault of the code: times are bounded where a test is about time.
settings.register_profile("memeval", deadline=None)
settings.load_profile("memeval")


#: What a CI service, a terminal or a user sets and what changes the output of the runs that tests start.
TELLING = (
    *("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"),
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS"),
    *("PYTEST_THEME", "PYTEST_THEME_MODE", "PYTEST_XDIST_AUTO_NUM_WORKERS"),
)


@pytest.fixture(scope="session", autouse=True)
def _surroundings() -> Iterator[None]:
    """Tests read what runs print, so that must not depend on where the tests run: pytest cuts the lines of its short
    summary to the terminal's width, for instance, but not where ``CI`` is set."""
    with pytest.MonkeyPatch.context() as patch:
        for name in TELLING:
            patch.delenv(name, raising=False)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # As a shell's background jobs have it: the runs that are interrupted here would inherit it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield


@pytest.fixture(scope="session", autouse=True)
def _workers(_surroundings: None, pytestconfig: pytest.Config) -> Iterator[None]:
    """Runs in tests have their processes forked, unless ``--no-forks`` says that they are to be started."""
    if pytestconfig.getoption("--no-forks") or not hasattr(os, "fork"):
        yield
        return
    with ready_workers():
        yield


@pytest.fixture(scope="module", autouse=True)
def _spared_collector() -> None:
    """Each pytest run within a test ends with a search for garbage, which would go through all that was ever imported:
    what is there when a module's tests begin is passed over."""
    gc.collect()
    gc.freeze()
