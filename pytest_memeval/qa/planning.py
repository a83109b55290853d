"""What a question would ask of models: counted for ``--memeval-plan`` with models that ask nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_memeval.judge.chat_judge import ChatJudge
from pytest_memeval.judge.modes import RULE_MODE, mode_for
from pytest_memeval.judge.verdict import JudgeError
from pytest_memeval.llm.protocol import ChatModelError
from pytest_memeval.qa.answering import ChatAnswerer
from pytest_memeval.qa.reference import ReferenceMemory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_memeval.datasets.models import QAPair
    from pytest_memeval.llm.protocol import ChatReply
    from pytest_memeval.plan import Plan, PlanningChatModel
    from pytest_memeval.qa.conversations import Conversation
    from pytest_memeval.qa.run import QASetup
    from pytest_memeval.values import Hit

#: Behind extraction that nobody has asked for yet.
BEHIND_READING = "what the reference engine asks behind the extraction of a conversation cannot be told"


class NobodyAsked(ChatModelError):
    """The planning model has counted the call; there is no verdict to read."""


class _CountedOnce:
    """A planning model for a judge, which would ask once more for a verdict that it cannot use."""

    def __init__(self, model: PlanningChatModel) -> None:
        self._model = model
        self.name, self.model = model.name, model.model

    async def complete(self, messages: Sequence[Mapping[str, str]], **options: Any) -> ChatReply:
        before = _asked(self._model)
        reply = await self._model.complete(messages, **options)
        if _asked(self._model) > before or reply.attempts == 0:
            raise NobodyAsked("a plan asks nobody")
        return reply


def _asked(model: PlanningChatModel) -> int:
    return sum(forecast.asked for forecast in model.stages.values())


def why_unplanned(engine: object) -> str | None:
    """Why an engine is not run for a plan, ``None`` for one that can be."""
    from pytest_memeval.plan import EngineNotPlanned, check_engine

    if isinstance(engine, ReferenceMemory):
        return None
    try:
        check_engine(engine)
    except EngineNotPlanned as error:
        return str(error)
    return None


async def plan_question(
    setup: QASetup,
    plan: Plan,
    pair: QAPair,
    conversation: Conversation,
    arms: Mapping[str, list[Hit]],
    trial: int = 0,
) -> None:
    """Count in ``plan`` the calls for one question: an answer an arm, where a chat model answers, and a verdict a
    truth, where a judge is asked. A verdict on an answer that nobody has given yet has as many tokens as one on a short
    answer. What reading the conversation asked is counted with its first question."""
    if not conversation.charged:
        conversation.charged = True
        if setup.planned_reading is not None:
            plan.take_calls(setup.planned_reading)
            if _asked(setup.planned_reading):
                plan.remark(BEHIND_READING)
            setup.planned_reading.stages.clear()
    hits = await conversation.reader.retrieve(pair.question, conversation.sample, pair)
    answer = ""
    for place, found in enumerate((hits, *arms.values())):
        given = await _answer(setup, plan, pair, found, trial)
        answer = given if place == 0 else answer
    mode = mode_for(pair.question_type, pair.question_id)
    if setup.judge is None or mode == RULE_MODE:
        return
    if not isinstance(setup.judge, ChatJudge):
        name = getattr(setup.judge, "name", type(setup.judge).__name__)
        plan.remark(f"judge {name} may ask models by itself, so it is not run for a plan")
        return
    truths = [pair.answer, *([pair.corrected_answer] if pair.corrected_answer is not None else [])]
    model = plan.planning_model(setup.judge.model, trial)
    judge = ChatJudge(_CountedOnce(model), prompts=setup.judge.prompts)
    for truth in truths:
        try:
            await judge.judge(pair.question, truth, answer, mode, question_date=pair.question_date or None)
        except JudgeError as error:
            if not isinstance(error.__cause__, NobodyAsked):
                raise
    plan.take_calls(model)
    _plan_controls(setup, plan, model)


async def _answer(setup: QASetup, plan: Plan, pair: QAPair, hits: list[Hit], trial: int) -> str:
    answerer = setup.answerer
    if not isinstance(answerer, ChatAnswerer):
        return await answerer.answer(pair.question, hits, pair.question_date)
    model = plan.planning_model(answerer.llm, trial)
    answer = await replace(answerer, llm=model).answer(pair.question, hits, pair.question_date)
    plan.take_calls(model)
    return answer


def _plan_controls(setup: QASetup, plan: Plan, model: PlanningChatModel) -> None:
    """Controls are drawn when the run is over: up to so many of each kind, each about as long as a verdict."""
    from pytest_memeval.plan import Range

    tokens = max((forecast.input_tokens.high for forecast in model.stages.values()), default=0)
    for _ in range(2 * setup.planned_controls):
        plan.may_ask("judge_controls", model, Range(0, tokens))
    setup.planned_controls = 0
