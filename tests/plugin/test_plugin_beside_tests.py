"""No case is under way beside an ordinary test, or beside a fixture of the project's: both have the process for their
own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case

if TYPE_CHECKING:
    from plugin_project import Project

#: An engine that speaks and warns all the time, and says in which environment.
CONFTEST = """
import asyncio
import logging
import os
import warnings

import pytest


class Engine:
    name = "speaking"
    version = "1"

    async def extract(self, conversation, ctx):
        for step in range(40):
            print("printed by", ctx.case_id)
            logging.getLogger("engine").warning("logged by %s", ctx.case_id)
            warnings.warn(f"warned of by {ctx.case_id}")
            with open("saw.txt", "a", encoding="utf-8") as file:
                file.write(f"{ctx.case_id} {os.environ.get('TENANT')}\\n")
            await asyncio.sleep(0.01)
        return []


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()


@pytest.fixture
def tenant(monkeypatch):
    monkeypatch.setenv("TENANT", "the test's")
"""
#: What tests do to the whole process for as long as they run.
TESTS = '''
"""
>>> import time
>>> print("mine"); time.sleep(0.05)
mine
"""

import contextlib
import io
import logging
import sys
import time
import unittest
import warnings

import pytest


def test_output_redirected():
    with contextlib.redirect_stdout(io.StringIO()) as output:
        print("mine")
        time.sleep(0.05)
    assert output.getvalue() == "mine\\n"


def test_output_replaced(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    print("mine")
    time.sleep(0.05)
    assert sys.stdout.getvalue() == "mine\\n"


def test_warnings_recorded_by_a_fixture(recwarn):
    time.sleep(0.05)
    assert recwarn.list == []


def test_warnings_recorded_by_a_block():
    with pytest.warns(UserWarning) as caught:
        warnings.warn("mine")
        time.sleep(0.05)
    assert [str(one.message) for one in caught.list] == ["mine"]


def test_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        time.sleep(0.05)


def test_warnings_are_as_pytest_has_them():
    assert {type(message).__name__ for _, message, *_ in warnings.filters} <= {"NoneType", "str", "Pattern"}


def test_environment(tenant):
    time.sleep(0.05)


class TestLogs(unittest.TestCase):
    def test_records(self):
        with self.assertLogs("engine") as seen:
            logging.getLogger("engine").warning("mine")
            time.sleep(0.05)
        assert seen.output == ["WARNING:engine:mine"]
'''


@MODES
def test_an_ordinary_test_has_the_process_for_its_own(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", CONFTEST)
    project.write("pytest.ini", "[pytest]\naddopts = --doctest-modules\n")
    project.cases([case(f"a{number}", "x", truth=[]) for number in range(4)], name="cases/a.yaml")
    project.write("cases/test_middle.py", TESTS)
    project.cases([case(f"z{number}", "x", truth=[]) for number in range(16)], name="cases/z.yaml")
    result = project.run("cases", *mode, fresh=True)
    result.assert_outcomes(passed=20 + 9, warnings=20)
    assert set(project.outcomes().values()) == {"scored"}
    saw = (project.path / "saw.txt").read_text(encoding="utf-8").splitlines()
    assert {line.partition(" ")[2] for line in saw} == {"None"}


@pytest.mark.parametrize("name", ["b3", "b0", "b7"])
@MODES
def test_a_case_with_a_fixture_has_the_process_for_its_own(project: Project, mode: tuple[str, ...], name: str) -> None:
    hook = f"""
def pytest_itemcollected(item):
    if item.name == "{name}":
        item.fixturenames = ["tenant", *item.fixturenames]
"""
    project.write("conftest.py", CONFTEST + hook)
    project.cases([case(f"b{number}", "x", truth=[]) for number in range(8)])
    project.run("--memeval-concurrency", "2", *mode, fresh=True).assert_outcomes(passed=8, warnings=8)
    saw = set((project.path / "saw.txt").read_text(encoding="utf-8").splitlines())
    assert {line for line in saw if not line.endswith(" None")} == {f"{name} the test's"}
