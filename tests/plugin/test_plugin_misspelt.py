"""A misspelt method of an engine beside a right one: no stage goes out of a run in silence."""

from __future__ import annotations

from typing import Any

import pytest
from plugin_project import MODES, Project, case, good_cases

import pytest_memeval
from pytest_memeval.cli.main import main

ENGINE = """
class Engine:
    name = "mine"

    def {method}(self, conversation, ctx):
        return [{{"content": message.content, "dimensions": ["identity"]}} for message in conversation]

    def query_template(self, mode, ctx):
        return []
"""
CONFTEST = """
import pytest
from mine import Engine


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""
SENTENCE = "engine mine has no method 'extract', which l1 of this case needs, but 'extrakt'; did you mean 'extract'?"


def write(project: Project, method: str, more: str = "", **meta: Any) -> None:
    project.write("mine.py", ENGINE.format(method=method) + more)
    project.write("conftest.py", CONFTEST)
    project.cases(good_cases(3), **meta)


def errors(project: Project, folder: str = "out") -> set[tuple[str, str, str]]:
    entries = project.report(folder)["per_case"]
    return {(error["stage"], error["kind"], error["message"]) for entry in entries for error in entry["errors"]}


@MODES
def test_it_is_an_error_that_names_both(project: Project, mode: tuple[str, ...]) -> None:
    write(project, "extrakt")
    result = project.run(*mode)
    result.assert_outcomes(errors=3)
    assert result.ret == 1
    assert result.stdout.str().count(SENTENCE) == 3
    assert errors(project) == {("setup", "misspelt_method", SENTENCE)}


@pytest.mark.parametrize("option", [("--memeval-engine", "mine:Engine"), ("--memeval-trials", "2")])
def test_so_it_is_whoever_gives_the_engine(project: Project, option: tuple[str, ...]) -> None:
    write(project, "extrakt")
    if option[0] == "--memeval-engine":
        project.write("conftest.py", "")
    assert project.run(*option).ret == 1
    assert errors(project) == {("setup", "misspelt_method", SENTENCE)}


def test_so_it_is_in_the_python_api(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, "extrakt")
    monkeypatch.chdir(project.path)
    monkeypatch.syspath_prepend(project.path)
    scope: dict[str, Any] = {}
    exec(ENGINE.format(method="extrakt"), scope)
    report = pytest_memeval.run("cases/v001.yaml", engine=scope["Engine"](), output="out")
    assert not report.passed
    assert errors(project) == {("setup", "misspelt_method", SENTENCE)}


def test_so_it_is_in_a_test_by_hand(project: Project) -> None:
    write(project, "extrakt")
    project.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001")
        def test_it(memeval_template):
            pass
        """,
    )
    result = project.run("test_own.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{SENTENCE}"])


def test_the_parts_of_a_shared_out_run_say_so_too(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, "extrakt")
    for n in (1, 2):
        project.run("--memeval-shard", f"{n}/2", "--memeval-output", f"part{n}")
    monkeypatch.chdir(project.path)
    assert main(["merge", "part1", "part2", "--output", "merged"]) == 1
    assert errors(project, "merged") == {("setup", "misspelt_method", SENTENCE)}


@MODES
@pytest.mark.parametrize("name", ["extract_text", "extractor", "reextract"])
def test_a_name_of_its_own_is_none_but_a_run_that_measured_nothing_is_not_green(
    project: Project, mode: tuple[str, ...], name: str
) -> None:
    write(project, name, gates=None)
    result = project.run("-rs", *mode)
    result.assert_outcomes(skipped=3)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["P0 gate unmeasured: *"])
    result.stdout.fnmatch_lines(["*nothing of this case can be measured: engine mine lacks l1"])
    gates = {gate["metric"]: gate for gate in project.report()["gates"]}
    assert gates["l1.dimension_micro_f1"]["status"] == "unmeasured"
    assert gates["l1.dimension_micro_f1"]["reason"] == (
        "The engine does not support stage l1. No case of this run was scored."
    )
    # Nobody has labelled anything for it.
    assert gates["l2.section_hit_rate"]["status"] == "not_applicable"


@MODES
def test_nor_is_one_of_stages_that_no_case_has_labels_for(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2), gates=None)
    assert project.run("--memeval-stages", "l2", *mode).ret == 1
    assert project.report()["summary"]["passed_p0"] is False
    # Who wants no gates has none.
    project.cases(good_cases(2), gates=[])
    assert project.run("--memeval-stages", "l2", *mode).ret == 0


def test_a_helper_beside_the_method_is_nobodys_business(project: Project) -> None:
    write(
        project,
        "extract",
        "\n    def extrakt(self):\n        pass\n\n    def search_all(self):\n        pass\n",
        gates=[],
    )
    assert project.run().ret == 0


def test_a_misspelt_method_that_no_case_needs_is_left_alone(project: Project) -> None:
    write(project, "extract", "\n    def serach(self, query, params, ctx):\n        pass\n", gates=[])
    assert project.run().ret == 0


@MODES
@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        (["l1", "l16"], "its supported_stages() gives 'l16', which is no stage; did you mean 'l1*'?"),
        (["l1", "templates"], "its supported_stages() gives 'templates', which is no stage; did you mean 'template'?"),
        (["extract"], "its supported_stages() gives 'extract', which is no stage*"),
        (["l1", "rrf"], "its supported_stages() gives 'rrf', which is no stage; did you mean 'search'?"),
    ],
)
def test_an_unknown_stage_is_an_error_of_the_engine(
    project: Project, mode: tuple[str, ...], stages: list[str], sentence: str
) -> None:
    write(project, "extract", f"\n    def supported_stages(self):\n        return {stages}\n", gates=[])
    result = project.run(*mode)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines([f"*engine Engine: {sentence}"])
    project.write("conftest.py", "")
    named = project.run("--memeval-engine", "mine:Engine", *mode)
    assert named.ret == pytest.ExitCode.USAGE_ERROR


def test_a_stage_of_questions_is_one(project: Project) -> None:
    write(project, "extract", "\n    def supported_stages(self):\n        return ['l1', 'qa']\n", gates=[])
    project.cases([case("a", "identity: one")])
    assert project.run().ret == 0
