"""Gates over cases that tests in Python have built: those that somebody wrote down hold there too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from plugin_project import MODES, Project, case, good_cases

from pytest_memeval.cli.main import main

HEAD = """
import dataclasses

import pytest
from pytest_memeval import load_cases
from pytest_memeval.cases.models import EvalCase, GtMemory, L1GroundTruth
from pytest_memeval.values import Message


def spoken(name, label):
    return EvalCase(
        case_id=name,
        conversation=(Message("m", "user", f"identity: {name} teaches maths"),),
        expected_l1=L1GroundTruth((GtMemory(f"{name} teaches maths", (label,)),)),
    )

"""
#: The case comes with the marker.
BY_MARKER = """
@pytest.mark.memeval(case=spoken("right", "identity"), gate=True)
def test_right(memeval_l1):
    pass


@pytest.mark.memeval(case=spoken("wrong", "habits"), gate=True)
def test_wrong(memeval_l1):
    pass


@pytest.mark.memeval(case=spoken("other", "habits"))
def test_without_gate(memeval_l1):
    pass
"""
#: A fixture of the project's gives others in the place of the marker's.
BY_FIXTURE = """
@pytest.fixture(params=["identity", "habits"])
def memeval_case(request):
    return spoken(request.param, request.param)


@pytest.mark.memeval(case=spoken("any", "identity"), gate=True)
def test_it(memeval_l1):
    pass
"""
WAYS = pytest.mark.parametrize("body", [BY_MARKER, BY_FIXTURE], ids=["marker", "fixture"])
ASKED = "P0 l1.dimension_micro_f1 >= 0.75"


def write_ini(project: Project, *gates: str) -> None:
    rows = "".join(f"    {gate}\n" for gate in gates)
    project.write("pytest.ini", f"[pytest]\nmemeval_gate =\n{rows}")


def gates_of(project: Project, folder: str = "out") -> list[tuple[str, str, str, float | None]]:
    found = project.report(folder)["gates"]
    return [(gate["scope"], gate["metric"], gate["status"], gate["value"]) for gate in found]


@MODES
@WAYS
def test_a_gate_of_the_command_line_holds(project: Project, mode: tuple[str, ...], body: str) -> None:
    project.write("test_own.py", HEAD + body)
    result = project.run("--memeval-gate", ASKED, *mode)
    result.assert_outcomes(passed=3 if "test_wrong" in body else 2)
    assert result.ret == 1
    assert gates_of(project) == [("test_own.py", "l1.dimension_micro_f1", "missed", 0.5)]
    scope = project.report()["case_sets"]["test_own.py"]
    assert (scope["cases"], scope["truth_counts"], scope["in_code"]) == (2, {"l1": 2}, True)
    assert project.report()["partial"] is None
    result.stdout.fnmatch_lines(["P0 gate missed: exit status 1"])


@MODES
@WAYS
def test_a_gate_of_the_ini_holds(project: Project, mode: tuple[str, ...], body: str) -> None:
    write_ini(project, ASKED, "P0 l1.memory_recall >= 1")
    project.write("test_own.py", HEAD + body)
    assert project.run(*mode).ret == 1
    assert gates_of(project) == [
        ("test_own.py", "l1.dimension_micro_f1", "missed", 0.5),
        ("test_own.py", "l1.memory_recall", "passed", 1.0),
    ]
    texts = project.report()["case_sets"]["test_own.py"]["gate_texts"]
    assert texts == [[ASKED, "ini"], ["P0 l1.memory_recall >= 1", "ini"]]
    # One of the command line takes the place of the ini's on its metric.
    assert project.run("--memeval-gate", "P0 l1.dimension_micro_f1 >= 0.5", *mode).ret == 0
    assert [status for _, _, status, _ in gates_of(project)] == ["passed", "passed"]


@MODES
def test_no_default_gate_holds_over_cases_in_code(project: Project, mode: tuple[str, ...]) -> None:
    project.write("test_own.py", HEAD + BY_MARKER)
    result = project.run(*mode)
    assert result.ret == 0
    assert project.report()["gates"] == []
    result.stdout.fnmatch_lines(["No P0 gate applies to this run."])


@MODES
def test_a_gate_that_nothing_there_is_labelled_for_is_unmeasured(project: Project, mode: tuple[str, ...]) -> None:
    project.write("test_own.py", HEAD + BY_MARKER)
    assert project.run("--memeval-gate", "P0 l2.section_hit_rate >= 0.5", *mode).ret == 1
    assert gates_of(project) == [("test_own.py", "l2.section_hit_rate", "unmeasured", None)]


@MODES
def test_cases_that_fail_before_any_stage_leave_a_gate_unmeasured(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(1))
    broken = '\n\n@pytest.fixture(autouse=True)\ndef broken():\n    raise RuntimeError("not today")\n'
    project.write("test_own.py", HEAD + BY_FIXTURE.replace("return spoken", "raise RuntimeError; return spoken"))
    project.write("test_other.py", HEAD + broken + BY_MARKER)
    project.run("--memeval-gate", ASKED, *mode)
    assert {(scope, status) for scope, _, status, _ in gates_of(project)} == {
        ("cases/v001.yaml", "passed"),
        ("test_other.py", "unmeasured"),
        ("test_own.py", "unmeasured"),
    }


def test_a_worker_that_dies_in_a_case_in_code_leaves_a_gate_unmeasured(project: Project) -> None:
    project.write(
        "test_own.py",
        HEAD
        + """
