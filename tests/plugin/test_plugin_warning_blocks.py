"""``warnings.catch_warnings`` in cases in flight: each case's own, whenever another one's begins and ends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case

if TYPE_CHECKING:
    from plugin_project import Project

COUNT = 12
NAMES = [f"c{number}" for number in range(COUNT)]

#: An engine whose cases are in blocks of several kinds for different times, so that these overlap in any order, while
#: pytest goes from item to item.
CONFTEST = """
import asyncio
import random
import threading
import time
import warnings

import pytest


def work(case_id):
    dice = random.Random(case_id)
    warnings.filterwarnings("ignore", "SILENT")
    yield dice.random() / 50
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield dice.random() / 20
        warnings.warn(f"IGNORED of {case_id}")
        thread = threading.Thread(target=warnings.warn, args=(f"IGNORED in a thread of {case_id}",))
        thread.start()
        thread.join()
    warnings.warn(f"SHOWN of {case_id}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield dice.random() / 20
        for _ in range(2):
            warnings.warn(f"CAUGHT of {case_id}")
    assert [str(one.message) for one in caught] == [f"CAUGHT of {case_id}"] * 2
    with warnings.catch_warnings(action="error"):
        yield dice.random() / 20
        with pytest.raises(UserWarning, match=case_id):
            warnings.warn(f"RAISED of {case_id}")
        with warnings.catch_warnings():
            warnings.filterwarnings("default", "INNER")
            yield dice.random() / 50
            for _ in range(2):
                warnings.warn(f"INNER of {case_id}")
    warnings.warn(f"SILENT of {case_id}")
    with pytest.warns(UserWarning, match="TESTED") as caught:
        yield dice.random() / 20
        warnings.warn(f"TESTED of {case_id}")
    assert len(caught) == 1
    warnings.warn(f"LAST of {case_id}")


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


def pytest_configure(config):
    global IS_WORKER
    IS_WORKER = hasattr(config, "workerinput")


def pytest_runtest_logreport(report):
    time.sleep(0.005)


def pytest_warning_recorded(warning_message, nodeid):
    if not IS_WORKER:
        with open("recorded.txt", "a") as file:
            file.write(f"{nodeid.rpartition('::')[2]}|{warning_message.message}\\n")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop():
    parts = warnings, warnings.catch_warnings
    names = "filters", "showwarning", "_showwarnmsg_impl", "_add_filter"
    methods = "__enter__", "__exit__"

    def state():
        own = [getattr(warnings, name) for name in names]
        return [*own, list(warnings.filters), *(getattr(warnings.catch_warnings, name) for name in methods)]

    before = state()
    result = yield
    assert state() == before and warnings.filters is before[0]
    return result
"""


@pytest.mark.parametrize("engine", ["Threads", "Tasks"])
@pytest.mark.parametrize("limit", ["1", "8"])
@MODES
def test_blocks_are_each_cases_own(project: Project, mode: tuple[str, ...], limit: str, engine: str) -> None:
    project.write("conftest.py", CONFTEST.replace("ENGINE()", f"{engine}()"))
    project.cases([case(name, "x", truth=[]) for name in NAMES])
    result = project.run("--memeval-concurrency", limit, *mode, fresh=True)
    result.assert_outcomes(passed=COUNT, warnings=3 * COUNT)
    lines = (project.path / "recorded.txt").read_text(encoding="utf-8").splitlines()
    expected = {f"{name}|{what} of {name}": 1 for name in NAMES for what in ("SHOWN", "INNER", "LAST")}
    assert Counter(lines) == expected


@pytest.mark.parametrize("engine", ["Threads", "Tasks"])
def test_nothing_is_left_where_pytest_does_not_look_after_it(project: Project, engine: str) -> None:
    project.write("conftest.py", CONFTEST.replace("ENGINE()", f"{engine}()"))
    project.cases([case(name, "x", truth=[]) for name in NAMES])
    project.run("-p", "no:warnings", fresh=True).assert_outcomes(passed=COUNT)
