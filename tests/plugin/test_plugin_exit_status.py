"""What pytest's exit status is, and that gates only ever turn 0 into 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

MISSED = "P0 l1.strict_match_rate > 1"
FAILING = {"expect": {"l1.memory_recall": "> 1"}}


@MODES
def test_a_broken_file_beside_a_good_one(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2), name="cases/good.yaml", gates=[MISSED])
    project.write("cases/bad.yaml", "cases: [\n")
    result = project.run(*mode)
    if not mode:
        assert result.ret == pytest.ExitCode.INTERRUPTED
        assert not (project.path / "out").exists()
        return
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert project.report()["counts"]["scored"] == 2


@MODES
def test_nothing_left_to_run(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2), gates=[MISSED])
    result = project.run("-k", "nothing_is_called_so", *mode)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "= memeval =" not in result.stdout.str()
    assert not (project.path / "out").exists()


@MODES
def test_an_unknown_case_id_or_file(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    known = pytest.ExitCode.NO_TESTS_COLLECTED if mode else pytest.ExitCode.USAGE_ERROR
    assert project.run("cases/v001.yaml::eval-999", *mode).ret == known
    if not mode:
        assert project.run("cases/none.yaml").ret == known
    assert not (project.path / "out").exists()


@MODES
def test_x_ends_the_run_and_leaves_p0_unmeasured(project: Project, mode: tuple[str, ...]) -> None:
    entries = [case(f"eval-{n:03}", "nap", truth=[]) for n in range(1, 31)]
    entries[1] |= FAILING
    project.cases(entries, gates=["P0 l1.memory_recall >= 0", "P1 l1.memory_recall >= 0"])
    result = project.run("-x", *mode)
    # pytest's own status stays as it is, and the summary does not claim to decide it.
    assert result.ret == (pytest.ExitCode.INTERRUPTED if mode else pytest.ExitCode.TESTS_FAILED)
    text = result.stdout.str()
    assert ("P0 gate unmeasured: exit status 1" in text) is (not mode)
    assert "P0 gate unmeasured" in text
    report = project.report()
    assert report["partial"] == "aborted"
    assert report["summary"]["passed_p0"] is False
    assert report["counts"]["not_run"] > 0
    assert report["counts"]["total"] == report["summary"]["total_cases"] == 30
    assert [gate["status"] for gate in report["gates"]] == ["unmeasured", "unmeasured"]
    assert {gate["level"]: gate["reason_id"] for gate in report["gates"]}["P0"] == "aborted"
    assert len(project.journal()) == len(report["per_case"])


def test_maxfail_reached_with_the_last_case_cuts_nothing_short(project: Project) -> None:
    entries = good_cases(3)
    entries[2] |= FAILING
    project.cases(entries, gates=["P0 l1.memory_recall >= 1"])
    assert project.run("--maxfail=1").ret == pytest.ExitCode.TESTS_FAILED
    report = project.report()
    assert report["partial"] is None
    assert report["summary"]["passed_p0"] is True


def test_pytest_exit_with_status_zero_is_no_success(project: Project) -> None:
    project.cases(good_cases(3))
    project.write(
        "conftest.py",
        """
        import pytest
        from line_engine import LineEngine

        @pytest.fixture(scope="session")
        def memeval_engine():
            return LineEngine()

        def pytest_runtest_setup(item):
            if item.name == "eval-002":
                pytest.exit("enough", returncode=0)
        """,
    )
    result = project.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert project.report()["partial"] == "aborted"
    result.stdout.fnmatch_lines(["*left no result: exit status 1"])


LEAVING = """
import sys
import pytest
from line_engine import LineEngine


def leave(how):
    if how == "pytest":
        pytest.exit("bye", returncode=0)
    sys.exit(0)


class Engine(LineEngine):
    def extract(self, conversation, ctx):
        if conversation[0].content.startswith("identity: number 2 ") and "extract" == "WHERE":
            leave("HOW")
        return super().extract(conversation, ctx)


