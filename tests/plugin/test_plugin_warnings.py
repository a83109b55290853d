"""Warnings of cases in flight: shown, refused or ignored as if each case ran in its own item."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case

if TYPE_CHECKING:
    from plugin_project import Project

COUNT = 8
NAMES = [f"c{number}" for number in range(COUNT)]

#: An engine that warns all the time, and a pytest that takes its time between items.
WARNING = """
import asyncio
import time
import warnings

import pytest


class Engine:
    name = "warning"
    version = "1"

    async def extract(self, conversation, ctx):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("CAUGHT of all")
        assert [str(one.message) for one in caught] == ["CAUGHT of all"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("IGNORED of all")
        for step in range(10):
            warnings.warn(f"OWN of {ctx.case_id}")
            warnings.warn("SHARED of all")
            warnings.warn("OLD of all", DeprecationWarning)
            await asyncio.sleep(0.01)
        return []


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()


def pytest_runtest_logreport(report):
    time.sleep(0.02)


def pytest_configure(config):
    global IS_WORKER
    IS_WORKER = hasattr(config, "workerinput")


def pytest_warning_recorded(warning_message, nodeid):
    if not IS_WORKER:
        text = f"{nodeid.rpartition('::')[2]}|{warning_message.category.__name__}|{warning_message.message}\\n"
        with open("recorded.txt", "a") as file:
            file.write(text)


MARKS = {}


def pytest_collection_modifyitems(items):
    for item in items:
        for mark in MARKS.get(item.name, ()):
            item.add_marker(pytest.mark.filterwarnings(mark))
"""


def warning(project: Project, **marks: tuple[str, ...]) -> None:
    project.write("conftest.py", WARNING.replace("MARKS = {}", f"MARKS = {marks!r}"))
    project.cases([case(name, "x", truth=[]) for name in NAMES], name="cases/a.yaml")


def recorded(project: Project) -> Counter[tuple[str, ...]]:
    """(item, category, text) → how often pytest was told of it."""
    lines = (project.path / "recorded.txt").read_text(encoding="utf-8").splitlines()
    return Counter(tuple(line.split("|")) for line in lines)


def expected(
    *, own: Collection[str] = NAMES, shared: Collection[str] = NAMES, old: int = 10
) -> Counter[tuple[str, ...]]:
    """What is shown once a place, and what always."""
    found: Counter[tuple[str, ...]] = Counter()
    found.update((name, "UserWarning", f"OWN of {name}") for name in own)
    found.update((name, "UserWarning", "SHARED of all") for name in shared)
    found.update((name, "DeprecationWarning", "OLD of all") for name in shared or own for _ in range(old))
    return found


@pytest.mark.parametrize("limit", ["1", "8"])
@MODES
def test_each_warning_is_its_own_items(project: Project, mode: tuple[str, ...], limit: str) -> None:
    warning(project)
    result = project.run("--memeval-concurrency", limit, *mode, fresh=True)
    result.assert_outcomes(passed=COUNT, warnings=COUNT * 12)
    assert recorded(project) == expected()
    assert "Warning" not in result.stderr.str()


@pytest.mark.parametrize("limit", ["1", "8"])
def test_filters_of_the_run_hold_at_any_time(project: Project, limit: str) -> None:
    warning(project)
    options = ("-W", "ignore:SHARED", "-W", "once::DeprecationWarning", "--memeval-concurrency", limit)
    result = project.run(*options, fresh=True)
    result.assert_outcomes(passed=COUNT, warnings=COUNT * 2)
    assert recorded(project) == expected(shared=(), old=1)


@pytest.mark.parametrize("limit", ["1", "8"])
@MODES
def test_an_error_is_one_where_it_is_raised(project: Project, mode: tuple[str, ...], limit: str) -> None:
    warning(project)
    project.write("pytest.ini", "[pytest]\nfilterwarnings =\n    error\n    ignore:OWN\n    ignore:OLD\n")
    result = project.run("--memeval-concurrency", limit, *mode, fresh=True)
    result.assert_outcomes(errors=COUNT)
    for entry in project.report()["per_case"]:
        (error,) = entry["errors"]
        assert (error["stage"], error["kind"]) == ("l1", "engine_exception")
        assert "UserWarning: SHARED of all" in error["message"]


@pytest.mark.parametrize("limit", ["1", "8"])
@MODES
def test_marks_hold_for_their_own_items(project: Project, mode: tuple[str, ...], limit: str) -> None:
    silent = ("ignore::UserWarning", "ignore::DeprecationWarning")
    warning(project, c0=("error:OWN",), c2=silent, c5=("error:SHARED", "ignore:OLD"))
    result = project.run("--memeval-concurrency", limit, *mode, fresh=True)
    result.assert_outcomes(passed=COUNT - 2, errors=2)
    assert {name for name, outcome in project.outcomes().items() if outcome == "errored"} == {"c0", "c5"}
    # c0 is refused at its first warning, c5 at its second one.
    others = set(NAMES) - {"c0", "c2", "c5"}
    assert recorded(project) == expected(own=others | {"c5"}, shared=others)


def test_a_test_between_them_is_asked_nothing_and_learns_nothing(project: Project) -> None:
    warning(project)
    project.write(
        "cases/test_middle.py",
        """
        import time
        import warnings

        import pytest

        @pytest.mark.filterwarnings("error")
        def test_strict():
            time.sleep(0.05)
            with pytest.raises(UserWarning):
                warnings.warn("mine")

        def test_shown():
            warnings.warn("OWN of mine")
            warnings.warn("OWN of mine")
        """,
    )
    project.cases([case(f"z{number}", "x", truth=[]) for number in range(4)], name="cases/z.yaml")
    result = project.run(fresh=True)
    result.assert_outcomes(passed=COUNT + 6)
    found = recorded(project)
    # Two places of one test.
    assert found["test_shown", "UserWarning", "OWN of mine"] == 2
    assert {key for key in found if key[0].startswith("test_")} == {("test_shown", "UserWarning", "OWN of mine")}
    assert all(found[f"z{number}", "UserWarning", f"OWN of z{number}"] == 1 for number in range(4))


def test_nothing_is_left_behind_in_the_process(project: Project) -> None:
    import warnings

    warning(project)
    before = list(warnings.filters), warnings._showwarnmsg_impl  # type: ignore[attr-defined]  # what is looked after
    project.run().assert_outcomes(passed=COUNT)
    assert (list(warnings.filters), warnings._showwarnmsg_impl) == before  # type: ignore[attr-defined]  # the same


def test_without_pytests_own_plugin_they_are_printed(project: Project) -> None:
    warning(project)
    wanted = ("-o", "junit_logging=all", "--junitxml", "junit.xml", "-p", "no:warnings")
    project.run(*wanted, fresh=True).assert_outcomes(passed=COUNT)
    from xml.etree import ElementTree

    for test in ElementTree.parse(project.path / "junit.xml").iter("testcase"):
        assert re.findall(r"OWN of (\w+)$", test.findtext("system-err") or "", re.MULTILINE) == [test.attrib["name"]]


@pytest.mark.parametrize("limit", ["1", "8"])
def test_without_pytests_own_plugin_marks_ask_for_nothing(project: Project, limit: str) -> None:
    warning(project, c0=("error:OWN",), c5=("error:SHARED",))
    project.run("-p", "no:warnings", "--memeval-concurrency", limit, fresh=True).assert_outcomes(passed=COUNT)
