"""``--memeval-baseline``: the run is held against an earlier report, and gates can be on the difference."""

from __future__ import annotations

import json

import pytest
from plugin_project import MODES, Project, case, good_cases, stable


@pytest.fixture
def held(project: Project) -> Project:
    """A project whose engine got everything right before, and then came to label every other memory otherwise."""
    project.cases(good_cases(6))
    project.run("--memeval-output", "before").assert_outcomes(passed=6)
    engine = (project.path / "line_engine.py").read_text(encoding="utf-8")
    worse = engine.replace(
        'dimensions.split("+")', '["family"] if "number 1 " in text or "number 2 " in text else ["identity"]'
    )
    assert worse != engine
    (project.path / "line_engine.py").write_text(worse, encoding="utf-8")
    return project


@MODES
def test_differences_in_summary_and_reports(held: Project, mode: tuple[str, ...]) -> None:
    result = held.run("--memeval-baseline", "before", *mode, fresh=True)
    assert result.ret == 0
    text = result.stdout.str()
    assert "Compared with the baseline:" in text
    assert "Δ l1.dimension_micro_f1 = -0.333" in text
    baseline = held.report()["baseline"]
    assert baseline["path"] == "before"
    assert baseline["run_id"] == held.report("before")["run_id"]
    found = {one["path"]: one for one in baseline["comparison"]["metrics"]}
    assert found["l1.dimension_micro_f1"]["difference"] == pytest.approx(-1 / 3)
    assert found["l1.dimension_micro_f1"]["losses"] == 2
    page = (held.path / "out" / "report.md").read_text(encoding="utf-8")
    assert "## Compared with the baseline" in page
    assert "`cases/v001.yaml::eval-001`" in page


@MODES
@pytest.mark.parametrize(
    ("gate", "status", "exit_status"),
    [
        ("P0 diff:l1.dimension_micro_f1 >= -0.02", "missed", 1),
        ("P1 Δl1.dimension_micro_f1 >= -0.02", "missed", 0),
        ("P0 Δ l1.memory_recall >= 0", "passed", 0),
    ],
)
def test_gates_on_differences(held: Project, mode: tuple[str, ...], gate: str, status: str, exit_status: int) -> None:
    result = held.run("--memeval-baseline", "before/report.json", "--memeval-gate", gate, *mode, fresh=True)
    assert result.ret == exit_status
    [found] = held.report()["gates"]
    assert (found["status"], found["metric"][:5]) == (status, "diff:")
    if status == "missed":
        assert found["value"] == pytest.approx(-1 / 3)
        assert found["reason"] == "-0.333 does not meet >= -0.02."
    assert held.report()["case_sets"]["cases/v001.yaml"]["gates"] == [found]


def test_serial_and_distributed_runs_say_the_same(held: Project) -> None:
    words = ("--memeval-baseline", "before", "--memeval-gate", "P1 diff:l1.memory_recall >= -0.1")
    held.run(*words, fresh=True)
    serial = stable(held.report())
    held.run(*words, "-n", "2", fresh=True)
    assert stable(held.report()) == serial


def test_a_gate_of_the_file_applies_only_with_a_baseline(project: Project) -> None:
    project.cases(good_cases(3), gates=["P0 diff:l1.dimension_micro_f1 >= 0"])
    assert project.run().ret == 0
    [gate] = project.report()["gates"]
    assert (gate["status"], gate["reason_id"]) == ("not_applicable", "no_baseline")
    assert project.run("--memeval-baseline", "out").ret == 0
    [gate] = project.report()["gates"]
    assert (gate["status"], gate["value"]) == ("passed", 0)


def test_what_cannot_be_compared_is_unmeasured(held: Project) -> None:
    words = ("--memeval-gate", "P0 diff:l1.dimension_micro_f1 >= -0.9", "--memeval-baseline", "before")
    assert held.run(*words, "--memeval-matcher", "levenshtein").ret == 1
    [gate] = held.report()["gates"]
    assert (gate["status"], gate["reason_id"], gate["value"]) == ("unmeasured", "not_comparable", None)
    held.cases([case("new", "identity: something else")])
    assert held.run(*words).ret == 1
    [gate] = held.report()["gates"]
    assert (gate["status"], gate["reason_id"]) == ("unmeasured", "no_difference")


