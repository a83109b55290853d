"""Code of a project's own that cancels the task it runs in, or every task that it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_project import MODES, Project, good_cases

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dataset_samples import locomo_record

PARTS = """
import asyncio
from pytest_memeval import metric
from pytest_memeval.rag import BaseEvaluator


async def cancels_itself():
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


def memories(conversation):
    dimensions, _, content = conversation[0].content.partition(": ")
    return [{"content": content, "dimensions": [dimensions], "memory_type": "persona", "priority": 80,
             "time_velocity": "static"}]


class Good:
    name, version = "good", "1"

    async def extract(self, conversation, ctx):
        return memories(conversation)


class SelfCancel(Good):
    async def extract(self, conversation, ctx):
        asyncio.current_task().cancel()
        await asyncio.sleep(1)


class AtTheEnd(Good):
    async def extract(self, conversation, ctx):
        asyncio.current_task().cancel()
        return memories(conversation)


class Awaitable(Good):
    def extract(self, conversation, ctx):
        return cancels_itself()


class Asking(Good):
    async def extract(self, conversation, ctx):
        await ctx.llm.complete([{"role": "user", "content": "?"}], stage="l1_extraction")


class Model:
    name = "mine"

    async def complete(self, messages, *, stage):
        await cancels_itself()


class Sweeping(Good):
    async def extract(self, conversation, ctx):
        await asyncio.sleep(0.2)
        if "number 2" in conversation[0].content:
            for task in asyncio.all_tasks():
                task.cancel()
        await asyncio.sleep(0.2)
        return memories(conversation)


class Tidying(Good):
    async def extract(self, conversation, ctx):
        asyncio.create_task(asyncio.sleep(30))
        await asyncio.sleep(0.1)
        mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        return memories(conversation)


async def pipeline(query):
    await cancels_itself()


class Evaluator(BaseEvaluator):
    metrics = ("own",)

    async def evaluate_sample(self, sample):
        await cancels_itself()


class Other(BaseEvaluator):
    metrics = ("other",)

    async def evaluate_sample(self, sample):
        return {"other": 1.0}


class Shelf:
    name, version, concurrent = "shelf", "1", True

    async def reset(self, ctx):
        pass

    async def ingest_session(self, messages, ctx):
        pass

    async def retrieve(self, query, ctx):
        return [{"id": "1", "content": "She lives in Lisbon.", "source_ids": []}]


class Finding(Shelf):
    async def retrieve(self, query, ctx):
        await cancels_itself()


class Reading(Shelf):
    async def ingest_session(self, messages, ctx):
        await cancels_itself()


class Judge:
    async def judge(self, question, truth, prediction, mode):
        await cancels_itself()


async def judge(question, truth, prediction, mode):
    await cancels_itself()
