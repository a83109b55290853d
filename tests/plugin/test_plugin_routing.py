"""What cases in flight print, log and warn of belongs to their own items."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from plugin_project import MODES, case

if TYPE_CHECKING:
    from plugin_project import Project

COUNT = 8

#: An asynchronous engine that speaks all the time, and a pytest that takes its time between items.
SPEAKING = """
import asyncio
import logging
import sys
import time

import pytest

LOGGER = logging.getLogger("engine")


class Engine:
    name = "speaking"
    version = "1"

    async def extract(self, conversation, ctx):
        for step in range(20):
            print("OUT", ctx.case_id, step)
            print("ERR", ctx.case_id, step, file=sys.stderr)
            sys.stdout.buffer.write(f"BUF {ctx.case_id} {step}\\n".encode())
            LOGGER.info("LOG %s %d", ctx.case_id, step)
            await asyncio.sleep(0.01)
        return []


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()


def pytest_runtest_logreport(report):
    time.sleep(0.02)
"""


def speaking(project: Project) -> None:
    project.write("conftest.py", SPEAKING)
    names = [f"c{number}" for number in range(COUNT)]
    project.cases([case(name, "x", truth=[]) for name in names], name="cases/a.yaml")


def lines(text: str | None) -> dict[tuple[str, str], list[int]]:
    """(kind, case) → the numbers of its lines."""
    found: dict[tuple[str, str], list[int]] = {}
    for kind, name, step in re.findall(r"\b(OUT|ERR|BUF|LOG) (\w+) (\d+)\b", text or ""):
        found.setdefault((kind, name), []).append(int(step))
    return found


@MODES
@pytest.mark.parametrize("capture", ["fd", "sys"])
def test_nothing_that_cases_print_gets_lost_or_astray(project: Project, mode: tuple[str, ...], capture: str) -> None:
    speaking(project)
    wanted = ("-o", "junit_logging=all", "--junitxml", "junit.xml", "--log-level", "INFO")
    result = project.run(*wanted, "--capture", capture, *mode, fresh=True)
    result.assert_outcomes(passed=COUNT)
    assert lines(result.stdout.str() + result.stderr.str()) == {}
    tests = list(ElementTree.parse(project.path / "junit.xml").iter("testcase"))
    assert len(tests) == COUNT
    every = list(range(20))
    for test in tests:
        name = test.attrib["name"]
        assert lines(test.findtext("system-out")) == {(kind, name): every for kind in ("OUT", "BUF", "LOG")}, name
        assert lines(test.findtext("system-err")) == {("ERR", name): every}, name


def test_without_capture_it_goes_straight_to_the_terminal(project: Project) -> None:
    speaking(project)
    project.write(
        "cases/test_middle.py",
        """
        import time

        def test_output(capsys):
            print("mine")
            time.sleep(0.1)
            assert capsys.readouterr().out == "mine\\n"
        """,
    )
    project.cases([case(f"z{number}", "x", truth=[]) for number in range(4)], name="cases/z.yaml")
    result = project.run("-s", fresh=True)
    result.assert_outcomes(passed=COUNT + 5)
    every = list(range(20))
    text = result.stdout.str() + result.stderr.str()
    found = lines(text)
    assert {kind: steps for kind, steps in found.items() if kind[0] != "LOG"} == {
        (kind, name): every
        for kind in ("OUT", "ERR", "BUF")
        for name in [*(f"c{number}" for number in range(COUNT)), *(f"z{number}" for number in range(4))]
    }
    # At once: the second case speaks before the first one is through.
    assert text.index("OUT c1 0") < text.index("OUT c0 19")


def test_a_test_between_them_captures_its_own_output_alone(project: Project) -> None:
    speaking(project)
    project.write(
        "cases/test_middle.py",
        """
        import sys
        import time

        import pytest

        @pytest.mark.parametrize("capture", ["capsys", "capsysbinary"])
        def test_output(request, capture):
            captured = request.getfixturevalue(capture)
            print("mine")
            time.sleep(0.1)
            assert captured.readouterr().out in ("mine\\n", b"mine\\n")
        """,
    )
    project.cases([case(f"z{number}", "x", truth=[]) for number in range(4)], name="cases/z.yaml")
    project.run(fresh=True).assert_outcomes(passed=COUNT + 6)


def test_a_log_handler_of_the_project_gets_each_record_once(project: Project) -> None:
    speaking(project)
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write("\n\nLOGGER.addHandler(logging.FileHandler('engine.log'))\nLOGGER.setLevel('INFO')\n")
    project.run(fresh=True).assert_outcomes(passed=COUNT)
    found = lines((project.path / "engine.log").read_text(encoding="utf-8"))
    assert found == {("LOG", f"c{number}"): list(range(20)) for number in range(COUNT)}


#: An engine whose words come from threads of every sort.
THREADS = """
import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

LOGGER = logging.getLogger("engine")
SHARED = ThreadPoolExecutor(2)


class Engine:
    name = "threads"
    version = "1"

    async def extract(self, conversation, ctx):
        def speak(step):
            time.sleep(0.05)
            print(f"OUT {ctx.case_id} {step}\\n", end="")  # in one piece: two of the threads speak at once
            LOGGER.warning("LOG %s %d", ctx.case_id, step)

        loop = asyncio.get_running_loop()
        await asyncio.to_thread(speak, 0)
        await loop.run_in_executor(None, speak, 1)
        await loop.run_in_executor(SHARED, speak, 2)
        thread = threading.Thread(target=speak, args=(3,))
        thread.start()
        timer = threading.Timer(0, speak, (4,))
        timer.start()
        while thread.is_alive() or timer.is_alive():
            await asyncio.sleep(0.01)
        with ThreadPoolExecutor(1) as own:
            await loop.run_in_executor(own, speak, 5)
        raise RuntimeError("engine broke here")


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


