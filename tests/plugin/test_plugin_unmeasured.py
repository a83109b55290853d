"""Cases of which no metric gave a value: they do not pass unmeasured."""

from __future__ import annotations

from typing import Any

import pytest
from plugin_project import MODES, Project

from pytest_memeval import run

SAMPLES = """
kind: rag
meta: {{gates: [{gates}]}}
cases:
- {{case_id: a, query: q, contexts: [x], response: y, ground_truth: y{more}}}
- {{case_id: b, query: measured, contexts: [x], response: y, ground_truth: y}}
"""
PARTS = """
import itertools
from pytest_memeval.rag import BaseEvaluator, EvalResult

turns = itertools.count()


class Nothing(BaseEvaluator):
    metrics = ("z",)

    async def evaluate_sample(self, sample):
        return EvalResult(sample, {"z": None})


class Empty(BaseEvaluator):
    async def evaluate_sample(self, sample):
        return {}


class Some(BaseEvaluator):
    metrics = ("z", "other")

    async def evaluate_sample(self, sample):
        return {"z": 1.0 if sample.query == "measured" else None, "other": None}


class Beside(BaseEvaluator):
    metrics = ("z", "other")

    async def evaluate_sample(self, sample):
        return {"z": None, "other": 0.5}


class Once(BaseEvaluator):
    metrics = ("z",)

    async def evaluate_sample(self, sample):
        return {"z": None if next(turns) % 2 else 1.0}
"""


@pytest.fixture
def parts(project: Project) -> Project:
    project.write("parts.py", PARTS)
    (project.path / "conftest.py").unlink()
    samples(project)
    return project


def samples(project: Project, *, gates: str = "", more: str = "") -> None:
    project.write("cases/a.yaml", SAMPLES.format(gates=gates, more=more))


def measured(project: Project, evaluator: str, *more: str) -> pytest.RunResult:
    return project.run("--memeval-evaluator", f"parts:{evaluator}", "-rs", *more, fresh=True)


@MODES
@pytest.mark.parametrize("trials", [(), ("--memeval-trials", "2")], ids=["once", "trials"])
@pytest.mark.parametrize(
    ("evaluator", "words"), [("Nothing", "Nothing gave None for z"), ("Empty", "Empty gave no metric")]
)
def test_samples_without_any_value_are_skipped_with_the_reason(
    parts: Project, evaluator: str, words: str, trials: tuple[str, ...], mode: tuple[str, ...]
) -> None:
    result = measured(parts, evaluator, *trials, *mode)
    result.assert_outcomes(skipped=2)
    assert f"nothing of this sample could be measured: {words}" in result.stdout.str()
    assert "nothing was measured: no case was scored" in result.stdout.str()
    assert parts.outcomes() == {"a": "skipped", "b": "skipped"}
    assert parts.report()["per_case"][0]["stages"] == {"rag": "skipped"}


@MODES
def test_a_sample_without_a_value_beside_measured_ones_is_skipped_alone(parts: Project, mode: tuple[str, ...]) -> None:
    samples(parts, gates="'P0 rag.z >= 0.5'")
    result = measured(parts, "Some", *mode)
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == 0
    assert parts.outcomes() == {"a": "skipped", "b": "scored"}
    assert parts.report()["rag"]["n"]["z"]["cases"] == 1


@MODES
def test_one_metric_that_is_none_beside_a_value_is_left_out_alone(parts: Project, mode: tuple[str, ...]) -> None:
    measured(parts, "Beside", *mode).assert_outcomes(passed=2)
    assert {name: n["cases"] for name, n in parts.report()["rag"]["n"].items()} == {"other": 2}


@MODES
def test_a_gate_on_what_nobody_measured_fails_the_run(parts: Project, mode: tuple[str, ...]) -> None:
    samples(parts, gates="'P0 rag.z >= 0'")
    result = measured(parts, "Nothing", *mode)
    result.assert_outcomes(skipped=2)
    assert result.ret == 1
    assert [gate["status"] for gate in parts.report()["gates"]] == ["unmeasured"]


def test_a_threshold_of_the_samples_own_on_what_nobody_measured_fails_it(parts: Project) -> None:
    samples(parts, more=", expect: {rag.z: '>= 0'}")
    measured(parts, "Nothing").assert_outcomes(failed=1, skipped=1)


@MODES
def test_a_sample_that_one_trial_measured_counts(parts: Project, mode: tuple[str, ...]) -> None:
    result = measured(parts, "Once", "--memeval-trials", "2", "--memeval-concurrency", "1", *mode)
    result.assert_outcomes(passed=2)
    assert parts.outcomes() == {"a": "scored", "b": "scored"}


@MODES
@pytest.mark.parametrize("value", ["None", "1.0"])
def test_metrics_of_ones_own_measure_a_sample_too(parts: Project, value: str, mode: tuple[str, ...]) -> None:
    parts.write(
        "conftest.py",
        f"""
        from pytest_memeval import metric

        @metric(kinds=("rag",))
        def own(case, outputs):
            return {value}
        """,
    )
    wanted: dict[str, Any] = {"skipped": 2} if value == "None" else {"passed": 2}
    measured(parts, "Nothing", *mode).assert_outcomes(**wanted)


def test_a_run_from_python_skips_them_too(parts: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(parts.path))
    monkeypatch.chdir(parts.path)
    report = run("cases/a.yaml", evaluator=["parts:Nothing"])
    assert [report.case(name)["outcome"] for name in "ab"] == ["skipped", "skipped"]
