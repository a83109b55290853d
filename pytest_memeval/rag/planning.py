"""What the evaluation of a sample would ask of models, told without asking."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_memeval.rag.base import BaseEvaluator
from pytest_memeval.rag.calls import CaseChatModel
from pytest_memeval.rag.model_based import ModelEvaluator
from pytest_memeval.rag.pipeline import answered, name_of
from pytest_memeval.rag.types import EvalSample

if TYPE_CHECKING:
    from pytest_memeval.plan import Plan, PlanningChatModel
    from pytest_memeval.rag.run import RagSetup


async def plan_sample(
    setup: RagSetup, plan: Plan, sample: EvalSample, contexts: Sequence[str] | None, trial: int = 0
) -> None:
    """Count in ``plan`` what each evaluator would ask for the sample; what nobody can tell is a remark of the plan.

    ``contexts`` are played back in the place of retrieved ones. An evaluator is run on a model that asks nobody if all
    that it asks goes through its ``llm``: the package's do, and one of a project's says so with ``plannable = True``. A
    pipeline is run if it says so, too; behind one that does not, each evaluator with a model makes a call or none.
    """
    pipeline = setup.pipeline
    unknown = pipeline is not None and getattr(pipeline, "plannable", False) is not True
    if unknown:
        plan.remark(
            f"pipeline {name_of(pipeline)} may ask models by itself, so it is not run for a plan; one that asks none"
            " says so with plannable = True"
        )
    elif pipeline is not None:
        sample = await answered(pipeline, sample, contexts)
    elif contexts is not None:
        sample = replace(sample, context=contexts)
    for evaluator in setup.evaluators:
        if not can_plan(evaluator):
            plan.remark(
                f"evaluator {evaluator.name} is not run for a plan; one that asks nothing but its llm says so with"
                " plannable = True"
            )
            continue
        twin, model = _with_planning_model(evaluator, plan, trial)
        if not unknown:
            await twin.evaluate_checked(sample)
        elif isinstance(evaluator, ModelEvaluator) and model is not None:
            _may_ask(evaluator, sample, plan, model)
        if model is not None:
            plan.take_calls(model)


def can_plan(evaluator: BaseEvaluator) -> bool:
    """Whether all that the evaluator asks goes through its ``llm``: the word of whoever wrote its ``evaluate_sample``,
    not that of a class below it."""
    if "plannable" in vars(evaluator):
        return evaluator.plannable is True
    for cls in type(evaluator).__mro__:
        if "plannable" in vars(cls):
            return vars(cls)["plannable"] is True
        if "evaluate_sample" in vars(cls) and not cls.__module__.startswith("pytest_memeval."):
            return False
    return False


def _with_planning_model(
    evaluator: BaseEvaluator, plan: Plan, trial: int
) -> tuple[BaseEvaluator, PlanningChatModel | None]:
    """The evaluator's twin, which asks nobody, and does so once: what is tried again would be counted twice."""
    twin: Any = copy.copy(evaluator)
    twin.retries = 0
    asked: Any = getattr(evaluator, "llm", None)
    if asked is None:
        return twin, None
    model = plan.planning_model(asked.inner if isinstance(asked, CaseChatModel) else asked, trial)
    twin.llm = model
    return twin, model


def _may_ask(evaluator: ModelEvaluator, sample: EvalSample, plan: Plan, model: PlanningChatModel) -> None:
    """A call on an answer that nobody knows yet: the prompt's own text, and as much again for what is put into it."""
    from pytest_memeval.llm.rate import estimate_tokens
    from pytest_memeval.plan import Range

    tokens = estimate_tokens([{"content": evaluator.prompt.text}])
    plan.may_ask(f"rag_{evaluator.metric}", model, Range(0, 2.0 * tokens))
