"""Runs in processes of their own that somebody interrupts, runs whose workers die, and what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import pytest
from plugin_project import Project

#: Signals as POSIX has them.
POSIX_ONLY = pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
#: Options, and whether the whole group hears of the interrupt, as it does from a terminal.
SENT = pytest.mark.parametrize(
    ("mode", "to_all"),
    [((), False), (("-n", "2"), False), (("-n", "2"), True)],
    ids=["serial", "n2-controller", "n2-terminal"],
)
#: Seconds for which a busy machine may keep a run from getting anywhere.
PATIENCE = 60.0

#: The first case is the one at hand when another one, begun ahead of its turn, kills the worker.
KILLER = """
import asyncio
import os

import pytest


class Killer:
    name = "killer"
    version = "1"

    async def extract(self, conversation, ctx):
        if ctx.case_id == "dead":
            os._exit(3)
        if ctx.case_id == "eval-001" and {first}:
            await asyncio.sleep({waits})
        dimension, _, content = conversation[0].content.partition(": ")
        return [dict(content=content, dimensions=[dimension], memory_type="persona", priority=80)]


@pytest.fixture(scope="session")
def memeval_engine():
    return Killer()
"""


class Run:
    """pytest in a project, with a process group of its own; whatever of it goes on behind the block is killed."""

    def __init__(
        self, project: Project, *options: str, output: str = "out", env: Mapping[str, str] | None = None
    ) -> None:
        unused = (f"-pno:{name}" for name in ("randomly", "hypothesispytest", "anyio"))
        self._interrupted_at = 0.0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *unused, "--memeval-output", output, *options],
            cwd=project.path,
            env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_going:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    @property
    def is_going(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, there: Callable[[], object]) -> None:
        """Wait until it is there, as long as the run goes on."""
        until = time.monotonic() + PATIENCE
        while not there():
            assert self.is_going, self.said()
            assert time.monotonic() < until, "the run never got there"
            time.sleep(0.01)

    def interrupt(self, *, to_all: bool = False) -> None:
        self._interrupted_at = time.monotonic()
        (os.killpg if to_all else os.kill)(self.process.pid, signal.SIGINT)

    def said(self) -> str:
        """All that it said, when it is over."""
        return self.process.communicate(timeout=PATIENCE)[0].decode("utf-8")

    def ends(self, *, within: float = 10.0) -> str:
        """It ends as an interrupted run does, and in time; what it said."""
        text = self.said()
        taken = time.monotonic() - self._interrupted_at
        assert self.process.returncode == pytest.ExitCode.INTERRUPTED, text
        assert "INTERNALERROR" not in text
        assert taken < within, f"{taken:.1f} s\n{text}"
        print(f"ended after {taken:.2f} s")
        return text


def journalled(project: Project, folder: str = "out") -> str:
    """The journal's text, as far as the run has got."""
    return "".join(path.read_text(encoding="utf-8") for path in (project.path / folder).glob("journal*.jsonl"))


def have_arrived(project: Project, *case_ids: str) -> bool:
    """Whether the results of these cases are in the journal."""
    text = journalled(project)
    return all(f'"{case_id}"' in text for case_id in case_ids)
