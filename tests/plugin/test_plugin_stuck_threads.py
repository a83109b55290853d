"""Threads of a project's own, at something that a case has waited for, keep no process from its end: neither behind an
interrupt nor behind a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from interrupted_runs import POSIX_ONLY, SENT, Run, have_arrived
from plugin_project import Project, good_cases

#: Seconds for which the thread goes on: many more than the run may take.
STUCK = 50

ENGINE = """
import asyncio
import atexit
import pathlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

HERE = pathlib.Path(__file__).parent
POOL = ThreadPoolExecutor(2)
atexit.register(lambda: HERE.joinpath(f"left-{{threading.get_native_id()}}").touch())


def block():
    HERE.joinpath("blocks").touch()
    time.sleep({seconds})


def in_a_thread():
    thread = threading.Thread(target=block, name="own-thread", daemon=False)
    thread.start()
    while thread.is_alive():  # an interrupted join() has Python 3.11 think that the thread is over
        time.sleep(0.01)


class Engine:
    name = "stuck"
    version = "1"

    {method}

    def answer(self, conversation):
        dimension, _, content = conversation[0].content.partition(": ")
        return [dict(content=content, dimensions=[dimension], memory_type="persona", priority=80)]


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""
WAYS = {
    "pool": "def extract(self, conversation, ctx):\n        if ctx.case_id == 'stuck':\n"
    "            POOL.submit(block).result()\n        return self.answer(conversation)",
    "thread": "def extract(self, conversation, ctx):\n        if ctx.case_id == 'stuck':\n"
    "            in_a_thread()\n        return self.answer(conversation)",
    "async-pool": "async def extract(self, conversation, ctx):\n        if ctx.case_id == 'stuck':\n"
    "            await asyncio.get_running_loop().run_in_executor(POOL, block)\n"
    "        return self.answer(conversation)",
}


@pytest.fixture(params=WAYS)
def stuck(project: Project, request: pytest.FixtureRequest) -> Project:
    project.write("conftest.py", ENGINE.format(method=WAYS[request.param], seconds=STUCK))
    project.cases([*good_cases(3), {**good_cases(1)[0], "case_id": "stuck"}])
    return project


def name_of(project: Project) -> str:
    return "own-thread" if "in_a_thread()\n" in project.path.joinpath("conftest.py").read_text() else "ThreadPool"


@POSIX_ONLY
@SENT
def test_an_interrupt_ends_the_process_without_them(stuck: Project, mode: tuple[str, ...], to_all: bool):
    with Run(stuck, "-q", *mode, "cases") as run:
        run.wait_for(lambda: have_arrived(stuck, "eval-001", "eval-002", "eval-003"))
        run.wait_for(lambda: stuck.path.joinpath("blocks").exists())
        run.interrupt(to_all=to_all)
        said = run.ends(within=8.0)  # two seconds on an idle machine
    assert "ends without 1 thread(s) that cases have left at something: " + name_of(stuck) in said
    assert stuck.report()["counts"]["scored"] == 3
    # What is to be done at Python's end is done.
    assert len(list(stuck.path.glob("left-*"))) == (3 if mode else 1)


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
def test_a_time_limit_ends_the_process_without_them(stuck: Project, mode: tuple[str, ...]):
    with Run(stuck, "-q", *mode, "--memeval-timeout", "0.5", "cases") as run:
        began = time.monotonic()
        said = run.said()
    assert time.monotonic() - began < STUCK / 2
    assert run.process.returncode == pytest.ExitCode.TESTS_FAILED
    assert "ends without 1 thread(s)" in said
    assert (stuck.report()["counts"]["scored"], stuck.report()["counts"]["errored"]) == (3, 1)


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
def test_a_thread_that_nobody_has_cut_off_is_waited_for(project: Project, mode: tuple[str, ...]):
    method = (
        "def extract(self, conversation, ctx):\n        if ctx.case_id == 'stuck':\n"
        "            threading.Thread(target=self.later, daemon=False).start()\n"
        "        return self.answer(conversation)\n\n"
        "    def later(self):\n        time.sleep(3)\n        HERE.joinpath('done').touch()"
    )
    project.write("conftest.py", ENGINE.format(method=method, seconds=STUCK))
    project.cases([*good_cases(3), {**good_cases(1)[0], "case_id": "stuck"}])
    with Run(project, "-q", *mode, "cases") as run:
        said = run.said()
    assert run.process.returncode == pytest.ExitCode.OK, said
    assert project.path.joinpath("done").exists()
    assert "ends without" not in said


@POSIX_ONLY
def test_a_program_that_called_pytest_waits_for_its_threads(project: Project):
    """It goes on: whether it may end is its own affair."""
    method = WAYS["pool"]
    project.write("conftest.py", ENGINE.format(method=method, seconds=4))
    project.cases([*good_cases(3), {**good_cases(1)[0], "case_id": "stuck"}])
    program = "import pytest, sys; print('status', int(pytest.main(sys.argv[1:])), flush=True)"
    command = [sys.executable, "-c", program, "-q", "-p", "no:randomly", "--memeval-output", "out", "cases"]
    process = subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    until = time.monotonic() + 60
    while not project.path.joinpath("blocks").exists() and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[0].decode("utf-8")
    assert (process.returncode, "status 2" in said, "ends without" in said) == (0, True, False), said


KEEPS_GOING = """
import atexit
import time


def pytest_collection_finish(session):
    if hasattr(session.config, "workerinput"):
        atexit.register(time.sleep, 60)
        open("started-" + session.config.workerinput["workerid"], "w").close()
"""


DIES = """
import os


def pytest_runtest_setup(item):
    if item.name == "eval-002" and not os.path.exists("died"):
        open("died", "w").close()
        os._exit(3)
"""


@POSIX_ONLY
@pytest.mark.parametrize("before", ["", DIES], ids=["none-died", "one-died"])
def test_a_worker_that_does_not_end_by_itself_is_killed_soon(stuck: Project, before: str):
    stuck.path.joinpath("stays.py").write_text(KEEPS_GOING + before, encoding="utf-8")
    with Run(
        stuck, "-q", "-n", "2", "-p", "stays", "cases", env={"PYTHONPATH": os.pathsep.join([".", *sys.path])}
    ) as run:
        run.wait_for(lambda: stuck.path.joinpath("blocks").exists())
        run.wait_for(lambda: len(list(stuck.path.glob("started-*"))) == (3 if before else 2))
        run.wait_for(lambda: have_arrived(stuck, "eval-001", "eval-003"))
        run.interrupt(to_all=True)
        run.ends(within=8.0)
