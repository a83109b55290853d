"""What a run tells its reader so that nothing is overlooked: dropped labels, rows of no case, files of no pattern."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_project import full_case
from plugin_project import MODES, Project, case, good_cases

from pytest_memeval.assets.registry import SHIPPED_REGISTRY
from pytest_memeval.cases.folders import forgotten_in
from pytest_memeval.cli.main import main

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


ONE = good_cases(1)[0]


def _entry(case_id: str) -> str:
    return json.dumps(ONE | {"case_id": case_id})


#: Names of files with cases → what is in them; "ID" stands for the case's id.
TAKEN = {
    "quoted.yaml": 'meta: {gates: []}\n"cases":\n  - ENTRY\n',
    "flow.yaml": "{meta: {gates: []}, cases: [ENTRY]}\n",
    "compact.yaml": '{"meta": {"gates": []}, "cases": [ENTRY]}',
    "indented.yaml": "  meta: {gates: []}\n  cases:\n    - ENTRY\n",
    "old-mac.yml": "meta: {gates: []}\rcases:\r  - ENTRY\r",
    "below/list.yaml": "- ENTRY\n",
}
MISSPELT = {
    "typo.yaml": ("case:\n  - ENTRY\n", "unknown key 'case' in the file; did you mean 'cases'?"),
    "caps.yaml": ("Cases:\n  - ENTRY\n", "unknown key 'Cases' in the file; did you mean 'cases'?"),
    "braces.yaml": ('{"casse": [ENTRY]}', "unknown key 'casse' in the file; did you mean 'cases'?"),
    "other.yaml": ("evals:\n  - ENTRY\n", "unknown key 'evals' in the file; known: meta, kind, dataset, cases"),
}
FORGOTTEN = {
    "UP.MEMEVAL.JSONL": "ENTRY\n",
    "UP.YAML": "meta: {gates: []}\ncases:\n  - ENTRY\n",
    "plain.json": '{"meta": {"gates": []}, "cases": [ENTRY]}',
    "plain.jsonl": "ENTRY\n",
    "x.memeval.json": '{"meta": {"gates": []}, "cases": [ENTRY]}',
}
FOREIGN = {
    "compose.yaml": "services: {}\n",
    "config.json": '{"cases": 3}',
    "rows.jsonl": '{"case_id": "a", "l1": []}\n',
}
PATTERNS = "(cases/**/*.yaml, cases/**/*.yml, *.memeval.yaml, *.memeval.yml, *.memeval.jsonl)"


def _files(project: Project, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = project.path / "cases" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace("ENTRY", _entry(Path(name).stem)).encode())


@MODES
def test_however_cases_are_written_they_are_run(project: Project, mode: tuple[str, ...]) -> None:
    _files(project, {**TAKEN, **FOREIGN})
    result = project.run("--memeval-no-gate", *mode)
    result.assert_outcomes(passed=len(TAKEN))
    assert set(project.outcomes()) == {Path(name).stem for name in TAKEN}
    assert "memeval_files" not in result.stdout.str()


@MODES
@pytest.mark.parametrize("name", MISSPELT)
def test_cases_under_a_misspelt_key_are_an_error_and_not_left_out(
    project: Project, mode: tuple[str, ...], name: str
) -> None:
    text, said = MISSPELT[name]
    _files(project, {"good.yaml": TAKEN["quoted.yaml"], name: text})
    result = project.run("cases", *mode)
    assert result.ret != 0
    assert f"cases/{name}:1:" in result.stdout.str()
    assert said in result.stdout.str()


@MODES
def test_files_of_no_pattern_beside_those_that_are_run_are_named(project: Project, mode: tuple[str, ...]) -> None:
    _files(project, {"good.yaml": TAKEN["quoted.yaml"], **FORGOTTEN, **FOREIGN})
    for folder in ("cases", "."):
        result = project.run(folder, *mode)
        result.assert_outcomes(passed=1)
        (line,) = [line for line in result.outlines if line.startswith("memeval: ")]
        assert line == (
            f"memeval: {', '.join(FORGOTTEN)} in cases look like case files, but no pattern of memeval_files has them"
            f" {PATTERNS}; name the files themselves, or add a pattern"
        )
    # Whoever names a file means that one; and what the line advises works.
    named = [f"cases/{name}" for name in FORGOTTEN]
    for arguments, count in ((["cases/good.yaml"], 1), ([*named, "--memeval-no-gate"], 5)):
        result = project.run(*arguments, *mode)
        result.assert_outcomes(passed=count)
        assert "memeval_files" not in result.stdout.str()


@MODES
@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_file_of_no_pattern_is_named_where_nothing_else_is_run(
    project: Project, mode: tuple[str, ...], name: str
) -> None:
    _files(project, {name: FORGOTTEN[name]})
    result = project.run("cases", *mode)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    (line,) = [line for line in result.outlines if line.startswith("memeval: ")]
    assert line.startswith(f"memeval: {name} in cases looks like a case file, but no pattern of memeval_files has it")


@MODES
def test_what_runs_write_is_no_forgotten_case_file(project: Project, mode: tuple[str, ...]) -> None:
    file = project.cases([full_case(9), *good_cases(2)])
    variants = ("--memeval-variant=a=engine:reference", "--memeval-variant=b=engine:reference,llm:embedded")
    project.write("conftest.py", "")
    project.run("--memeval-engine=reference", "--memeval-save-predictions=out/rows.jsonl", "--memeval-keep-db", *mode)
    project.run(*variants, "--memeval-save-predictions=both/rows.jsonl", "--memeval-output=both", *mode)
    written = {path.name for name in ("out", "both") for path in (project.path / name).rglob("*")}
    assert {"journal.jsonl", "rows.jsonl", "report.json", "per_case.csv", "compare-a-b.json"} <= written
    result = project.run("-k", "nothing", *mode)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "case file" not in result.stdout.str()
    assert forgotten_in(project.path, [file]) == []


def test_validate_takes_and_names_the_same_files(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.path)
    _files(project, {**TAKEN, **FORGOTTEN, **FOREIGN})
    assert main(["validate", "cases"]) == 0
    said = capfd.readouterr()
    assert sorted(line for line in said.out.splitlines() if "warning" not in line) == sorted(
        f"cases/{name}: 1 case, 0 problems" for name in TAKEN
    )
    assert [line.partition(" looks")[0] for line in said.err.splitlines()] == [
        *(f"note: cases/{name}" for name in FORGOTTEN),
        "note: passed over in cases, since nothing in it says that it is a case file: compose.yaml",
    ]
    for name in TAKEN:
        (project.path / "cases" / name).unlink()
    assert main(["validate", "cases"]) == 2
    assert "cases: no case file in this folder; cases/UP.MEMEVAL.JSONL looks like a case file" in capfd.readouterr().err
    _files(project, {name: text for name, (text, _) in MISSPELT.items()})
    assert main(["validate", "cases"]) == 1
    said = capfd.readouterr()
    for name, (_, problem) in MISSPELT.items():
        assert f"cases/{name}:1:" in said.out
        assert problem in said.out
