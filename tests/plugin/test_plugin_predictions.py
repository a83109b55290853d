"""Scoring recorded outputs, recording them, and scoring the recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import MODES, case, good_cases, stable

if TYPE_CHECKING:
    from plugin_project import Project

CASES = Path(__file__).parents[2] / "cases"


def rows(project: Project, *entries: dict[str, Any] | str, name: str = "outputs.jsonl") -> str:
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    project.write(name, "\n".join(lines) + "\n")
    return name


def memory(text: str) -> dict[str, Any]:
    return {
        "content": text,
        "dimensions": ["identity"],
        "memory_type": "persona",
        "priority": 80,
        "time_velocity": "static",
    }


def simple(count: int) -> list[dict[str, Any]]:
    return [case(f"eval-{n:03}", "x: y", truth=[("identity", f"fact number {n}")]) for n in range(1, count + 1)]


@MODES
def test_rows_are_scored_and_a_missing_one_is_an_error(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(simple(3))
    found = [{"case_id": f"eval-00{n}", "l1": [memory(f"fact number {n}")]} for n in (1, 2)]
    result = project.run("--memeval-predictions", rows(project, *found), *mode)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*no_prediction: outputs.jsonl has no row for eval-003; did you mean 'eval-00?'?*"])
    report = project.report()
    assert report["l1"]["strict_match_rate"] == 1
    assert report["counts"]["errored"] == 1
    assert (report["engine"]["name"], report["model"]) == ("predictions", {})
    assert not any("embedded" in note for note in report["notes"])


def test_the_projects_own_engine_and_model_are_not_asked(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        class Never:
            name = "never"

            def extract(self, conversation, ctx):
                raise AssertionError("asked")

        @pytest.fixture
        def memeval_engine():
            return Never()
        """,
    )
    project.cases(simple(1))
    file = rows(project, {"case_id": "eval-001", "l1": [memory("fact number 1")]})
    project.run("--memeval-predictions", file, "--memeval-llm", "embedded").assert_outcomes(passed=1)


def test_a_row_without_a_stage_is_an_error_of_that_stage(project: Project) -> None:
    entries = simple(2)
    for entry in entries:
        entry["expected_l15"] = {"actions": [{"new_memory_index": 0, "action": "store"}]}
    entries[1]["expected_l2"] = {"template_section": {"daily": {"0": "basic_info"}}}
    project.cases(entries)
    sections = {"daily": [{"title": "👤 基本信息", "memory_ids": ["m"]}]}
    file = rows(
        project,
        {
            "case_id": "eval-001",
            "l1": [{"id": "m", **memory("fact number 1")}],
            "l15": [{"memory_index": 0, "action": "store"}],
        },
        {"case_id": "eval-002", "l1": [{"id": "m", **memory("fact number 2")}], "template": sections},
    )
    project.run("--memeval-predictions", file).assert_outcomes(passed=1, errors=1)
    second = project.report()["per_case"][1]
    assert (second["stages"]["l1"], second["stages"]["l15"], second["stages"]["template"]) == (
        "scored",
        "errored",
        "void",
    )
    # Where conflict resolution is only on the way, the recorded sections stand without it.
    project.run("--memeval-predictions", file, "--memeval-stages", "l1,template").assert_outcomes(passed=2)
    assert project.report()["l2"]["section_hit_rate"] == 1


@MODES
def test_memories_under_one_id_are_an_error_of_their_case(project: Project, mode: tuple[str, ...]) -> None:
    cases = simple(2)
    cases[0]["expected_l1"]["memories"].append(memory("fact number 9"))
    cases[0]["expected_l2"] = {"template_section": {"daily": {"0": "basic_info", "1": "basic_info"}}}
    project.cases(cases, gates=["P0 l2.section_hit_rate >= 1"])
    twins = [{"id": "a", **memory("fact number 1")}, {"id": "a", **memory("fact number 9")}]
    section = {"daily": [{"id": "basic_info", "memory_ids": ["a"]}]}
    found = [
        {"case_id": "eval-001", "l1": twins, "template": section},
        {"case_id": "eval-002", "l1": [{"id": "a", **memory("fact number 2")}], "template": section},
    ]
    result = project.run("--memeval-predictions", rows(project, *found), *mode)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*[[]l1] bad_output: memories 0 and 1 have the same id 'a'*"])
    report = project.report()
    assert report["gates"][0]["status"] == "unmeasured"
    (entry,) = (one for one in report["per_case"] if one["outcome"] == "errored")
    assert (entry["stages"]["l1"], entry["stages"]["template"]) == ("errored", "void")


