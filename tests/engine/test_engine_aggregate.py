from __future__ import annotations

from typing import Any

import pytest
from engine_helpers import Bench, bench, memory, run

from pytest_memeval.engine.protocol import StageError, UnusableAnswer
from pytest_memeval.engine.reference.engine import ReferenceEngine
from pytest_memeval.llm.protocol import ModelUnavailable
from pytest_memeval.values import Memory, Scene

ENGINE = ReferenceEngine()
SCENES = [Scene("s1", "Move to Lisbon", ("m1",)), Scene("s2", "Tea", ("m2", "m3"))]


def item(action: str, *indexes: Any, scenes: Any = (), title: Any = "A title") -> dict[str, Any]:
    return {"action": action, "scene_ids": list(scenes), "title": title, "memory_indexes": list(indexes)}


def stocked(*answers: Any, scenes: list[Scene] | None = None) -> Bench:
    b = bench(*answers)
    old = [memory("m1", "moves", "identity"), memory("m2", "green tea", "habits"), memory("m3", "black tea", "habits")]
    run(ENGINE.load(old, SCENES if scenes is None else scenes, b.ctx))
    return b


def store(b: Bench, count: int) -> list[Memory]:
    new = [memory(f"n{number}", f"fact {number}", "goals") for number in range(count)]
    run(ENGINE.load(new, [], b.ctx))
    return new


def in_wiki(b: Bench) -> dict[str, list[str]]:
    rows = b.rows(
        "SELECT s.id, m.memory_id FROM scenes s LEFT JOIN scene_memories m ON m.scene_id = s.id "
        "WHERE s.status = 'active' ORDER BY s.seq, m.position",
        wiki=True,
    )
    found: dict[str, list[str]] = {}
    for scene_id, memory_id in rows:
        found.setdefault(scene_id, []).append(memory_id)
    return found


def test_create_update_and_merge() -> None:
    b = stocked([item("create", 0, 2, title=" Work "), item("update", 1, scenes=["s1"], title="")])
    scenes = run(ENGINE.aggregate(store(b, 3), b.ctx))
    assert scenes == [
        Scene("s1", "Move to Lisbon", ("m1", "n1"), "updated"),
        Scene("s2", "Tea", ("m2", "m3"), None),
        Scene("scene-001", "Work", ("n0", "n2"), "created"),
    ]
    assert in_wiki(b) == {"s1": ["m1", "n1"], "s2": ["m2", "m3"], "scene-001": ["n0", "n2"]}


def test_merge_moves_everything_into_the_first_scene() -> None:
    b = stocked([item("merge", 0, scenes=["s2", "s1"], title="Life")])
    assert run(ENGINE.aggregate(store(b, 1), b.ctx)) == [Scene("s2", "Life", ("m2", "m3", "m1", "n0"), "merged")]
    assert in_wiki(b) == {"s2": ["m2", "m3", "m1", "n0"]}
    assert b.rows("SELECT id, merged_into FROM scenes WHERE status = 'merged'", wiki=True) == [("s1", "s2")]
    assert b.rows("SELECT title FROM scenes WHERE id = 's2'", wiki=True) == [("Life",)]


def test_the_prompt_shows_scenes_with_the_texts_of_their_memories() -> None:
    b = stocked([item("update", 0, scenes=["s2"])])
    run(ENGINE.aggregate(store(b, 1), b.ctx))
    (request,) = b.model.requests
    assert request["stage"] == "l2_scene"
    assert '{"id": "s2", "title": "Tea", "memories": ["green tea", "black tea"]}' in request["text"]
    assert '{"index": 0, "content": "fact 0"' in request["text"]
    assert request["response_format"]["maxItems"] == 8


def test_a_memory_already_in_the_scene_stays_there_once() -> None:
    b = stocked([item("update", 0, scenes=["s1"], title="Move to Lisbon")])
    scenes = run(ENGINE.aggregate([memory("m1", "moves", "identity")], b.ctx))
    assert scenes[0] == Scene("s1", "Move to Lisbon", ("m1",), "updated")


def test_memory_ids_are_live_ones() -> None:
    decision = {"memory_index": 0, "action": "merge", "target_ids": ["m2"], "merged_content": "green tea with honey"}
    b = stocked([decision], [item("update", 0, scenes=["s1"], title="")])
    new = [memory("n0", "tea with honey", "habits")]
    (made,) = run(ENGINE.resolve(new, b.ctx))
    scenes = run(ENGINE.aggregate([memory("m2", "green tea", "habits")], b.ctx))
    assert [scene.memory_ids for scene in scenes] == [("m1", made.result_id), (made.result_id, "m3")]
    assert '"green tea with honey"' in b.model.requests[1]["text"]


def test_no_memories_no_call_and_the_scenes_that_exist() -> None:
    b = stocked()
    assert run(ENGINE.aggregate([], b.ctx)) == SCENES
    assert b.model.requests == []


def test_a_memory_without_an_id_is_left_out_with_a_note() -> None:
    b = stocked()
    assert run(ENGINE.aggregate([memory(None, "x")], b.ctx)) == SCENES
    assert "without an id" in b.of("note")[0]["text"]


