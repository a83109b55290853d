"""What a run tells its reader so that nothing is overlooked: dropped labels, rows of no case, files of no pattern."""

from __future__ import annotations

import json
from typing import Any

import pytest
from plugin_project import MODES, Project, case, good_cases

from pytest_memeval.assets.registry import SHIPPED_REGISTRY

REGISTRY = SHIPPED_REGISTRY.read_text(encoding="utf-8").replace("\npriority: [0, 100]\n", "\npriority: [1, 5]\n")


def _with_labels(case_id: str, text: str, **labels: Any) -> dict[str, Any]:
    made = case(case_id, f"identity: {text}")
    made["expected_l1"]["memories"] = [{"content": text, "dimensions": ["identity"], **labels}]
    return made


def _engine(project: Project, priority: float, dimensions: list[str]) -> None:
    project.write(
        "line_engine.py",
        f"""
        class LineEngine:
            name = "fixed"

            def extract(self, conversation, ctx):
                text = conversation[0].content.partition(": ")[2]
                return [{{"content": text, "dimensions": {dimensions}, "priority": {priority}}}]
        """,
    )


@pytest.mark.parametrize(("priority", "near"), [(3, 1.0), (3.4, 1.0), (4, 0.0)])
def test_near_is_a_tenth_of_the_registrys_scale(project: Project, priority: float, near: float) -> None:
    project.write("own.yaml", REGISTRY)
    _engine(project, priority, ["identity"])
    project.cases([_with_labels("a", "some fact", priority=3)])
    project.run("cases/v001.yaml", "-o", "memeval_registry=own.yaml").assert_outcomes(passed=1)
    assert project.report()["l1"]["priority_within_10"] == near


@MODES
def test_default_gates_on_labels_that_no_case_has_do_not_apply(project: Project, mode: tuple[str, ...]) -> None:
    _engine(project, 3, ["identity"])
    cases = [_with_labels("a", "some fact"), _with_labels("b", "another fact")]
    project.write("cases/v001.yaml", json.dumps({"meta": {"version": "v1"}, "cases": cases}))
    project.run("cases/v001.yaml", *mode)
    status = {gate["metric"]: (gate["status"], gate["reason_id"]) for gate in project.report()["gates"]}
    assert status["l1.memory_type_accuracy"] == ("not_applicable", "no_label_in_file")
    assert status["l1.time_velocity_accuracy"] == ("not_applicable", "no_label_in_file")
    assert status["l1.dimension_micro_f1"][0] == "passed"
    # Whoever asks for it hears that it could not be measured.
    project.run("cases/v001.yaml", "--memeval-gate", "P1 l1.memory_type_accuracy >= 0.5", *mode)
    (asked,) = [gate for gate in project.report()["gates"] if gate["metric"] == "l1.memory_type_accuracy"]
    assert (asked["status"], asked["reason_id"]) == ("unmeasured", "no_label_in_file")


@MODES
@pytest.mark.parametrize("named", [True, False], ids=["scene labels alone", "one case lists memories"])
def test_the_default_gate_on_grouping_needs_a_file_that_says_what_belongs_together(
    project: Project, mode: tuple[str, ...], named: bool
) -> None:
    project.write(
        "line_engine.py",
        """
        class LineEngine:
            name = "fixed"

            def extract(self, conversation, ctx):
                text = conversation[0].content.partition(": ")[2]
                return [{"id": "m", "content": text, "dimensions": ["identity"]}]

            def aggregate(self, memories, ctx):
                return [{"id": "s", "title": "facts", "memory_ids": [one.id for one in memories]}]
        """,
    )
    cases = [_with_labels("a", "some fact"), _with_labels("b", "another fact")]
    for one in cases:
        one["expected_l2"] = {"scene_labels": ["facts"]}
    if not named:
        cases[1]["expected_l2"]["scenes"] = [{"label": "facts", "memories": [0]}]
    project.write("cases/v001.yaml", json.dumps({"cases": cases}))
    project.run(*mode).assert_outcomes(passed=2)
    (gate,) = [gate for gate in project.report()["gates"] if gate["metric"] == "l2.scene_grouping_f1"]
    # One memory alone makes no pair: labelled, but nothing to divide by.
    expected = ("not_applicable", "no_groups_in_file") if named else ("unmeasured", "no_value")
    assert (gate["status"], gate["reason_id"]) == expected
    project.run("--memeval-gate", "P0 l2.scene_grouping_recall >= 0.5", *mode)
    (asked,) = [gate for gate in project.report()["gates"] if gate["metric"] == "l2.scene_grouping_recall"]
    assert (asked["status"], asked["reason_id"]) == ("unmeasured", "no_groups_in_file" if named else "no_value")
    assert project.report()["summary"]["passed_p0"] is False


def test_dropped_labels_are_named(project: Project) -> None:
    _engine(project, 3, ["identity", "zzz"])
    project.cases([_with_labels("a", "some fact"), _with_labels("b", "another fact")])
    result = project.run("cases/v001.yaml")
    result.stdout.fnmatch_lines(["2 predicted label(s) are unknown to the registry and were dropped: zzz (2)."])


def test_an_engine_that_no_case_reached_is_not_named(project: Project) -> None:
    project.cases(good_cases(1))
    project.write(
        "conftest.py",
        """
        import pytest


        @pytest.fixture(scope="session")
        def memeval_engine():
            raise RuntimeError("no licence")
        """,
    )
    result = project.run("cases/v001.yaml")
    result.assert_outcomes(errors=1)
    assert project.report()["engine"] == {}
    assert "reference" not in result.stdout.str()


@MODES
def test_rows_of_no_case_are_counted_and_named(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    rows = [{"case_id": name, "l1": []} for name in ("eval-001", "eval-002", "eval-01", "eval-02", "x", "y")]
    rows.append({"case_id": "eval-001", "set": "other.yaml", "l1": []})
    project.write("rows.jsonl", "\n".join(map(json.dumps, rows)))
    options = ("--memeval-predictions=rows.jsonl", "--memeval-no-gate", *mode)
    said = "5 row(s) of rows.jsonl belong to no case of this run: eval-01, eval-02, x, …"
    project.run("cases/v001.yaml", *options).assert_outcomes(passed=2)
    assert said in project.report()["notes"]
    # A part of the file's cases says nothing of the rows.
    project.run("cases/v001.yaml", *options, "-k", "eval-001")
    assert not any("rows.jsonl" in note for note in project.report()["notes"])


def test_a_folder_of_case_files_that_no_pattern_has_is_mentioned(project: Project) -> None:
    project.cases(good_cases(1), name="evals/mine.yaml")
    result = project.run("evals")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["memeval: mine.yaml in evals looks like a case file*cases/**/*.yaml*"])
    project.write("plain/compose.yaml", "services: {}\n")
    assert "memeval:" not in project.run("plain").stdout.str()


def test_thresholds_on_what_cannot_be_measured_are_an_error_of_the_case(project: Project) -> None:
    project.cases([case("a", "identity: x", expect={"l2.section_hit_rate": ">= 0.5"})])
    project.run("cases/v001.yaml", "--memeval-stages", "l2").assert_outcomes(failed=1)
    (entry,) = project.report()["per_case"]
    assert (entry["outcome"], entry["error"]["kind"]) == ("errored", "not_measured")


@MODES
def test_an_engine_that_is_not_there_ends_the_run_before_it_starts(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(1))
    result = project.run("cases/v001.yaml", "--memeval-engine", "no_such_module:Engine", *mode)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--memeval-engine: 'no_such_module:Engine' cannot be imported" in result.stderr.str()
