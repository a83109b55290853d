"""Ctrl-C at the end of a session leaves nothing in the folder for temporary files, in whichever process it arrives."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from interrupted_runs import Run
from plugin_project import Project, good_cases

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")

#: Each case makes a folder of its own, and each process waits at the chosen place, having said who it is.
CONFTEST = """
import os
import time
from pathlib import Path

import pytest
from line_engine import LineEngine


class Notes(LineEngine):
    def extract(self, conversation, ctx):
        (ctx.folder / "note").touch()
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Notes()


def wait(place, config):
    if place == "{place}" and (hasattr(config, "workerinput") or {everywhere}):
        Path(f"waits-{os.getpid()}").touch()
        time.sleep(30)


def pytest_terminal_summary(config):
    wait("summary", config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    wait("finish", session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config):
    wait("unconfigure", config)


def pytest_collection_finish(session):
    # The last to be added is the first to be called.
    session.config.add_cleanup(lambda: wait("cleanup", session.config))
"""


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("place", ["summary", "finish", "unconfigure", "cleanup"])
@pytest.mark.parametrize(
    ("mode", "options"),
    [((), ()), (("-n", "2"), ()), (("-n", "2"), ("--memeval-stop-when-decided", "--memeval-max-cost", "5"))],
    ids=["serial", "n2", "n2-signs"],
)
def test_an_interrupt_at_the_end_leaves_no_folder(
    project: Project, place: str, mode: tuple[str, ...], options: tuple[str, ...]
) -> None:
    project.write("conftest.py", CONFTEST.replace("{place}", place).replace("{everywhere}", str(not mode)))
    project.cases(good_cases(8))
    scratch = project.path / "tmp"
    scratch.mkdir()
    count = 2 if mode else 1
    with Run(project, *mode, *options, env={"TMPDIR": str(scratch)}) as run:
        run.wait_for(lambda: len(list(project.path.glob("waits-*"))) == count)
        assert list(scratch.glob("memeval-*"))
        run.interrupt(to_all=True)
        told = run.said()
        until = time.monotonic() + 60
        while not all(_gone(int(path.name.partition("-")[2])) for path in project.path.glob("waits-*")):
            assert time.monotonic() < until
            time.sleep(0.02)
    assert not list(scratch.glob("memeval-*")), told


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
def test_what_a_killed_run_leaves_is_removed_by_the_next(
    project: Project, mode: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("conftest.py", CONFTEST.replace("{place}", "finish").replace("{everywhere}", str(not mode)))
    project.cases(good_cases(8))
    scratch = project.path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    count = 2 if mode else 1
    with Run(project, *mode) as run:
        run.wait_for(lambda: len(list(project.path.glob("waits-*"))) == count)
    left = set(scratch.glob("memeval-*"))
    assert len(left) == count
    project.write("conftest.py", CONFTEST.replace("{place}", "nowhere").replace("{everywhere}", "True"))
    project.run(*mode, fresh=True).assert_outcomes(passed=8)
    assert not list(scratch.glob("memeval-*"))
