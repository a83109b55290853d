"""Workers that die, attempts that are run again, runs that somebody interrupts."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from interrupted_runs import KILLER, POSIX_ONLY, SENT, Run, have_arrived
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

#: An engine whose first attempt at a case that says "flaky" goes wrong, in whichever process it is made.
FLAKY = """
import pathlib

import pytest
from line_engine import LineEngine


class FlakyEngine(LineEngine):
    def extract(self, conversation, ctx):
        if "flaky" in conversation[0].content:
            tried = pathlib.Path(f"tried-{ctx.case_id}")
            if not tried.exists():
                tried.touch()
                raise RuntimeError("the first attempt")
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return FlakyEngine()
"""


def junit(project: Project, name: str = "junit.xml") -> dict[str, ElementTree.Element]:
    """Test cases of a JUnit file by name, of one that was tried again the last."""
    root = ElementTree.parse(project.path / name).getroot()
    return {element.get("name", ""): element for element in root.iter("testcase")}


def properties(element: ElementTree.Element) -> list[tuple[str, str]]:
    return [(item.get("name", ""), item.get("value", "")) for item in element.iter("property")]


# -- crashes ---------------------------------------------------------------------------------------------------


def test_the_case_of_a_worker_that_dies_is_errored_and_the_rest_goes_on(project: Project) -> None:
    entries = good_cases(6)
    resolution = {"actions": [{"new_memory_index": 0, "action": "store"}]}
    entries.insert(2, case("dead", "die", truth=[("identity", "x")], expected_l15=resolution))
    project.cases(entries, gates=["P0 l1.memory_recall >= 1"])
    result = project.run(
        "-n", "2", "--memeval-stages", "l1", "--junitxml", "junit.xml", "--html", "r.html", "--self-contained-html"
    )
    result.assert_outcomes(passed=6, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in result.stdout.str()
    result.stdout.fnmatch_lines(["*cases/v001.yaml:5: ?worker? worker_crashed: worker 'gw*' crashed while running*"])
    assert project.outcomes() == {"dead": "errored", **{f"eval-{n:03}": "scored" for n in range(1, 7)}}
    report = project.report()
    (dead,) = (entry for entry in report["per_case"] if entry["case_id"] == "dead")
    assert (dead["error"]["stage"], dead["error"]["kind"]) == ("worker", "worker_crashed")
    # Its stages are those that were selected, as if it had run.
    assert {stage: dead["stages"][stage] for stage in ("l1", "l15", "l2")} == {
        "l1": "void",
        "l15": "unselected",
        "l2": "no_truth",
    }
    assert report["gates"][0]["status"] == "unmeasured"
    assert report["run_notes"] == ["1 case(s) errored because their worker process died"]
    assert sorted(project.journal()) == sorted(entry["node_id"] for entry in report["per_case"])
    cases = junit(project)
    assert sorted(cases) == sorted(project.outcomes())
    assert cases["dead"].find("error") is not None
    page = (project.path / "r.html").read_text(encoding="utf-8")
    assert "col-testId\\&#34;&gt;cases/v001.yaml::dead::setup" in page


DISTS = pytest.mark.parametrize("dist", ["load", "worksteal", "loadscope", "loadfile", "loadgroup"])


@DISTS
def test_a_death_costs_one_case_however_items_are_shared_out(project: Project, dist: str) -> None:
    project.cases(
        [*good_cases(4), case("dead", "die", truth=[]), *(case(f"b{n}", f"identity: b{n}") for n in range(6))]
    )
    project.cases([case(f"c{n}", f"identity: c{n}") for n in range(4)], name="cases/other.yaml")
    result = project.run("-n", "2", "--dist", dist, "--junitxml", "junit.xml")
    result.assert_outcomes(passed=14, errors=1)
    assert "INTERNALERROR" not in result.stdout.str()
    report = project.report()
    assert report["counts"] == {"scored": 14, "errored": 1, "skipped": 0, "not_run": 0, "total": 15}
    assert report["run_notes"] == ["1 case(s) errored because their worker process died"]
    assert len(junit(project)) == 15
    assert sorted(project.journal()) == sorted(entry["node_id"] for entry in report["per_case"])


@pytest.mark.parametrize("chosen", [(), ("--dist", "worksteal"), ("--dist", "loadfile")], ids=lambda given: given[-1:])
def test_a_worker_that_dies_while_it_collects_costs_nothing(project: Project, chosen: tuple[str, ...]) -> None:
    project.cases(good_cases(6))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\ndef pytest_collection(session):\n    import os\n"
            "    if getattr(session.config, 'workerinput', {}).get('workerid') == 'gw1':\n        os._exit(1)\n"
        )
    result = project.run("-n", "2", *chosen)
    result.assert_outcomes(passed=6)
    assert result.ret == 0
    assert project.report()["counts"]["scored"] == 6


#: Kills the worker of a case once, before or after its last report has gone out.
DYING = """