DEADLY = dataclasses.replace(spoken("x", "identity"), conversation=(Message("m", "user", "die"),))

@pytest.mark.memeval(case=DEADLY, gate=True)
def test_it(memeval_l1):
    pass
""",
    )
    assert project.run("--memeval-gate", ASKED, "-n", "2").ret == 1
    assert gates_of(project) == [("test_own.py", "l1.dimension_micro_f1", "unmeasured", None)]


@MODES
def test_a_loaded_case_that_a_fixture_gives_has_its_files_gates(project: Project, mode: tuple[str, ...]) -> None:
    labelled = case("a", "identity: teaches maths")
    labelled["expected_l1"]["memories"][0]["priority"] = 20
    project.cases([labelled], name="data/x.yaml", gates=["P0 l1.priority_mae <= 5"])
    project.write(
        "test_own.py",
        HEAD
        + """
@pytest.fixture
def memeval_case():
    return load_cases("data/x.yaml")[0]


@pytest.mark.memeval(case=spoken("any", "identity"), gate=True)
def test_loaded(memeval_l1):
    pass
""",
    )
    assert project.run("test_own.py", *mode).ret == 1
    assert gates_of(project) == [("test_own.py", "l1.priority_mae", "missed", 60.0)]


@MODES
def test_loaded_cases_beside_built_ones_let_no_gate_go(project: Project, mode: tuple[str, ...]) -> None:
    write_ini(project, ASKED.replace("0.75", "0.9"))
    project.cases(good_cases(1), name="data/x.yaml", gates=[])
    loaded = (
        '\n\n@pytest.mark.memeval(case=load_cases("data/x.yaml")[0], gate=True)\ndef test_{}(memeval_l1):\n    pass\n'
    )
    project.write("test_own.py", HEAD + loaded.format("first") + BY_MARKER + loaded.format("last"))
    assert project.run("test_own.py", *mode).ret == 1
    assert gates_of(project) == [("test_own.py", "l1.dimension_micro_f1", "missed", 0.75)]


def stable(report: dict[str, Any]) -> dict[str, Any]:
    return {key: report[key] for key in ("case_sets", "gates", "summary", "counts") if key != "summary"} | {
        "passed": report["summary"]["passed_p0"]
    }


def test_the_parts_of_a_shared_out_run_make_the_same_verdict(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ini(project, "P0 l1.memory_recall >= 1")
    many = """
@pytest.mark.memeval(case=spoken("one", "identity"), gate=True)
@pytest.mark.parametrize("number", range(5))
def test_it(memeval_l1, number):
    pass
"""
    tests = "".join(many.replace("test_it", f"test_{n}") for n in range(4))
    project.write("test_own.py", HEAD + BY_MARKER + tests)
    asked = ("--memeval-gate", ASKED.replace("0.75", "0.99"))
    for n in (1, 2):
        project.run("--memeval-shard", f"{n}/2", "--memeval-output", f"part{n}", *asked)
        assert 0 < project.report(f"part{n}")["counts"]["scored"] < 22
    monkeypatch.chdir(project.path)
    capsys.readouterr()
    assert main(["merge", "part1", "part2", "--output", "merged"]) == 1
    project.run("--memeval-output", "whole", *asked)
    assert stable(project.report("merged")) == stable(project.report("whole"))
    assert [status for _, _, status, _ in gates_of(project, "merged")] == ["passed", "missed"]


@MODES
def test_every_variant_has_the_gates(project: Project, mode: tuple[str, ...]) -> None:
    write_ini(project, ASKED)
    project.cases(good_cases(1))
    project.write("test_own.py", HEAD + BY_MARKER)
    result = project.run("--memeval-prompt-version", "v001", "--memeval-prompt-version", "v002", *mode)
    assert result.ret == 1
    found = json.loads((project.path / "out" / "v002" / "report.json").read_text(encoding="utf-8"))
    assert [(gate["scope"], gate["status"]) for gate in found["gates"]] == [("test_own.py", "missed")]
