"""SGME under test, beside a checkout that ``MEMEVAL_SGME_PATH`` names; skipped without one."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))
sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from api_samples import write
from chat_server import Answer, ChatServer, Request
from plugin_project import case

from pytest_memeval import SettingsError, run
from pytest_memeval.cli.main import main
from pytest_memeval.engine.adapters.sgme import PATH, SgmeEngine
from pytest_memeval.engine.protocol import EngineSetupError
from pytest_memeval.llm.protocol import ChatReply, ModelUnavailable
from pytest_memeval.llm.sync import SyncCompletion

needs_sgme = pytest.mark.skipif(SgmeEngine.lacks() is not None, reason="MEMEVAL_SGME_PATH names no checkout of SGME")


class Scripted(SyncCompletion):
    """Answers SGME's prompts as a perfect model would."""

    name = "scripted"

    def __init__(self, action: str = "store") -> None:
        self.action = action
        self.stages: list[str] = []

    async def complete(self, messages: Sequence[Mapping[str, str]], *, stage: str, **rest: Any) -> ChatReply:
        self.stages.append(stage)
        prompt = messages[-1]["content"]
        if self.action == "down":
            raise ModelUnavailable("gone")
        if stage == "l1_extraction":
            found = re.findall(r"user:\n(\w+): ([^\n]+)", prompt)
            return ChatReply(json.dumps([memory(dimension, text) for dimension, text in found]))
        if stage == "l1_conflict":
            old = re.search(r"\bold-\d+\b", prompt)
            targets = [old[0]] if old is not None else []
            decision = {"action": self.action, "candidate_ids": targets, "merged_content": "both", "reason": "r"}
            return ChatReply(json.dumps([{"new_memory_index": 0, **decision}]))
        return ChatReply(json.dumps([{"action": "create", "title": "Life", "merged_content": "# Life"}]))


def memory(dimension: str, text: str) -> dict[str, Any]:
    return {
        "content": text,
        "memory_type": "persona",
        "priority": 80,
        "time_velocity": "static",
        "dimensions": [dimension],
    }


def full(action: str, targets: list[str]) -> dict[str, Any]:
    return case(
        "eval-001",
        "identity: lives in Leeds",
        existing_memories=[{"memory_id": "old-1", "content": "lives in York", "dimensions": ["identity"]}],
        expected_l15={"actions": [{"new_memory_index": 0, "candidate_ids": targets, "action": action}]},
        expected_l2={
            "scenes": [{"label": "Life", "memories": [0]}],
            "template_section": {"work": {"0": "career"}},
        },
        expected_inject={"mode": "work", "subsequent_conversation": "Where?", "referenced_memory_indices": [0]},
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


@needs_sgme
@pytest.mark.parametrize(("action", "targets"), [("store", []), ("update", ["old-1"]), ("merge", ["old-1"])])
def test_every_stage_is_measured(action: str, targets: list[str]) -> None:
    model = Scripted(action)
    report = run(write([full(action, targets)]), engine="sgme", llm=model)
    entry = report["per_case"][0]
    assert entry["errors"] == []
    assert report.value("l1.dimension_micro_f1") == 1
    assert report.value("l15.decision_accuracy") == 1
    assert report.value("l2.memories_per_scene") == 1
    assert report.value("l2.section_hit_rate") == 1
    assert report.value("inject.reference_coverage") == 1
    assert report.value("inject.pipeline_coverage") == 1
    assert set(model.stages) == {"l1_extraction", "l1_conflict", "l2_scene"}
    assert report["usage"]["calls"] == len(model.stages)


@needs_sgme
def test_prompt_versions_are_sgmes_own() -> None:
    report = run(write([full("store", [])]), engine="sgme", llm=Scripted(), prompt_version="l1=v001", stages="l1")
    texts = [fact["text"] for fact in report.results[0].facts if fact["kind"] == "note"]
    assert "sgme: prompt l1_extraction v001" in texts


@needs_sgme
def test_a_model_that_is_gone_is_an_error_and_no_empty_answer() -> None:
    report = run(write([full("store", [])]), engine="sgme", llm=Scripted("down"))
    assert report["per_case"][0]["errors"][0]["kind"] == "model_unavailable"


@needs_sgme
def test_it_keeps_to_the_protocol(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from engine_checks import check, failed

    from pytest_memeval.harness import Harness
    from pytest_memeval.settings.reading import read_settings

    here = Path.cwd()
    settings = read_settings(lambda option: None, lambda option: option.ini_default, rootdir=here, invocation_dir=here)
    harness = Harness(settings)
    monkeypatch.setattr(harness, "build_llm", Said)
    try:
        findings = check(SgmeEngine, harness)
    finally:
        harness.close()
    assert failed(findings) == [], findings


class Said(Scripted):
    """Extracts what every user says."""

    async def complete(self, messages: Sequence[Mapping[str, str]], *, stage: str, **rest: Any) -> ChatReply:
        if stage != "l1_extraction":
            return await super().complete(messages, stage=stage, **rest)
        found = re.findall(r"user:\n([^\n]+)", messages[-1]["content"])
        return ChatReply(json.dumps([memory("identity", text) for text in found if text.strip()]))


@needs_sgme
def test_the_doctor_with_a_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MEMEVAL_API_KEY", "k")
    model = Said()

    def answer(request: Request) -> Answer:
        stage = "l1_conflict" if "candidate_ids" in request.prompt else "l2_scene"
        stage = stage if "merged_content" in request.prompt else "l1_extraction"
        return Answer(model.complete_sync([{"role": "user", "content": request.prompt}], stage=stage).text)

    with ChatServer() as server:
        server.script = answer
        arguments = ["--llm", "openai", "--model", "m", "--base-url", server.base_url]
        assert main(["doctor", "--engine", "sgme", *arguments]) == 0, capsys.readouterr().out


@needs_sgme
def test_its_own_data_are_never_touched() -> None:
    checkout = Path(os.environ[PATH])
    before = {path: path.stat().st_mtime_ns for path in checkout.rglob("*") if "__pycache__" not in path.parts}
    run(write([full("store", [])]), engine="sgme", llm=Scripted())
    after = {path: path.stat().st_mtime_ns for path in checkout.rglob("*") if "__pycache__" not in path.parts}
    assert {path for path in after if before.get(path) != after[path] and path.is_file()} == set()


def test_without_a_checkout_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(PATH, raising=False)
    with pytest.raises(SettingsError, match=PATH):
        run(write([full("store", [])]), engine="sgme")
    with pytest.raises(EngineSetupError, match="is no checkout of SGME"):
        SgmeEngine(tmp_path)
