"""An engine that does not come back from ``release`` holds nothing up for long, and the run says so once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, good_cases

import pytest_memeval

if TYPE_CHECKING:
    from plugin_project import Project

ENGINES = """
import asyncio
import sys
import time
from line_engine import LineEngine


class Noted(LineEngine):
    def note(self, ctx):
        with open("released", "a", encoding="utf-8") as file:
            file.write(ctx.case_id + "\\n")


class Sleeping(Noted):
    def release(self, ctx):
        self.note(ctx)
        time.sleep(300)


class AsyncSleeping(Noted):
    async def release(self, ctx):
        self.note(ctx)
        await asyncio.sleep(300)


class Blocking(Noted):
    async def release(self, ctx):
        self.note(ctx)
        time.sleep(300)


class Promising(Noted):
    def release(self, ctx):
        self.note(ctx)
        return asyncio.sleep(300)


class AllAsync(AsyncSleeping):
    concurrent = True

    async def extract(self, conversation, ctx):
        return LineEngine.extract(self, conversation, ctx)


class Leaving(Noted):
    def release(self, ctx):
        self.note(ctx)
        sys.exit(0)


class AsyncLeaving(Noted):
    async def release(self, ctx):
        self.note(ctx)
        sys.exit(0)


class Raising(Noted):
    def release(self, ctx):
        self.note(ctx)
        raise RuntimeError("no")


class TimingOut(Noted):
    async def release(self, ctx):
        self.note(ctx)
        raise TimeoutError("of its own")
"""

NOTE = "The engine's release() did not come back in time: {} time(s)."


def with_engine(project: Project, name: str, *options: str) -> pytest.RunResult:
    project.write("releasing.py", ENGINES)
    project.write("conftest.py", "")
    return project.run("--memeval-engine", f"releasing:{name}", "--memeval-timeout", "0.4", *options, fresh=True)


@MODES
@pytest.mark.parametrize("name", ["Sleeping", "AsyncSleeping", "Blocking", "Promising", "AllAsync"])
def test_a_release_that_does_not_come_back_is_given_up(project: Project, name: str, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(8))
    began = time.monotonic()
    result = with_engine(project, name, *mode)
    assert time.monotonic() - began < 60
    result.assert_outcomes(passed=8)
    assert result.ret == 0
    report = project.report()
    late = report["environment"]["releases_given_up"]
    # After three an engine is not asked again: it is one in each process.
    assert late == 3 if not mode else 2 <= late <= 6
    assert "stages_left_behind" not in report["environment"]
    assert len((project.path / "released").read_text(encoding="utf-8").split()) == late
    text = result.stdout.str()
    assert text.count(NOTE.format(late)) == 1
    assert "Traceback" not in text


@MODES
@pytest.mark.parametrize("name", ["Leaving", "AsyncLeaving", "Raising", "TimingOut"])
def test_what_a_release_raises_is_dropped(project: Project, name: str, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(5))
    result = with_engine(project, name, *mode)
    result.assert_outcomes(passed=5)
    assert result.ret == 0
    assert "releases_given_up" not in project.report()["environment"]
    assert len((project.path / "released").read_text(encoding="utf-8").split()) == 5
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize("name", ["Sleeping", "AsyncSleeping", "Blocking"])
def test_doctor_says_so(project: Project, name: str) -> None:
    import sys

    project.write("releasing.py", ENGINES)
    began = time.monotonic()
    done = project.pytester.run(
        sys.executable, "-m", "pytest_memeval", "doctor", "--engine", f"releasing:{name}", "--timeout", "0.5"
    )
    assert time.monotonic() - began < 30
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        ["FAILED  release*it did not come back within 0.5 s: stores stay open", "failed: release"]
    )


@pytest.mark.parametrize("name", ["Sleeping", "AsyncSleeping"])
def test_a_run_from_python_says_so(project: Project, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(project.path)
    project.write("releasing.py", ENGINES)
    monkeypatch.syspath_prepend(str(project.path))
    monkeypatch.delitem(__import__("sys").modules, "releasing", raising=False)
    project.cases(good_cases(5))
    report = pytest_memeval.run("cases", engine=f"releasing:{name}", timeout=0.4, output=Path("out"))
    assert report.passed
    assert project.report()["environment"]["releases_given_up"] == 3
