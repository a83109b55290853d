"""200 RAG samples against a server with latency, 16 in flight: wall time against the ideal, total latency / 16."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "servers"))

from chat_server import ChatServer, log_normal

from pytest_memeval.rag import EvalDataset, EvalSample, Faithfulness

SAMPLES, PLACES, MEDIAN = 200, 16, 0.3
SUPPORTED = json.dumps({"statements": [{"statement": "s", "reason": "r", "supported": True}]})


class Drawn:
    """A latency for each request. Knows their sum and when the first was asked for."""

    def __init__(self, count: int) -> None:
        draw = log_normal(MEDIAN, seed=7)
        self._latencies = [draw() for _ in range(count)]
        self._left = iter(self._latencies)
        self.first: float | None = None

    def __call__(self) -> float:
        self.first = self.first or time.perf_counter()
        return next(self._left)

    def said(self, what: str, wall: float, since_first: float) -> str:
        ideal = sum(self._latencies) / PLACES
        return (
            f"\n{SAMPLES} {what}, {PLACES} in flight: {wall:.2f} s = {wall / ideal:.2f} x ideal; "
            f"since the first request {since_first / ideal:.2f} x"
        )


def model_on(server: ChatServer) -> Any:
    from pytest_memeval.llm.factory import build_chat_model
    from pytest_memeval.llm.settings import ModelSettings

    return build_chat_model("openai", settings=ModelSettings(model="judge", base_url=server.base_url))


@pytest.mark.slow
def test_a_data_set_of_200_samples(capsys: pytest.CaptureFixture[str]) -> None:
    latency = Drawn(SAMPLES)
    with ChatServer(lambda request: SUPPORTED, latency=latency) as server:
        evaluator = Faithfulness(model_on(server), max_concurrency=PLACES)
        dataset = EvalDataset([EvalSample(f"q{n}", ["c"], "a") for n in range(SAMPLES)])
        import openai  # noqa: F401  # its import is no part of the work

        started = time.perf_counter()
        summary = asyncio.run(evaluator.evaluate_dataset(dataset))
        ended = time.perf_counter()
        assert summary.metrics["faithfulness"].n == SAMPLES
        assert server.most_in_flight == PLACES
    with capsys.disabled():
        print(latency.said("samples", ended - started, ended - (latency.first or started)))


@pytest.mark.slow
def test_200_samples_as_items(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "user-cache"))
    rows = [{"id": f"s{n}", "query": f"q{n}", "contexts": ["c"], "response": "a"} for n in range(SAMPLES)]
    path = pytester.path / "samples.memeval.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    latency = Drawn(SAMPLES)
    with ChatServer(lambda request: SUPPORTED, latency=latency) as server:
        started = time.perf_counter()
        result = pytester.runpytest_inprocess(
            str(path), "-q", "--memeval-concurrency", str(PLACES), "--memeval-cache", "off",
            "--memeval-evaluator", "pytest_memeval.rag:Faithfulness",
            "--memeval-judge-model", "judge", "--memeval-judge-base-url", server.base_url,
        )  # fmt: skip
        ended = time.perf_counter()
        result.assert_outcomes(passed=SAMPLES)
    with capsys.disabled():
        print(latency.said("items", ended - started, ended - (latency.first or started)))
