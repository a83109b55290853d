"""Every finished run is a row of the history, unless that is switched off."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_project import MODES, Project, good_cases

from pytest_memeval.history.store import HISTORY_NAME, History


def rows(project: Project) -> list[str]:
    return [row.run_id for row in History(project.path / "cache").rows()]


@MODES
def test_a_finished_run_is_a_row(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(3))
    project.run("--memeval-cache-dir", "cache", *mode).assert_outcomes(passed=3)
    [row] = History(project.path / "cache").rows()
    assert row.run_id == project.report()["run_id"]
    assert row.metrics["l1.dimension_micro_f1"][0] == 1
    assert (row.engine, row.project) == ("lines 1", str(project.path))
    assert row.folder == str(project.path / "out")


def test_switched_off_on_the_command_line_and_in_the_ini(project: Project) -> None:
    project.cases(good_cases(1))
    project.run("--memeval-cache-dir", "cache", "--memeval-no-history")
    project.write("pytest.ini", "[pytest]\nmemeval_no_history = true\nmemeval_cache_dir = cache\n")
    project.run()
    assert not (project.path / "cache" / HISTORY_NAME).exists()


def test_a_run_cut_short_is_no_finished_run(project: Project) -> None:
    cases = good_cases(3)
    cases[0]["conversation"][0]["content"] = "raise"
    project.cases(cases)
    project.run("--memeval-cache-dir", "cache", "-x")
    assert rows(project) == []
    project.run("--memeval-cache-dir", "cache", "-k", "eval-002")
    [row] = History(project.path / "cache").rows()
    assert row.partial == "selected"


def test_a_history_that_cannot_be_written_costs_nothing(project: Project) -> None:
    project.cases(good_cases(1))
    folder = project.path / "cache"
    folder.mkdir()
    (folder / HISTORY_NAME).write_text("no database, but long enough to be taken for one" * 5, encoding="utf-8")
    result = project.run("--memeval-cache-dir", "cache")
    assert result.ret == pytest.ExitCode.OK
    assert f"it was set aside as {HISTORY_NAME}.damaged-1" in result.stdout.str()
    assert len(rows(project)) == 1
    (folder / HISTORY_NAME).unlink()
    Path(folder / HISTORY_NAME).mkdir()
    result = project.run("--memeval-cache-dir", "cache")
    assert result.ret == pytest.ExitCode.OK
    assert "The history was not written" in result.stdout.str()