def test_f28_equal_ids_in_two_files_are_told_apart_by_set(project: Project) -> None:
    for name in ("a", "b"):
        project.cases(
            [case("x", "x: y", truth=[("identity", f"the file is called {name * 5}")])], name=f"cases/{name}.yaml"
        )
    found = [
        {"case_id": "x", "set": f"cases/{n}.yaml", "l1": [memory(f"the file is called {n * 5}")]} for n in ("a", "b")
    ]
    project.run("--memeval-predictions", rows(project, *found)).assert_outcomes(passed=2)
    assert project.report()["l1"]["dimension_micro_f1"] == 1
    project.run("--memeval-predictions", rows(project, found[0])).assert_outcomes(passed=1, errors=1)


@MODES
def test_bad_lines_end_the_run_before_it_starts(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(simple(1))
    result = project.run("--memeval-predictions", rows(project, "{", '{"case_id": "a", "l9": 1}'), *mode)
    assert result.ret == 4
    text = result.stderr.str()
    assert "outputs.jsonl:1" in text
    assert "outputs.jsonl:2" in text
    assert "Traceback" not in text
    result = project.run("--memeval-predictions", "none.jsonl", *mode)
    assert result.ret == 4
    assert "none.jsonl does not exist" in result.stderr.str()


WITHOUT_ENGINE = ("engine", "model")


@MODES
@pytest.mark.parametrize("stage_input", ["chained", "truth"])
def test_a_recorded_run_gives_the_same_figures_again(project: Project, mode: tuple[str, ...], stage_input: str) -> None:
    project.write("conftest.py", "")
    project.write("cases/v001_sample.yaml", (CASES / "v001_sample.yaml").read_text(encoding="utf-8"))
    options = ("--memeval-stage-input", stage_input, *mode)
    project.run("--memeval-save-predictions", "saved.jsonl", "--memeval-output", "first", *options).assert_outcomes(
        passed=5
    )
    project.run("--memeval-predictions", "saved.jsonl", "--memeval-output", "again", *options).assert_outcomes(passed=5)
    first, again = stable(project.report("first")), stable(project.report("again"))
    # An offline reader's outputs stay an offline reader's, whoever scores them.
    assert "embedded" in again["notes"][0]
    for report in (first, again):
        for key in (*WITHOUT_ENGINE, "usage"):
            report.pop(key)
        for entry in report["per_case"]:
            entry.pop("calls")
            entry.pop("usage")
    # No case of this set searches, so nothing recorded says that the engine could.
    assert set(first["stages"].pop("supported")) - set(again["stages"].pop("supported")) == {"search"}
    assert again == first
    assert first["l2"]["section_hit_rate"] is not None
    assert first["inject"]["reference_coverage"] is not None


@MODES
def test_what_was_noted_is_counted_again(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(
        [case("a", "identity+nonsense: x likes tea", truth=[("identity", "x likes tea")]), case("b", "raise", truth=[])]
    )
    options = ("-o", "memeval_unknown_label=fp", *mode)
    project.run("--memeval-save-predictions", "out/saved.jsonl", *options).assert_outcomes(passed=1, errors=1)
    first = project.report()["l1"]
    assert (first["dropped_labels"], first["total_fp"]) == (1, 1)
    saved = [json.loads(line) for line in (project.path / "out/saved.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [sorted(row) for row in saved] == [["case_id", "facts", "l1", "set"], ["case_id", "set"]]
    project.run("--memeval-predictions", "out/saved.jsonl", "--memeval-output", "again", *options).assert_outcomes(
        passed=1, errors=1
    )
    assert stable(project.report("again"))["l1"] == stable(project.report())["l1"]


def test_saved_rows_meet_the_published_schema(project: Project) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(
        (CASES.parent / "pytest_memeval/data/schemas/predictions.schema.json").read_text(encoding="utf-8")
    )
    project.write("conftest.py", "")
    project.write("cases/v001_sample.yaml", (CASES / "v001_sample.yaml").read_text(encoding="utf-8"))
    project.run("--memeval-save-predictions", "saved.jsonl")
    validator = jsonschema.Draft202012Validator(schema)
    saved = (project.path / "saved.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(saved) == 5
    for line in saved:
        validator.validate(json.loads(line))


def test_tests_that_use_a_case_too_write_no_second_row(project: Project) -> None:
    project.cases(good_cases(1))
    project.write(
        "test_mine.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
        def test_it(memeval_l1):
            pass
        """,
    )
    project.run("--memeval-save-predictions", "saved.jsonl").assert_outcomes(passed=2)
    assert len((project.path / "saved.jsonl").read_text(encoding="utf-8").splitlines()) == 1
    project.run("--memeval-predictions", "saved.jsonl").assert_outcomes(passed=2)


@MODES
def test_rows_of_several_variants_are_refused_in_a_run_without_any(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(simple(1))
    found = [
        {"case_id": "eval-001", "variant": name, "l1": [memory(text)]}
        for name, text in (("old", "nothing"), ("new", "fact number 1"))
    ]
    for order in (found, found[::-1]):
        result = project.run("--memeval-predictions", rows(project, *order), *mode)
        assert result.ret == 4
        said = [line for line in result.stderr.lines if "outputs.jsonl" in line]
        assert [line[line.index("holds") :] for line in said] == [
            "holds rows of the variants new, old, and this run has no variants: keep the rows of one of them, or name"
            " the variants with --memeval-variant"
        ]
    # Those of one variant need none, and neither does a run over these variants.
    project.run("--memeval-predictions", rows(project, found[1]), *mode).assert_outcomes(passed=1)
    named = ("--memeval-variant=old=", "--memeval-variant=new=engine:reference")
    project.run("--memeval-predictions", rows(project, *found), *named, *mode).assert_outcomes(passed=2)


@MODES
def test_a_row_without_a_set_is_no_row_of_cases_in_two_files(project: Project, mode: tuple[str, ...]) -> None:
    for name in ("a", "b"):
        project.cases(
            [case("x", "x: y", truth=[("identity", f"the file is {name * 5}")]), *simple(1)],
            name=f"cases/{name}.yaml",
            gates=["P0 l1.dimension_micro_f1 >= 1"],
        )
    row = {"case_id": "x", "l1": [memory("the file is aaaaa")]}
    known = [{**row, "case_id": "eval-001", "set": f"{name}.yaml", "l1": [memory("fact number 1")]} for name in "ab"]
    file = rows(project, row, *known)
    reports = []
    for chosen in (["cases/a.yaml", "cases/b.yaml"], ["cases/b.yaml", "cases/a.yaml"], ["-kx", "cases"]):
        result = project.run("--memeval-predictions", file, *chosen, *mode)
        assert result.ret == 1
        report = project.report()
        reports.append([(one["node_id"], one["outcome"], one["errors"]) for one in report["per_case"]])
        assert {gate["status"] for gate in report["gates"]} == {"unmeasured"}
    assert reports[0] == reports[1]
    errors = [(node_id, error["kind"], error["message"]) for node_id, _, errors in reports[0] for error in errors]
    sentence = (
        "outputs.jsonl has one row for x of several case files, cases/a.yaml, cases/b.yaml: give the row the one that"
        " it is of under the key 'set'"
    )
    assert errors == [(f"cases/{name}.yaml::x", "no_prediction", sentence) for name in "ab"]
    assert [entry for entry in reports[0] if not entry[0].endswith("001")] == reports[2]
    # In a run of one of the files it is clear.
    project.run("--memeval-predictions", file, "cases/a.yaml", *mode).assert_outcomes(passed=2)


@MODES
def test_a_row_taken_for_one_file_is_not_gone_on_with_beside_another(project: Project, mode: tuple[str, ...]) -> None:
    for name in ("a", "b"):
        project.cases([case("x", "x: y", truth=[("identity", f"the file is {name * 5}")])], name=f"cases/{name}.yaml")
    file = rows(project, {"case_id": "x", "l1": [memory("the file is aaaaa")]})
    project.run("--memeval-predictions", file, "cases/a.yaml", *mode).assert_outcomes(passed=1)
    project.run("--memeval-predictions", file, "--memeval-resume", "out", *mode).assert_outcomes(errors=2)


@MODES
def test_a_partial_runs_predictions_are_told_as_that(project: Project, mode: tuple[str, ...]) -> None:
    project.cases([*good_cases(4), case("bad", "raise", truth=[("identity", "x")])])

    def told(*args: str) -> list[str]:
        result = project.run("--memeval-save-predictions=rows.jsonl", *args, *mode)
        return [line for line in result.stdout.lines if "holds" in line and "rows.jsonl" in line]

    assert told() == []
    for chosen, rows_left in (("-keval-001 or eval-002", 2), ("--memeval-limit=3", 3)):
        (line,) = told(chosen)
        assert line.endswith(
            f"rows.jsonl holds {rows_left} row(s), and not those of all cases: the run was over a part of them"
        )
        assert line.startswith("--memeval-save-predictions: ")
    project.write("conftest.py", "")
    variants = ("--memeval-variant=a=engine:line_engine:LineEngine", "--memeval-variant=b=engine:reference")
    for chosen, count in (((), 0), (("-keval-001",), 1)):
        assert len(told(*variants, *chosen)) == count
    project.cases([case("bad", "raise", truth=[("identity", "x")]), *good_cases(40)])
    (line,) = told("-x", "--memeval-engine=line_engine:LineEngine")
    assert line.startswith("--memeval-save-predictions: ")
