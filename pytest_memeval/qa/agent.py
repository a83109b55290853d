"""Agents for use from Python: a memory and a model, asked all questions of a data set."""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_memeval.datasets.models import QAPair, Sample
from pytest_memeval.llm.protocol import ChatModel, ChatReply
from pytest_memeval.llm.sync import SyncCompletion, run_sync
from pytest_memeval.own_code import named, own_errors
from pytest_memeval.qa.answering import Answerer, ChatAnswerer, ExtractiveAnswerer
from pytest_memeval.qa.evaluation import EvalResult
from pytest_memeval.qa.memory import BaseMemory, as_hits


class BaseLLMClient(SyncCompletion, ABC):
    """A chat model by one plain method; it serves wherever a ChatModel is wanted."""

    name: str = "client"

    @abstractmethod
    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The answer to a list of ``{"role", "content"}`` messages."""

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply:
        import asyncio

        return ChatReply(await asyncio.to_thread(self.chat, messages))


class BaseAgent:
    """Reads a sample into its memory and answers from what the memory finds.

    Without ``llm`` the answer is the best retrieved sentence. Override :meth:`answer` for an agent of another make.
    """

    def __init__(self, memory: BaseMemory, llm: ChatModel | None = None) -> None:
        self.memory = memory
        self.llm = llm
        self._answerer: Answerer | None = None

    @property
    def answerer(self) -> Answerer:
        if self._answerer is None:
            if self.llm is None:
                self._answerer = ExtractiveAnswerer()
            else:
                from pytest_memeval.assets.prompts import ANSWER_STAGES, load_prompts

                self._answerer = ChatAnswerer(self.llm, load_prompts().resolve(None, ANSWER_STAGES))
        return self._answerer

    def ingest_sample(self, sample: Sample) -> None:
        """Read every session of the sample, in order."""
        for session in sample.sessions:
            self.memory.ingest_session(session)
        self.memory.flush()

    def answer(self, question: str, question_date: str = "") -> str:
        """The reply to one question."""
        hits = as_hits(self.memory.retrieve(question))
        return run_sync(self.answerer.answer(question, hits, question_date))


def run_eval(dataset: Iterable[Sample], agent: BaseAgent, *, show_progress: bool = True) -> list[EvalResult]:
    """Every question of the data set answered by the agent, in order.

    For each sample: ``agent.memory.reset()``, ``agent.ingest_sample(sample)``, ``agent.answer(question)`` for each
    question. A failed answer gives a result with an ``error``, a failed ingestion gives one for every question of its
    sample. ``show_progress`` writes a line a sample to standard error.
    """
    results: list[EvalResult] = []
    for number, sample in enumerate(dataset, 1):
        failed: str | None = None
        try:
            agent.memory.reset()
            agent.ingest_sample(sample)
        except own_errors() as error:  # whatever an agent does is an error of the sample's questions
            failed = f"ingest: {named(error)}"
        results += [_asked(agent, sample, pair, failed) for pair in sample.qa_pairs]
        if show_progress:
            errors = sum(result.error is not None for result in results)
            print(f"{number}: {sample.sample_id}, {len(results)} questions, {errors} errors", file=sys.stderr)
    return results


def _asked(agent: BaseAgent, sample: Sample, pair: QAPair, failed: str | None) -> EvalResult:
    prediction = ""
    if failed is None:
        try:
            if pair.question_date and _takes_date(agent):
                prediction = agent.answer(pair.question, pair.question_date)
            else:
                prediction = agent.answer(pair.question)
        except own_errors() as error:  # whatever an agent does is an error of the question
            failed = f"answer: {named(error)}"
    return EvalResult(
        sample_id=sample.sample_id,
        question_id=pair.question_id,
        question_type=pair.question_type,
        question=pair.question,
        ground_truth=pair.answer,
        prediction=prediction,
        question_date=pair.question_date,
        error=failed,
    )


def _takes_date(agent: BaseAgent) -> bool:
    """Whether the agent's ``answer`` has a place for the question's date: many override ``answer(question)`` alone."""
    parameters = inspect.signature(agent.answer).parameters.values()
    return "question_date" in {one.name for one in parameters} or any(
        one.kind is one.VAR_POSITIONAL for one in parameters
    )
