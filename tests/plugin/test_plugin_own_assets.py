"""Runs of projects with a registry, memory types, templates and prompts of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import MODES, good_cases

from pytest_memeval.cli.main import main

if TYPE_CHECKING:
    from plugin_project import Project

NINE = ("who", "where", "work", "people", "likes", "plans", "health", "tools", "rest")

ENGINE = """
import pytest

class Engine:
    name = "own"

    def load(self, memories, scenes, ctx):
        self.store = [*memories]

    def extract(self, conversation, ctx):
        assert len(ctx.registry.ids) == 9
        return [{"id": "m0", "content": "works as a nurse", "dimensions": ["WORK", "identity"], "memory_type": "Fact",
                 "priority": 7, "time_velocity": "static"}]

    def query_template(self, mode, ctx):
        assert mode == "brief"
        return [{"title": "All work", "memory_ids": ["m0"]}]


@pytest.fixture
def memeval_engine():
    return Engine()
"""


WORKS: dict[str, Any] = {
    "case_id": "a",
    "conversation": "[msg#1] user: I work as a nurse.",
    "expected_l1": {
        "memories": [{"content": "works as a nurse", "dimensions": ["work"], "memory_type": "fact", "priority": 8}]
    },
}


def own(project: Project, meta: bool) -> None:
    project.write("conftest.py", ENGINE)
    dimensions = [{"id": name, "display_name": name.title(), "description": f"what {name} is"} for name in NINE]
    registry: dict[str, Any] = {"dimensions": dimensions, "memory_types": ["fact", "rule"], "priority": [0, 10]}
    project.write("own/registry.yaml", json.dumps(registry))
    section = {"id": "all_work", "title": "All work", "query": {"dimensions": ["work"]}}
    project.write(
        "own/templates/brief.yaml", json.dumps({"name": "brief", "display_name": "Brief", "sections": [section]})
    )
    if not meta:
        project.pytester.makeini("[pytest]\nmemeval_registry = own/registry.yaml\nmemeval_templates = own/templates\n")
    entry: dict[str, Any] = {
        "case_id": "a",
        "conversation": "[msg#1] user: I work as a nurse.",
        "expected_l1": {
            "memories": [{"content": "works as a nurse", "dimensions": ["work"], "memory_type": "fact", "priority": 8}]
        },
        "expected_l2": {"template_section": {"brief": {"0": "All work"}}},
    }
    wrong = json.loads(json.dumps(entry).replace('"work"', '"identity"').replace('"a"', '"b"'))
    named = {"registry": "../own/registry.yaml", "templates": "../own/templates"} if meta else {}
    project.cases([entry, wrong], **named)


@pytest.mark.parametrize("meta", [True, False], ids=["meta", "ini"])
def test_nine_dimensions_and_one_template_of_their_own(project: Project, meta: bool) -> None:
    own(project, meta)
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*v001.yaml:4*'identity'*"])
    report = project.report()
    assert report["l1"]["dimension_micro_f1"] == 1
    assert report["l1"]["dropped_labels"] == 1
    assert report["l1"]["memory_type_accuracy"] == 1
    assert report["l1"]["per_dimension_f1"]["work"] == 1
    assert report["l2"]["section_hit_rate"] == 1


def test_two_files_may_have_two_registries(project: Project) -> None:
    own(project, meta=True)
    shipped = {
        "case_id": "s",
        "conversation": "[msg#1] user: x",
        "expected_l1": {"memories": [{"content": "x", "dimensions": ["identity"]}]},
    }
    project.write("theirs/conftest.py", ENGINE.replace("== 9", "== 15").replace('"WORK", "identity"', '"Identity"'))
    project.cases([shipped], name="theirs/shipped.yaml")
    project.run("cases/v001.yaml::a", "theirs/shipped.yaml").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("ini", "sentence"),
    [
        ("memeval_registry = own/none.yaml", "none.yaml does not exist"),
        ("memeval_templates = own/nothing", "nothing does not exist"),
        ("memeval_prompts = nowhere", "nowhere does not exist"),
    ],
)
def test_assets_of_the_ini_that_cannot_be_used_end_the_run(project: Project, ini: str, sentence: str) -> None:
    own(project, meta=True)
    project.pytester.makeini(f"[pytest]\n{ini}\n")
    result = project.run()
    assert result.ret == 4, result.stdout.str()
    assert sentence in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


#: One line: which file lacks what, and what to do.
UNFIT = (
    "own/registry.yaml lacks dimensions that the shipped templates name (identity, family, social, …):"
    " set memeval_templates"
)


@MODES
@pytest.mark.parametrize("named", ["ini", "meta"])
@pytest.mark.parametrize(
    ("options", "outcome"), [((), "errors"), (("--memeval-stages", "l1"), "passed")], ids=["all", "l1"]
)
def test_a_registry_without_templates_beside_it(
    project: Project,
    mode: tuple[str, ...],
    options: tuple[str, ...],
    outcome: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own(project, meta=True)
    if named == "ini":
        project.pytester.makeini("[pytest]\nmemeval_registry = own/registry.yaml\n")
    labelled = WORKS | {"expected_l2": {"template_section": {"daily": {"0": "basic_info"}}}}
    meta = {"registry": "../own/registry.yaml"} if named == "meta" else {}
    project.write("cases/v001.yaml", json.dumps({"meta": meta, "cases": [labelled]}))
    result = project.run(*options, *mode)
    result.assert_outcomes(**{outcome: 1})
    text = result.stdout.str() + result.stderr.str()
    # Once where the case is told, once in pytest's short summary.
    lines = [line for line in text.splitlines() if "lacks dimensions" in line]
    if outcome == "errors":
        assert any(f"[template] no_templates: {UNFIT}" in line for line in lines)
        assert len(lines) <= 2
        assert project.report()["per_case"][0]["stages"]["l1"] == "scored"
    else:
        assert lines == []
    # Whoever looks at the file alone hears of it too, once and instead of what the wrong templates would do.
    monkeypatch.chdir(project.path)
    capsys.readouterr()
    assert main(["validate", "cases/v001.yaml"]) == 0
    warned = [line for line in capsys.readouterr().out.splitlines() if "warning: " in line]
    assert len(warned) == 1
    assert f"sections and injections cannot be measured: {UNFIT}" in warned[0]
    assert "templates-unfit" in warned[0]


@MODES
def test_templates_of_the_ini_beside_another_registry_of_a_file(project: Project, mode: tuple[str, ...]) -> None:
    own(project, meta=False)  # the ini names both
    project.write("conftest.py", ENGINE.replace("== 9", "== 1"))
    project.write("own/small.yaml", "dimensions: [{id: play, display_name: Play}]\nmemory_types: [fact]\n")
    labelled = WORKS | {"expected_l2": {"template_section": {"brief": {"0": "All work"}}}}
    labelled["expected_l1"] = {"memories": [{"content": "works as a nurse", "dimensions": ["play"]}]}
    project.write("cases/v001.yaml", json.dumps({"meta": {"registry": "../own/small.yaml"}, "cases": [labelled]}))
    result = project.run("cases/v001.yaml", *mode)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*[[]template[]] no_templates: own/small.yaml lacks dimensions that own/templates names (work):*"]
    )


@MODES
def test_an_engine_that_only_extracts_needs_no_templates(project: Project, mode: tuple[str, ...]) -> None:
    own(project, meta=True)
    project.write(
        "conftest.py", ENGINE[: ENGINE.index("    def query_template")] + ENGINE[ENGINE.index("\n\n@pytest") :]
    )
    project.pytester.makeini("[pytest]\nmemeval_registry = own/registry.yaml\n")
    project.cases(
        [WORKS, WORKS | {"case_id": "b", "expected_l2": {"template_section": {"daily": {"0": "basic_info"}}}}]
    )
    project.run(*mode).assert_outcomes(passed=2)


def test_a_section_of_a_mode_that_is_not_shipped_says_what_is_missing(project: Project) -> None:
    own(project, meta=True)
    project.pytester.makeini("[pytest]\nmemeval_registry = own/registry.yaml\n")
    project.cases([WORKS | {"expected_l2": {"template_section": {"brief": {"0": "All work"}}}}])
    result = project.run()
    result.assert_outcomes(errors=1)
    assert f"no template for mode 'brief': {UNFIT}" in result.stdout.str()


SPOKEN = [
    {
        "case_id": "a",
        "conversation": [{"role": "user", "content": "I work as a nurse in Graz and I drink green tea every morning."}],
        "expected_l1": {"memories": [{"content": "works as a nurse in Graz", "dimensions": ["identity"]}]},
    }
]


@pytest.mark.parametrize("way", ["ini", "meta"])
def test_the_working_copy_of_prompts(project: Project, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("conftest.py", "")
    monkeypatch.chdir(project.path)
    assert main(["init", "--prompts", "prompts"]) == 0
    if way == "ini":
        project.pytester.makeini("[pytest]\nmemeval_prompts = prompts\n")
    project.cases(SPOKEN, **({"prompts": "../prompts"} if way == "meta" else {}))

    def version(*options: str) -> str:
        project.run(*options).assert_outcomes(passed=1)
        found: str = project.report()["prompt_versions"]["l1_extraction"]
        [entry] = project.report()["per_case"]
        assert {call["version"] for call in entry["calls"] if call["stage"] == "l1_extraction"} == {found}
        return found

    assert version() == "v002"
    assert version("--memeval-prompt-version", "l1=v001") == "v001"
    first = version("--memeval-prompt-version=@working")
    assert first.startswith("working-")
    assert version("--memeval-prompt-version", "l1=@working") == first
    working = project.path / "prompts" / "l1_extraction.txt"
    working.write_text(working.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    assert version("--memeval-prompt-version", "working") not in ("", first)
    assert version() == "v002"


def test_a_prompt_version_that_nobody_has_lists_those_that_exist(project: Project) -> None:
    project.write("conftest.py", "")
    project.cases(SPOKEN)
    result = project.run("--memeval-prompt-version", "v009")
    assert result.ret == 4
    assert "v001" in result.stderr.str()
    assert "v002" in result.stderr.str()


@pytest.mark.parametrize("way", ["gate", "ini gate", "ini expect"])
def test_f05_an_unknown_dimension_in_a_gate_ends_the_run(project: Project, way: str) -> None:
    project.cases(good_cases(1))
    bound = "l1.per_dimension_f1.identty >= 0.5"
    if way != "gate":
        line = f"memeval_gate = P0 {bound}" if way == "ini gate" else f"memeval_expect = {bound}"
        project.pytester.makeini(f"[pytest]\n{line}\n")
    result = project.run(*(("--memeval-gate", f"P0 {bound}") if way == "gate" else ()), fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*memeval?[eg]*: unknown dimension 'identty' in *; did you mean 'identity'?"])


GATE = "P0 l1.per_dimension_f1.{} >= 0.5"


@MODES
@pytest.mark.parametrize("dimension", ["wrk", "identity"])
def test_f05_a_file_with_a_registry_of_its_own_says_itself_what_it_knows(
    project: Project, mode: tuple[str, ...], dimension: str
) -> None:
    own(project, meta=True)
    assert project.run("cases/v001.yaml::a", "--memeval-gate", GATE.format("work"), *mode).ret == 0
    result = project.run("--memeval-gate", GATE.format(dimension), *mode, fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --memeval-gate: unknown dimension '{dimension}' in *"])
    if dimension == "wrk":
        assert "did you mean 'work'?" in result.stderr.str()


@MODES
@pytest.mark.parametrize("origin", ["command line", "ini"])
def test_a_gate_on_a_dimension_holds_for_the_files_whose_registry_has_it(
    project: Project, mode: tuple[str, ...], origin: str
) -> None:
    own(project, meta=True)
    project.write("conftest.py", ENGINE.replace("assert len(ctx.registry.ids) == 9", "pass"))
    (project.path / "cases" / "v001.yaml").unlink()
    named = {"registry": "../own/registry.yaml", "templates": "../own/templates"}
    project.write("cases/own.yaml", json.dumps({"meta": named, "cases": [WORKS]}))
    shipped = {"case_id": "s", "conversation": "[msg#1] user: I work as a nurse."}
    shipped["expected_l1"] = {"memories": [{"content": "works as a nurse", "dimensions": ["identity"]}]}
    project.write("cases/shipped.yaml", json.dumps({"meta": {}, "cases": [shipped]}))
    for dimension, knows in (("work", "cases/own.yaml"), ("identity", "cases/shipped.yaml")):
        gate = GATE.format(dimension)
        if origin == "ini":
            project.pytester.makeini(f"[pytest]\nmemeval_gate = {gate}\n")
        options = ("--memeval-gate", gate) if origin == "command line" else ()
        result = project.run("--memeval-stages", "l1", *options, *mode, fresh=True)
        result.assert_outcomes(passed=2)
        status = {one["scope"]: one for one in project.report()["gates"] if dimension in one["metric"]}
        (other,) = set(status) - {knows}
        assert (status[other]["status"], status[other]["reason_id"]) == ("not_applicable", "other_registry")
        assert status[knows]["status"] == "passed"
        assert status[other]["reason"] == (
            f"The registry of this file has no dimension {dimension}; the gate is for other files of this run."
        )
    bad = project.run("--memeval-gate", GATE.format("identty"), *mode, fresh=True)
    assert bad.ret == pytest.ExitCode.USAGE_ERROR
    assert "unknown dimension 'identty'" in bad.stderr.str()
    assert "did you mean 'identity'?" in bad.stderr.str()