def pytest_configure(config):
    global IN_WORKER
    IN_WORKER = hasattr(config, "workerinput")


def {hook}:
    import os, pathlib, time

    once = pathlib.Path("once")
    if nodeid.endswith("eval-003") and IN_WORKER and not once.exists():
        once.touch()
        time.sleep(0.5)
        os._exit(1)
"""


@pytest.mark.parametrize("limit", ["1", "8"])
def test_a_case_that_was_over_when_its_worker_died_keeps_its_result(project: Project, limit: str) -> None:
    # pytest-xdist hears of a report before it hears that the worker goes on to the next item.
    project.cases(good_cases(6))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(DYING.format(hook="pytest_runtest_logfinish(nodeid)"))
    result = project.run("-n", "2", "--memeval-concurrency", limit, "--junitxml", "junit.xml", "--html", "r.html", "-v")
    result.assert_outcomes(passed=6)
    assert result.ret == 0
    assert (project.path / "once").exists()
    assert set(project.outcomes().values()) == {"scored"}
    assert len(project.journal()) == len(junit(project)) == 6


def test_a_case_that_has_passed_before_its_worker_died_is_counted_once(project: Project) -> None:
    project.cases(good_cases(6))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(DYING.format(hook="pytest_runtest_teardown(item)").replace("nodeid.", "item.nodeid."))
    result = project.run("-n", "2", "--junitxml", "junit.xml", "--html", "r.html")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["*1 rerun*"])
    assert result.ret == 0
    assert len(project.journal()) == len(junit(project)) == 6


def test_the_first_case_of_all_dies_in_a_file_named_by_hand(project: Project) -> None:
    # No worker ever gets to say what it was given.
    project.cases([case("dead", "die", truth=[])], name="elsewhere/set.yaml", gates=["P0 l1.memory_recall >= 0"])
    result = project.run("-n", "1", "elsewhere/set.yaml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = project.report()
    assert report["counts"] == {"scored": 0, "errored": 1, "skipped": 0, "not_run": 0, "total": 1}
    assert [gate["status"] for gate in report["gates"]] == ["unmeasured"]


def test_many_crashes_end_the_run_early_and_the_report_says_so(project: Project) -> None:
    project.cases(
        [case(f"dead-{n}", "die", truth=[]) for n in range(6)] + good_cases(20), gates=["P0 l1.memory_recall >= 0"]
    )
    result = project.run("-n", "2", "--max-worker-restart", "1", "--junitxml", "junit.xml")
    assert "INTERNALERROR" not in result.stdout.str()
    assert result.ret != 0
    report = project.report()
    assert report["counts"]["errored"] >= 1
    assert report["counts"]["not_run"] > 0
    assert report["counts"]["total"] == 26
    assert report["summary"]["passed_p0"] is False
    assert report["partial"] == "aborted"
    assert len(junit(project)) == len(report["per_case"])
    result.assert_outcomes(passed=report["counts"]["scored"], errors=report["counts"]["errored"])


def test_what_a_dead_worker_left_behind_is_removed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = project.path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    project.write(
        "conftest.py",
        """
        import os
        import pytest

        class Engine:
            name = "folders"

            def extract(self, conversation, ctx):
                (ctx.folder / "file").touch()
                if ctx.case_id == "dead":
                    os._exit(1)
                return []

        @pytest.fixture(scope="session")
        def memeval_engine():
            return Engine()
        """,
    )
    project.cases([case("dead", "x", truth=[]), case("good", "x", truth=[])])
    project.run("-n", "2", fresh=True).assert_outcomes(passed=1, errors=1)
    assert not list(scratch.glob("memeval-*"))


# -- reruns ----------------------------------------------------------------------------------------------------


@MODES
def test_the_last_attempt_counts(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", FLAKY)
    entries = [*good_cases(2), case("once", "identity: flaky"), case("always", "raise", truth=[])]
    project.cases(entries, gates=["P0 l1.memory_recall >= 1"])
    result = project.run("--reruns", "1", "--junitxml", "junit.xml", *mode)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*2 rerun*"])
    assert project.outcomes() == {"eval-001": "scored", "eval-002": "scored", "once": "scored", "always": "errored"}
    assert sorted(project.journal()) == [
        f"cases/v001.yaml::{name}" for name in ("always", "eval-001", "eval-002", "once")
    ]
    report = project.report()
    assert report["counts"]["total"] == 4
    assert report["partial"] is None
    once = next(entry for entry in report["per_case"] if entry["case_id"] == "once")
    assert once["l1_f1"] == 1.0
    assert once["errors"] == []
    figures = properties(junit(project)["once"])
    assert ("memeval.l1.dimension_micro_f1", "1.0") in figures
    assert len(figures) == len({name for name, _ in figures})
    assert all("memory_recall" not in name for name, _ in properties(junit(project)["always"]))


#: A fixture fails each time in the same way, before anything is measured: the attempts' records are the same.
ALIKE = """
import pytest


