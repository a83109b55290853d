"""What makes an evaluator another one, so that its scores are not taken from an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.rag.base import BaseEvaluator
from pytest_memeval.rag.calls import CaseChatModel
from pytest_memeval.rag.identity import key_parts
from pytest_memeval.rag.model_based import Faithfulness
from pytest_memeval.rag.offline import AnswerOverlap, ContextRecallByMatching
from pytest_memeval.resume.key import PARTS, changed_parts


class Model:
    name = "mine"
    version = "1"

    def __init__(self, model: str = "m") -> None:
        self.model = model

    async def complete(self, messages: Any, **asked: Any) -> Any:
        raise AssertionError("nobody is to be asked")


class Configured(BaseEvaluator):
    def __init__(self, **given: Any) -> None:
        super().__init__()
        vars(self).update(given)

    async def evaluate_sample(self, sample: Any) -> Any:
        raise AssertionError("nobody is to be evaluated")


def parts(*evaluators: BaseEvaluator, pipeline: Any = None, max_tokens: int | None = None) -> tuple[str, ...]:
    found = key_parts(evaluators, pipeline, max_tokens)
    assert found is not None
    assert len(found) == len(PARTS) - 1
    return found


@pytest.mark.parametrize(
    ("one", "other", "changed"),
    [
        (ContextRecallByMatching(), ContextRecallByMatching(max_concurrency=2, retries=5), ()),
        (ContextRecallByMatching(), ContextRecallByMatching(0.7), ("options",)),
        (AnswerOverlap(), AnswerOverlap(["f1"]), ("options",)),
        (Configured(tokens={"a": 1}), Configured(tokens={"a": 1}), ()),
        (Configured(tokens={"a": 1}), Configured(tokens={"a": 2}), ("options",)),
        (Configured(words={"b", "a"}), Configured(words={"a", "b"}), ()),
        (Configured(prompt="Rate it."), Configured(prompt="Rate it."), ()),
        (Configured(prompt="Rate it."), Configured(prompt="Rate it kindly."), ("options",)),
        (Configured(path=Path("a")), Configured(path=Path("b")), ("options",)),
        (Configured(client=object()), Configured(client=object()), ()),
        (Configured(version="1"), Configured(version="2"), ("options",)),
        (Faithfulness(Model()), Faithfulness(CaseChatModel(Model())), ()),
        (Faithfulness(Model()), Faithfulness(Model("n")), ("model",)),
        (
            Faithfulness(Model()),
            Faithfulness(Model(), prompt="{{question}} {{context}} {{prediction}}"),
            ("prompts",),
        ),
    ],
)
def test_what_changes_an_evaluator(one: BaseEvaluator, other: BaseEvaluator, changed: tuple[str, ...]) -> None:
    assert changed_parts(".".join(("case", *parts(one))), ".".join(("case", *parts(other)))) == changed


def test_a_pipeline_and_a_cap_count() -> None:
    evaluator = AnswerOverlap()
    assert parts(evaluator) != parts(evaluator, pipeline=Model())
    assert parts(evaluator) != parts(evaluator, max_tokens=5)


def test_what_nobody_can_tell_has_no_key() -> None:
    scope: dict[str, Any] = {"__name__": "made_up", "BaseEvaluator": BaseEvaluator}
    exec("class Made(BaseEvaluator):\n    async def evaluate_sample(self, sample): ...", scope)
    assert key_parts([scope["Made"]()], None, None) is None
    endless: list[Any] = []
    endless.append(endless)
    assert parts(Configured(endless=endless))
