"""What a run writes: the same from one process and from several, complete, in the right place, and nothing too much."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import MODES, case, good_cases, stable

if TYPE_CHECKING:
    from plugin_project import Project

OWN_SAMPLE = Path(__file__).parents[2] / "cases" / "v001_sample.yaml"
REPORT_FILES = {"calls.jsonl.gz", "journal.jsonl", "per_case.csv", "report.json", "report.md"}
REVERSER = """

import os


def pytest_collection_modifyitems(items):
    if os.environ.get("REVERSED"):
        items.reverse()
"""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# -- one report, however it was run --------------------------------------------------------------------------------


def four_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The reports of runs in one process and in two, each also in the opposite order."""
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(REVERSER)
    reports, order = [], []
    for number in range(4):
        monkeypatch.setenv("REVERSED", "yes" if number > 1 else "")
        project.run(*(("-n", "2") if number % 2 else ()))
        reports.append(project.report())
        order.append(project.journal())
        assert sorted(order[-1]) == [entry["node_id"] for entry in reports[-1]["per_case"]]
        shutil.rmtree(project.path / "out")
    assert order[2] == order[0][::-1]
    return reports


def test_f01_equal_reports_of_everything_that_can_happen(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        *good_cases(5),
        case("failing", "identity: x", expect={"l1.memory_recall": "> 1"}),
        case("exception", "raise", truth=[("identity", "x")]),
        case("output", "bad", truth=[("identity", "x")]),
        case("number", "nan", truth=[("identity", "x")]),
        case("labels", "no such thing+skills: x", truth=[("skills", "x")]),
        case("closed", "identity: x", tags=["slow"]),
        case("invalid", "identity: x", truth=[("identiti", "x")]),
    ]
    project.cases(entries, name="cases/b.yaml", gates=["P0 l1.memory_recall >= 0.5", "P1 l1.priority_mae <= 1"])
    project.cases(good_cases(3), name="cases/a.yaml", gates=["P0 l1.memory_recall >= 1"])
    first, *others = four_runs(project, monkeypatch)
    assert first["counts"] == {"scored": 11, "errored": 3, "skipped": 1, "not_run": 0, "total": 15}
    for other in others:
        assert stable(other) == stable(first)


def test_f01_equal_reports_of_the_whole_pipeline(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "conftest.py").unlink()
    project.path.joinpath("cases").mkdir()
    shutil.copy(OWN_SAMPLE, project.path / "cases" / "sample.yaml")
    first, *others = four_runs(project, monkeypatch)
    assert {"l1", "l15", "l2"} <= {name for name in first if first[name] is not None}
    assert first["usage"]["calls"] > 0
    for other in others:
        assert stable(other) == stable(first)


def test_f01_only_the_controller_writes(project: Project) -> None:
    project.cases(good_cases(6))
    project.write(
        "conftest.py",
        """
        import os
        import pytest
        from line_engine import LineEngine

        @pytest.fixture(scope="session")
        def memeval_engine():
            return LineEngine()

        def pytest_sessionfinish(session):
            if hasattr(session.config, "workerinput"):
                # Nothing but what came from the other process may be there.
                worker = os.environ["PYTEST_XDIST_WORKER"]
                found = sorted(os.listdir("out")) if os.path.isdir("out") else []
                with open(f"seen-{worker}", "w", encoding="utf-8") as file:
                    file.write("\\n".join(found))
        """,
    )
    project.run("-n", "2").assert_outcomes(passed=6)
    seen = [path.read_text(encoding="utf-8").split() for path in project.path.glob("seen-*")]
    assert len(seen) == 2
    assert all(len(files) <= 1 and all(name.startswith("journal-") for name in files) for files in seen)
    assert names(project.path / "out") == REPORT_FILES


# -- values that are no JSON ---------------------------------------------------------------------------------------

