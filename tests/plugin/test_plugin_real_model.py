"""The five-case sample, all stages, against a real model: structure is asserted, never quality.

Any OpenAI-compatible server will do: name it with MEMEVAL_BASE_URL and MEMEVAL_MODEL, then run with --run-integration.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from plugin_project import Project, stable

from pytest_memeval.report.json_report import dumps

SAMPLE = Path(__file__).resolve().parents[2] / "cases" / "v001_sample.yaml"
#: What a small model may well do to a case; anything else is a fault of ours.
EXPECTED_ERRORS = {"unusable_answer", "truncated", "empty_answer", "refused", "context_overflow"}


@pytest.mark.integration
def test_the_sample_runs_through_all_stages(project: Project) -> None:
    base_url, model = os.environ.get("MEMEVAL_BASE_URL"), os.environ.get("MEMEVAL_MODEL")
    if not base_url or not model:
        pytest.skip("no server: set MEMEVAL_BASE_URL and MEMEVAL_MODEL")
    (project.path / "conftest.py").write_text("", encoding="utf-8")
    (project.path / "cases").mkdir()
    shutil.copy(SAMPLE, project.path / "cases" / "v001_sample.yaml")
    options = (
        "--memeval-llm", "openai", "--memeval-model", model, "--memeval-base-url", base_url,
        "--memeval-cache-dir", "cache", "--memeval-concurrency", "1", "--memeval-max-tokens", "1024",
        # The short prompts: without a graphics card the long ones alone take minutes to read.
        "--memeval-prompt-version", "v001", "--memeval-request-timeout", "400",
    )  # fmt: skip
    result = project.run(*options, fresh=True)
    report = project.report()
    counts = report["counts"]
    assert counts["total"] == 5
    assert counts["scored"] + counts["errored"] == 5
    kinds = {error["kind"] for entry in report["per_case"] for error in entry["errors"]}
    assert kinds <= EXPECTED_ERRORS, result.stdout.str()
    usage = report["usage"]
    assert usage["calls"] >= 5
    assert usage["input_tokens"] > 0
    assert usage["output_tokens"] > 0
    assert report["model"]["served_model"]
    assert report["timings"]["calls"]["latency_p50"] > 0
    for entry in report["per_case"]:
        for memory in entry["outputs"].get("l1", ()):
            assert memory["content"].strip()
    print({entry["case_id"]: [error["message"][:200] for error in entry["errors"]] for entry in report["per_case"]})
    print(
        {fact["kind"]: fact for entry in report["per_case"] for fact in entry["facts"] if fact["kind"] != "model_call"}
    )
    if not kinds:
        # What was answered is on record now: the same again, without the server.
        project.run(*options, "--memeval-cache", "replay", fresh=True)
        assert dumps(stable(project.report())) == dumps(stable(report))
