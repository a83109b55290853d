"""Whether a chat model, a matcher, a judge or an evaluator of the project's keeps to its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pytest_memeval.conformance.finding import Finding
from pytest_memeval.conformance.patience import NoAnswer, within
from pytest_memeval.llm.redaction import redact
from pytest_memeval.own_code import named, own_errors, without_addresses

if TYPE_CHECKING:
    from pytest_memeval.judge.protocol import NamedJudge
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.loops import LoopThread
    from pytest_memeval.metrics.matching import Matcher
    from pytest_memeval.rag.base import BaseEvaluator

#: A request with whatever a rendered prompt may hold.
_ASKED = [{"role": "user", "content": 'Answer with the word "yes". Data: {"a": [1, {2}]} {{x}} 你好 🙂'}]
#: (predicted, labelled) texts that a matcher is tried on.
_PAIRS: tuple[tuple[list[str], list[str]], ...] = (
    (["drinks tea", "lives in Leeds", "has a dog"], ["drinks tea", "lives in Leeds"]),
    (["drinks tea", "drinks tea"], ["drinks tea"]),
    (["drinks tea"], ["drinks tea", "drinks tea"]),
    ([], ["drinks tea"]),
    (["drinks tea"], []),
    ([], []),
    (["", " ", "你好 🙂"], ["", "{x}"]),
)


def _told(error: BaseException) -> str:
    if isinstance(error, NoAnswer):
        return str(error)
    return redact(without_addresses(named(error)))[:300]


def model_findings(model: ChatModel, loop: LoopThread, patience: float) -> Iterator[Finding]:
    """A chat model: an answer, the same for several at once, a schema and a trial taken."""

    async def ask(**more: Any) -> Any:
        return await model.complete(_ASKED, stage="l1_extraction", **more)

    async def at_once() -> list[Any]:
        return await asyncio.gather(*(ask(trial=number) for number in range(3)))

    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    for item, work, done in (
        ("llm", ask, "an answer to a prompt with braces and other scripts"),
        (
            "llm schema",
            lambda: ask(response_format=schema, temperature=0.0, max_tokens=64),
            "a JSON Schema and a cap taken",
        ),
        ("llm concurrency", at_once, "three questions at once"),
    ):
        try:
            within(loop, work(), patience)
        except own_errors() as error:  # whatever a model does
            yield Finding(item, "failed", _told(error))
        else:
            yield Finding(item, "ok", done)


def matcher_findings(matcher: Matcher) -> Iterator[Finding]:
    """A matcher: indices that exist, each once, finite similarities; equal texts found; the same answer twice."""
    from pytest_memeval.metrics.matching import match_with

    for predicted, truth in _PAIRS:
        try:
            first, second = (match_with(matcher, predicted, truth) for _ in range(2))
        except own_errors() as error:  # whatever a matcher does
            yield Finding("matcher", "failed", f"match({predicted}, {truth}): {_told(error)}")
            return
        if first != second:
            yield Finding("matcher", "failed", f"match({predicted}, {truth}) gives another answer the second time")
            return
        if any(not 0 <= pair.similarity <= 1 for pair in first.pairs):
            yield Finding("matcher", "warning", f"match({predicted}, {truth}) has a similarity outside of 0 to 1")
            return
    found = {(pair.truth_index, pair.pred_index) for pair in match_with(matcher, *_PAIRS[0]).pairs}
    if not {(0, 0), (1, 1)} <= found:
        yield Finding("matcher", "warning", "it does not match texts that are equal")
    else:
        yield Finding("matcher", "ok", "one to one, equal texts found, nothing out of nothing")


def judge_findings(judge: NamedJudge, loop: LoopThread, patience: float) -> Iterator[Finding]:
    """A judge: scores in range for every mode that asks one, right answers above wrong ones, several at once."""
    from pytest_memeval.judge.modes import MODES, RULE_MODE

    right = ("Where does Alma live?", "Lisbon", "She lives in Lisbon.")
    wrong = ("Where does Alma live?", "Lisbon", "She sold her boat.")
    modes = [mode for mode in MODES if mode != RULE_MODE]

    async def all_modes() -> list[tuple[float, float]]:
        scores = []
        for mode in modes:
            one, other = await asyncio.gather(judge.judge(*right, mode), judge.judge(*wrong, mode))
            scores.append((one.score, other.score))
        return scores

    try:
        scores = within(loop, all_modes(), patience)
    except own_errors() as error:  # whatever a judge does
        yield Finding("judge", "failed", _told(error))
        return
    # Refusing is right where there is no answer, which this question has: of that mode the order means nothing.
    upside_down = [
        mode for mode, (one, other) in zip(modes, scores, strict=True) if mode != "abstention" and one <= other
    ]
    if upside_down:
        yield Finding("judge", "warning", f"a right answer is no better than a wrong one in {', '.join(upside_down)}")
    else:
        yield Finding("judge", "ok", f"scores from 0 to 1 in {len(modes)} modes, right above wrong, two at once")


def evaluator_findings(name: str, evaluator: BaseEvaluator, loop: LoopThread, patience: float) -> Iterator[Finding]:
    """An evaluator: scores of a whole sample, under the names that it says, and no crash for an empty one."""
    from pytest_memeval.rag.declared import declared_metrics, undeclared
    from pytest_memeval.rag.types import EvalSample

    whole = EvalSample(
        "Where is the tower?",
        context=("The tower is in Paris.", "Cats sleep a lot."),
        response="In Paris.",
        ground_truth="Paris",
    )
    item = f"evaluator {name}"
    try:
        result = within(loop, evaluator.evaluate_checked(whole), patience)
        bare = within(loop, evaluator.evaluate_checked(EvalSample("Where is the tower?")), patience)
    except own_errors() as error:  # it may be cancelled by its own doing
        yield Finding(item, "failed", _told(error))
        return
    if result.error is not None:
        yield Finding(item, "failed", f"{result.error}: {result.feedback}")
        return
    declared = declared_metrics(evaluator)
    for metric, near in undeclared(declared, result.scores).items():
        meant = f"; did you mean {near!r}?" if near else ""
        yield Finding(item, "failed", f"it gives {metric!r}, none of its metrics {list(declared)}{meant}")
        return
    lacking, lacking_bare = (
        [metric for metric in declared if metric not in one.scores and metric in one.unmeasured]
        for one in (result, bare)
    )
    if lacking:
        yield Finding(item, "failed", f"{lacking[0]}: {result.unmeasured[lacking[0]]}")
    elif lacking_bare:
        why = bare.unmeasured[lacking_bare[0]]
        yield Finding(item, "warning", f"{lacking_bare[0]}, of a sample without an answer: {why}")
    elif not any(score is not None for score in result.scores.values()):
        yield Finding(item, "warning", "it measured nothing of a whole sample")
    else:
        rest = "" if bare.error is None else f"; a sample without an answer is an error of its own ({bare.error})"
        told = ", ".join(f"{metric} {score}" for metric, score in result.scores.items())
        yield Finding(item, "ok", f"{told}{rest}")