"""
PLACE = "CancelledError (parts.py:9 in cancels_itself)"


@pytest.fixture
def parts(project: Project) -> Project:
    project.write("parts.py", PARTS)
    (project.path / "conftest.py").unlink()
    return project


def errors(project: Project) -> list[list[tuple[str, str, str]]]:
    found = project.report()["per_case"]
    return [[(one["stage"], one["kind"], one["message"]) for one in entry["errors"]] for entry in found]


def is_calm(result: pytest.RunResult) -> None:
    """Nothing is said of how the package works inside."""
    said = result.stdout.str() + result.stderr.str()
    for word in ("Traceback", "concurrent.futures", "fixture_error", "loops.py", "Task was destroyed"):
        assert word not in said


@MODES
@pytest.mark.parametrize("limit", [(), ("--memeval-timeout", "20")], ids=["no-limit", "limit"])
@pytest.mark.parametrize("engine", ["SelfCancel", "AtTheEnd", "Awaitable"])
def test_an_engine_that_cancels_its_own_task_fails_its_stage(
    parts: Project, engine: str, limit: tuple[str, ...], mode: tuple[str, ...]
) -> None:
    parts.cases(good_cases(3))
    result = parts.run("--memeval-engine", f"parts:{engine}", *limit, *mode, fresh=True)
    result.assert_outcomes(errors=3)
    is_calm(result)
    for (one,) in errors(parts):
        assert one[:2] == ("l1", "engine_exception")
        assert one[2].startswith("CancelledError")
        place = {"SelfCancel": "(parts.py:28 in extract)", "Awaitable": "(parts.py:9 in cancels_itself)"}
        assert place.get(engine, "") in one[2]


@MODES
@pytest.mark.parametrize("cache", [(), ("--memeval-cache", "auto")], ids=["no-cache", "cache"])
def test_a_model_that_cancels_its_own_task_fails_the_call(
    parts: Project, cache: tuple[str, ...], mode: tuple[str, ...]
) -> None:
    parts.cases(good_cases(2))
    result = parts.run("--memeval-engine", "parts:Asking", "--memeval-llm", "parts:Model", *cache, *mode, fresh=True)
    result.assert_outcomes(errors=2)
    is_calm(result)
    assert errors(parts) == [[("l1", "model_error", f"chat model mine: {PLACE}")]] * 2


@MODES
@pytest.mark.parametrize("engine", ["Sweeping", "Tidying"])
def test_an_engine_that_cancels_every_task_takes_no_other_case_down(
    parts: Project, engine: str, mode: tuple[str, ...]
) -> None:
    parts.cases(good_cases(8))
    result = parts.run("--memeval-engine", f"parts:{engine}", "--memeval-concurrency", "8", *mode, fresh=True)
    result.assert_outcomes(passed=8)
    is_calm(result)


STUBBORN = """
import asyncio


async def hears_nothing():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass


class Engine:
    name, version = "stubborn", "1"

    async def extract(self, conversation, ctx):
        await asyncio.gather(hears_nothing())
        if "number 2" not in conversation[0].content:
            await hears_nothing()


async def pipeline(query):
    await hears_nothing()
