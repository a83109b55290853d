"""Gates over case files: where they come from, what they count over, what they do to the exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import MODES, case, good_cases

from pytest_memeval.cli.main import main

if TYPE_CHECKING:
    from plugin_project import Project


def gate_table(project: Project, scope: str | None = None) -> dict[str, str]:
    """Metric → status of the last run's gates."""
    gates = project.report()["gates"]
    return {gate["metric"]: gate["status"] for gate in gates if scope is None or gate["scope"] == scope}


def half_right(count: int = 4) -> list[dict[str, Any]]:
    """Cases of which every second one finds none of its memories."""
    wrong = [("identity", "something that is not at all like what was said")]
    return [
        entry if n % 2 else entry | {"expected_l1": case("x", truth=wrong)["expected_l1"]}
        for n, entry in enumerate(good_cases(count))
    ]


@MODES
def test_a_missed_p0_gate_turns_zero_into_one(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(half_right(), gates=["P0 l1.memory_recall >= 0.9", "P1 l1.memory_precision >= 0.4"])
    result = project.run(*mode)
    result.assert_outcomes(passed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["P0 gate missed: exit status 1"])
    assert gate_table(project) == {"l1.memory_recall": "missed", "l1.memory_precision": "passed"}
    report = project.report()
    assert report["summary"]["passed_p0"] is False
    assert report["summary"]["p0_status"] == {"P0 l1.memory_recall >= 0.9": "missed"}
    # A test that passes was measured; it is the summary that says who decides.
    result.stdout.fnmatch_lines(["4 of 4 cases have no thresholds of their own*"])


def test_other_levels_never_decide(project: Project) -> None:
    project.cases(half_right(), gates=["P1 l1.memory_recall >= 0.9", "P2 l1.memory_precision >= 0.9"])
    assert project.run().ret == 0
    assert gate_table(project) == {"l1.memory_recall": "missed", "l1.memory_precision": "missed"}
    assert project.report()["summary"]["passed_p0"] is None


@MODES
def test_an_unmeasured_p0_gate_fails(project: Project, mode: tuple[str, ...]) -> None:
    # The file has no labels for conflict resolution, so nothing can be said of the gate that was asked for.
    project.cases(good_cases(2), gates=["P0 l15.action_accuracy >= 0"])
    result = project.run(*mode)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert gate_table(project) == {"l15.action_accuracy": "unmeasured"}
    result.stdout.fnmatch_lines(["P0 gate unmeasured: exit status 1"])


def test_no_gate_evaluates_none(project: Project) -> None:
    project.cases(half_right(), gates=["P0 l1.memory_recall >= 0.9"])
    assert project.run("--memeval-no-gate").ret == 0
    report = project.report()
    assert report["gates"] == []
    assert report["summary"]["passed_p0"] is None


@MODES
def test_gates_of_the_command_line_replace_and_add_in_every_scope(project: Project, mode: tuple[str, ...]) -> None:
    own = ["P0 l1.memory_recall >= 0.9", "P1 l1.memory_precision >= 0.2"]
    project.cases(half_right(), name="cases/a.yaml", gates=own)
    project.cases(half_right(), name="cases/b.yaml", gates=[])
    added = ("--memeval-gate", "P0 l1.memory_recall >= 0.5", "--memeval-gate", "P0 l1.strict_match_rate >= 0.5")
    assert project.run(*added, *mode).ret == 0
    found = sorted(
        (g["scope"], g["level"], g["metric"], g["threshold"], g["status"]) for g in project.report()["gates"]
    )
    recall, strict = ("P0", "l1.memory_recall", 0.5, "passed"), ("P0", "l1.strict_match_rate", 0.5, "passed")
    assert found == [
        ("cases/a.yaml", *recall),
        ("cases/a.yaml", *strict),
        ("cases/a.yaml", "P1", "l1.memory_precision", 0.2, "passed"),
        ("cases/b.yaml", *recall),
        ("cases/b.yaml", *strict),
    ]


def test_where_a_files_gates_come_from(project: Project) -> None:
    def write(name: str, meta: dict[str, Any]) -> None:
        project.write(name, f"meta: {json.dumps(meta)}\ncases: {json.dumps(good_cases(2))}\n")

    write("cases/empty.yaml", {"gates": []})
    write("cases/own.yaml", {"gates": ["P0 l1.memory_recall >= 1"]})
    write("cases/none.yaml", {"version": "v1"})
    assert project.run().ret == 0
    assert gate_table(project, "cases/empty.yaml") == {}
    assert gate_table(project, "cases/own.yaml") == {"l1.memory_recall": "passed"}
    defaults = gate_table(project, "cases/none.yaml")
    # Defaults bind no file to labels that it does not have.
    assert defaults["l1.dimension_micro_f1"] == defaults["l1.strict_match_rate"] == "passed"
    assert defaults["l2.section_hit_rate"] == defaults["l15.action_accuracy"] == "not_applicable"
    ini = project.write(
        "pytest.ini", "[pytest]\nmemeval_gate =\n    P0 l1.memory_precision >= 1\n    P1 l1.near_misses < 1\n"
    )
    project.run()
    assert gate_table(project, "cases/empty.yaml") == {}
    assert gate_table(project, "cases/own.yaml") == {"l1.memory_recall": "passed"}
    assert gate_table(project, "cases/none.yaml") == {"l1.memory_precision": "passed", "l1.near_misses": "passed"}
    ini.unlink()


@MODES
def test_errors_count_against_the_gates(project: Project, mode: tuple[str, ...]) -> None:
    entries = [*good_cases(9), case("bad", "raise", truth=[])]
    project.cases(entries, gates=["P0 l1.memory_recall >= 1"])
    result = project.run(*mode)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert gate_table(project) == {"l1.memory_recall": "unmeasured"}
    assert project.report()["gates"][0]["reason_id"] == "too_many_errors"
    # The share allowed decides whether the value stands, never whether an errored case fails the run.
    allowed = project.run("--memeval-max-error-rate", "0.1", *mode)
    assert allowed.ret == pytest.ExitCode.TESTS_FAILED
    assert gate_table(project) == {"l1.memory_recall": "passed"}
    allowed.stdout.fnmatch_lines(["all P0 gates passed"])


def test_a_selection_gates_over_what_was_selected(project: Project) -> None:
    project.cases(half_right(), gates=["P0 l1.memory_recall >= 0.9"])
    assert project.run("-k", "eval-002 or eval-004").ret == 0
    report = project.report()
    assert report["partial"] == "selected"
    assert report["gates"][0]["reason_id"] == "threshold_met_in_selection"
    assert report["counts"] == {"scored": 2, "errored": 0, "skipped": 0, "not_run": 0, "total": 2}


@MODES
def test_a_file_deselected_as_a_whole_makes_the_run_a_selection(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2), name="cases/a.yaml", gates=["P0 l1.memory_recall >= 1"])
    project.cases([case("other", "identity: x")], name="cases/b.yaml", gates=["P0 l1.memory_recall >= 1"])
    assert project.run("-k", "eval-0", *mode).ret == 0
    report = project.report()
    assert report["partial"] == "selected"
    assert gate_table(project, "cases/a.yaml") == {"l1.memory_recall": "passed"}
    assert gate_table(project, "cases/b.yaml") == {"l1.memory_recall": "not_applicable"}


