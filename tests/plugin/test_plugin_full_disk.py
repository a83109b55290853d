"""A disk that takes no more: the run says which file could not be written, and all that it found."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from plugin_project import CONFTEST, MODES, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")

#: From the start of the tests on no file grows beyond a size, which is how a full disk looks to whoever writes.
FULL = """

import pytest
import resource

@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, hard))

def pytest_terminal_summary():
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
"""


@MODES
@pytest.mark.parametrize("name", ["journal", "report"])
def test_a_full_disk_costs_no_figures(project: Project, name: str, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(8), gates=["P0 l1.memory_recall >= 0.5"])
    assert project.run().ret == 0
    journal, report = ((project.path / "out" / file).stat().st_size for file in ("journal.jsonl", "report.json"))
    assert 8000 < journal < report - 2000
    size = journal - 500 if name == "journal" else report - 500
    project.write("conftest.py", CONFTEST + FULL.format(size=size))
    result = project.run(*mode, "--memeval-output", "full", "-p", "no:cacheprovider", fresh=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(
        [
            "8 cases: 8 scored, 0 errored, 0 skipped, 0 not run",
            "*P0 *l1.memory_recall *1.000 *passed",
            f"the report could not be written: *File too large: '*{name}*.json*'",
        ]
    )
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert not (project.path / "full" / "report.json").exists()


@MODES
def test_a_full_disk_costs_no_variants_figures(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", FULL.format(size=6000))
    project.cases(good_cases(8), gates=["P0 l1.memory_recall >= 0.5"])
    variants = ("--memeval-variant", "a=engine:line_engine:LineEngine", "--memeval-variant", "b=engine:reference")
    result = project.run(*variants, *mode, "-p", "no:cacheprovider", fresh=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["a: 8 *", "b: 8 *", "8 cases: *", "*P0 *l1.memory_recall *", "the report could not be written: *: '*'"]
    )
