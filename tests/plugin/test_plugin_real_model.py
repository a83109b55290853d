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

CASES = Path(__file__).resolve().parents[2] / "cases"
#: A short case with stored memories: only such cases ask about conflicts.
CONFLICT = "eval-012"
#: What a small model may well do to a case; anything else is a fault of ours.
EXPECTED_ERRORS = {"unusable_answer", "truncated", "empty_answer", "refused", "context_overflow"}


@pytest.fixture
def options(project: Project) -> tuple[str, ...]:
    """The server's options, in a project that holds the shipped cases."""
    base_url, model = os.environ.get("MEMEVAL_BASE_URL"), os.environ.get("MEMEVAL_MODEL")
    if not base_url or not model:
        pytest.skip("no server: set MEMEVAL_BASE_URL and MEMEVAL_MODEL")
    (project.path / "conftest.py").write_text("", encoding="utf-8")
    (project.path / "cases").mkdir()
    for name in ("v001_sample.yaml", "v001.yaml"):
        shutil.copy(CASES / name, project.path / "cases" / name)
    return (
        "--memeval-llm", "openai", "--memeval-model", model, "--memeval-base-url", base_url,
        "--memeval-cache-dir", "cache", "--memeval-concurrency", "1", "--memeval-max-tokens", "1024",
        # The short prompts: without a graphics card the long ones alone take minutes to read.
        "--memeval-prompt-version", "v001", "--memeval-request-timeout", "400",
    )  # fmt: skip


@pytest.mark.integration
def test_the_sample_runs_through_its_stages(project: Project, options: tuple[str, ...]) -> None:
    result = project.run("cases/v001_sample.yaml", *options, fresh=True)
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
        project.run("cases/v001_sample.yaml", *options, "--memeval-cache", "replay", fresh=True)
        assert dumps(stable(project.report())) == dumps(stable(report))


@pytest.mark.integration
def test_every_stage_of_the_model_is_asked(project: Project, options: tuple[str, ...]) -> None:
    # Labelled memories go into the later stages, so that each is asked whatever the model made of the first.
    result = project.run(f"cases/v001.yaml::{CONFLICT}", "--memeval-stage-input", "truth", *options, fresh=True)
    report = project.report()
    (entry,) = report["per_case"]
    assert {error["kind"] for error in entry["errors"]} <= EXPECTED_ERRORS, result.stdout.str()
    assert {"l1_extraction", "l1_conflict"} <= set(report["usage"]["by_stage"])
    assert all(stage["calls"] >= 1 and stage["output_tokens"] > 0 for stage in report["usage"]["by_stage"].values())
    for decision in entry["outputs"].get("l15", ()):
        assert decision["action"] in ("store", "update", "merge", "skip")
    print(entry["outputs"].get("l15"), entry["errors"])