@pytest.mark.parametrize("failure", [ModelUnavailable("time-out"), "no JSON", [item("create")]])
def test_f29_a_failed_call_leaves_both_scenes_as_they_were(failure: Any) -> None:
    engine = ReferenceEngine(aggregate_batch=1)
    b = stocked([item("merge", 0, scenes=["s1", "s2"])], failure)
    before = b.rows("SELECT * FROM scenes", wiki=True), in_wiki(b)
    with pytest.raises(StageError) as caught:
        run(engine.aggregate(store(b, 2), b.ctx))
    assert caught.value.stage == "l2"
    assert isinstance(caught.value, UnusableAnswer) or caught.value.kind == "model_unavailable"
    assert (b.rows("SELECT * FROM scenes", wiki=True), in_wiki(b)) == before


def test_batches_see_what_the_batch_before_did() -> None:
    engine = ReferenceEngine(aggregate_batch=2)
    b = stocked(
        [item("create", 0, 1, title="Goals")],
        [item("update", 0, scenes=["scene-001"], title=""), item("create", 1, title="Rest")],
        [item("merge", 0, scenes=["scene-002", "scene-001", "s2"], title="All")],
        scenes=[SCENES[1]],
    )
    scenes = run(engine.aggregate(store(b, 5), b.ctx))
    assert '"id": "scene-001", "title": "Goals", "memories": ["fact 0", "fact 1"]' in b.model.requests[1]["text"]
    assert scenes == [Scene("scene-002", "All", ("n3", "n0", "n1", "n2", "m2", "m3", "n4"), "merged")]
    assert in_wiki(b) == {"scene-002": ["n3", "n0", "n1", "n2", "m2", "m3", "n4"]}
    assert b.rows("SELECT id FROM scenes WHERE status = 'merged'", wiki=True) == [("s2",)]


def test_a_scene_made_and_extended_in_one_run_is_created() -> None:
    engine = ReferenceEngine(aggregate_batch=1)
    b = stocked([item("create", 0)], [item("update", 0, scenes=["scene-001"])], scenes=[])
    assert [scene.change for scene in run(engine.aggregate(store(b, 2), b.ctx))] == ["created"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("text", "not an object"),
        (item("creat", 0), "did you mean 'create'?"),
        (item("create"), "create without memories"),
        (item("create", 0, title=" "), "'title' is missing or empty"),
        (item("create", 0, title=3), "'title' is not a text"),
        (item("create", 2), "outside of 0–1"),
        (item("create", "0"), "not an index"),
        (item("update", 0, scenes=["s9"]), "unknown scene 's9'"),
        (item("update", 0), "update names 0 scenes"),
        (item("update", 0, scenes=["s1", "s2"]), "update names 2 scenes"),
        (item("merge", 0, scenes=["s1"]), "fewer than two"),
        (item("update", 0, scenes=["scene-001"]), "unknown scene 'scene-001'"),  # made by this very answer
        ({"action": "update", "scene_ids": [1], "memory_indexes": [0]}, "not a list of texts"),
        ({"action": "create", "title": "x", "memory_indexes": 0}, "not a list of indexes"),
    ],
)
def test_invalid_items_are_dropped_and_recorded(bad: Any, reason: str) -> None:
    b = stocked([item("create", 1, title="Good"), bad])
    scenes = run(ENGINE.aggregate(store(b, 2), b.ctx))
    assert scenes == [*SCENES, Scene("scene-001", "Good", ("n1",), "created")]
    (record,) = b.of("invalid_item")
    assert record["stage"] == "l2"
    assert reason in record["reason"]


def test_a_scene_that_was_merged_away_cannot_be_named_again() -> None:
    b = stocked([item("merge", 0, scenes=["s1", "s2"]), item("update", 1, scenes=["s2"])])
    (scene,) = run(ENGINE.aggregate(store(b, 2), b.ctx))
    assert scene.memory_ids == ("m1", "m2", "m3", "n0")
    assert "merged by an earlier item" in b.of("invalid_item")[0]["reason"]


def test_an_empty_answer_list_changes_nothing() -> None:
    b = stocked([])
    assert run(ENGINE.aggregate(store(b, 1), b.ctx)) == SCENES


def test_new_scene_ids_leave_out_those_in_use() -> None:
    b = stocked([item("create", 0)], scenes=[Scene("scene-001", "Old", ("m1",))])
    assert [scene.id for scene in run(ENGINE.aggregate(store(b, 1), b.ctx))] == ["scene-001", "scene-002"]


def test_max_scenes_reaches_prompt_and_schema() -> None:
    b = stocked([item("create", 0)])
    run(ReferenceEngine(max_scenes=3).aggregate(store(b, 1), b.ctx))
    assert b.model.requests[0]["response_format"]["maxItems"] == 3


def test_load_refuses_a_scene_twice() -> None:
    b = bench()
    with pytest.raises(StageError, match="'s1'"):
        run(ENGINE.load([], [SCENES[0], SCENES[0]], b.ctx))
    assert run(ENGINE.aggregate([], b.ctx)) == []


@pytest.mark.parametrize("name", ["chunk_characters", "resolve_batch", "aggregate_batch", "max_scenes"])
def test_parameters_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ReferenceEngine(**{name: 0})
