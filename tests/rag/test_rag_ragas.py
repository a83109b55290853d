"""RAGAS driven end to end: its own prompts and parsing against a chat server. Skipped where it is not installed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "servers"))

import chat_server as fake
from chat_server import ChatServer

from pytest_memeval.rag import EvalDataset, EvalSample


def test_without_ragas_the_command_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_memeval.rag import RagasEvaluator

    for name in [name for name in sys.modules if name.partition(".")[0] == "ragas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ragas", None)
    with pytest.raises(ImportError, match=r"pip install 'pytest-memeval\[ragas\]'"):
        RagasEvaluator(object())


SAMPLES = [
    EvalSample("Where is the tower?", ["The tower is in Paris."], "In Paris.", "In Paris.", id="good"),
    EvalSample("Where is the tower?", ["It is broken."], "In Rome.", "In Paris.", id="junk"),
    EvalSample("Where is the tower?", ["The tower is in Paris."], id="bare"),
]


def answer(request: fake.Request) -> str:
    """What a model answers to each of RAGAS's prompts, told by the schema it asks for; junk for the second sample."""
    prompt = request.prompt
    if "It is broken" in prompt or "In Rome" in prompt:
        return "I cannot say."
    schema = json.dumps(request.body.get("response_format", {}))
    if "noncommittal" in schema:
        return json.dumps({"question": "Where is the tower?", "noncommittal": 0})
    if "classifications" in schema:
        item = {"statement": "In Paris.", "reason": "said", "attributed": 1}
        return json.dumps({"classifications": [item]})
    if "NLIStatement" in schema or ('"verdict"' in schema and "statements" in schema):
        return json.dumps({"statements": [{"statement": "It is in Paris.", "reason": "said", "verdict": 1}]})
    if '"verdict"' in schema:
        return json.dumps({"reason": "useful", "verdict": 1})
    return json.dumps({"statements": ["The tower is in Paris."]})


class LetterEmbedder:
    """How often each letter occurs: equal texts are equal vectors."""

    name = "letters"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[float(text.casefold().count(chr(97 + n))) for n in range(26)] for text in texts]


def model_on(server: ChatServer) -> Any:
    from pytest_memeval.llm.factory import build_chat_model
    from pytest_memeval.llm.settings import ModelSettings

    return build_chat_model("openai", settings=ModelSettings(model="judge", base_url=server.base_url))


@pytest.fixture(scope="module")
def ragas() -> Any:
    return pytest.importorskip("ragas", reason="the extra [ragas] is not installed")


@pytest.mark.usefixtures("ragas")
def test_ragas_scores_a_data_set_end_to_end() -> None:
    from pytest_memeval.rag import run_ragas_evaluation

    with ChatServer() as server:
        server.script = answer
        summary = run_ragas_evaluation(
            EvalDataset(SAMPLES, "tower"), model_on(server), embeddings=LetterEmbedder(), max_workers=4, batch_size=2
        )
        assert server.count > 8
    assert summary.sample_count == 3
    good, junk, bare = summary.results
    assert good.scores == pytest.approx(
        {"faithfulness": 1, "answer_relevancy": 1, "context_precision": 1, "context_recall": 1}, abs=1e-6
    )
    # What RAGAS could not score is unmeasured, with its reason, and stays in the data set.
    assert set(junk.unmeasured) == {"faithfulness", "answer_relevancy", "context_precision", "context_recall"}
    assert set(junk.scores.values()) == {None}
    # What a sample has no columns for is not measured, and no error.
    assert (dict(bare.unmeasured), bare.scores["faithfulness"]) == ({}, None)
    faithfulness = summary.metrics["faithfulness"]
    assert (faithfulness.n, faithfulness.errors, faithfulness.unmeasured) == (1, 1, 1)
    assert summary.mean_scores["faithfulness"] == 1


