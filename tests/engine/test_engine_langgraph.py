"""Stores of langgraph under test: the real package; skipped where it is not installed."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))
sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from api_samples import write
from chat_server import ChatServer, error
from dataset_samples import locomo_record
from engine_checks import check, failed
from plugin_project import case

from pytest_memeval import SettingsError, run
from pytest_memeval.engine.adapters.langgraph import LanggraphEngine
from pytest_memeval.harness import Harness

needs_langgraph = pytest.mark.skipif(LanggraphEngine.lacks() is not None, reason="langgraph-checkpoint is missing")
needs_sqlite = pytest.mark.skipif(
    LanggraphEngine.lacks() is not None
    or find_spec("langgraph.store.sqlite") is None
    or not hasattr(sqlite3.Connection, "enable_load_extension"),
    reason="langgraph-checkpoint-sqlite is missing, or this Python's SQLite loads no extensions",
)

TRUTH = [("identity", "lives in Leeds"), ("preferences", "likes green tea"), ("habits", "runs at dawn")]


@contextmanager
def sqlite_store(folder: Path, index: Any) -> Iterator[Any]:
    from langgraph.store.sqlite import SqliteStore

    with SqliteStore.from_conn_string(str(folder / "store.db"), index=index) as store:
        store.setup()
        yield store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


def ask_search(engine: Any, **options: Any) -> Any:
    queries = {"green tea": [1], "Leeds": [0]}
    return run(
        write([case("a", "identity: x", truth=TRUTH, expected_search_results=queries)]), engine=engine, **options
    )


@needs_langgraph
def test_search_finds_what_was_loaded_and_other_stages_are_not_supported() -> None:
    report = ask_search("langgraph")
    assert report["per_case"][0]["errors"] == []
    assert report.value("search.mrr") == 1
    assert report["per_case"][0]["stages"]["l1"] == "unsupported"
    assert report["engine"]["name"] == "langgraph"
    setup = next(fact for fact in report.results[0].facts if fact["kind"] == "search_setup")
    assert (setup["store"], setup["vectors"]) == ("InMemoryStore", "lexical-1024")


@needs_langgraph
def test_questions_keep_their_sources() -> None:
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    report = run("locomo.json", engine="langgraph")
    assert report["counts"]["scored"] == 6
    assert report["case_sets"]["locomo.json"]["protocol"]["memory"] == "langgraph"
    assert report.value("qa.turn_recall@10") == 1
    assert report.value("qa.session_recall@10") == 1


@needs_langgraph
def test_the_runs_embedder_makes_the_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMEVAL_API_KEY", "k")
    with ChatServer() as server:
        told = {"embedder": "openai", "embedding_model": "e", "embedding_base_url": server.base_url}
        report = ask_search("langgraph", cache_dir="cache", **told)
        assert report["per_case"][0]["errors"] == []
        texts = [text for request in server.requests for text in request.body["input"]]
        assert {"likes green tea", "green tea"} <= set(texts)
        assert len(texts) == len(set(texts))
        count = server.count
        ask_search("langgraph", cache_dir="cache", cache="replay", **told)
        assert server.count == count


@needs_langgraph
def test_an_embedder_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMEVAL_API_KEY", "k")
    with ChatServer() as server:
        server.then(*[error(400, "no such model")] * 20)
        report = ask_search("langgraph", embedder="openai", embedding_model="e", embedding_base_url=server.base_url)
    assert [(one["stage"], "no such model" in one["message"]) for one in report["per_case"][0]["errors"]] == [
        ("search", True)
    ]


@needs_langgraph
def test_it_keeps_to_the_protocol(harness: Harness) -> None:
    findings = check(LanggraphEngine, harness)
    assert failed(findings) == [], findings
    assert findings["qa"].status == findings["qa isolation"].status == "ok"


# -- stores of the user's ------------------------------------------------------------------------------------------


@needs_sqlite
def test_a_store_in_a_file(harness: Harness) -> None:
    findings = check(lambda: LanggraphEngine(sqlite_store), harness)
    assert failed(findings) == [], findings
    engine = LanggraphEngine(sqlite_store, name="ours")
    report = ask_search(engine)
    assert report["per_case"][0]["errors"] == []
    assert report.value("search.mrr") == 1
    assert report["engine"]["name"] == "ours"
    assert "sqlite_store" in report["engine"]["version"]
    setup = next(fact for fact in report.results[0].facts if fact["kind"] == "search_setup")
    assert setup["store"] == "SqliteStore"
    assert engine._open == {}


@needs_langgraph
def test_one_store_for_all_cases_is_left_as_it_was(harness: Harness) -> None:
    from langgraph.store.memory import InMemoryStore

    made: list[Any] = []

    def shared(folder: Path, index: Any) -> Any:
        if not made:
            made.append(InMemoryStore(index=index))
            made[0].put(("users", "1"), "note", {"text": "Alma and Bruno live in Lisbon and Oslo"})
        return made[0]

    findings = check(lambda: LanggraphEngine(shared), harness)
    assert failed(findings) == [], findings
    assert [item.namespace for item in made[0].search((), limit=1000)] == [("users", "1")]


@needs_langgraph
def test_a_store_without_an_index_is_told() -> None:
    from langgraph.store.memory import InMemoryStore

    engine = LanggraphEngine(lambda folder, index: InMemoryStore())
    report = ask_search(engine)
    setup = next(fact for fact in report.results[0].facts if fact["kind"] == "search_setup")
    assert setup["vectors"] == "none"
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    report = run("locomo.json", engine=engine)
    notes = [fact["text"] for result in report.results for fact in result.facts if fact["kind"] == "note"]
    assert [("no index" in note) for note in notes] == [True]


@needs_langgraph
def test_what_is_no_store_is_told() -> None:
    report = ask_search(LanggraphEngine(lambda folder, index: {}))
    problem = report["per_case"][0]["errors"][0]
    assert (problem["kind"], "a dict was made" in problem["message"]) == ("no_store", True)


def test_without_the_package_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanggraphEngine, "lacks", staticmethod(lambda: "needs the package langgraph-checkpoint"))
    with pytest.raises(SettingsError, match="langgraph-checkpoint"):
        run(write([case("a", "identity: x")]), engine="langgraph")