@pytest.fixture
def memeval_engine():
    raise RuntimeError("no engine today")
"""


@MODES
def test_attempts_that_leave_the_same_record_leave_one(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", ALIKE)
    project.cases(good_cases(5))
    result = project.run("--reruns", "2", *mode)
    result.assert_outcomes(errors=5)
    assert project.outcomes() == {f"eval-{n:03}": "errored" for n in range(1, 6)}
    assert len(project.journal()) == 5


def test_a_crash_that_is_tried_again_leaves_one_record(project: Project) -> None:
    project.write(
        "conftest.py",
        FLAKY.replace('raise RuntimeError("the first attempt")', "os._exit(1)", 1).replace(
            "import pathlib", "import os\nimport pathlib", 1
        ),
    )
    project.cases([*good_cases(2), case("once", "identity: flaky")])
    result = project.run("-n", "2", "--reruns", "1")
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    assert project.outcomes() == {"eval-001": "scored", "eval-002": "scored", "once": "scored"}
    assert len(project.journal()) == 3


@pytest.mark.parametrize("reruns", ["0", "1"])
def test_a_death_that_was_anothers_is_no_attempt_of_the_case_at_hand(project: Project, reruns: str) -> None:
    # Long enough for the next one to be begun ahead, and to end the process.
    project.write("conftest.py", KILLER.format(first=True, waits=1))
    first, *rest = good_cases(6)
    project.cases([first, case("dead", "x", truth=[]), *rest])
    result = project.run("-n", "1", "--reruns", reruns, "--memeval-concurrency", "4")
    result.assert_outcomes(passed=6, errors=1)
    # The innocent one is run again by itself; the other one has its attempts, each by itself.
    assert f"{1 + int(reruns)} rerun" in result.stdout.str()
    assert {name for name, outcome in project.outcomes().items() if outcome == "errored"} == {"dead"}
    assert project.report()["run_notes"] == ["1 case(s) errored because their worker process died"]
    assert len(project.journal()) == 7


def test_a_case_expecting_too_much_is_tried_again_and_recorded_once(project: Project) -> None:
    entries = good_cases(2)
    entries[0]["expect"] = {"l1.memory_recall": "> 1"}
    project.cases(entries)
    result = project.run("--reruns", "2", "--junitxml", "junit.xml")
    result.assert_outcomes(passed=1, failed=1)
    assert len(project.journal()) == 2
    (first, _) = project.report()["per_case"]
    assert first["outcome"] == "scored"
    assert len(first["missed_expectations"]) == 1
    figures = properties(junit(project)["eval-001"])
    assert len(figures) == len({name for name, _ in figures}) > 3


# -- interrupts ------------------------------------------------------------------------------------------------


def ended(pid: int, within: float) -> bool:
    """Whether a process is gone, now or soon."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        try:
            # A process that ended but whose parent is gone too may wait to be collected.
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@POSIX_ONLY
@SENT
def test_an_interrupt_ends_the_run_at_once_and_keeps_what_there_is(
    project: Project, mode: tuple[str, ...], to_all: bool
) -> None:
    project.cases(
        [*good_cases(3), case("stuck", "sleep", truth=[]), *(case(f"l{n}", "nap", truth=[]) for n in range(99))]
    )
    scratch = project.path / "tmp"
    scratch.mkdir()
    # One at a time, so that the first cases are over when the sleeping one begins.
    options = ("--memeval-concurrency", "1", *mode)
    with Run(project, *options, env={"TMPDIR": str(scratch)}) as run:
        run.wait_for(lambda: list(project.path.glob("asleep-*")))
        assert list(scratch.glob("memeval-*"))
        run.wait_for(lambda: have_arrived(project, "eval-001", "eval-002", "eval-003"))
        run.interrupt(to_all=to_all)
        run.ends()
    report = project.report()
    assert report["partial"] == "aborted"
    assert {entry["case_id"] for entry in report["per_case"]} >= {"eval-001", "eval-002", "eval-003"}
    assert "stuck" not in project.outcomes()
    assert report["counts"]["not_run"] > 0
    assert len(project.journal()) == len(report["per_case"])
    (marker,) = project.path.glob("asleep-*")
    assert ended(int(marker.name.partition("-")[2]), within=5)
    assert not list(scratch.glob("memeval-*"))


