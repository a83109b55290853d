"""What is said of an evaluator or a pipeline that fails: its error, and where in the project's code it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from plugin_project import MODES, Project

FAILING = """
import asyncio
import json
from pytest_memeval.rag import BaseEvaluator, EvalResult


def broken(text):
    return json.loads(text)  # in broken


class Async(BaseEvaluator):
    async def evaluate_sample(self, sample):
        return {"x": len(sample.answer)}  # in Async


class Plain(BaseEvaluator):
    def evaluate_sample(self, sample):
        return {"x": 1 / 0}  # in Plain


class Helped(BaseEvaluator):
    async def evaluate_sample(self, sample):
        return {"x": broken("{")}


class Group(BaseEvaluator):
    async def evaluate_sample(self, sample):
        async with asyncio.TaskGroup() as group:
            group.create_task(self.inner())

    async def inner(self):
        raise LookupError(f"not in {object()}")  # in Group


class GroupKind(BaseEvaluator):
    async def evaluate_sample(self, sample):
        async with asyncio.TaskGroup() as group:
            group.create_task(Kind().evaluate_sample(sample))


class Told(Exception):
    kind = "quota"


class Kind(BaseEvaluator):
    async def evaluate_sample(self, sample):
        raise Told("no more today")


def function(sample):
    return sample.answer  # in function


async def pipeline(query):
    return broken("[")


class Fine(BaseEvaluator):
    async def evaluate_sample(self, sample):
        return {"x": 1}
"""


def line_of(mark: str) -> int:
    return next(number for number, line in enumerate(FAILING.splitlines(), 1) if line.endswith(f"# {mark}"))


def failed(project: Project, *args: str) -> list[dict[str, Any]]:
    (project.path / "failing.py").write_text(FAILING, encoding="utf-8")
    rows = [{"id": f"s{n}", "query": "Where?", "response": "Here.", "ground_truth": "here"} for n in range(2)]
    project.write("set.memeval.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    result = project.run("set.memeval.jsonl", *args)
    entries = project.report()["per_case"]
    for entry in entries:
        for error in entry["errors"]:
            assert error["message"] in result.stdout.str()
    return [error for entry in entries for error in entry["errors"]]


@MODES
@pytest.mark.parametrize(
    ("name", "said", "mark", "function"),
    [
        ("Async", "Async: AttributeError: 'EvalSample' object has no attribute 'answer'", "in Async", ""),
        ("Plain", "Plain: ZeroDivisionError: division by zero", "in Plain", ""),
        ("Helped", "Helped: JSONDecodeError: ", "in broken", "broken"),
        ("Group", "Group: LookupError: not in <object object at 0x…>", "in Group", "inner"),
        (
            "function",
            "function: AttributeError: 'EvalSample' object has no",
            "in function",
            "function",
        ),
    ],
)
def test_an_evaluators_exception_names_the_line_of_its_code(
    project: Project, mode: tuple[str, ...], name: str, said: str, mark: str, function: str
) -> None:
    errors = failed(project, "--memeval-evaluator", f"failing:{name}", *mode)
    assert [error["kind"] for error in errors] == ["evaluator_exception"] * 2
    for error in errors:
        assert error["message"].startswith(said)
        assert error["message"].endswith(f" (failing.py:{line_of(mark)} in {function or 'evaluate_sample'})")


def test_so_does_a_pipelines_and_an_error_with_a_kind_of_its_own_has_its_words_alone(project: Project) -> None:
    errors = failed(project, "--memeval-evaluator", "failing:Fine", "--memeval-rag-pipeline", "failing:pipeline")
    assert [error["kind"] for error in errors] == ["generation_error"] * 2
    assert errors[0]["message"].endswith(f" (failing.py:{line_of('in broken')} in broken)")
    for name in ("Kind", "GroupKind"):
        errors = failed(project, "--memeval-evaluator", f"failing:{name}")
        assert [(error["kind"], error["message"]) for error in errors] == [("quota", f"{name}: no more today")] * 2