ODD_VALUES = """
import datetime
import decimal
import enum
import pathlib

import pytest


class Colour(enum.Enum):
    RED = "red"


class Engine:
    name = "odd"

    def extract(self, conversation, ctx):
        odd = {
            "enum": Colour.RED,
            "date": datetime.date(2024, 5, 1),
            "decimal": decimal.Decimal("1.5"),
            "path": pathlib.PurePosixPath("a/b"),
            "nan": float("nan"),
            "set": {2, 1},
            Colour.RED: object,
        }
        ctx.record("note", text="odd", **{str(key): value for key, value in odd.items()})
        return [{"content": "x", "dimensions": ["identity"], "extra": odd}]


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


@MODES
def test_f09_values_of_any_type_reach_the_report(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", ODD_VALUES)
    project.cases([case(f"c{n}", "x", truth=[("identity", "x")]) for n in range(3)])
    result = project.run(*mode)
    result.assert_outcomes(passed=3)
    assert "INTERNALERROR" not in result.stdout.str()
    for entry in project.report()["per_case"]:
        expected = {"enum": "red", "date": "2024-05-01", "decimal": 1.5, "path": "a/b", "set": [1, 2]}
        extra = entry["outputs"]["l1"][0]["extra"]
        (note,) = (fact for fact in entry["facts"] if fact["kind"] == "note")
        assert {key: extra[key] for key in expected} == expected
        assert {key: note[key] for key in expected} == expected
        assert (extra["nan"], note["nan"]) == ("NaN", None)
        assert "red" in extra


# -- places ----------------------------------------------------------------------------------------------------


@MODES
def test_without_an_output_option_each_run_has_a_folder(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    run = project.pytester.runpytest_inprocess
    for _ in range(2):
        assert run("-pno:randomly", "-pno:hypothesispytest", *mode).ret == 0
    home = project.path / ".memeval"
    runs = sorted((home / "runs").iterdir())
    assert len(runs) == 2
    assert all(names(folder) == REPORT_FILES for folder in runs)
    assert (home / "latest").read_text(encoding="utf-8") == f"runs/{runs[-1].name}\n"


def test_an_ini_path_is_relative_to_rootdir(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.cases(good_cases(1), name="cases/deep/a.yaml")
    project.write("pytest.ini", "[pytest]\nmemeval_output = reports\n")
    monkeypatch.chdir(project.path / "cases")
    project.pytester.runpytest_inprocess("-pno:randomly", "-pno:hypothesispytest")
    assert names(project.path / "reports") == REPORT_FILES
    # On the command line it is the current folder that counts.
    project.pytester.runpytest_inprocess("-pno:randomly", "-pno:hypothesispytest", "--memeval-output", "here")
    assert names(project.path / "cases" / "here") == REPORT_FILES


def test_an_older_runs_files_stay_until_this_one_is_complete(project: Project) -> None:
    project.cases(good_cases(2))
    project.run()
    project.cases(good_cases(3))
    project.write(
        "conftest.py",
        """
        import json
        import pathlib
        import pytest
        from line_engine import LineEngine

        class Looking(LineEngine):
            def extract(self, conversation, ctx):
                report = json.loads(pathlib.Path("out/report.json").read_text(encoding="utf-8"))
                lines = pathlib.Path("out/journal.jsonl").read_text(encoding="utf-8").splitlines()
                if len(report["per_case"]) != 2 or len(lines) != 2:
                    raise RuntimeError("the older run's files are gone")
                return super().extract(conversation, ctx)

        @pytest.fixture(scope="session")
        def memeval_engine():
            return Looking()
        """,
    )
    project.run().assert_outcomes(passed=3)
    assert len(project.report()["per_case"]) == len(project.journal()) == 3
    assert names(project.path / "out") == REPORT_FILES


@MODES
def test_a_test_that_changes_the_folder_moves_no_report(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    project.write("test_moves.py", "import os\n\ndef test_moves(tmp_path):\n    os.chdir(tmp_path)\n")
    run = project.pytester.runpytest_inprocess
    run("-pno:randomly", "-pno:hypothesispytest", *mode, "test_moves.py", "cases").assert_outcomes(passed=3)
    assert (project.path / ".memeval" / "latest").is_file()


@pytest.mark.parametrize("where", ["file", "locked"])
def test_a_folder_that_cannot_be_written_ends_the_run_before_it_starts(project: Project, where: str) -> None:
    project.cases(good_cases(3))
    project.write("blocked", "")
    target = "blocked/deeper" if where == "file" else "/proc/self/no-such-folder"
    result = project.run("--memeval-output", target)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --memeval-output: *"])


def test_a_folder_that_is_lost_meanwhile_fails_the_run_and_nothing_else(project: Project) -> None:
    project.cases(good_cases(3))
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.write(
        "conftest.py",
        conftest + "\n\ndef pytest_collection_finish(session):\n    open('late', 'w', encoding='utf-8').close()\n",
    )
    result = project.run("--memeval-output", "late/deeper")
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in result.stdout.str()
    result.stdout.fnmatch_lines(["the report could not be written: *"])


# -- databases -------------------------------------------------------------------------------------------------


@MODES
def test_kept_databases_can_be_read(project: Project, mode: tuple[str, ...]) -> None:
    (project.path / "conftest.py").unlink()
    texts = ["I live in Lisbon and I work as a nurse.", "I am allergic to peanuts and I own two cats."]
    project.cases([case(f"你好/{n} [x]", text, truth=[("identity", text)]) for n, text in enumerate(texts)])
    # An older run's databases give way; what is no case's does not.
    old = project.path / "out" / "databases"
    for name, files in {"old-case": ("memory.db", "wiki.db"), "mine": ("notes.txt",)}.items():
        (old / name).mkdir(parents=True)
        for file in files:
            (old / name / file).touch()
    result = project.run("--memeval-keep-db", *mode)
    result.assert_outcomes(passed=2)
    assert names(project.path / "out") == REPORT_FILES | {"databases"}
    folders = sorted(names(old) - {"mine"})
    assert len(folders) == 2
    assert all(name.startswith("cases_v001.yaml_") and name.isascii() for name in folders)
    assert names(old / "mine") == {"notes.txt"}
    for name in folders:
        with closing(sqlite3.connect(f"file:{old / name / 'memory.db'}?mode=ro", uri=True)) as database:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = {table: database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables}
        assert any(rows.values()), rows


def test_databases_of_a_run_with_a_folder_of_its_own(project: Project) -> None:
    project.cases(good_cases(1))
    project.pytester.runpytest_inprocess("-pno:randomly", "-pno:hypothesispytest", "--memeval-keep-db")
    (run,) = (project.path / ".memeval" / "runs").iterdir()
    assert names(run) == REPORT_FILES | {"databases"}
    assert [names(folder) for folder in (run / "databases").iterdir()] == [{"memory.db", "wiki.db"}]


# -- the terminal ----------------------------------------------------------------------------------------------


@MODES
def test_v_shows_each_cases_main_figure(project: Project, mode: tuple[str, ...]) -> None:
    project.cases([*good_cases(1), case("half", "identity: x", truth=[("identity", "x"), ("skills", "QQQQ 77777")])])
    text = project.run("-v", *mode).stdout.str()
    assert "PASSED l1 F1 1.00" in text
    assert "PASSED l1 F1 0.67" in text


@MODES
def test_progress_lines_of_a_long_run(project: Project, mode: tuple[str, ...]) -> None:
    project.cases([*good_cases(59), case("bad", "raise", truth=[])])

    def progress(*args: str) -> list[str]:
        return [line for line in project.run(*args, *mode).stdout.lines if line.startswith("memeval: ")]

    often = progress("--memeval-progress", "1e-9")
    assert often[0] == "memeval: 1 of 60 cases, 0 errored"
    assert len(often) == 60
    assert often[-1].startswith("memeval: 60 of 60 cases")
    # A run that is over before the first line is due needs none, and a quiet one wants none.
    assert progress() == []
    assert progress("--memeval-progress", "1e-9", "-q") == []


def test_the_job_summary_of_github_actions(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.cases(good_cases(1))
    summary = project.path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    project.run()
    assert summary.read_text(encoding="utf-8") == "before\n" + (
        (project.path / "out" / "report.md").read_text(encoding="utf-8") + "\n"
    )


@MODES
@pytest.mark.parametrize("variants", [(), ("--memeval-variant=a=engine:reference", "--memeval-variant=b=")])
def test_a_job_summary_that_cannot_be_written_is_all_that_is_missing(
    project: Project, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...], variants: tuple[str, ...]
) -> None:
    project.cases(good_cases(2))
    if variants:
        project.write("conftest.py", "")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path))  # a folder takes no lines, not even root's
    result = project.run(*variants, *mode, fresh=True)
    result.assert_outcomes(passed=4 if variants else 2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["report: out", f"the report could not be added to the job summary (GITHUB_STEP_SUMMARY): *'{project.path}'"]
    )
    assert "could not be written" not in result.stdout.str()
    assert project.report("out/b" if variants else "out")["counts"]["scored"] == 2


def test_an_engine_that_asks_no_model_is_not_judged_by_one(project: Project) -> None:
    project.cases(good_cases(1))
    assert "embedded" not in project.run().stdout.str()
    assert project.report()["model"] == {}


@pytest.mark.slow
@MODES
def test_two_thousand_cases(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2000), gates=["P0 l1.memory_recall >= 1"])
    code = (
        "import sys, resource, pytest\n"
        "status = pytest.main(sys.argv[1:])\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        "sys.exit(status)"
    )
    arguments = ("-pno:randomly", "-pno:hypothesispytest", "--memeval-output", "out", "-q", *mode)
    result = project.pytester.run(sys.executable, "-c", code, *arguments, timeout=120)
    assert result.ret == 0
    assert len(project.report()["per_case"]) == len(project.journal()) == 2000
    peak = next(int(line.split()[1]) for line in result.stdout.lines if line.startswith("peak"))
    unit = 1 if sys.platform == "darwin" else 1024
    assert peak * unit < 400 * 2**20
