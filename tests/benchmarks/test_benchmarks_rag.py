"""200 RAG samples against a server with latency, 16 in flight: wall time against the ideal, total latency / 16.

The server is a process of its own. ``calls`` is from the first request to the last answer, ``work`` from the first
request until the summary is there (for items: until the process with its reports has ended), ``all`` with the start.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmark_processes import run_pytest

from pytest_memeval.rag import EvalDataset, EvalSample, Faithfulness

SAMPLES, PLACES, MEDIAN = 200, 16, 0.3
SERVER = Path(__file__).parent / "latency" / "rag_server.py"


def measured(what: str, work: Callable[[str], Any]) -> tuple[Any, str]:
    """What ``work(base_url)`` gives, and a line with the ratios."""
    command = [sys.executable, str(SERVER), str(SAMPLES), str(MEDIAN)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url, total = json.loads(server.stdout.readline())
        ideal = total / PLACES
        started = time.perf_counter()
        result = work(url)
        ended = time.perf_counter()
        server.stdin.write("\n")
        server.stdin.flush()
        calls, first, most = json.loads(server.stdout.readline())
    return result, (
        f"\n{SAMPLES} {what}, {PLACES} in flight, ideal {ideal:.2f} s: calls {calls / ideal:.2f} x,"
        f" work {(ended - first) / ideal:.2f} x, all {(ended - started) / ideal:.2f} x;"
        f" most in flight {most}; load {os.getloadavg()[0]:.1f}"
    )


def model_on(url: str) -> Any:
    from pytest_memeval.llm.factory import build_chat_model
    from pytest_memeval.llm.settings import ModelSettings

    return build_chat_model("openai", settings=ModelSettings(model="judge", base_url=url))


@pytest.mark.slow
def test_a_data_set_of_200_samples(capsys: pytest.CaptureFixture[str]) -> None:
    import openai  # noqa: F401  # its import is no part of the work

    def work(url: str) -> Any:
        evaluator = Faithfulness(model_on(url), max_concurrency=PLACES)
        samples = [EvalSample(f"q{n}", ["c"], "a") for n in range(SAMPLES)]
        return asyncio.run(evaluator.evaluate_dataset(EvalDataset(samples)))

    summary, said = measured("samples", work)
    assert summary.metrics["faithfulness"].n == SAMPLES
    with capsys.disabled():
        print(said)


@pytest.mark.slow
def test_200_samples_as_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    rows = [{"id": f"s{n}", "query": f"q{n}", "contexts": ["c"], "response": "a"} for n in range(SAMPLES)]
    path = tmp_path / "samples.memeval.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "cache").mkdir()

    def work(url: str, *options: str) -> str:
        return run_pytest(
            tmp_path, str(path), "--memeval-concurrency", str(PLACES), "--memeval-cache", "off",
            "--memeval-evaluator", "pytest_memeval.rag:Faithfulness",
            "--memeval-judge-model", "judge", "--memeval-judge-base-url", url, *options,
            cache=tmp_path / "cache",
        ).output  # fmt: skip

    measured("items", lambda url: work(url, "--memeval-limit", "1"))  # byte code is kept from the first run on
    output, said = measured("items", work)
    assert f"{SAMPLES} passed" in output
    with capsys.disabled():
        print(said)