@MODES
def test_a_new_file_takes_nothing_from_the_others(held: Project, mode: tuple[str, ...]) -> None:
    held.cases([case("new", "identity: something else")], "cases/v002.yaml")
    words = ("--memeval-gate", "P0 diff:l1.dimension_micro_f1 >= -0.02", "--memeval-baseline", "before")
    result = held.run(*words, *mode, fresh=True)
    assert result.ret == 1
    old, new = held.report()["gates"]
    assert (old["scope"], old["status"], old["n"]["cases"]) == ("cases/v001.yaml", "missed", 6)
    assert old["value"] == pytest.approx(-1 / 3)
    assert (new["scope"], new["status"], new["reason_id"]) == (
        "cases/v002.yaml",
        "not_applicable",
        "file_not_in_baseline",
    )
    text = result.stdout.str()
    assert "6 cases compared, 4 of them unchanged." in text
    assert "Δ l1.dimension_micro_f1 = -0.333" in text
    assert "case sets differs: A: -; B: cases/v002.yaml=v1" in text
    # The new file alone: the baseline knows nothing of this run, and nothing passes for that.
    assert held.run("cases/v002.yaml", *words, *mode, fresh=True).ret == 1
    [gate] = held.report()["gates"]
    assert (gate["status"], gate["reason_id"]) == ("unmeasured", "no_difference")


def test_another_registry_of_one_file_keeps_the_others_gates(held: Project) -> None:
    """A gate is on its own file: what differs in another one is none of its business."""
    held.cases(good_cases(3), "cases/v002.yaml")
    held.run("--memeval-output", "both", fresh=True)
    path = held.path / "both" / "report.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    report["registry"]["cases/v002.yaml"] = "f" * 64
    path.write_text(json.dumps(report), encoding="utf-8")
    held.run(
        "--memeval-gate", "P0 diff:l1.dimension_micro_f1 >= -0.02", "--memeval-baseline", "both/report.json", fresh=True
    )
    statuses = {one["scope"]: (one["status"], one["reason_id"]) for one in held.report()["gates"]}
    assert statuses == {
        "cases/v001.yaml": ("passed", "threshold_met"),
        "cases/v002.yaml": ("unmeasured", "not_comparable"),
    }


def test_latest_is_the_run_before_this_one(held: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    held.write("pytest.ini", "[pytest]\nmemeval_baseline = latest\n")
    unused = ("-pno:randomly", "-pno:hypothesispytest")
    first = held.pytester.runpytest_inprocess(*unused)
    assert first.ret == pytest.ExitCode.USAGE_ERROR
    assert "there is no latest one" in first.stderr.str()
    (held.path / "pytest.ini").unlink()
    held.pytester.runpytest_inprocess(*unused)
    again = held.pytester.runpytest_inprocess(*unused, "--memeval-baseline", "latest")
    assert "Nothing changed: 6 cases compared, all equal." in again.stdout.str()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--memeval-baseline", "nowhere"), "--memeval-baseline: There is no report at"),
        (("--memeval-baseline", "foreign.json"), "is no memeval report"),
        (("--memeval-baseline", "damaged.json"), "is damaged"),
        (("--memeval-gate", "P0 diff:l1.memory_recall >= 0"), "needs a baseline"),
        (("--memeval-gate", "P0 diff:l1.memory_recal >= 0"), "--memeval-gate"),
        (("--memeval-baseline", "out", "--memeval-gate", "P0 diff:l1.memory_recall >= -3"), "-1 to 1"),
    ],
)
def test_f05_bad_baselines_end_the_run_before_it_starts(
    project: Project, words: tuple[str, ...], sentence: str
) -> None:
    project.cases(good_cases(1))
    project.run()
    report = project.report()
    report["per_case"][0].pop("stages")
    project.write("damaged.json", json.dumps(report))
    project.write("foreign.json", '{"name": "p"}')
    result = project.run(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sentence in result.stderr.str()


def test_private_texts_stay_out(held: Project) -> None:
    held.run("--memeval-baseline", "before", "--memeval-report-text", "none")
    data = json.dumps(held.report(), ensure_ascii=False)
    assert "is called" not in data
    assert held.report()["baseline"]["comparison"]["changes"][0]["memories"] == []
    assert "is called" not in (held.path / "out" / "report.md").read_text(encoding="utf-8")
