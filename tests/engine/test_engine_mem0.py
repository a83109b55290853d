"""mem0 under test: the real package, with a scripted model; skipped where it is not installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))
sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from api_samples import write
from chat_server import Answer, ChatServer, Request
from dataset_samples import locomo_record
from plugin_project import case

from pytest_memeval import SettingsError, run
from pytest_memeval.engine.adapters.mem0 import Mem0Engine

needs_mem0 = pytest.mark.skipif(Mem0Engine.lacks() is not None, reason="mem0ai is not installed")


def facts(prompt: str) -> list[dict[str, str]]:
    """Every sentence about a person in the new messages of mem0's prompt."""
    new = prompt.split("New Messages")[-1]
    return [{"text": text} for text in ("lives in Leeds", "likes tea", "Alma lives in Lisbon") if text in new]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setenv("MEMEVAL_API_KEY", "k")

    def answer(request: Request) -> Answer:
        return Answer(json.dumps({"memory": facts(request.prompt)}))

    with ChatServer() as made:
        made.script = answer
        yield made


def ask(server: ChatServer, cases: list[dict[str, Any]], **options: Any) -> Any:
    return run(
        write(cases), engine="mem0", llm="openai", model="m", base_url=server.base_url, cache_dir="cache", **options
    )


@needs_mem0
def test_facts_are_extracted_by_the_runs_model(server: ChatServer) -> None:
    cases = [case("a", "identity: lives in Leeds"), case("b", "identity: likes tea")]
    report = ask(server, cases)
    assert report["per_case"][0]["errors"] == []
    assert report.value("l1.memory_recall") == 1
    assert report.value("l1.memory_precision") == 1
    assert report["engine"]["name"] == "mem0"
    assert (report["usage"]["calls"], server.count) == (2, 2)
    assert ask(server, cases, cache="replay").value("l1.memory_recall") == 1
    assert server.count == 2


@needs_mem0
def test_search_finds_what_was_loaded(server: ChatServer) -> None:
    truth = [("identity", "lives in Leeds"), ("preferences", "likes green tea")]
    report = ask(
        server, [case("a", "identity: x", truth=truth, expected_search_results={"green tea": [1]})], stages="search"
    )
    assert report["per_case"][0]["errors"] == []
    assert report.value("search.mrr") == 1


@needs_mem0
def test_questions_name_the_sessions_of_what_is_found(server: ChatServer) -> None:
    record = locomo_record("conv-1")
    texts = [turn["text"] for turn in record["conversation"]["session_1"]]
    server.script = lambda request: Answer(
        json.dumps({"memory": [{"text": text} for text in texts if text in request.prompt.split("New Messages")[-1]]})
    )
    Path("locomo.json").write_text(json.dumps([record]), "utf-8")
    report = run("locomo.json", engine="mem0", llm="openai", model="m", base_url=server.base_url, cache_dir="cache")
    assert [entry["errors"] for entry in report["per_case"]] == [[]] * 6
    assert report["case_sets"]["locomo.json"]["protocol"]["memory"] == "mem0"
    assert all(entry["outputs"]["qa"]["hits"] > 0 for entry in report["per_case"])
    assert {source for entry in report["per_case"] for source in entry["outputs"]["qa"]["sources"]} >= {"D1:1"}
    notes = [fact["text"] for result in report.results for fact in result.facts if fact["kind"] == "note"]
    assert ["session stands for it" in note for note in notes] == [True]


@needs_mem0
def test_a_model_that_is_gone_is_an_error(server: ChatServer) -> None:
    server.script = lambda request: Answer(None, refusal="no")
    report = ask(server, [case("a", "identity: lives in Leeds")])
    assert report["per_case"][0]["errors"][0]["kind"] == "refused"


@needs_mem0
def test_it_keeps_to_the_protocol(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    from pytest_memeval.cli.main import main

    arguments = ["--llm", "openai", "--model", "m", "--base-url", server.base_url]
    assert main(["doctor", "--engine", "mem0", *arguments]) == 0, capsys.readouterr().out


def test_without_the_package_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Mem0Engine, "lacks", staticmethod(lambda: "needs the package mem0ai"))
    with pytest.raises(SettingsError, match="mem0ai"):
        run(write([case("a", "identity: x")]), engine="mem0")
