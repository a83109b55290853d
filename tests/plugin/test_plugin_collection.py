"""Which files become tests, and how their cases look as pytest items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project


def test_node_ids_lines_and_markers(project: Project) -> None:
    entries = good_cases(2)
    entries[0] |= {"difficulty": "hard", "source": "edge", "tags": ["negation"]}
    project.cases(entries)
    items, _ = project.pytester.inline_genitems("cases", "--strict-markers")
    assert [item.nodeid for item in items] == ["cases/v001.yaml::eval-001", "cases/v001.yaml::eval-002"]
    assert [item.reportinfo()[1] for item in items] == [2, 3]
    marks = {mark.name for mark in items[0].iter_markers()}
    assert marks == {"memeval", "hard", "edge", "negation"}
    assert {mark.name for mark in items[1].iter_markers()} == {"memeval", "unspecified"}


@MODES
def test_f14_foreign_yaml_is_never_opened(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(1))
    project.write("docker-compose.yml", "services: {web: {image: x}}\n")
    project.write("mkdocs.yml", "plugins: !!python/name:some.thing\n")
    project.write("cases/empty.yaml", "")
    project.write("cases/two.yaml", "a: 1\n---\nb: 2\n")
    project.write("cases/custom.yaml", "value: !vault |\n  x\n")
    project.write("test_ordinary.py", "def test_one(): pass\n")
    result = project.run("-q", *mode)
    result.assert_outcomes(passed=2)
    assert result.ret == 0


DISTILL = {"cases": [case("a", "identity: lives in Leeds")]}
QUESTIONS = {
    "kind": "qa",
    "cases": [
        {
            "case_id": "a",
            "conversation": "[msg#1] user: I live in Leeds",
            "questions": [{"id": "q", "question": "Where do I live?", "answer": "Leeds"}],
        }
    ],
}
SAMPLES = {
    "kind": "rag",
    "cases": [{"case_id": "a", "query": "Where?", "context": ["Leeds."], "response": "Leeds", "ground_truth": "Leeds"}],
}


KINDS = pytest.mark.parametrize("content", [DISTILL, QUESTIONS, SAMPLES], ids=["distill", "qa", "rag"])


@KINDS
@pytest.mark.parametrize("indent", [None, 2], ids=["one-line", "indented"])
@pytest.mark.parametrize("turned", [False, True], ids=["kind-first", "kind-last"])
def test_a_file_written_as_json_is_taken_by_its_keys(
    project: Project, content: dict[str, object], indent: int | None, turned: bool
) -> None:
    _taken_by_its_keys(project, (), content, indent=indent, turned=turned)


@KINDS
def test_two_processes_take_it_alike(project: Project, content: dict[str, object]) -> None:
    _taken_by_its_keys(project, ("-n", "2"), content, indent=2, turned=True)


def _taken_by_its_keys(
    project: Project, mode: tuple[str, ...], content: dict[str, object], *, indent: int | None, turned: bool
) -> None:
    import json

    written = dict(reversed(content.items())) if turned else content
    project.write("cases/x.yaml", json.dumps(written, indent=indent))
    project.write("cases/foreign.yaml", json.dumps({"services": {"cases": 1, "kind": "qa"}}, indent=indent))
    result = project.run(*mode)
    result.assert_outcomes(passed=1)
    project.write("named.json", json.dumps(written, indent=indent))
    assert project.run("named.json", *mode).parseoutcomes() == {"passed": 1}


def test_named_files_of_every_kind(project: Project) -> None:
    project.cases(good_cases(1), name="elsewhere/set.yaml")
    project.write("elsewhere/set.json", '{"cases": [' + _json(case("j", "identity: from json")) + "]}")
    project.write("elsewhere/set.memeval.jsonl", _json(case("l", "identity: from lines")) + "\n")
    project.run("elsewhere/set.yaml", "elsewhere/set.json").assert_outcomes(passed=2)
    # The pattern *.memeval.jsonl needs no naming.
    project.run().assert_outcomes(passed=1)


def test_ini_decides_which_files(project: Project) -> None:
    project.cases(good_cases(1), name="evals/deep/set.yaml")
    project.pytester.makeini("[pytest]\nmemeval_files = evals/**/*.yaml\n")
    project.run().assert_outcomes(passed=1)


def test_a_named_yaml_that_another_plugin_collects_stays_its_own(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        class Item(pytest.Item):
            def runtest(self): pass

        class File(pytest.File):
            def collect(self): yield Item.from_parent(self, name="theirs")

        def pytest_collect_file(file_path, parent):
            if file_path.name == "flow.yaml":
                return File.from_parent(parent, path=file_path)
        """,
    )
    project.write("flow.yaml", "stages: []\n")
    result = project.run("flow.yaml", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["flow.yaml::theirs PASSED*"])


