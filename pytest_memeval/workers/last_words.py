"""An interrupted run: that it is known for one, and under xdist that workers hear of it and are heard out."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

#: Seconds in which a worker has to end, of the two in which the whole run has.
PATIENCE = 1.1
#: Seconds in which the session of a worker that has said its last comes to its end, and then its process.
CLOSING, GONE = 0.3, 1.2


def show_places(excinfo: pytest.ExceptionInfo[BaseException], *, last_only: bool) -> None:
    """Leave of an interrupt's places what pytest can show: of one in code without lines, as that of generated classes
    is in part, it does not expect any. ``last_only``: it shows the last alone unless it is to show all, and yet reads
    the sources of all: most of a second."""
    shown = [entry for entry in excinfo.traceback.filter(excinfo) if entry._rawentry.tb_lineno is not None]
    if shown:
        excinfo.traceback = type(excinfo.traceback)(shown[-1:] if last_only else shown)


def be_no_signal() -> None:
    """Have Python end with the session's status. One that an interrupt met in code made from text, as classes are at
    their import, remembers that, and ends as if killed by the signal, until it has run other such code."""
    exec("")


def hidden_interrupt(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt during which this came up by itself, such as that a worker is gone that was being started. What
    was raised on purpose in its place, by ``pytest.exit`` or ``from None``, hides none."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        if isinstance(seen, pytest.exit.Exception | pytest.UsageError | pytest.Session.Failed):
            return None
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return seen


#: Where a report is between the process that made it and those who are told of it: functions of pytest and of xdist.
_ON_THE_WAY = frozenset({"call_and_report", "loop_once", "pytest_runtest_makereport", "worker_testreport"})


def cut_off_reports(error: BaseException) -> Iterator[pytest.TestReport]:
    """The reports that somebody was just being told of when the interrupt came: nobody will tell of them again."""
    seen: set[int] = set()
    trace = error.__traceback__
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        if frame.f_code.co_name not in _ON_THE_WAY:
            continue
        names = frame.f_locals
        event = names.get("eventcall")
        given = names.get("kwargs") or (event[1] if isinstance(event, tuple) else None) or {}
        for report in (names.get("rep"), names.get("report"), given.get("rep") if isinstance(given, dict) else None):
            if isinstance(report, pytest.TestReport) and id(report) not in seen:
                seen.add(id(report))
                yield report


def pid_of(node: Any) -> int | None:
    """The process id of a worker of this machine; ``None`` for any other."""
    spec = node.gateway.spec
    # Started by another gateway, the process is that one's machine's.
    if not getattr(spec, "popen", False) or getattr(spec, "via", None):
        return None
    try:
        return getattr(node.gateway._rinfo(), "pid", None)
    except (OSError, EOFError):  # it is gone, and had not been asked before
        return None


def hand_on(nodes: Iterable[Any]) -> None:
    """An interrupt meant for the controller alone, as IDEs and containers send it, would leave the workers at it."""
    if os.name == "nt":  # where a signal would kill without a word
        return
    for pid in filter(None, map(pid_of, nodes)):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGINT)


def be_gone_soon(config: pytest.Config, nodes: Iterable[Any]) -> None:
    """Have xdist kill those that do not end though they have nothing left to do: it would wait for ten seconds. Where
    the session of one of them is not over, in all that plugins do there, it still does."""
    manager: Any = getattr(config.pluginmanager.getplugin("dsession"), "nodemanager", None)
    # The channel of one that has died stays as it was.
    channels = [node.channel for node in nodes if node.gateway.hasreceiver() and pid_of(node) is not None]
    until = time.monotonic() + CLOSING
    while not (over := all(channel.isclosed() for channel in channels)) and time.monotonic() < until:
        time.sleep(0.01)
    if over and channels and hasattr(manager, "EXIT_TIMEOUT"):
        manager.EXIT_TIMEOUT = min(manager.EXIT_TIMEOUT, GONE)


def last_words(config: pytest.Config, nodes: Iterable[Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """What workers of this machine still say: reports of cases that had finished, and that they have ended. One that
    goes on and on, since it has lost the interrupt, is listened to no longer than one that says nothing."""
    events = getattr(config.pluginmanager.getplugin("dsession"), "queue", None)
    waiting = {node for node in nodes if pid_of(node) is not None}
    began = time.monotonic()

    def heard(event: tuple[str, dict[str, Any]]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        name, given = event
        if name in ("testreport", "workerfinished"):
            yield name, given.get("node"), given
        if name in ("workerfinished", "errordown"):
            waiting.discard(given.get("node"))

    if events is None:
        return
    for until in (PATIENCE / 2, PATIENCE):
        while waiting and (left := began + until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                yield from heard(events.get(timeout=left))
        if not waiting:
            return
        if until < PATIENCE:
            # They may have lost the interrupt.
            hand_on(waiting)
    for _ in range(events.qsize()):
        yield from heard(events.get_nowait())
