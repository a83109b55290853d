"""Evaluators that ask a chat model: faithfulness, answer relevancy, context precision and recall.

Each asks once a sample, for one JSON object, and counts what the object says. An answer that is not of the shape asked
for is an error of the sample, never a score; it is not kept in the cache either.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from pytest_memeval.llm.protocol import ChatModel
from pytest_memeval.rag.base import BaseEvaluator, EvalResult, EvalSample
from pytest_memeval.rag.offline import average_precision
from pytest_memeval.rag.prompts import RagPrompt, load_prompt, numbered, own_prompt


class UnusableVerdict(Exception):
    """The model answered, but not with what it was asked for."""

    kind = "unusable_answer"


class ModelEvaluator(BaseEvaluator):
    """Asks ``llm`` with one prompt. ``version`` chooses a shipped prompt, ``prompt`` is a text of one's own.

    The model's client retries by itself, so a sample is not tried again here.
    """

    retries = 0
    plannable = True
    #: The metric, its prompt's name, and the list in the answer with the verdict's key in each of its items.
    metric: str
    items_key = "statements"
    verdict_key: str

    def __init__(
        self, llm: ChatModel, *, version: str | None = None, prompt: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.llm = llm
        self.prompt: RagPrompt = (
            load_prompt(self.metric, version) if prompt is None else own_prompt(self.metric, prompt)
        )
        self.metrics = (self.metric,)

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        lacking = self.lacks(sample)
        if lacking is not None:
            return EvalResult(sample, {self.metric: None}, feedback=f"not measured: the sample has no {lacking}")
        answer = await self._ask(
            self.prompt.render(
                question=sample.query,
                context=numbered(list(sample.context)),
                prediction=sample.response or "",
                truth=self.truth_of(sample),
            ),
            sample,
        )
        return EvalResult(sample, {self.metric: self.score(answer)}, feedback=self.feedback(answer))

    def truth_of(self, sample: EvalSample) -> str:
        """What stands for ``{{truth}}``."""
        return sample.ground_truth or ""

    @abstractmethod
    def lacks(self, sample: EvalSample) -> str | None:
        """What the sample lacks to be measured, ``None`` where it has everything."""

    def score(self, answer: Mapping[str, Any]) -> float | None:
        """Share of the items whose verdict is true; ``None`` without an item."""
        verdicts = [item[self.verdict_key] for item in answer[self.items_key]]
        return sum(verdicts) / len(verdicts) if verdicts else None

    def feedback(self, answer: Mapping[str, Any]) -> str | None:
        """The items whose verdict is false, for people."""
        missed = [item for item in answer[self.items_key] if not item[self.verdict_key]]
        if not missed:
            return None
        shown = [str(item.get("statement") or item.get("passage")) for item in missed]
        return f"not {self.verdict_key}: " + "; ".join(shown)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the answer."""
        item = {"statement": {"type": "string"}, "reason": {"type": "string"}, self.verdict_key: {"type": "boolean"}}
        return _object({self.items_key: {"type": "array", "items": _object(item)}})

    def check(self, answer: Any, sample: EvalSample) -> dict[str, Any]:
        """The answer, if it is of the shape asked for. Raises UnusableVerdict."""
        if not isinstance(answer, dict) or not isinstance(answer.get(self.items_key), list):
            raise UnusableVerdict(f"the answer is no object with a list {self.items_key!r}")
        for place, item in enumerate(answer[self.items_key], 1):
            verdict = item.get(self.verdict_key) if isinstance(item, dict) else None
            if not isinstance(verdict, bool):
                said = repr(verdict) if isinstance(item, dict) else repr(item)
                raise UnusableVerdict(
                    f"item {place} of {self.items_key!r} has no true or false for {self.verdict_key!r}: {said[:60]}"
                )
        return answer

    async def _ask(self, prompt: str, sample: EvalSample) -> dict[str, Any]:
        from pytest_memeval.llm.payload import PayloadError, parse_payload

        asked: dict[str, Any] = {
            "messages": [{"role": "user", "content": prompt}],
            "stage": f"rag_{self.metric}",
            "response_format": self.schema(),
        }
        reply = await self.llm.complete(**asked)
        try:
            if reply.finish_reason in ("length", "max_tokens"):
                raise UnusableVerdict("the answer was cut off at the token cap")
            if not reply.text.strip():
                raise UnusableVerdict("the answer is empty")
            try:
                return self.check(parse_payload(reply.text), sample)
            except PayloadError as error:
                raise UnusableVerdict(f"the answer cannot be read: {error}") from None
        except UnusableVerdict:
            forget = getattr(self.llm, "forget", None)
            if forget is not None:
                await forget(**asked)
            raise