"""


@MODES
@pytest.mark.parametrize("kind", ["distill", "rag"])
def test_a_stage_that_swallows_its_cancellation_is_counted_and_says_nothing_at_the_end(
    project: Project, kind: str, mode: tuple[str, ...]
) -> None:
    project.write("parts.py", STUBBORN)
    (project.path / "conftest.py").unlink()
    if kind == "rag":
        project.write("cases/a.yaml", SAMPLES)
        options: tuple[str, ...] = ("--memeval-rag-pipeline", "parts:pipeline")
    else:
        project.cases(good_cases(2))
        options = ("--memeval-engine", "parts:Engine")
    result = project.run(*options, "--memeval-timeout", "0.5", *mode, fresh=True)
    result.assert_outcomes(errors=2)
    is_calm(result)
    assert result.errlines == []
    assert "Warning" not in result.stdout.str()
    assert project.report()["environment"]["stages_not_cancelled"] == 2
    (note,) = [note for note in project.report()["notes"] if "did not end: 2." in note]
    assert note in result.stdout.str()
    assert [one[1] for (one,) in errors(project)] == ["timeout"] * 2


def test_a_stage_that_ends_when_it_is_cancelled_is_not_counted(project: Project) -> None:
    project.write("parts.py", STUBBORN.replace("            pass", "            raise"))
    (project.path / "conftest.py").unlink()
    project.cases(good_cases(2))
    project.run("--memeval-engine", "parts:Engine", "--memeval-timeout", "0.5", fresh=True).assert_outcomes(errors=2)
    assert "stages_not_cancelled" not in project.report()["environment"]


def test_doctor_is_silent_at_the_end_about_an_engine_that_swallows_its_cancellation(project: Project) -> None:
    project.write("parts.py", STUBBORN)
    found = subprocess.run(
        [sys.executable, "-m", "pytest_memeval", "doctor", "--engine", "parts:Engine", "--timeout", "1"],
        cwd=project.path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.stderr == ""
    assert "timeout: the case's time limit of 1 s is over" in found.stdout
    assert found.returncode == 1


SAMPLES = """
kind: rag
meta: {gates: []}
cases:
- {case_id: a, query: q, contexts: [x], response: y, ground_truth: y}
- {case_id: b, query: q2, contexts: [x], response: y, ground_truth: y}
"""


@MODES
def test_a_pipeline_that_cancels_its_own_task_fails_its_sample(parts: Project, mode: tuple[str, ...]) -> None:
    parts.write("cases/a.yaml", SAMPLES)
    result = parts.run("--memeval-rag-pipeline", "parts:pipeline", *mode, fresh=True)
    result.assert_outcomes(errors=2)
    is_calm(result)
    assert errors(parts) == [[("rag", "generation_error", f"pipeline pipeline: {PLACE}")]] * 2


@MODES
def test_an_evaluator_that_cancels_its_own_task_fails_alone(parts: Project, mode: tuple[str, ...]) -> None:
    parts.write("cases/a.yaml", SAMPLES)
    evaluators = ("--memeval-evaluator", "parts:Evaluator", "--memeval-evaluator", "parts:Other")
    result = parts.run(*evaluators, *mode, fresh=True)
    result.assert_outcomes(errors=2)
    is_calm(result)
    assert errors(parts) == [[("rag", "cancelled", f"Evaluator: {PLACE}")]] * 2


@MODES
@pytest.mark.parametrize("memory", ["Finding", "Reading"])
def test_a_memory_that_cancels_its_own_task_fails_its_questions(
    parts: Project, memory: str, mode: tuple[str, ...]
) -> None:
    parts.write("locomo.json", json.dumps([locomo_record("conv-1")]))
    result = parts.run("locomo.json", "--memeval-memory", f"parts:{memory}", *mode, fresh=True)
    result.assert_outcomes(errors=6)
    is_calm(result)
    told = {
        "Finding": ("qa", "engine_exception", PLACE),
        "Reading": ("qa", "ingest_failed", f"the conversation could not be read: engine_exception: {PLACE}"),
    }
    assert errors(parts) == [[told[memory]]] * 6


@MODES
def test_a_judge_that_cancels_its_own_task_gives_no_verdict(parts: Project, mode: tuple[str, ...]) -> None:
    parts.write("locomo.json", json.dumps([locomo_record("conv-1")]))
    options = ("--memeval-memory", "parts:Shelf", "--memeval-judge", "parts:Judge")
    result = parts.run("locomo.json", *options, *mode, fresh=True)
    is_calm(result)
    found = [one for of_case in errors(parts) for one in of_case]
    assert found == [("qa", "judge_error", "the judge gave no verdict: Judge: CancelledError")] * 5


@MODES
@pytest.mark.parametrize("limit", [(), ("--memeval-timeout", "20")], ids=["no-limit", "limit"])
@pytest.mark.parametrize("kind", ["distill", "rag"])
def test_a_metric_that_cancels_its_own_task_fails_alone(
    parts: Project, kind: str, limit: tuple[str, ...], mode: tuple[str, ...]
) -> None:
    parts.write(
        "conftest.py",
        f"""
        from parts import cancels_itself
        from pytest_memeval import metric

        @metric(kinds=({kind!r},))
        async def own(case, outputs):
            await cancels_itself()
        """,
    )
    if kind == "rag":
        parts.write("cases/a.yaml", SAMPLES)
        options: tuple[str, ...] = ("--memeval-evaluator", "parts:Other")
    else:
        parts.cases(good_cases(2))
        options = ("--memeval-engine", "parts:Good")
    result = parts.run(*options, *limit, *mode, fresh=True)
    result.assert_outcomes(errors=2)
    is_calm(result)
    assert errors(parts) == [[("metrics.own", "metric_exception", PLACE)]] * 2
