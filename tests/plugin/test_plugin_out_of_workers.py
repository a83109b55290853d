"""Workers that die, and no others take their places: what is said of the cases that may have killed them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from interrupted_runs import KILLER, POSIX_ONLY
from plugin_project import case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

#: What becomes of the second worker while it collects.
SECOND = """

def pytest_collection(session):
    if getattr(session.config, "workerinput", {{}}).get("workerid") == "gw1":
        {end}
"""
FIRST_WORKER = 'os.environ["PYTEST_XDIST_WORKER"] == "gw0"'
SAID = (
    "worker 'gw0' crashed while running 'cases/v001.yaml::eval-001'; up to {most} other case(s) were under way in it"
    " ahead of their turn, of which one may have killed it, and {end} to run them one by one"
)


def killing(project: Project, *, rest: int, second: str = "pass") -> None:
    project.write("conftest.py", KILLER.format(first=FIRST_WORKER, waits=60) + SECOND.format(end=second))
    first, *others = good_cases(1 + rest)
    project.cases([first, case("dead", "x", truth=[]), *others], gates=["P0 l1.memory_recall >= 0"])


def errors(project: Project) -> dict[str, dict[str, Any]]:
    return {entry["case_id"]: entry["error"] for entry in project.report()["per_case"] if entry["error"]}


def assert_told_once(project: Project) -> None:
    """Terminal aside: JUnit's file has each case once, as the report and the journal have."""
    root = ElementTree.parse(project.path / "junit.xml").getroot()
    told = {element.get("name"): element.find("error") is not None for element in root.iter("testcase")}
    outcomes = project.outcomes()
    assert told == {name: outcome == "errored" for name, outcome in outcomes.items()}
    assert len(list(root.iter("testcase"))) == len(project.journal()) == len(outcomes)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("rest", "most"), [(6, 3), (1, 2)])
def test_where_no_worker_is_left_the_case_at_hand_is_an_error_that_names_the_doubt(
    project: Project, rest: int, most: int
) -> None:
    killing(project, rest=rest)
    result = project.run("-n", "1", "--max-worker-restart", "0", "--memeval-concurrency", "4", "--junitxml=junit.xml")
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "rerun" not in result.parseoutcomes()
    message = SAID.format(most=most, end="no worker was left")
    assert errors(project) == {"eval-001": {"stage": "worker", "kind": "worker_crashed", "message": message}}
    lines = ["*cases/v001.yaml:3: ?worker? worker_crashed: worker 'gw0'*", "ERROR cases/v001.yaml::eval-001*"]
    result.stdout.fnmatch_lines(lines)
    report = project.report()
    assert report["partial"] == "aborted"
    assert report["counts"] == {"scored": 0, "errored": 1, "skipped": 0, "not_run": rest + 1, "total": rest + 2}
    assert [gate["status"] for gate in report["gates"]] == ["unmeasured"]
    assert report["run_notes"] == [
        "1 case(s) errored because their worker process died",
        f"{rest + 1} case(s) were not run because their workers died and no more were started (--max-worker-restart)",
    ]
    assert_told_once(project)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("reruns", [(), ("--reruns", "1")], ids=["once", "reruns"])
def test_nobody_is_doubted_where_nothing_else_was_under_way(project: Project, reruns: tuple[str, ...]) -> None:
    project.cases([case("dead", "die", truth=[]), *good_cases(3)])
    options = ("--max-worker-restart", "0", "--memeval-concurrency", "1", "--junitxml=junit.xml")
    result = project.run("-n", "1", *options, *reruns)
    # Whoever has it run again cannot know that nobody comes to it.
    result.assert_outcomes(errors=1)
    assert "rerun" not in result.parseoutcomes()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (error,) = errors(project).values()
    assert error["message"] == "worker 'gw0' crashed while running 'cases/v001.yaml::dead'"
    assert (project.report()["partial"], project.report()["counts"]["not_run"]) == ("aborted", 3)
    assert_told_once(project)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("second", "limit", "said", "status"),
    [
        ("os._exit(3)", "1", "no worker was left", pytest.ExitCode.TESTS_FAILED),
        ("raise KeyboardInterrupt", "3", "the run ended before there was one", pytest.ExitCode.INTERRUPTED),
    ],
    ids=["dies", "ends"],
)
def test_a_case_that_never_comes_to_its_second_turn_is_an_error(
    project: Project, second: str, limit: str, said: str, status: pytest.ExitCode
) -> None:
    killing(project, rest=6, second=second)
    options = ("--memeval-concurrency", "4", "--junitxml=junit.xml")
    result = project.run("-n", "1", "--max-worker-restart", limit, *options)
    result.assert_outcomes(errors=1)
    assert result.ret == status
    assert "rerun" not in result.parseoutcomes()
    message = SAID.format(most=3, end=said)
    assert errors(project) == {"eval-001": {"stage": "worker", "kind": "worker_crashed", "message": message}}
    result.stdout.fnmatch_lines(["ERROR cases/v001.yaml::eval-001*"])
    assert (project.report()["partial"], project.report()["counts"]["not_run"]) == ("aborted", 7)
    assert_told_once(project)


@pytest.mark.timeout(120)
def test_a_case_that_is_run_again_by_the_last_worker_is_none(project: Project) -> None:
    """The second worker finds out which one it was, and is the last."""
    killing(project, rest=6)
    result = project.run("-n", "1", "--max-worker-restart", "1", "--memeval-concurrency", "4", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*1 rerun*"])
    assert {name: error["message"] for name, error in errors(project).items()} == {
        "dead": "worker 'gw1' crashed while running 'cases/v001.yaml::dead'"
    }
    assert (project.report()["partial"], project.report()["counts"]["not_run"]) == ("aborted", 6)
    assert_told_once(project)


@pytest.mark.timeout(120)
@POSIX_ONLY
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_no_file_is_read_for_a_doubt_while_somebody_waits(project: Project, *, large: bool) -> None:
    """Ctrl-C at a case's second turn: a run with many cases has seconds to read of its file who it was."""
    killing(project, rest=6, second="os.kill(os.getppid(), 2) or __import__('time').sleep(30)")
    if large:
        with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
            file.write("\n\nimport pytest_memeval.hooks.run_end as own\n\nown.FREEZE_FROM = 5\n")
    result = project.run("-n", "1", "--max-worker-restart", "3", "--memeval-concurrency", "4", fresh=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    count = 7 + large
    result.stdout.fnmatch_lines(["The run was cut short; *", f"{count} selected case(s) left no result."])
    assert result.parseoutcomes().get("errors", 0) == (not large)
    if not large:
        counts = {"scored": 0, "errored": 1, "skipped": 0, "not_run": 7, "total": 8}
        assert (project.report()["partial"], project.report()["counts"]) == ("aborted", counts)