class Faithfulness(ModelEvaluator):
    """``faithfulness``: statements of the response that the retrieved passages support / its statements, in [0, 1].

    ``None`` without a response or passages, and for a response that states nothing. After Es et al., *RAGAS* (2023).
    """

    metric, verdict_key = "faithfulness", "supported"

    def lacks(self, sample: EvalSample) -> str | None:
        return "response" if not (sample.response or "").strip() else "context" if not sample.context else None


class AnswerRelevancy(ModelEvaluator):
    """``answer_relevancy``: statements of the response that help to answer the question / its statements, in [0, 1]; 0
    for a response that evades the question.

    ``None`` without a response. RAGAS compares embeddings of questions made from the answer instead; this needs no
    embedder.
    """

    metric, verdict_key = "answer_relevancy", "relevant"

    def lacks(self, sample: EvalSample) -> str | None:
        return "response" if not (sample.response or "").strip() else None

    def score(self, answer: Mapping[str, Any]) -> float | None:
        return 0.0 if answer["evasive"] else super().score(answer)

    def schema(self) -> dict[str, Any]:
        item = {"statement": {"type": "string"}, "relevant": {"type": "boolean"}}
        return _object(
            {"statements": {"type": "array", "items": _object(item)}, "evasive": {"type": "boolean"}},
        )

    def check(self, answer: Any, sample: EvalSample) -> dict[str, Any]:
        checked = super().check(answer, sample)
        if not isinstance(checked.get("evasive"), bool):
            raise UnusableVerdict("the answer has no true or false for 'evasive'")
        return checked


class ContextPrecision(ModelEvaluator):
    """``context_precision``: average precision of the retrieved passages, each useful or not for the ground truth (the
    response where there is none), in [0, 1]; 0 where none is useful. The formula is RAGAS's.

    ``None`` without passages, or without ground truth and response.
    """

    metric, verdict_key, items_key = "context_precision", "useful", "verdicts"

    def lacks(self, sample: EvalSample) -> str | None:
        if not self.truth_of(sample).strip():
            return "ground truth"
        return "context" if not sample.context else None

    def truth_of(self, sample: EvalSample) -> str:
        return sample.ground_truth or sample.response or ""

    def score(self, answer: Mapping[str, Any]) -> float | None:
        ranked = sorted(answer["verdicts"], key=lambda item: item["passage"])
        return average_precision([item["useful"] for item in ranked])

    def schema(self) -> dict[str, Any]:
        item = {"passage": {"type": "integer"}, "reason": {"type": "string"}, "useful": {"type": "boolean"}}
        return _object({"verdicts": {"type": "array", "items": _object(item)}})

    def check(self, answer: Any, sample: EvalSample) -> dict[str, Any]:
        checked = super().check(answer, sample)
        numbers = sorted(item.get("passage", 0) for item in checked["verdicts"] if type(item.get("passage")) is int)
        if numbers != list(range(1, len(sample.context) + 1)):
            raise UnusableVerdict(
                f"{len(sample.context)} passages need one verdict each, but the verdicts are on {numbers or 'none'}"
            )
        return checked


class ContextRecall(ModelEvaluator):
    """``context_recall``: statements of the ground truth that the retrieved passages hold / its statements, in [0, 1].

    ``None`` without a ground truth, and for one that states nothing; 0 where nothing was retrieved. The formula is
    RAGAS's.
    """

    metric, verdict_key = "context_recall", "attributed"

    def lacks(self, sample: EvalSample) -> str | None:
        return "ground truth" if not (sample.ground_truth or "").strip() else None

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        if self.lacks(sample) is None and not sample.context:
            return EvalResult(sample, {self.metric: 0.0}, feedback="nothing was retrieved")
        return await super().evaluate_sample(sample)


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