@MODES
def test_threads_that_a_case_starts_speak_for_it(project: Project, mode: tuple[str, ...]) -> None:
    speaking(project)
    project.write("conftest.py", THREADS)
    wanted = ("-o", "junit_logging=all", "--junitxml", "junit.xml")
    project.run(*wanted, *mode, fresh=True).assert_outcomes(errors=COUNT)
    for test in ElementTree.parse(project.path / "junit.xml").iter("testcase"):
        name = test.attrib["name"]
        found = lines(test.findtext("system-out"))
        assert {key: sorted(steps) for key, steps in found.items()} == {
            ("OUT", name): list(range(6)),
            ("LOG", name): list(range(6)),
        }


@MODES
def test_what_a_thread_ends_with_is_its_cases_own(project: Project, mode: tuple[str, ...]) -> None:
    speaking(project)
    broken = "if ctx.case_id == 'c5': threading.Thread(target=broken).start()\n        for step in range(20):"
    text = SPEAKING.replace("for step in range(20):", broken).replace("import sys", "import sys\nimport threading")
    project.write("conftest.py", text + "\n\ndef broken():\n    raise ValueError('broke here')\n")
    result = project.run("-W", "error", *mode, fresh=True)
    result.assert_outcomes(passed=COUNT - 1, errors=1)
    result.stdout.fnmatch_lines(["ERROR cases/a.yaml::c5 - *UnhandledThreadException*"])


def test_nothing_is_left_when_the_end_of_the_session_breaks(project: Project) -> None:
    before = threading.Thread.start, dict(vars(sys.stdout)), logging.getLogger().level, list(warnings.filters)
    speaking(project)
    broken = "\n\n@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish():\n    raise ValueError('broke here')\n"
    project.write("conftest.py", SPEAKING + broken)
    result = project.run("--log-level", "INFO")
    assert "broke here" in result.stderr.str()
    after = threading.Thread.start, dict(vars(sys.stdout)), logging.getLogger().level, list(warnings.filters)
    assert after == before


#: An engine that redirects its output for some time, in threads or tasks.
REDIRECTING = """
import asyncio
import contextlib
import io
import random
import sys
import time

import pytest


def work(case_id):
    dice = random.Random(case_id)
    yield dice.random() / 30
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()) as errors:
        print("HIDDEN", case_id)
        yield 0.02 + dice.random() / 20
        print("HIDDEN", case_id)
        print("HIDDEN", case_id, file=sys.stderr)
    assert (output.getvalue(), errors.getvalue()) == (f"HIDDEN {case_id}\\n" * 2, f"HIDDEN {case_id}\\n")
    print("OUT", case_id, 0)


class Threads:
    name = "threads"
    version = "1"
    concurrent = True

    def extract(self, conversation, ctx):
        for pause in work(ctx.case_id):
            time.sleep(pause)
        return []


class Tasks:
    name = "tasks"
    version = "1"

    async def extract(self, conversation, ctx):
        for pause in work(ctx.case_id):
            await asyncio.sleep(pause)
        return []


@pytest.fixture(scope="session")
def memeval_engine():
    return ENGINE()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop():
    before = sys.stdout, sys.stderr
    result = yield
    assert (sys.stdout, sys.stderr) == before
    return result
"""


@pytest.mark.parametrize("engine", ["Threads", "Tasks"])
@pytest.mark.parametrize("capture", ["fd", "sys", "tee-sys", "no"])
def test_redirected_output_is_each_cases_own(project: Project, capture: str, engine: str) -> None:
    speaking(project)
    project.write("conftest.py", REDIRECTING.replace("ENGINE()", f"{engine}()"))
    mode = ("-n", "2") if capture == "fd" else ()
    wanted = ("-o", "junit_logging=all", "--junitxml", "junit.xml", "--capture", capture)
    result = project.run(*wanted, *mode, fresh=True)
    result.assert_outcomes(passed=COUNT)
    text = result.stdout.str() + result.stderr.str() + (project.path / "junit.xml").read_text(encoding="utf-8")
    assert "HIDDEN" not in text
    assert set(lines(text)) == {("OUT", f"c{number}") for number in range(COUNT)}


@pytest.mark.parametrize("raised", ["ValueError('broke here')", "SystemExit(3)", "pytest.exit.Exception('left')"])
def test_nothing_is_left_when_a_hook_breaks(project: Project, raised: str) -> None:
    """While cases are in blocks of their own, whose ends come when nobody waits for them any more."""

    def state() -> list[Any]:
        blocks = (warnings.catch_warnings, contextlib.redirect_stdout)
        methods = [getattr(block, name) for block in blocks for name in ("__enter__", "__exit__")]
        own = [getattr(warnings, name) for name in ("_showwarnmsg_impl", "_add_filter", "showwarning")]
        streams = [sys.stdout, sys.stderr, dict(vars(sys.stdout)), dict(vars(sys.stderr))]
        return [*methods, *own, *streams, threading.Thread.start, list(warnings.filters), logging.getLogger().level]

    speaking(project)
    text = WAITING.replace("RAISED", raised)
    project.write("conftest.py", text)
    before = state()
    result = project.run("-p", "no:warnings")
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert state() == before


WAITING = """
import asyncio
import contextlib
import io
import warnings

import pytest


class Engine:
    name = "waiting"
    version = "1"

    async def extract(self, conversation, ctx):
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            await asyncio.sleep(0.01 if ctx.case_id == "c0" else 30)
        return []


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()


def pytest_runtest_logreport(report):
    if report.when == "call":
        raise RAISED
"""
