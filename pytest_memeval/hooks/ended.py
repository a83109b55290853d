"""An interrupted run's cases that had come to their end before their items' turn: reported as the items would have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from typing import Any, Literal

import pytest

from pytest_memeval.ahead import Prepared
from pytest_memeval.hooks.foreign_fixtures import a_fixture_failed
from pytest_memeval.items import CaseItem
from pytest_memeval.kind_items import KindItem
from pytest_memeval.loops import call_within
from pytest_memeval.nodes.cases import setup_of
from pytest_memeval.nodes.keys import PREFETCHER
from pytest_memeval.runner import CaseRun
from pytest_memeval.workers.stops import interactor_of

#: Seconds for metrics and matchers of the project's own, which may take as long as they like; somebody waits.
PATIENCE = 0.5


def report_ended(config: pytest.Config) -> None:
    """Stop what is under way, and report what has ended. A worker's reports go the way that all reports go."""
    prefetcher = config.stash.get(PREFETCHER, None)
    if prefetcher is None:
        return
    prefetcher.break_off()
    left = PATIENCE
    for place, item, prepared in prefetcher.ended():
        if a_fixture_failed(item):
            continue
        started = time.monotonic()
        # Whatever is said here would belong to the item's own output, and there is none.
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            measured = call_within(left, partial(_measure, prepared.run))
        left -= time.monotonic() - started
        if measured == (None, None):
            # What a hook of the project raises costs this case's report.
            with suppress(Exception), _at_hand(config, place):
                _report(item, prepared)
        if left <= 0:
            return


def _measure(run: Any) -> None:
    """What is computed when the item asks for it."""
    run.complete()
    if isinstance(run, CaseRun):
        run.sections(run.measured)


def _report(item: CaseItem | KindItem, prepared: Prepared) -> None:
    # Those of the test that was interrupted are none of this case's.
    setup_of(item).judge_calls.clear()
    check: list[Callable[[], None]] = []
    reports: list[pytest.TestReport] = []

    def take(when: Literal["setup", "call", "teardown"], act: Callable[[], None]) -> None:
        call = pytest.CallInfo.from_call(act, when, reraise=(KeyboardInterrupt, pytest.exit.Exception))
        if call.excinfo is not None:
            _set_apart(call.excinfo.value)
        reports.append(item.ihook.pytest_runtest_makereport(item=item, call=call))

    take("setup", lambda: check.append(item.take_ended(prepared)))
    for act in check:
        take("call", act)
    take("teardown", lambda: None)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)


def _set_apart(error: BaseException) -> None:
    """Have the error not be told as one that came up while the interrupt was handled."""
    while (before := error.__context__) is not None:
        if isinstance(before, KeyboardInterrupt):
            error.__context__ = None
            return
        error = before


@contextmanager
def _at_hand(config: pytest.Config, place: int) -> Iterator[None]:
    """Have a worker report of the item at this place: it expects to be told of the one at hand alone."""
    worker = interactor_of(config)
    if worker is None:
        yield
        return
    before, worker.item_index = getattr(worker, "item_index", None), place
    try:
        yield
    finally:
        worker.item_index = before