def test_selection_by_keyword_marker_and_id(project: Project) -> None:
    entries = good_cases(4)
    entries[1] |= {"difficulty": "hard"}
    entries[2] |= {"difficulty": "hard", "tags": ["odd"]}
    project.cases(entries)
    project.run("-k", "eval-002").assert_outcomes(passed=1, deselected=3)
    project.run("-m", "hard and not odd").assert_outcomes(passed=1, deselected=3)
    project.run("cases/v001.yaml::eval-004").assert_outcomes(passed=1)
    project.run("--deselect", "cases/v001.yaml::eval-001").assert_outcomes(passed=3, deselected=1)
    assert project.run("-m", "odd", "--strict-markers").ret == 0


@MODES
def test_last_failed_and_stepwise(project: Project, mode: tuple[str, ...]) -> None:
    entries = good_cases(3)
    entries[1]["expect"] = {"l1.memory_recall": "> 1"}
    project.cases(entries)
    project.run(*mode).assert_outcomes(passed=2, failed=1)
    project.run("--lf", *mode).assert_outcomes(failed=1)
    if not mode:
        project.run("--sw").assert_outcomes(passed=1, failed=1)


def test_collect_only_writes_and_gates_nothing(project: Project) -> None:
    project.cases(good_cases(2), gates=["P0 l1.strict_match_rate > 1"])
    result = project.run("--collect-only", "-q")
    result.stdout.fnmatch_lines(["cases/v001.yaml::eval-001", "cases/v001.yaml::eval-002"])
    assert result.ret == 0
    assert not (project.path / "out").exists()


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_setup_runs_gate_nothing(project: Project, option: str) -> None:
    project.cases(good_cases(1), gates=["P0 l1.strict_match_rate > 1"])
    project.write("cases/rag.memeval.jsonl", '{"query": "q", "contexts": ["c"], "response": "r"}')
    project.write(
        "cases/qa.memeval.yaml",
        """
        kind: qa
        cases:
          - case_id: trip
            conversation: "[msg#1] 2026-01-01T10:00:00Z user: We went by boat."
            questions: [{id: how, question: "How did we go?", answer: by boat}]
        """,
    )
    result = project.run(option)
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["*cases/qa.memeval.yaml*", "*cases/rag.memeval.jsonl*", "*cases/v001.yaml*"])
    assert "ERROR" not in result.stdout.str()
    assert not (project.path / "out").exists()


@MODES
def test_file_errors_come_together(project: Project, mode: tuple[str, ...]) -> None:
    good = project.cases(good_cases(1), name="cases/good.yaml")
    project.write(
        "cases/bad.yaml",
        """\
        meta: {gates: ["P0 l1.dimension_micro_fl >= 0.5"]}
        cases:
          - case_id: a
            conversation: "identity: x"
            expcted_l1: {memories: []}
          - case_id: a
            tags: [skip]
            conversation: "identity: x"
            expected_l1: {memories: []}
        """,
    )
    result = project.run(*mode)
    text = result.stdout.str()
    assert result.ret == (1 if mode else 2), text
    for fragment in ("l1.dimension_micro_f1", "expected_l1", "bad.yaml:5", "bad.yaml:6", "skip"):
        assert fragment in text
    assert "Traceback" not in text
    assert good.exists()


@MODES
def test_a_case_error_is_an_error_of_that_case_alone(project: Project, mode: tuple[str, ...]) -> None:
    entries = good_cases(3)
    entries[1]["expected_l1"]["memories"][0]["dimensions"] = ["identiti"]
    project.cases(entries)
    result = project.run(*mode)
    result.assert_outcomes(passed=2, errors=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*v001.yaml:4*identiti*identity*"])
    report = project.report()
    assert report["counts"] == {"scored": 2, "errored": 1, "skipped": 0, "not_run": 0, "total": 3}
    skipped = project.run("-o", "memeval_on_invalid_case=skip", *mode)
    skipped.assert_outcomes(passed=2, skipped=1)
    assert skipped.ret == 0


def test_f16_the_same_id_in_two_files_is_two_items(project: Project) -> None:
    project.cases(good_cases(1), name="cases/a.yaml")
    project.cases(good_cases(1), name="cases/b.yaml")
    project.run().assert_outcomes(passed=2)
    assert {entry["set"] for entry in project.report()["per_case"]} == {"cases/a.yaml", "cases/b.yaml"}


def test_limit_and_sample(project: Project) -> None:
    project.cases(good_cases(9), name="cases/a.yaml")
    project.cases(good_cases(5), name="cases/b.yaml")
    project.run("--memeval-limit", "2").assert_outcomes(passed=4, deselected=10)
    report = project.report()
    assert report["partial"] == "selected"
    assert [entry["case_id"] for entry in report["per_case"]] == ["eval-001", "eval-002"] * 2
    project.run("--memeval-sample", "3", "--memeval-seed", "7")
    first = [entry["node_id"] for entry in project.report()["per_case"]]
    project.run("--memeval-sample", "3", "--memeval-seed", "7", "-n", "2")
    assert [entry["node_id"] for entry in project.report()["per_case"]] == first
    project.run("--memeval-sample", "3", "--memeval-seed", "8")
    assert [entry["node_id"] for entry in project.report()["per_case"]] != first


def _json(value: object) -> str:
    import json

    return json.dumps(value)
