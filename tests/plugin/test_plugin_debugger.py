"""``--pdb``: it opens where an engine failed, and whoever leaves it has a report of what ran."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from plugin_project import case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

ENGINE = """
import pytest
from line_engine import LineEngine


class Failing(LineEngine):
    {keyword} extract(self, conversation, ctx):
        local_of_engine = 6 * 7
        if ctx.case_id == "bad":
            raise RuntimeError("boom")
        return [
            {{"content": "x", "dimensions": ["identity"], "memory_type": "persona", "priority": 80,
              "time_velocity": "static"}}
        ]


@pytest.fixture(scope="session")
def memeval_engine():
    return Failing()
"""


def debug(project: Project, typed: str, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--pdb", "--memeval-output", "out", *options]
    done = subprocess.run(
        command, cwd=project.path, input=typed, capture_output=True, text=True, encoding="utf-8", timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("keyword", ["def", "async def"], ids=["plain", "async"])
@pytest.mark.parametrize("options", [(), ("--memeval-trials", "2")], ids=["once", "trials"])
def test_it_opens_in_the_engine_and_the_error_counts(project: Project, keyword: str, options: tuple[str, ...]) -> None:
    project.write("conftest.py", ENGINE.format(keyword=keyword))
    one = [("identity", "x")]
    project.cases([case("c1", "a", truth=one), case("bad", "b", truth=one), case("c3", "c", truth=one)])
    status, text = debug(project, "p local_of_engine\nq\n", *options)
    assert status == pytest.ExitCode.INTERRUPTED, text
    assert "(Pdb) 42" in text
    assert "boom" in text
    report = project.report()
    assert report["counts"] == {"scored": 1, "errored": 1, "skipped": 0, "not_run": 1, "total": 3}
    assert project.outcomes() == {"c1": "scored", "bad": "errored"}
    assert project.journal() == ["cases/v001.yaml::c1", "cases/v001.yaml::bad"]


def test_whoever_goes_on_has_the_whole_run(project: Project) -> None:
    project.write("conftest.py", ENGINE.format(keyword="async def"))
    one = [("identity", "x")]
    project.cases([case("c1", "a", truth=one), case("bad", "b", truth=one), case("c3", "c", truth=one)])
    status, text = debug(project, "c\n")
    assert status == pytest.ExitCode.TESTS_FAILED, text
    assert project.report()["counts"] == {"scored": 2, "errored": 1, "skipped": 0, "not_run": 0, "total": 3}
    assert project.journal() == [f"cases/v001.yaml::{name}" for name in ("c1", "bad", "c3")]


def test_a_missed_expectation_has_been_measured(project: Project) -> None:
    bad = case("bad", "identity: x", truth=[("identity", "other")])
    project.cases([{**bad, "expect": {"l1.memory_recall": ">= 0.9"}}, *good_cases(1)])
    status, text = debug(project, "q\n")
    assert status == pytest.ExitCode.INTERRUPTED, text
    assert project.outcomes() == {"bad": "scored"}
    assert project.report()["counts"]["not_run"] == 1


def test_a_hand_written_test_that_fails_has_been_measured(project: Project) -> None:
    project.cases(good_cases(1))
    project.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
        def test_it(memeval_l1):
            assert memeval_l1.output == "something else"

        def test_other():
            pass
        """,
    )
    status, text = debug(project, "q\n", "test_own.py")
    assert status == pytest.ExitCode.INTERRUPTED, text
    (entry,) = project.report()["per_case"]
    assert entry["case_id"] == "eval-001"
    assert entry["outcome"] == "scored"  # what failed is the test, not the measurement
    assert entry["l1"] is not None