class AsyncEngine(Engine):
    concurrent = True

    async def extract(self, conversation, ctx):
        return Engine.extract(self, conversation, ctx)


def match(predicted, truth):
    if "match" == "WHERE" and any("number 2 " in text for text in truth):
        leave("HOW")
    return [(0, 0, 1.0)]


def metric(case, outputs):
    if "metric" == "WHERE" and case.case_id == "eval-002":
        leave("HOW")
    return 1
"""


@MODES
@pytest.mark.parametrize("how", ["pytest", "sys"])
@pytest.mark.parametrize("where", ["extract", "async extract", "match", "metric"])
def test_an_exit_of_what_is_measured_is_an_error_of_its_case(
    project: Project, where: str, how: str, mode: tuple[str, ...]
) -> None:
    project.cases(good_cases(3))
    project.write("leaving.py", LEAVING.replace("WHERE", where.removeprefix("async ")).replace("HOW", how))
    project.write("conftest.py", "")
    engine = "AsyncEngine" if where.startswith("async") else "Engine"
    result = project.run(
        *("--memeval-engine", f"leaving:{engine}", "--memeval-matcher", "leaving:match"),
        *("--memeval-metric", "leaving:metric", *mode),
        fresh=True,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, errors=1)
    assert project.outcomes() == {"eval-001": "scored", "eval-002": "errored", "eval-003": "scored"}
    (error,) = next(entry for entry in project.report()["per_case"] if entry["case_id"] == "eval-002")["errors"]
    assert error["kind"] == ("metric_exception" if where == "metric" else "engine_exception")
    assert error["message"].startswith("Exit: bye" if how == "pytest" else "SystemExit: 0")


@pytest.mark.parametrize("gate", [(), ("--memeval-no-gate",)], ids=["gates", "no-gate"])
def test_a_case_that_gets_lost_between_processes_fails_the_run(project: Project, gate: tuple[str, ...]) -> None:
    project.cases(good_cases(4), gates=["P0 l1.memory_recall >= 1"])
    project.write(
        "conftest.py",
        """
        import pytest
        from line_engine import LineEngine

        @pytest.fixture(scope="session")
        def memeval_engine():
            return LineEngine()

        @pytest.hookimpl(trylast=True)
        def pytest_sessionstart(session):
            for plugin in session.config.pluginmanager.get_plugins():
                if type(plugin).__name__ == "WorkerInteractor":
                    plugin.sendevent = lossy(plugin.sendevent)

        def lossy(send):
            def sendevent(name, **given):
                if name == "testreport" and given["data"]["nodeid"].endswith("eval-002"):
                    # Nothing that another process could be sent.
                    given["data"]["object"] = object()
                send(name, **given)

            return sendevent
        """,
    )
    result = project.run("-n", "2", *gate)
    counts = project.report()["counts"]
    assert counts["not_run"] > 0, result.stdout.str()
    assert counts["total"] == 4
    # xdist itself may notice, and ends with an internal error then.
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERNAL_ERROR)


@MODES
def test_a_failure_and_an_error_stay_one_whatever_the_gates_say(project: Project, mode: tuple[str, ...]) -> None:
    entries = [*good_cases(8), case("bad", "raise", truth=[])]
    entries[0] |= FAILING
    project.cases(entries)
    result = project.run("--memeval-no-gate", *mode)
    result.assert_outcomes(passed=7, failed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("option", ["--fixtures", "--fixtures-per-test", "--collect-only", "--setup-plan"])
def test_a_run_that_only_shows_what_there_is_evaluates_no_gates(project: Project, option: str) -> None:
    project.cases(good_cases(2), gates=["P0 l1.dimension_micro_f1 >= 0.9"])
    result = project.run(option, "-q")
    assert result.ret == 0
    assert "P0" not in result.stdout.str()
    assert not (project.path / "out").exists()