@MODES
def test_running_what_failed_last_is_a_selection(project: Project, mode: tuple[str, ...]) -> None:
    # Nothing failed in the first file, so pytest does not even open it the second time.
    project.cases(good_cases(2), name="cases/a.yaml")
    project.cases([case("bad", "raise", truth=[])], name="cases/b.yaml")
    project.run(*mode)
    assert project.report()["partial"] is None
    project.run("--lf", *mode)
    report = project.report()
    assert report["partial"] == "selected"
    assert report["counts"]["total"] == 1


@MODES
def test_running_what_failed_last_where_nothing_did_is_whole(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2), name="cases/a.yaml")
    project.cases([case("bad", "raise", truth=[])], name="cases/b.yaml")
    project.run(*mode)
    # The failure of the other file leaves out none of these cases, nor does one that is there no more.
    project.run("cases/a.yaml", "--lf", *mode)
    report = project.report()
    assert (report["partial"], report["counts"]["scored"]) == (None, 2)
    (project.path / "cases/b.yaml").unlink()
    project.run("--lf", *mode)
    assert project.report()["partial"] is None
    # Within a file what failed alone is run.
    project.cases([*good_cases(2), case("bad", "raise", truth=[])], name="cases/a.yaml")
    project.run(*mode)
    project.run("--lf", *mode)
    report = project.report()
    assert (report["partial"], report["counts"]["total"]) == ("selected", 1)


