"""A label that no file could have, in a case that is built in code: an error of the case, and no score."""

from __future__ import annotations

from typing import Any

import pytest
from plugin_project import MODES, Project, case

import pytest_memeval
from pytest_memeval.cases.models import EvalCase, GtMemory, L1GroundTruth
from pytest_memeval.values import Message

HEAD = """
import dataclasses

import pytest
from pytest_memeval import load_cases
from pytest_memeval.cases.models import EvalCase, GtMemory, L1GroundTruth
from pytest_memeval.values import Message


def spoken(label):
    return EvalCase(
        case_id="spoken",
        conversation=(Message("m", "user", "identity: teaches maths"),),
        expected_l1=L1GroundTruth((GtMemory("teaches maths", (label,)),)),
    )

"""
PLACE = "expected_l1.memories[0].dimensions[0]: unknown dimension 'identiy'; did you mean 'identity'?"
SENTENCE = f"[case] spoken: {PLACE}"

#: How a test comes to its case.
WAYS = {
    "marker": """
@pytest.mark.memeval(case=spoken("identiy"), gate=True)
def test_it(memeval_l1):
    pass
""",
    "marker, no gate": """
@pytest.mark.memeval(case=spoken("identiy"))
def test_it(memeval_l1):
    pass
""",
    "fixture": """
@pytest.fixture
def memeval_case():
    return spoken("identiy")


@pytest.mark.memeval(case=spoken("identity"), gate=True)
def test_it(memeval_l1):
    pass
""",
    "parametrised": """
@pytest.fixture(params=["identiy"])
def memeval_case(request, memeval_case):
    return dataclasses.replace(memeval_case, expected_l1=spoken(request.param).expected_l1)


@pytest.mark.memeval(case=spoken("identity"), gate=True)
def test_it(memeval_run, memeval_template):
    pass
""",
}


@MODES
@pytest.mark.parametrize("way", WAYS)
def test_it_is_an_error_of_the_case(project: Project, mode: tuple[str, ...], way: str) -> None:
    project.write("test_own.py", HEAD + WAYS[way])
    result = project.run("--memeval-gate", "P0 l1.memory_recall >= 0", *mode)
    result.assert_outcomes(errors=1)
    assert result.ret == 1
    assert SENTENCE in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    if "gate=True" in WAYS[way]:
        (entry,) = project.report()["per_case"]
        assert (entry["outcome"], entry["l1"]) == ("errored", None)
        assert [(error["stage"], error["kind"], error["message"]) for error in entry["errors"]] == [
            ("case", "invalid_case", SENTENCE)
        ]
        assert [gate["status"] for gate in project.report()["gates"]] == ["unmeasured"]


@MODES
def test_it_is_left_out_where_the_ini_says_so(project: Project, mode: tuple[str, ...]) -> None:
    project.write("pytest.ini", "[pytest]\nmemeval_on_invalid_case = skip\n")
    project.write("test_own.py", HEAD + WAYS["marker"])
    result = project.run("-rs", *mode)
    result.assert_outcomes(skipped=1)
    assert SENTENCE in result.stdout.str()
    assert project.report()["counts"]["skipped"] == 1


@MODES
def test_a_case_of_a_file_that_a_fixture_changes_is_checked(project: Project, mode: tuple[str, ...]) -> None:
    project.cases([case("spoken", "identity: teaches maths")])
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\nimport dataclasses\nfrom pytest_memeval.cases.models import GtMemory, L1GroundTruth\n\n\n"
            "@pytest.fixture\ndef memeval_case(memeval_case):\n"
            '    truth = L1GroundTruth((GtMemory("teaches maths", ("identiy",)),))\n'
            "    return dataclasses.replace(memeval_case, expected_l1=truth)\n"
        )
    result = project.run(*mode)
    result.assert_outcomes(errors=1)
    assert f"cases/v001.yaml:3: [case] {PLACE}" in result.stdout.str()


@MODES
def test_names_that_a_file_may_have_are_resolved(project: Project, mode: tuple[str, ...]) -> None:
    project.write(
        "registry.yaml",
        """
        dimensions:
          - {id: identity, display_name: Who one is}
        """,
    )
    project.write("pytest.ini", "[pytest]\nmemeval_registry = registry.yaml\n")
    body = WAYS["marker"].replace("identiy", "Who one is")
    project.write("test_own.py", HEAD + body + body.replace("test_it", "test_bad").replace("Who one is", "habits"))
    result = project.run("--memeval-gate", "P0 l1.dimension_micro_f1 >= 1", *mode)
    result.assert_outcomes(passed=1, errors=1)
    assert "unknown dimension 'habits'" in result.stdout.str()
    figures = {entry["node_id"]: entry["l1"] for entry in project.report()["per_case"]}
    assert figures["test_own.py::test_it"]["values"]["dimension_micro_f1"] == 1


def spoken(label: str, case_id: str = "spoken") -> EvalCase:
    return EvalCase(
        case_id=case_id,
        conversation=(Message("m", "user", "teaches maths"),),
        expected_l1=L1GroundTruth((GtMemory("teaches maths", (label,)),)),
    )


class Engine:
    name = "mine"

    def extract(self, conversation: Any, ctx: Any) -> Any:
        return [{"content": message.content, "dimensions": ["identity"]} for message in conversation]


def test_so_it_is_in_the_python_api(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    report = pytest_memeval.run([spoken("identiy"), spoken("identity", "right")], engine=Engine(), output="out")
    assert not report.passed
    assert [(error["kind"], error["message"]) for error in report.case("spoken")["errors"]] == [
        ("invalid_case", SENTENCE)
    ]
    assert report.case("right")["l1"]["values"]["dimension_micro_f1"] == 1


def test_so_it_is_for_a_loaded_case_that_was_changed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.chdir(project.path)
    project.cases([case("spoken", "identity: teaches maths"), case("other", "identity: teaches maths")])
    first, other = pytest_memeval.load_cases("cases/v001.yaml")
    changed = replace(first, expected_l1=spoken("identiy").expected_l1)
    report = pytest_memeval.run([changed, other], engine=Engine(), output="out")
    (error,) = report.case("spoken")["errors"]
    assert error["message"].endswith(f"v001.yaml:3: [case] {PLACE}")
    assert report.case("other")["outcome"] == "scored"
