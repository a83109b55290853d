"""Evaluators that ask a model, against scripted answers: what counts, and what is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_memeval.llm.protocol import ChatReply, ModelUnavailable
from pytest_memeval.rag import AnswerRelevancy, ContextPrecision, ContextRecall, EvalDataset, EvalSample, Faithfulness
from pytest_memeval.rag.prompts import PLACEHOLDERS, load_prompt, own_prompt, versions_of

SAMPLE = EvalSample("Where is {{context}}?", ["In Paris.", "It is {braced}."], "In Paris, it is high.", "In Paris.")


class Scripted:
    """A model that gives the next of its answers."""

    name = "scripted"

    def __init__(self, *answers: Any, finish_reason: str = "stop") -> None:
        self.answers, self.finish_reason = list(answers), finish_reason
        self.prompts: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.forgotten: list[str] = []

    async def complete(self, messages: Sequence[Mapping[str, str]], *, stage: str, **asked: Any) -> ChatReply:
        self.prompts.append(messages[0]["content"])
        self.asked.append({"stage": stage, **asked})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ChatReply(answer if isinstance(answer, str) else json.dumps(answer), self.finish_reason)

    async def forget(self, messages: Sequence[Mapping[str, str]], **asked: Any) -> None:
        self.forgotten.append(messages[0]["content"])


def statements(key: str, *verdicts: Any) -> dict[str, Any]:
    return {"statements": [{"statement": f"s{n}", "reason": "r", key: one} for n, one in enumerate(verdicts)]}


def verdicts(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"verdicts": [{"passage": passage, "reason": "r", "useful": useful} for passage, useful in pairs]}


@pytest.mark.parametrize(
    ("kind", "answer", "score"),
    [
        (Faithfulness, statements("supported", True, True, False, True), 0.75),
        (Faithfulness, statements("supported"), None),
        (Faithfulness, "<think>[]</think>```json\n" + json.dumps(statements("supported", True)) + "\n```", 1.0),
        (AnswerRelevancy, {**statements("relevant", True, False), "evasive": False}, 0.5),
        (AnswerRelevancy, {**statements("relevant", True, True), "evasive": True}, 0.0),
        (ContextPrecision, verdicts((1, False), (2, True)), 0.5),
        (ContextPrecision, verdicts((2, False), (1, True)), 1.0),
        (ContextRecall, statements("attributed", True, False), 0.5),
    ],
)
def test_scores_are_counted_from_verdicts(kind: Any, answer: Any, score: float | None) -> None:
    model = Scripted(answer)
    evaluator = kind(model)
    result = evaluator.evaluate(EvalDataset([SAMPLE])).results[0]
    assert (result.scores, result.error) == ({evaluator.metric: score}, None)
    assert model.asked[0]["stage"] == f"rag_{evaluator.metric}"
    assert model.asked[0]["response_format"]["type"] == "object"
    # Braces in a sample reach the model as they are written.
    assert "Where is {{context}}?" in model.prompts[0]
    assert "{{question}}" not in model.prompts[0]


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        (Faithfulness, "The answer is faithful.", "cannot be read"),
        (Faithfulness, "", "is empty"),
        (Faithfulness, [1, 2], "no object with a list 'statements'"),
        (Faithfulness, {"verdict": "yes"}, "no object with a list 'statements'"),
        (Faithfulness, statements("supported", True, "yes"), "item 2 of 'statements' has no true or false"),
        (Faithfulness, statements("supported", 1), "item 1 of 'statements' has no true or false"),
        (AnswerRelevancy, statements("relevant", True), "no true or false for 'evasive'"),
        (ContextPrecision, verdicts((1, True)), "2 passages need one verdict each"),
        (ContextPrecision, verdicts((1, True), (1, True)), "2 passages need one verdict each"),
        (ContextPrecision, verdicts((1, True), (2, True), (3, True)), "2 passages need one verdict each"),
    ],
)
def test_another_answer_is_an_error_and_forgotten(kind: Any, answer: Any, said: str) -> None:
    model = Scripted(answer)
    result = kind(model).evaluate(EvalDataset([SAMPLE])).results[0]
    assert (result.scores, result.error) == ({}, "unusable_answer")
    assert said in str(result.feedback)
    assert len(model.prompts) == 1
    assert model.forgotten == model.prompts


def test_a_cut_off_answer_is_an_error() -> None:
    model = Scripted(statements("supported", True), finish_reason="length")
    result = Faithfulness(model).evaluate(EvalDataset([SAMPLE])).results[0]
    assert (result.error, "token cap" in str(result.feedback)) == ("unusable_answer", True)


def test_a_models_error_keeps_its_kind_and_is_not_tried_again() -> None:
    model = Scripted(ModelUnavailable("nobody there", attempts=4), statements("supported", True))
    result = Faithfulness(model, retries=3).evaluate(EvalDataset([SAMPLE])).results[0]
    assert (result.error, result.feedback, len(model.prompts)) == ("model_unavailable", "nobody there", 1)


@pytest.mark.parametrize(
    ("kind", "sample", "score"),
    [
        (Faithfulness, EvalSample("q", ["c"]), None),
        (Faithfulness, EvalSample("q", [], "a"), None),
        (AnswerRelevancy, EvalSample("q", ["c"], " "), None),
        (ContextPrecision, EvalSample("q", ["c"]), None),
        (ContextPrecision, EvalSample("q", [], "a", "t"), None),
        (ContextRecall, EvalSample("q", ["c"], "a"), None),
        (ContextRecall, EvalSample("q", [], "a", "t"), 0.0),
    ],
)
def test_what_a_sample_lacks_is_not_measured_and_costs_nothing(kind: Any, sample: EvalSample, score: Any) -> None:
    model = Scripted()
    result = kind(model).evaluate(EvalDataset([sample])).results[0]
    assert (list(result.scores.values()), result.error, model.prompts) == ([score], None, [])


@pytest.mark.parametrize("name", sorted(PLACEHOLDERS))
def test_prompts_have_versions_and_their_placeholders(name: str) -> None:
    assert versions_of(name)[0] == "v001"
    prompt = load_prompt(name)
    assert own_prompt(name, prompt.text).version == f"own-{prompt.sha256[:8]}"
    assert "{{" not in prompt.render(question="q", context="c", prediction="p", truth="t")
    with pytest.raises(ValueError, match="no prompt version 'v999'"):
        load_prompt(name, "v999")


def test_a_prompt_of_ones_own_is_checked() -> None:
    with pytest.raises(ValueError, match=r"lacks placeholder \{\{context\}\}"):
        Faithfulness(Scripted(), prompt="{{question}} {{prediction}}")
    with pytest.raises(ValueError, match=r"has no placeholder \{\{anything\}\}"):
        Faithfulness(Scripted(), prompt="{{question}} {{prediction}} {{context}} {{anything}}")


def test_feedback_says_what_was_missed() -> None:
    result = Faithfulness(Scripted(statements("supported", True, False))).evaluate(EvalDataset([SAMPLE])).results[0]
    assert result.feedback == "not supported: s1"
