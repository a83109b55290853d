"""--memeval-stages and --memeval-stage-input with the reference engine, and what the figures honestly depend on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from plugin_project import MODES, stable

if TYPE_CHECKING:
    from plugin_project import Project

CASES = Path(__file__).parents[2] / "cases"
DATA = Path(__file__).parents[2] / "pytest_memeval" / "data"


def sample(project: Project, name: str = "v001_sample.yaml") -> None:
    """A project with a copy of the shipped cases and no engine of its own."""
    project.write("conftest.py", "")
    project.write(f"cases/{name}", (CASES / name).read_text(encoding="utf-8"))


@MODES
def test_each_stage_alone_on_the_labels(project: Project, mode: tuple[str, ...]) -> None:
    sample(project)
    project.run("--memeval-stage-input", "truth", *mode).assert_outcomes(passed=5)
    report = project.report()
    assert report["stages"]["input"] == "truth"
    # Sections need labels and templates alone: with the labelled memories only the templates can be wrong.
    assert report["l2"]["section_hit_rate"] >= 0.9
    assert report["l2"]["unreached"] == report["l15"]["unreached"] == 0
    assert report["inject"]["reference_coverage"] is not None
    assert report["inject"]["pipeline_coverage"] is None


def test_the_chain_is_the_default_and_injection_is_measured_on_labels_either_way(project: Project) -> None:
    sample(project)
    project.run().assert_outcomes(passed=5)
    chained = project.report()
    project.run("--memeval-stage-input", "truth")
    truth = project.report()
    assert chained["stages"]["input"] == "chained"
    for name in ("inject_hit_rate", "reference_coverage"):
        assert chained["inject"][name] == truth["inject"][name]
    assert chained["inject"]["pipeline_coverage"] is not None
    for name in ("dimension_micro_f1", "memory_recall", "total_tp", "total_fp", "total_fn"):
        assert chained["l1"][name] == truth["l1"][name], name


@pytest.mark.parametrize(
    ("stages", "scored", "ran"),
    [
        ("l1", {"l1"}, set()),
        ("l15", {"l15"}, {"l1"}),
        ("l2", {"l2", "template"}, {"l1", "l15"}),
        ("template", {"template"}, {"l1", "l15"}),
        ("inject", {"inject"}, {"l1", "l15"}),
        ("l1,inject", {"l1", "inject"}, {"l15"}),
    ],
)
def test_selected_stages_are_scored_and_those_on_the_way_run(
    project: Project, stages: str, scored: set[str], ran: set[str]
) -> None:
    sample(project)
    # The fourth case has labels for every stage.
    project.run("-k", "eval-004", "--memeval-stages", stages).assert_outcomes(passed=1, deselected=4)
    [entry] = project.report()["per_case"]
    found = {stage for stage, status in entry["stages"].items() if status == "scored"}
    assert found == scored
    assert {stage for stage, status in entry["stages"].items() if status == "ran"} == ran
    whole = {"l1", "l15", "l2", "template", "inject"}
    assert {s for s, status in entry["stages"].items() if status == "unselected"} == whole - scored - ran
    for section in ("l1", "l15", "inject"):
        assert (entry[section] is not None) == (section in scored)


def test_an_unknown_stage_or_input_ends_the_run_with_the_nearest(project: Project) -> None:
    sample(project)
    result = project.run("--memeval-stages", "l1,tempate")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*unknown stage 'tempate'; did you mean 'template'?*"])
    result = project.run("--memeval-stage-input", "trutt")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*'trutt'; did you mean 'truth'?*"])


def test_cases_that_another_project_wrote_run_unchanged(project: Project) -> None:
    golden = os.environ.get("MEMEVAL_GOLDEN_DIR")
    if not golden:
        pytest.skip("MEMEVAL_GOLDEN_DIR is not set: it names the folder beside which the other project's cases lie")
    file = Path(golden).parent / "sgme_v001_sample.yaml"
    project.write("conftest.py", "")
    result = project.run(str(file), "--memeval-no-gate")
    assert sum(result.parseoutcomes().values()) == 5
    report = project.report()
    assert report["counts"]["total"] == 5
    # What their labels lack in our registry or templates is an error of that case alone.
    assert {entry["error"]["kind"] for entry in report["per_case"] if entry["error"]} <= {"invalid_case"}
    assert report["counts"]["scored"] >= 3
    assert "Traceback" not in result.stdout.str()


# -- honesty ---------------------------------------------------------------------------------------------------------


def f1(project: Project, *args: str) -> tuple[float, dict[str, Any]]:
    assert project.run("--memeval-no-gate", *args).ret == 0
    report = project.report()
    return report["l1"]["dimension_micro_f1"], report


def test_the_richer_prompts_do_better_for_the_offline_reader(project: Project) -> None:
    sample(project, "v001.yaml")
    terse, _ = f1(project, "--memeval-stages", "l1", "--memeval-prompt-version", "v001")
    rich, _ = f1(project, "--memeval-stages", "l1", "--memeval-prompt-version", "v002")
    assert rich >= terse


def all_labelled(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping with dimensions, wherever it stands."""
    if isinstance(node, dict):
        if isinstance(node.get("dimensions"), list):
            yield node
        for value in node.values():
            yield from all_labelled(value)
    elif isinstance(node, list):
        for value in node:
            yield from all_labelled(value)


def test_opaque_dimension_ids_leave_every_figure_of_extraction_as_it_is(project: Project) -> None:
    sample(project, "v001.yaml")
    _, plain = f1(project, "--memeval-stages", "l1")
    registry = yaml.safe_load((DATA / "registry.yaml").read_text(encoding="utf-8"))
    names = {entry["id"]: f"dim{at:02}" for at, entry in enumerate(registry["dimensions"])}
    for entry in registry["dimensions"]:
        entry["id"] = names[entry["id"]]
    project.write("own/registry.yaml", yaml.safe_dump(registry, allow_unicode=True, sort_keys=False))
    for file in (DATA / "templates").glob("*.yaml"):
        template = yaml.safe_load(file.read_text(encoding="utf-8"))
        for section in template["sections"]:
            query = section["query"]
            if "dimensions" in query:
                query["dimensions"] = [names[name] for name in query["dimensions"]]
        project.write(f"own/templates/{file.name}", yaml.safe_dump(template, allow_unicode=True, sort_keys=False))
    data = yaml.load((CASES / "v001.yaml").read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    for labelled in all_labelled(data["cases"]):
        labelled["dimensions"] = [names[name] for name in labelled["dimensions"]]
    data["meta"] |= {"registry": "../own/registry.yaml", "templates": "../own/templates", "gates": []}
    project.write("cases/v001.yaml", yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
    _, renamed = f1(project, "--memeval-stages", "l1")
    back = {new: old for old, new in names.items()}

    def figures(report: dict[str, Any], table: dict[str, str]) -> Any:
        text = json.dumps(stable(report)["l1"])
        for new, old in table.items():
            text = text.replace(new, old)
        return json.loads(text)

    assert figures(renamed, back) == figures(plain, {})
    assert plain["l1"]["total_tp"] > 20