#: The first cases end at once, all others block their threads.
BLOCKING = """
import time

import pytest
from line_engine import LineEngine


class Blocking(LineEngine):
    concurrent = True

    def extract(self, conversation, ctx):
        if conversation[0].content == "block":
            open(f"blocks-{ctx.case_id}", "w", encoding="utf-8").close()
            time.sleep(60)
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Blocking()
"""


@POSIX_ONLY
@pytest.mark.parametrize("to_all", [False, True], ids=["controller", "terminal"])
def test_workers_that_block_end_with_the_run_and_what_they_leave_is_counted(project: Project, *, to_all: bool) -> None:
    # The second worker has only cases that block, so that it has never reported anything.
    project.write("conftest.py", BLOCKING)
    project.cases([*good_cases(3), *(case(f"b{n:02}", "block", truth=[]) for n in range(37))])
    with Run(project, "-n", "2") as run:
        run.wait_for(lambda: len(list(project.path.glob("blocks-*"))) >= 10)
        run.wait_for(lambda: have_arrived(project, "eval-001", "eval-002", "eval-003"))
        run.interrupt(to_all=to_all)
        run.ends(within=5)  # pytest-xdist's own patience
    report = project.report()
    assert report["counts"] == {"scored": 3, "errored": 0, "skipped": 0, "not_run": 37, "total": 40}
    (note,) = report["run_notes"]
    assert "left behind in their threads" in note
    # Each worker has one case at hand, which the interrupt itself may end, and others in threads.
    counted = int(note.partition("interrupt: ")[2].partition(",")[0])
    assert 2 <= counted <= 2 * 8


INTERRUPTING = """

import os
import signal
import time

from pytest_memeval.runs import recorder

recorder.HURRIED_FROM = {many}


def pytest_runtest_setup(item):
    if item.name == "last":
        os.kill(os.getppid() if hasattr(item.config, "workerinput") else os.getpid(), signal.SIGINT)
        time.sleep(30)
"""


