"""The whole pipeline with the shipped prompts and the embedded model."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from engine_helpers import NOW, bench, memory, message, run

from pytest_memeval.assets.prompts import load_prompts
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.engine.protocol import supported_stages
from pytest_memeval.engine.reference.engine import ReferenceEngine
from pytest_memeval.llm.embedded import EmbeddedChatModel
from pytest_memeval.values import Message, Scene

ENGINE = ReferenceEngine()
TALK = [
    message(1, "我叫林夏，在杭州做后端开发，平时主要用 Go 和 PostgreSQL。", time=NOW - timedelta(hours=3)),
    message(2, "好的，记住了。", role="assistant", time=NOW - timedelta(hours=2)),
    message(3, "I moved to Lisbon last month and I now drink green tea every morning.", time=NOW - timedelta(hours=1)),
]
OLD = [memory("m1", "I drink coffee every morning", "habits", priority=60, memory_type="persona")]


async def pipeline(spec: str | None, case_id: str, talk: list[Message] = TALK) -> dict[str, Any]:
    b = bench(model=EmbeddedChatModel(), prompts=load_prompts(None).resolve(spec), case_id=case_id)
    try:
        await ENGINE.load(OLD, [Scene("s1", "Mornings", ("m1",))], b.ctx)
        extracted = await ENGINE.extract(talk, b.ctx)
        memories = await ENGINE.normalize(extracted, b.ctx)
        decisions = await ENGINE.resolve(memories, b.ctx)
        live = [memory(d.result_id, memories[d.memory_index].content) for d in decisions if d.result_id]
        scenes = await ENGINE.aggregate(live, b.ctx)
        found = {mode: await ENGINE.query_template(mode, b.ctx) for mode in b.ctx.templates.modes}
        blocks = await ENGINE.inject("daily", talk, b.ctx)
        stored = {row[0] for row in b.rows("SELECT id FROM memories WHERE status = 'active'")}
        calls = [stage for (stage,) in b.rows("SELECT stage FROM refine_runs WHERE error IS NULL ORDER BY seq")]
    finally:
        b.databases.close()
    return {
        "memories": [asdict(entry) for entry in memories],
        "decisions": [asdict(entry) for entry in decisions],
        "scenes": [asdict(entry) for entry in scenes],
        "sections": {mode: [asdict(entry) for entry in parts] for mode, parts in found.items()},
        "blocks": [asdict(entry) for entry in blocks],
        "stored": stored,
        "calls": calls,
        "records": b.records,
    }


def test_the_engine_supports_the_distillation_stages() -> None:
    assert supported_stages(ENGINE) == ("l1", "l15", "l2", "template", "inject", "search")
    assert (ENGINE.name, ENGINE.concurrent) == ("reference", True)


@pytest.mark.parametrize("spec", ["v001", "v002"])
def test_all_stages_run_from_the_shipped_prompts(spec: str) -> None:
    result = run(pipeline(spec, "case-1"))
    assert result["calls"][0] == "l1_extraction"
    assert all(entry["content"] and entry["created_at"] for entry in result["memories"])
    assert [d["memory_index"] for d in result["decisions"]] == list(range(len(result["memories"])))
    assert all(d["result_id"] in result["stored"] for d in result["decisions"] if d["result_id"])
    in_scenes = {i for scene in result["scenes"] for i in scene["memory_ids"]}
    assert in_scenes <= result["stored"]
    for parts in result["sections"].values():
        shown = [i for part in parts for i in part["memory_ids"]]
        assert len(shown) == len(set(shown))
        assert set(shown) <= result["stored"]
    assert any(block["present"] for block in result["blocks"])  # m1 at least was there before
    assert not [record for record in result["records"] if record["kind"] in ("invalid_item", "bad_decision")]


def test_the_longer_prompts_lead_through_every_call() -> None:
    result = run(pipeline("v002", "case-1"))
    assert set(result["calls"]) == {"l1_extraction", "l1_conflict", "l2_scene"}
    assert len(result["memories"]) >= 2
    assert any(scene["change"] for scene in result["scenes"])


def test_equal_input_gives_equal_output_whatever_the_cases_name() -> None:
    first, second = run(pipeline("v002", "case-1")), run(pipeline("v002", "another"))
    assert first == second
    assert "case-1" not in repr(first)


def test_f28_many_cases_at_once_do_not_see_each_other() -> None:
    talks = [[message(1, f"I moved to town number {number} and I work as a gardener.")] for number in range(12)]

    async def together() -> list[dict[str, Any]]:
        return await asyncio.gather(*(pipeline("v002", "same-id", talk) for talk in talks))

    alone = [run(pipeline("v002", "same-id", talk)) for talk in talks]
    assert asyncio.run(together()) == alone
    for number, result in enumerate(alone):
        others = {f"town number {other} " for other in range(12)} - {f"town number {number} "}
        assert not any(other in repr(result) for other in others)


def test_the_tables_are_where_the_documentation_says() -> None:
    b = bench(model=EmbeddedChatModel())
    run(ENGINE.load(OLD, [Scene("s1", "Mornings", ("m1",))], b.ctx))
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    assert b.rows(tables) == [("anomaly_log",), ("memories",), ("memory_tags",), ("refine_runs",)]
    assert b.rows(tables, wiki=True) == [("scene_memories",), ("scenes",)]


def test_a_stage_that_needs_no_wiki_opens_none() -> None:
    b = bench(model=EmbeddedChatModel())
    run(ENGINE.extract(TALK, b.ctx))
    assert b.databases.open_handles == 1
    assert isinstance(b.databases, OpenDatabases)