def test_p0_over_skipped_cases_alone_is_unmeasured(project: Project) -> None:
    project.cases([entry | {"tags": ["slow"]} for entry in good_cases(2)], gates=["P0 l1.memory_recall >= 1"])
    result = project.run()
    result.assert_outcomes(skipped=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert project.report()["gates"][0]["reason_id"] == "all_skipped"


def test_stages_that_were_not_selected_have_no_gates(project: Project) -> None:
    project.cases(good_cases(2), gates=["P0 l1.memory_recall >= 1", "P0 l15.action_accuracy >= 1"])
    assert project.run("--memeval-stages", "l1").ret == 0
    assert gate_table(project) == {"l1.memory_recall": "passed", "l15.action_accuracy": "not_applicable"}


@pytest.mark.parametrize(("bound", "status"), [("0.8", "passed"), ("0.800000001", "passed"), ("0.80001", "missed")])
def test_f25_a_gate_is_compared_in_full_precision(project: Project, bound: str, status: str) -> None:
    wrong = case("wrong", "identity: entirely one thing", truth=[("identity", "ZZZZ 99999")])
    project.cases([*good_cases(4), wrong], gates=[f"P0 l1.memory_recall >= {bound}"])
    assert project.run().ret == (0 if status == "passed" else 1)
    (gate,) = project.report()["gates"]
    assert (gate["value"], gate["status"]) == (0.8, status)


@MODES
def test_f02_what_is_no_number_is_no_figure_and_unmeasured(project: Project, mode: tuple[str, ...]) -> None:
    odd = [case(f"odd-{n}", "nan", truth=[("identity", "x")]) for n in range(2)]
    project.cases(odd, gates=["P0 l1.priority_mae <= 50", "P1 l1.memory_recall >= 1", "P1 l1.priority_within_10 <= 0"])
    result = project.run(*mode)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    report = json.loads((project.path / "out" / "report.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert report["l1"]["priority_mae"] is None
    assert report["per_case"][0]["outputs"]["l1"][0]["priority"] == "NaN"
    # The memory was found, and its priority is none: that is a miss, not a gap.
    assert gate_table(project) == {
        "l1.priority_mae": "unmeasured",
        "l1.memory_recall": "passed",
        "l1.priority_within_10": "passed",
    }
    for line in (project.path / "out" / "journal.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=refuse)


@MODES
def test_tests_in_python_count_where_they_ask_to(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(half_right(4), gates=["P0 l1.memory_recall >= 0.6"])
    project.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-002", gate=True)
        def test_counted(memeval_l1):
            assert memeval_l1.metrics.values()["memory_recall"] == 1

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001")
        def test_not_counted(memeval_l1):
            assert memeval_l1.metrics.values()["memory_recall"] == 0

        @pytest.mark.memeval(case="cases/v001.yaml::eval-004", gate=True)
        def test_measured_and_failed(memeval_l1):
            assert memeval_l1.metrics.values()["memory_recall"] == 0.5
        """,
    )
    result = project.run(*mode)
    result.assert_outcomes(passed=6, failed=1)
    # Two of four cases and two tests of two: 4 of 6.
    (gate,) = project.report()["gates"]
    assert (gate["value"], gate["status"]) == (pytest.approx(4 / 6), "passed")
    report = project.report()
    assert report["counts"] == {"scored": 6, "errored": 0, "skipped": 0, "not_run": 0, "total": 6}
    assert report["partial"] is None
    # Alone they are a part of the file.
    project.run("test_own.py", *mode)
    alone = project.report()
    assert alone["partial"] == "selected"
    assert [entry["node_id"] for entry in alone["per_case"]] == [
        "test_own.py::test_counted",
        "test_own.py::test_measured_and_failed",
    ]


def test_a_case_expected_to_fail_was_measured(project: Project) -> None:
    entries = good_cases(3)
    for entry in entries[:2]:
        entry["expect"] = {"l1.memory_recall": "> 1"}
    project.cases(entries, gates=["P0 l1.memory_recall >= 1"])
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\ndef pytest_collection_modifyitems(items):\n"
            "    for item in items[1:]:\n"
            "        item.add_marker(pytest.mark.xfail)\n"
        )
    result = project.run("-v")
    result.assert_outcomes(failed=1, xfailed=1, xpassed=1)
    assert project.report()["counts"]["scored"] == 3
    result.stdout.fnmatch_lines(["*eval-003 XPASS*"])


@MODES
def test_a_case_whose_pipeline_broke_does_not_leave_the_denominator(project: Project, mode: tuple[str, ...]) -> None:
    project.write(
        "conftest.py",
        """
        import pytest
        from line_engine import LineEngine


        class StoringEngine(LineEngine):
            def load(self, memories, scenes, ctx):
                (ctx.folder / "ids").write_text("\\n".join(memory.id for memory in memories), encoding="utf-8")

            def inject(self, mode, conversation, ctx):
                ids = (ctx.folder / "ids").read_text(encoding="utf-8").split("\\n")
                return [{"title": "known", "text": "x", "memory_ids": ids, "present": True}]


        @pytest.fixture(scope="session")
        def memeval_engine():
            return StoringEngine()
        """,
    )
    later = {"mode": "daily", "subsequent_conversation": [{"id": "m1", "role": "user", "content": "hi"}]}
    inject = {"expected_inject": {**later, "referenced_memory_indices": [0]}}
    broken = case("eval-002", "raise", truth=[("identity", "is called bert")], **inject)
    project.cases(
        [case("eval-001", "identity: is called anna", **inject), broken],
        gates=["P0 inject.pipeline_coverage >= 0.9", "P0 inject.reference_coverage >= 0.9"],
    )
    result = project.run(*mode)
    result.assert_outcomes(passed=1, errors=1)
    assert gate_table(project) == {
        "inject.pipeline_coverage": "unmeasured",
        "inject.reference_coverage": "passed",
    }
    gate = next(gate for gate in project.report()["gates"] if gate["metric"] == "inject.pipeline_coverage")
    assert gate["reason"].startswith("1 of 2 errored")


@pytest.mark.parametrize("mode", [("--continue-on-collection-errors",), ("-n", "2")], ids=["serial", "n2"])
@pytest.mark.parametrize("gates", [["P0 l1.memory_recall >= 0.9"], []], ids=["P0", "none"])
def test_no_p0_gate_passes_beside_a_file_that_cannot_be_read(
    project: Project, mode: tuple[str, ...], gates: list[str]
) -> None:
    project.cases(good_cases(2), name="cases/good.yaml", gates=gates)
    project.cases([case("a", "identity: x", colour="red"), case("b", "identity: x", size=1)], name="cases/broken.yaml")
    result = project.run(*mode)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = project.report()
    assert report["summary"]["passed_p0"] is (False if gates else None)
    assert gate_table(project) == ({"l1.memory_recall": "unmeasured"} if gates else {})
    ((path, problem),) = report["broken_files"]
    assert path == "cases/broken.yaml"
    assert problem.startswith("cases/broken.yaml:3:")
    assert "unknown key 'colour'" in problem
    assert f"cases/broken.yaml could not be read, so none of its cases was run ({problem})." in report["notes"]
    if gates:
        assert "cases/broken.yaml" in report["gates"][0]["reason"]
        # The verdict stays when the report is judged again.
        assert main(["rescore", str(project.path / "out"), "--output", str(project.path / "again")]) == 1
        assert project.report("again")["summary"]["passed_p0"] is False


LATER = {"mode": "daily", "subsequent_conversation": "hello", "referenced_memory_indices": [0]}


@MODES
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "by fixtures"])
def test_a_case_with_nothing_to_score_is_skipped_and_its_written_gate_unmeasured(
    project: Project, mode: tuple[str, ...], direct: bool
) -> None:
    if not direct:
        with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
            file.write("\n\n@pytest.fixture(autouse=True)\ndef looks_at_it(memeval_case):\n    pass\n")
    project.cases(good_cases(2), gates=["P0 l1.memory_recall >= 1"])
    result = project.run("-rs", *mode, "--memeval-stages", "l15")
    result.assert_outcomes(skipped=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*cases/v001.yaml*nothing of this case was selected: it has labels for l1"])
    result.stdout.fnmatch_lines(["2 cases: 0 scored, 0 errored, 2 skipped, 0 not run"])
    result.stdout.fnmatch_lines(["P0 gate unmeasured: exit status 1"])
    report = project.report()
    assert gate_table(project) == {"l1.memory_recall": "unmeasured"}
    assert report["summary"]["passed_p0"] is False
    assert [entry["stages"]["l1"] for entry in report["per_case"]] == ["unselected"] * 2


@MODES
def test_a_case_whose_stages_the_engine_lacks_is_skipped(project: Project, mode: tuple[str, ...]) -> None:
    only_inject = case("eval-002", "identity: is called anna", expected_inject=LATER)
    project.cases(
        [*good_cases(1), only_inject], gates=["P0 inject.reference_coverage >= 0", "P0 l1.memory_recall >= 1"]
    )
    result = project.run("-rs", *mode, "--memeval-stages", "inject")
    result.assert_outcomes(skipped=2)
    # Nothing can be said of the gate that was asked for by name.
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*can be measured: engine lines lacks inject"])
    assert gate_table(project) == {"inject.reference_coverage": "unmeasured", "l1.memory_recall": "unmeasured"}
    assert project.report()["counts"]["skipped"] == 2


def test_a_case_with_nothing_to_score_still_fails_its_own_thresholds(project: Project) -> None:
    expect = {"inject.reference_coverage": ">= 0.5"}
    project.cases([case("eval-001", "identity: is called anna", expected_inject=LATER, expect=expect)])
    result = project.run("--memeval-stages", "inject")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*inject.reference_coverage is null here, expected >= 0.5: engine lines lacks inject"])


#: Threshold → what is said of a null there: the engine extracts alone, and the case has labels for l1 and inject.
NULLS = {
    "l15.action_accuracy": "the case has no label for l15",
    "l2.profile_quality": "the case has no label for template",
    "search.ndcg@10": "the case has no label for search",
    "inject.reference_coverage": "engine lines lacks inject",
    "l1.priority_mae": "nothing in the case's labels and the engine's outputs counts for it",
    "metrics.own": "no metric of this name gave a figure for the case",
}


@pytest.mark.parametrize("mode", [(), ("-n", "2"), ("--memeval-trials", "2")], ids=["serial", "n2", "trials"])
@pytest.mark.parametrize("metric", NULLS)
def test_a_null_says_whether_the_engine_or_the_case_lacks_something(
    project: Project, mode: tuple[str, ...], metric: str
) -> None:
    entry = case("eval-001", "identity: is called anna", expected_inject=LATER, expect={metric: ">= 0.5"})
    del entry["expected_l1"]["memories"][0]["priority"]
    project.cases([entry])
    result = project.run(*mode)
    result.assert_outcomes(failed=1)
    said = f"{metric} is null here, expected >= 0.5: {NULLS[metric]}"
    assert f"[expect] {said}" in result.stdout.str()
    assert project.report()["per_case"][0]["missed_expectations"] == [said]
    assert main(["rescore", str(project.path / "out"), "--output", str(project.path / "again")]) == 0
    assert project.report("again")["per_case"][0]["missed_expectations"] == [said]


@MODES
def test_a_null_for_want_of_load_says_so(project: Project, mode: tuple[str, ...]) -> None:
    project.write(
        "line_engine.py",
        """
        class LineEngine:
            name = "lines"

            def extract(self, conversation, ctx):
                return []

            def resolve(self, memories, ctx):
                return []

            def search(self, query, params, ctx):
                return []
        """,
    )
    entry = case("eval-001", "identity: x", expect={"l15.action_accuracy": ">= 0.5", "search.ndcg@10": ">= 0.5"})
    entry["existing_memories"] = [{"memory_id": "m1", "content": "y"}]
    entry["expected_l15"] = {"actions": [{"new_memory_index": 0, "action": "store"}]}
    entry["expected_search_results"] = [{"query": "who?", "relevant": [0]}]
    project.cases([entry])
    result = project.run(*mode)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*l15.action_accuracy is null here, expected >= 0.5: engine lines lacks load for l15",
            "*search.ndcg@10 is null here, expected >= 0.5: engine lines lacks load for search",
        ]
    )
