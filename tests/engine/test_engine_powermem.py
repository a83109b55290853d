"""PowerMem under test: the real package, with a scripted model; skipped where it is not installed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))
sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from api_samples import write
from chat_server import Answer, ChatServer, Request, error
from dataset_samples import locomo_record
from plugin_project import case

from pytest_memeval import SettingsError, run
from pytest_memeval.engine.adapters.powermem import PowerMemEngine

needs_powermem = pytest.mark.skipif(PowerMemEngine.lacks() is not None, reason="powermem is not installed")


def said(prompt: str) -> list[str]:
    """What the user says in the prompt that asks for facts."""
    return [text for text in re.findall(r"^user: (.+)$", prompt, re.MULTILINE) if text.strip()]


class Model:
    """Answers PowerMem's two prompts: facts are what the user said; what becomes of each is ``events``, else ADD."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, str]] = {}
        self.reply: Answer | None = None

    def __call__(self, request: Request) -> Any:
        if self.reply is not None:
            return self.reply
        if "New facts:" not in request.prompt:
            return Answer(json.dumps({"facts": said(request.prompt)}))
        facts = re.findall(r"^- (.+)$", request.prompt.split("New facts:")[1], re.MULTILINE)
        actions = [{"id": "new", "text": fact, "event": "ADD", **self.events.get(fact, {})} for fact in facts]
        return Answer(json.dumps({"memory": actions}))


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def server(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setenv("MEMEVAL_API_KEY", "k")
    with ChatServer() as made:
        made.script = model
        yield made


def ask(server: ChatServer, cases: list[dict[str, Any]] | str, **options: Any) -> Any:
    file = cases if isinstance(cases, str) else write(cases)
    return run(file, engine="powermem", llm="openai", model="m", base_url=server.base_url, cache_dir="cache", **options)


def with_old(text: str, action: str, targets: list[str], **keys: Any) -> dict[str, Any]:
    return case(
        "a",
        text,
        **keys,
        existing_memories=[{"memory_id": "old-1", "content": "lives in York", "dimensions": ["identity"]}],
        expected_l15={"actions": [{"new_memory_index": 0, "candidate_ids": targets, "action": action}]},
    )


@needs_powermem
def test_facts_are_extracted_by_the_runs_model(server: ChatServer) -> None:
    cases = [case("a", "identity: lives in Leeds"), case("b", "identity: likes tea")]
    report = ask(server, cases, stages="l1")
    assert report["per_case"][0]["errors"] == []
    assert report.value("l1.memory_recall") == 1
    assert report["engine"]["name"] == "powermem"
    # Facts, then what becomes of them.
    assert (report["usage"]["calls"], server.count) == (4, 4)
    assert ask(server, cases, stages="l1", cache="replay").value("l1.memory_recall") == 1
    assert server.count == 4
    notes = [fact["text"] for fact in report.results[0].facts if fact["kind"] == "note"]
    assert any("do not say which message" in note for note in notes)


@needs_powermem
@pytest.mark.parametrize(
    ("event", "action", "targets"),
    [
        ({}, "store", []),
        ({"id": "0", "event": "UPDATE", "text": "lives in Leeds, before in York"}, "update", ["old-1"]),
    ],
)
def test_its_decisions_are_measured(
    server: ChatServer, model: Model, event: dict[str, str], action: str, targets: list[str]
) -> None:
    model.events["identity: lives in Leeds"] = event
    report = ask(server, [with_old("identity: lives in Leeds", action, targets)])
    assert report["per_case"][0]["errors"] == []
    assert report.value("l15.decision_accuracy") == 1
    assert report["per_case"][0]["stages"]["l2"] in ("unsupported", "no_truth")


@needs_powermem
@pytest.mark.parametrize(
    ("event", "action", "targets"),
    [
        ({}, "store", []),
        ({"id": "0", "event": "UPDATE"}, "update", ["old-1"]),
    ],
)
def test_decisions_on_labelled_memories(
    server: ChatServer, model: Model, event: dict[str, str], action: str, targets: list[str]
) -> None:
    model.events["lives in Leeds"] = event
    labels = with_old("identity: x", action, targets, truth=[("identity", "lives in Leeds")])
    report = ask(server, [labels], stage_input="truth", stages="l15")
    assert report["per_case"][0]["errors"] == []
    assert report.value("l15.decision_accuracy") == 1


@needs_powermem
def test_a_skipped_memory_has_no_known_target(server: ChatServer, model: Model) -> None:
    model.events["lives in Leeds"] = {"event": "NONE"}
    labels = with_old("identity: x", "skip", ["old-1"], truth=[("identity", "lives in Leeds")])
    report = ask(server, [labels], stage_input="truth", stages="l15")
    assert report.value("l15.action_accuracy") == 1
    assert report.value("l15.decision_accuracy") == 0
    notes = [fact["text"] for fact in report.results[0].facts if fact["kind"] == "note"]
    assert "powermem: it does not say which memory a skipped one repeats" in notes


@needs_powermem
def test_a_contradicted_memory_is_told(server: ChatServer, model: Model) -> None:
    model.events["identity: lives in Leeds"] = {"id": "0", "event": "DELETE"}
    report = ask(server, [with_old("identity: lives in Leeds", "store", [])], stages="l1")
    notes = [fact["text"] for fact in report.results[0].facts if fact["kind"] == "note"]
    assert "powermem: the memory old-1 was deleted, as contradicted" in notes


@needs_powermem
def test_search_finds_what_was_loaded(server: ChatServer) -> None:
    truth = [("identity", "lives in Leeds"), ("preferences", "likes green tea")]
    report = ask(
        server, [case("a", "identity: x", truth=truth, expected_search_results={"green tea": [1]})], stages="search"
    )
    assert report["per_case"][0]["errors"] == []
    assert report.value("search.mrr") == 1
    assert server.count == 0


@needs_powermem
def test_questions_name_the_sessions_of_what_is_found(server: ChatServer) -> None:
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    report = ask(server, "locomo.json")
    assert [entry["errors"] for entry in report["per_case"]] == [[]] * 6
    assert report["case_sets"]["locomo.json"]["protocol"]["memory"] == "powermem"
    assert report.value("qa.session_recall@10") == 1
    assert report["timings"]["stages"]["ingest"] > 0
    notes = [fact["text"] for result in report.results for fact in result.facts if fact["kind"] == "note"]
    assert ["sessions stand for it" in note for note in notes] == [True]


@needs_powermem
@pytest.mark.parametrize(
    ("reply", "kind"), [(Answer(None, refusal="no"), "refused"), (Answer("I cannot say."), "unusable_answer")]
)
def test_what_it_goes_on_without_is_an_error(server: ChatServer, model: Model, reply: Answer, kind: str) -> None:
    model.reply = reply
    report = ask(server, [case("a", "identity: lives in Leeds")])
    assert report["per_case"][0]["errors"][0]["kind"] == kind
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    report = ask(server, "locomo.json")
    assert {entry["errors"][0]["kind"] for entry in report["per_case"]} == {"ingest_failed"}


@needs_powermem
def test_an_embedder_that_is_gone_is_an_error(server: ChatServer) -> None:
    with ChatServer() as broken:
        broken.then(*[error(400, "no such model")] * 20)
        report = ask(
            server,
            [case("a", "identity: lives in Leeds")],
            embedder="openai",
            embedding_model="e",
            embedding_base_url=broken.base_url,
        )
    assert "no such model" in report["per_case"][0]["errors"][0]["message"]


@needs_powermem
def test_it_keeps_to_the_protocol_and_leaves_no_files(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_memeval.cli.main import main

    arguments = ["--llm", "openai", "--model", "m", "--base-url", server.base_url]
    assert main(["doctor", "--engine", "powermem", *arguments]) == 0, capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} <= {"user-cache"}


def test_without_the_package_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PowerMemEngine, "lacks", staticmethod(lambda: "needs the package powermem"))
    with pytest.raises(SettingsError, match="powermem"):
        run(write([case("a", "identity: x")]), engine="powermem")