def _interrupt_last(project: Project, *mode: str, many: int) -> pytest.RunResult:
    """A run of 80 cases with various figures that is interrupted when it comes to the last."""
    cases = [
        case(f"c{n:02}", "identity: x", truth=[("identity", "x"), ("family", f"y{n % 3}")][: 1 + n % 2])
        for n in range(79)
    ]
    project.cases([*cases, case("last", "identity: x")])
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(INTERRUPTING.format(many=many))
    (project.path / "out").mkdir()
    result = project.run(*mode, fresh=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    # One line that says where, as pytest has it.
    result.stdout.fnmatch_lines(["*!!! KeyboardInterrupt !!!*", "*.py:*: KeyboardInterrupt"])
    return result


@POSIX_ONLY
@MODES
def test_an_interrupted_run_with_many_results_leaves_out_what_takes_long(
    project: Project, mode: tuple[str, ...]
) -> None:
    _interrupt_last(project, *mode, many=5)
    report = project.report()
    assert any("rescore" in note and str(len(report["per_case"])) in note for note in report["notes"])
    assert report["l1"]["dimension_micro_f1"] is not None
    assert report["l1"]["intervals"]["dimension_micro_f1"] is None
    assert "interrupted" in report["l1"]["interval_reasons"]["dimension_micro_f1"]
    assert {path.name for path in (project.path / "out").iterdir()} == {"report.json", "report.md", "journal.jsonl"}
    assert len(project.journal()) == len(report["per_case"])
    if mode:
        return
    # What was left out can be had afterwards.
    done = project.pytester.run(sys.executable, "-m", "pytest_memeval", "rescore", "out", "--output", "again")
    assert done.ret in (0, 1), done.stdout.str() + done.stderr.str()
    again = project.report("again")
    assert again["l1"]["dimension_micro_f1"] == report["l1"]["dimension_micro_f1"]
    assert again["l1"]["intervals"]["dimension_micro_f1"] is not None
    assert not any("rescore" in note for note in again["notes"])
    assert (project.path / "again" / "per_case.csv").exists()


@POSIX_ONLY
def test_an_interrupted_run_with_few_results_is_reported_in_full(project: Project) -> None:
    _interrupt_last(project, many=80)
    report = project.report()
    assert report["l1"]["intervals"]["dimension_micro_f1"] is not None
    assert not any("rescore" in note for note in report["notes"])
    assert (project.path / "out" / "per_case.csv").exists()


ODD_INTERRUPT = """

import time

import pytest

TEXT = "raise KeyboardInterrupt"
WORKER = False


def pytest_configure(config):
    global WORKER
    WORKER = hasattr(config, "workerinput")


def pytest_runtest_call(item):
    time.sleep(0.05)  # so that there is something left to run


def interrupt(kind):
    if kind == "text":
        exec(TEXT)
    elif kind == "lines":
        code = compile(TEXT, "<string>", "exec")
        parts, rest = divmod(len(code.co_code) // 2, 8)  # entries for instructions without a line, eight each at most
        table = b"\\xff" * parts + (bytes([0xF8 | rest - 1]) if rest else b"")
        exec(code.replace(co_linetable=table))
    else:
        try:
            raise KeyboardInterrupt
        finally:
            raise EOFError("the worker is gone")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if report.when == "call" and report.nodeid.endswith("eval-003") and not WORKER:
        interrupt("{kind}")
"""


@MODES
@pytest.mark.parametrize("kind", ["text", "lines", "hidden"])
def test_an_interrupt_is_one_wherever_it_meets_the_run(project: Project, kind: str, mode: tuple[str, ...]) -> None:
    """In code made from text, in code without lines, and where something else came up meanwhile."""
    project.cases(good_cases(60))
    conftest = ODD_INTERRUPT.replace("{kind}", kind)
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(conftest)
    result = project.run(*mode, fresh=True)
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.INTERRUPTED, text
    assert "INTERNALERROR" not in text
    assert "Traceback" not in text
    result.stdout.fnmatch_lines(["*cut short*", "*!!! KeyboardInterrupt !!!*"])
    assert project.report()["partial"] == "aborted"


@POSIX_ONLY
@MODES
def test_what_is_said_to_have_passed_is_in_the_report(project: Project, mode: tuple[str, ...]) -> None:
    """An interrupt between an item's call and its end, where its record would have been made."""
    project.cases(good_cases(5))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\nimport os, signal, time, pytest\n\n\n"
            "@pytest.hookimpl(tryfirst=True)\n"
            "def pytest_runtest_teardown(item):\n"
            "    if item.name == 'eval-003':\n"
            "        os.kill(os.getppid() if hasattr(item.config, 'workerinput') else os.getpid(), signal.SIGINT)\n"
            "        time.sleep(30)\n"
        )
    result = project.run(*mode, "--memeval-concurrency", "1", "--dist", "load", fresh=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    passed = result.parseoutcomes()["passed"]
    journal = project.journal()
    assert "cases/v001.yaml::eval-003" in journal
    assert len(journal) == len(set(journal)) == passed
    assert project.report()["counts"]["scored"] == passed


TOLD_OF = """

once = []


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        once.append("nothing is raised in workers")


def pytest_runtest_logreport(report):
    if report.when == "{when}" and report.nodeid.endswith("eval-003") and not once:
        once.append("raised")
        raise KeyboardInterrupt
"""


@MODES
@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
def test_an_interrupt_while_a_report_is_told_loses_no_case(project: Project, when: str, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(40))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(TOLD_OF.replace("{when}", when))
    result = project.run(*mode, "--memeval-concurrency", "1", "--dist", "load", fresh=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    journal = project.journal()
    assert len(journal) == len(set(journal)) == project.report()["counts"]["scored"]
    # A worker may not come to say that its last one passed, and yet give its record.
    assert len(journal) - (2 if mode else 0) <= result.parseoutcomes()["passed"] <= len(journal)
    if when != "setup":
        assert "cases/v001.yaml::eval-003" in journal
    elif not mode:
        # The item's own call had not come yet; a worker may be past it.
        assert "cases/v001.yaml::eval-003" not in journal


MADE = """

import os
import signal

once = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    made = yield
    if call.when == "{when}" and item.nodeid.endswith("eval-003") and not once:
        once.append("raised")
        raise KeyboardInterrupt
    return made
"""


@MODES
@pytest.mark.parametrize("when", ["call", "teardown"])
def test_an_interrupt_between_a_report_and_who_is_told_loses_no_case(
    project: Project, when: str, mode: tuple[str, ...]
) -> None:
    # As in another plugin's part of making it, which has it last.
    project.cases(good_cases(40))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(MADE.replace("{when}", when))
    result = project.run(*mode, "--memeval-concurrency", "1", "--dist", "load", fresh=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    journal = project.journal()
    assert "cases/v001.yaml::eval-003" in journal
    assert len(journal) == len(set(journal)) == project.report()["counts"]["scored"]


TAKEN = """

from pytest_memeval.runs import recorder

after, once = recorder.spare_collector_again, []


def interrupt(count, make):
    after(count, make)
    if count == 3 and not once:
        once.append("raised")
        raise KeyboardInterrupt


recorder.spare_collector_again = interrupt
"""


@MODES
def test_a_record_that_an_interrupt_met_while_it_was_taken_is_in_the_journal_once(
    project: Project, mode: tuple[str, ...]
) -> None:
    project.cases(good_cases(40))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(TAKEN)
    result = project.run(*mode, "--memeval-concurrency", "1", "--dist", "load", fresh=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    journal = project.journal()
    assert len(journal) == len(set(journal)) == project.report()["counts"]["scored"] >= 3


COLLECTING = """
import pathlib
import time


def pytest_collection_modifyitems(config):
    if hasattr(config, "workerinput"):
        pathlib.Path("collecting-" + config.workerinput["workerid"]).touch()
        time.sleep(30)
"""


@POSIX_ONLY
@pytest.mark.parametrize("what", ["cases", "tests"])
def test_workers_that_still_collect_hear_of_an_interrupt(project: Project, what: str) -> None:
    """pytest-xdist gives them ten seconds to end by themselves."""
    if what == "cases":
        project.cases(good_cases(5))
    else:
        project.write("test_one.py", "def test_one(): pass\n")
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write("\n" + COLLECTING)
    with Run(project, "-n", "2") as run:
        run.wait_for(lambda: len(list(project.path.glob("collecting-*"))) == 2)
        run.interrupt()
        run.ends(within=8)