@pytest.mark.usefixtures("ragas")
def test_nan_is_unmeasured() -> None:
    from pytest_memeval.rag import RagasEvaluator

    with ChatServer() as server:
        server.script = lambda request: json.dumps({"statements": []})
        evaluator = RagasEvaluator(model_on(server), metrics=["faithfulness"])
        result = evaluator.evaluate(EvalDataset(SAMPLES[:1])).results[0]
    assert (result.scores, dict(result.unmeasured)) == ({"faithfulness": None}, {"faithfulness": "RAGAS gave nan"})


@pytest.mark.usefixtures("ragas")
def test_as_many_calls_as_workers_are_under_way() -> None:
    from pytest_memeval.rag import RagasEvaluator

    with ChatServer() as server:
        server.script = answer
        server.latency = 0.02
        evaluator = RagasEvaluator(model_on(server), max_workers=3)
        evaluator.evaluate(EvalDataset([SAMPLES[0]] * 12))
        assert server.most_in_flight == 3


@pytest.mark.usefixtures("ragas")
def test_older_metrics_and_bad_names() -> None:
    from pytest_memeval.rag import RagasEvaluator

    class Older:
        name = "older metric (mode=f1)"
        required_columns: ClassVar = {"SINGLE_TURN": {"user_input", "reference"}}

        async def single_turn_ascore(self, sample: Any) -> float:
            return float(len(sample.reference))

    evaluator = RagasEvaluator(object(), metrics=[Older()])
    results = evaluator.evaluate(EvalDataset(SAMPLES)).results
    assert [dict(result.scores) for result in results] == [
        {"older_metric__mode_f1": 9.0},
        {"older_metric__mode_f1": 9.0},
        {"older_metric__mode_f1": None},
    ]
    with pytest.raises(ValueError, match="did you mean 'faithfulness'"):
        RagasEvaluator(object(), metrics=["faithfullness"])
    with pytest.raises(ValueError, match="'answer_relevancy' needs embeddings"):
        RagasEvaluator(object(), metrics=["answer_relevancy"])
    with pytest.raises(ValueError, match="max_workers must be at least 1"):
        RagasEvaluator(object(), max_workers=0)


@pytest.mark.usefixtures("ragas")
def test_our_matching_equals_ragas_where_it_is_asked_to() -> None:
    import asyncio

    from ragas import SingleTurnSample
    from ragas.metrics import NonLLMContextPrecisionWithReference, NonLLMContextRecall

    from pytest_memeval.rag import ContextPrecisionByMatching, ContextRecallByMatching

    words = ["the", "tower", "in", "Paris", "is", "high", "and", "old", "the", "river", "runs", "by", "it"]
    for start in range(6):
        passages = [" ".join(words[start + n : start + n + 4]) for n in range(4)]
        references = [" ".join(words[start * 2 : start * 2 + 5]), " ".join(words[5 - start : 9 - start])]
        sample = EvalSample("q", passages, reference_contexts=references)
        row = SingleTurnSample(user_input="q", retrieved_contexts=passages, reference_contexts=references)

        async def both(sample: EvalSample = sample, row: Any = row) -> tuple[list[Any], list[Any]]:
            # RAGAS counts a similarity equal to the threshold in one of the two and not in the other.
            options: dict[str, Any] = {"threshold": 0.47, "similarity": "levenshtein", "contained": False}
            ours = [
                await ContextRecallByMatching(**options).evaluate_sample(sample),
                await ContextPrecisionByMatching(**options).evaluate_sample(sample),
            ]
            theirs = [
                await NonLLMContextRecall(threshold=0.47).single_turn_ascore(row),
                await NonLLMContextPrecisionWithReference(threshold=0.47).single_turn_ascore(row),
            ]
            return [next(iter(result.scores.values())) for result in ours], theirs

        ours, theirs = asyncio.run(both())
        assert ours == pytest.approx([float(re.sub("nan", "0", str(score))) for score in theirs], abs=1e-6)
