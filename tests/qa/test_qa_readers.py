"""Engines that are asked questions: one store a conversation, waiting for what is indexed behind a call, letting go."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))

from api_samples import write
from dataset_samples import locomo_record
from plugin_project import case

from pytest_memeval import run


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter


class Background:
    """Indexes in a thread of its own, which goes on once somebody waits for it: 300 seconds of ``clock``."""

    name = "background"
    version = "1"
    concurrent = True

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.waiting = threading.Event()
        self.written: dict[Path, list[Any]] = {}
        self.found: dict[Path, list[Any]] = {}
        self.threads: dict[Path, threading.Thread] = {}
        self.released: list[Path] = []
        self.embedders: list[Any] = []

    def write(self, items: Any, ctx: Any) -> None:
        self.written.setdefault(ctx.folder, []).extend(items)
        if ctx.folder not in self.threads:
            self.threads[ctx.folder] = threading.Thread(target=self.index, args=(ctx.folder,), daemon=True)
            self.threads[ctx.folder].start()

    def index(self, folder: Path) -> None:
        assert self.waiting.wait(60)
        self.clock.now += 300
        self.found[folder] = list(self.written[folder])

    def load(self, memories: Any, scenes: Any, ctx: Any) -> None:
        self.write(memories, ctx)

    def ingest_session(self, messages: Any, ctx: Any) -> None:
        self.write(messages, ctx)

    def await_indexed(self, ctx: Any) -> None:
        self.waiting.set()
        self.threads[ctx.folder].join(60)

    def retrieve(self, query: str, ctx: Any) -> Any:
        self.embedders.append(ctx.embedder)
        return [{"id": one.id, "content": one.content, "source_ids": [one.id]} for one in self.found[ctx.folder]]

    def search(self, query: str, params: Any, ctx: Any) -> Any:
        return [{"id": one.id, "score": 1.0, "content": one.content} for one in self.found[ctx.folder]]

    def release(self, ctx: Any) -> None:
        self.released.append(ctx.folder)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    made = Clock()
    monkeypatch.setattr("pytest_memeval.qa.conversations.time", made)
    monkeypatch.setattr("pytest_memeval.runner.time", made)
    monkeypatch.setattr("pytest_memeval.time_limit.time", made)
    monkeypatch.setattr("pytest_memeval.loop_time.time", made)
    return made


def test_waiting_for_the_index_counts_as_reading_time(clock: Clock) -> None:
    engine = Background(clock)
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    report = run("locomo.json", engine=engine)
    assert [entry["errors"] for entry in report["per_case"]] == [[]] * 6
    # One conversation, read once: its first question carries the time.
    assert sorted(entry["timings"]["stages"].get("ingest", 0) for entry in report["per_case"]) == [0] * 5 + [300]
    assert report["timings"]["stages"]["ingest"] == 300
    assert report.value("qa.turn_recall@10") is not None


def test_waiting_for_the_index_counts_as_the_time_of_a_search(clock: Clock) -> None:
    engine = Background(clock)
    labels = {"truth": [("identity", "is tall")], "expected_search_results": {"tall": [0]}}
    report = run(
        write([case("a", "identity: x", **labels), case("b", "identity: y", **labels)]), engine=engine, concurrency=1
    )
    assert [entry["errors"] for entry in report["per_case"]] == [[], []]
    assert sorted(entry["timings"]["stages"]["search"] for entry in report["per_case"]) == [0, 300]
    # The corpus that both share is let go of once, when the run is over.
    assert engine.released == list(engine.found)


def test_a_conversation_has_one_folder_and_is_let_go_of(clock: Clock) -> None:
    engine = Background(clock)
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1"), locomo_record("conv-2")]), "utf-8")
    report = run("locomo.json", engine=engine)
    assert report["counts"]["scored"] == 12
    assert len(engine.written) == 2
    assert sorted(engine.released) == sorted(engine.written)


def test_an_engine_is_given_the_runs_embedder(clock: Clock) -> None:
    engine = Background(clock)
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    run("locomo.json", engine=engine, embedder="lexical")
    assert {one.name for one in engine.embedders} == {"lexical-1024"}
