"""An interrupted run under xdist: workers hear of it, and what they have still to say is heard."""

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
PATIENCE = 0.8


def show_last_place(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """pytest shows an interrupt's last place alone, and yet reads the sources of all: most of a second."""
    last = excinfo.traceback.filter(excinfo)[-1:]
    if last:
        excinfo.traceback = last


def pid_of(node: Any) -> int | None:
    """The process id of a worker of this machine; ``None`` for any other."""
    spec = node.gateway.spec
    # Started by another gateway, the process is that one's machine's.
    if not getattr(spec, "popen", False) or getattr(spec, "via", None):
        return None
    return getattr(node.gateway._rinfo(), "pid", None)


def hand_on(nodes: Iterable[Any]) -> None:
    """An interrupt meant for the controller alone, as IDEs and containers send it, would leave the workers at it."""
    if os.name == "nt":  # where a signal would kill without a word
        return
    for pid in filter(None, map(pid_of, nodes)):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGINT)


def last_words(config: pytest.Config, nodes: Iterable[Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """What workers of this machine still say: reports of cases that had finished, and that they have ended."""
    events = getattr(config.pluginmanager.getplugin("dsession"), "queue", None)
    waiting = {node for node in nodes if pid_of(node) is not None}
    until = time.monotonic() + PATIENCE
    while events is not None and waiting:
        try:
            name, given = events.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return
        node = given.get("node")
        if name in ("testreport", "workerfinished"):
            yield name, node, given
        if name in ("workerfinished", "errordown"):
            waiting.discard(node)
