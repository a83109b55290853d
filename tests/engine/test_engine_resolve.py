from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from engine_helpers import Bench, bench, memory, run

from pytest_memeval.engine.protocol import StageError, UnusableAnswer
from pytest_memeval.engine.reference.engine import ReferenceEngine
from pytest_memeval.llm.protocol import ModelUnavailable
from pytest_memeval.values import Decision

ENGINE = ReferenceEngine()
OLD = [
    memory("m1", "lives in Porto", "identity", priority=70, created_at=datetime(2025, 5, 1, tzinfo=UTC)),
    memory("m2", "drinks tea", "habits", "preferences", priority=40, source_message_ids=("old_1",)),
    memory("m3", "likes Python", "tech_stack"),
]


def stocked(*answers: Any, **fields: Any) -> Bench:
    b = bench(*answers, **fields)
    run(ENGINE.load(OLD, [], b.ctx))
    return b


def live(b: Bench) -> dict[str, str]:
    return dict(b.rows("SELECT id, content FROM memories WHERE status = 'active' ORDER BY seq"))


def decide(index: int, action: str, *targets: str, merged: str | None = None, **more: Any) -> dict[str, Any]:
    return {"memory_index": index, "action": action, "target_ids": list(targets), "merged_content": merged, **more}


NEW = memory("n1", "lives in Lisbon", "identity", "environment", priority=85, source_message_ids=("msg_1",))


def test_without_candidates_all_is_stored_without_a_call() -> None:
    b = stocked()
    new = [memory("n1", "has a cat", "family"), memory("n2", "no labels")]
    decisions = run(ENGINE.resolve(new, b.ctx))
    assert [(d.memory_index, d.action, d.target_ids, d.result_id) for d in decisions] == [
        (0, "store", (), "n1"),
        (1, "store", (), "n2"),
    ]
    assert b.model.requests == []
    assert set(live(b)) == {"m1", "m2", "m3", "n1", "n2"}


def test_only_memories_with_candidates_are_asked_about_and_only_those_candidates_offered() -> None:
    b = stocked([decide(0, "store")])
    new = [memory("n0", "has a cat", "family"), NEW]
    decisions = run(ENGINE.resolve(new, b.ctx))
    (request,) = b.model.requests
    assert request["stage"] == "l1_conflict"
    assert '{"index": 0, "content": "lives in Lisbon"' in request["text"]
    assert '{"id": "m1", "content": "lives in Porto"' in request["text"]
    assert "has a cat" not in request["text"]
    assert "likes Python" not in request["text"]
    assert [d.memory_index for d in decisions] == [0, 1]


def test_store_adds_and_names_no_targets() -> None:
    b = stocked([decide(0, "Store", "m1", merged="x", reason="another fact")])
    (decision,) = run(ENGINE.resolve([NEW], b.ctx))
    assert decision == Decision(0, "store", (), None, "n1", "another fact")
    assert live(b)["n1"] == "lives in Lisbon"
    assert b.rows("SELECT dimension FROM memory_tags WHERE memory_id = 'n1' ORDER BY position") == [
        ("identity",),
        ("environment",),
    ]


@pytest.mark.parametrize(("targets", "result"), [(("m1",), "m1"), ((), None), (("m1", "m2"), None)])
def test_skip_adds_nothing(targets: tuple[str, ...], result: str | None) -> None:
    b = stocked([decide(0, "skip", *targets)])
    new = memory("n1", "lives in Porto", "identity", "habits")
    (decision,) = run(ENGINE.resolve([new], b.ctx))
    assert (decision.action, decision.target_ids, decision.result_id) == ("skip", targets, result)
    assert live(b) == {"m1": "lives in Porto", "m2": "drinks tea", "m3": "likes Python"}


def test_update_replaces_the_target_and_archives_its_old_text() -> None:
    b = stocked([decide(0, "update", "m1")])
    (decision,) = run(ENGINE.resolve([memory("n1", "lives in Lisbon", "identity", "status", priority=85)], b.ctx))
    assert (decision.result_id, decision.merged_content) == ("m1", "lives in Lisbon")
    assert live(b) == {"m1": "lives in Lisbon", "m2": "drinks tea", "m3": "likes Python"}
    archived = b.rows("SELECT id, content, priority, created_at, replaced_by FROM memories WHERE status = 'archived'")
    assert archived == [("m1@1", "lives in Porto", 70, "2025-05-01T00:00:00.000000+00:00", "m1")]
    assert b.rows("SELECT priority, created_at FROM memories WHERE id = 'm1'") == [
        (85, "2026-01-10T12:00:00.000000+00:00")
    ]
    tags = b.rows("SELECT memory_id, dimension FROM memory_tags WHERE memory_id LIKE 'm1%' ORDER BY 1, position")
    assert tags == [("m1", "identity"), ("m1", "status"), ("m1@1", "identity")]


def test_update_takes_the_models_wording_where_it_gives_one() -> None:
    b = stocked([decide(0, "update", "m1", merged="now lives in Lisbon")])
    (decision,) = run(ENGINE.resolve([NEW], b.ctx))
    assert decision.merged_content == "now lives in Lisbon"
    assert live(b)["m1"] == "now lives in Lisbon"


def test_update_of_several_keeps_the_first() -> None:
    b = stocked([decide(0, "update", "m1", "m2")])
    (decision,) = run(ENGINE.resolve([memory("n1", "new", "identity", "habits")], b.ctx))
    assert (decision.target_ids, decision.result_id) == (("m1", "m2"), "m1")
    assert live(b) == {"m1": "new", "m3": "likes Python"}
    assert b.rows("SELECT replaced_by FROM memories WHERE id = 'm2'") == [("m1",)]


def test_two_updates_of_one_memory_archive_both_older_texts() -> None:
    b = stocked([decide(0, "update", "m1"), decide(1, "update", "m1")])
    decisions = run(ENGINE.resolve([NEW, memory("n2", "lives in Faro", "identity")], b.ctx))
    assert [d.result_id for d in decisions] == ["m1", "m1"]
    assert live(b)["m1"] == "lives in Faro"
    assert b.rows("SELECT id, content FROM memories WHERE status = 'archived' ORDER BY id") == [
        ("m1@1", "lives in Porto"),
        ("m1@2", "lives in Lisbon"),
    ]


def test_merge_archives_all_targets_and_stores_the_merged_text() -> None:
    b = stocked([decide(0, "merge", "m1", "m2", merged="lives in Lisbon and drinks tea")])
    new = memory("n1", "lives in Lisbon", "identity", "habits", priority=50, source_message_ids=("msg_1",))
    (decision,) = run(ENGINE.resolve([new], b.ctx))
    assert decision == Decision(0, "merge", ("m1", "m2"), "lives in Lisbon and drinks tea", "mem-001", None)
    assert live(b) == {"m3": "likes Python", "mem-001": "lives in Lisbon and drinks tea"}
    assert b.rows("SELECT id, replaced_by FROM memories WHERE status = 'archived' ORDER BY id") == [
        ("m1", "mem-001"),
        ("m2", "mem-001"),
    ]
    assert b.rows("SELECT priority, source_message_ids FROM memories WHERE id = 'mem-001'") == [
        (70, '["msg_1", "old_1"]')
    ]
    tags = b.rows("SELECT dimension FROM memory_tags WHERE memory_id = 'mem-001' ORDER BY position")
    assert [tag for (tag,) in tags] == ["identity", "habits", "preferences"]


def test_f29_an_invented_id_is_bad_and_the_valid_decision_is_applied() -> None:
    b = stocked([decide(0, "update", "99"), decide(1, "update", "m2")])
    new = [NEW, memory("n2", "drinks coffee", "habits")]
    decisions = run(ENGINE.resolve(new, b.ctx))
    assert [(d.memory_index, d.result_id) for d in decisions] == [(1, "m2")]
    (record,) = b.of("bad_decision")
    assert "'99'" in record["reason"]
    assert '"99"' in record["item"]
    # Without a usable decision a memory is stored: nothing that was extracted gets lost.
    assert live(b) == {"m1": "lives in Porto", "m2": "drinks coffee", "m3": "likes Python", "n1": "lives in Lisbon"}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (decide(0, "delete", "m1"), "unknown action"),
        (decide(0, "upate", "m1"), "did you mean 'update'?"),
        (decide(0, "update", "M1"), "did you mean 'm1'?"),
        (decide(0, "update", "m3"), "unknown target 'm3'"),  # stored, but not offered
        (decide(0, "update"), "update without a target"),
        (decide(0, "merge", merged="x"), "merge without a target"),
        (decide(0, "merge", "m1"), "merge without merged_content"),
        (decide(0, "merge", "m1", merged="  "), "merge without merged_content"),
        (decide(0, "merge", "m1", "99", merged="x"), "unknown target '99'"),
        (decide(1, "store"), "outside of 0–0"),
        (decide(-1, "store"), "outside of 0–0"),
        ({"action": "store"}, "'memory_index' is missing"),
        (decide(True, "store"), "not an index"),
        (decide(0.5, "store"), "not an index"),  # type: ignore[arg-type]  # that is the fault
        ({"memory_index": 0, "action": "update", "target_ids": [1]}, "'target_ids' is not a list of texts"),
        ({"memory_index": 0, "action": ["store"]}, "unknown action"),
    ],
)
def test_bad_decisions_are_recorded_and_the_memory_is_stored(bad: Any, reason: str) -> None:
    b = stocked([bad])
    assert run(ENGINE.resolve([NEW], b.ctx)) == []
    (record,) = b.of("bad_decision")
    assert reason in record["reason"]
    assert live(b)["n1"] == "lives in Lisbon"
    assert live(b)["m1"] == "lives in Porto"


def test_a_second_decision_for_one_memory_is_bad() -> None:
    b = stocked([decide(0, "skip", "m1"), decide(0, "update", "m1")])
    (decision,) = run(ENGINE.resolve([NEW], b.ctx))
    assert decision.action == "skip"
    assert "second decision" in b.of("bad_decision")[0]["reason"]
    assert live(b)["m1"] == "lives in Porto"


def test_a_target_that_an_earlier_decision_replaced_is_bad_but_may_be_skipped_for() -> None:
    answer = [
        decide(0, "merge", "m1", merged="has lived in Porto and Lisbon"),
        decide(1, "update", "m1"),
        decide(2, "skip", "m1"),
    ]
    b = stocked(answer)
    new = [NEW, memory("n2", "lives in Faro", "identity"), memory("n3", "lives in Porto", "identity")]
    decisions = run(ENGINE.resolve(new, b.ctx))
    assert [(d.memory_index, d.result_id) for d in decisions] == [(0, "mem-001"), (2, "mem-001")]
    assert "replaced by an earlier decision" in b.of("bad_decision")[0]["reason"]
    assert live(b)["n2"] == "lives in Faro"


def test_an_empty_answer_list_stores_all_without_decisions() -> None:
    b = stocked([])
    assert run(ENGINE.resolve([NEW], b.ctx)) == []
    assert live(b)["n1"] == "lives in Lisbon"


def test_batches_have_their_own_indexes() -> None:
    engine = ReferenceEngine(resolve_batch=2)
    new = [memory(f"n{i}", f"fact {i}", "identity") for i in range(5)]
    b = stocked([decide(1, "update", "m1"), decide(0, "store")], [decide(0, "skip", "m1")], [decide(0, "store")])
    decisions = run(engine.resolve(new, b.ctx))
    assert [(d.memory_index, d.action) for d in decisions] == [(0, "store"), (1, "update"), (2, "skip"), (4, "store")]
    assert set(live(b)) == {"m1", "m2", "m3", "n0", "n3", "n4"}
    assert [request["text"].count('{"index": ') for request in b.model.requests] == [2, 2, 1]


@pytest.mark.parametrize("failure", [ModelUnavailable("down"), "no JSON at all"])
def test_a_failed_batch_leaves_the_store_as_it_was(failure: Any) -> None:
    engine = ReferenceEngine(resolve_batch=1)
    b = stocked([decide(0, "update", "m1")], failure)
    new = [NEW, memory("n2", "drinks coffee", "habits"), memory("n3", "unrelated", "goals")]
    with pytest.raises(StageError) as caught:
        run(engine.resolve(new, b.ctx))
    assert caught.value.stage == "l15"
    assert isinstance(caught.value, UnusableAnswer) or caught.value.kind == "model_unavailable"
    assert live(b) == {"m1": "lives in Porto", "m2": "drinks tea", "m3": "likes Python"}
    assert b.rows("SELECT COUNT(*) FROM memories") == [(3,)]
    assert b.rows("SELECT COUNT(*), COUNT(error) FROM refine_runs") == [(2, 1)]


def test_an_error_while_applying_rolls_everything_back() -> None:
    b = stocked([decide(0, "store")])
    new = [NEW, memory("n2", "half a pair \ud800", "goals")]
    with pytest.raises(UnicodeEncodeError):
        run(ENGINE.resolve(new, b.ctx))
    assert set(live(b)) == {"m1", "m2", "m3"}


def test_new_memories_are_no_candidates_of_one_another() -> None:
    b = bench()
    new = [memory("n1", "a", "identity"), memory("n2", "a", "identity")]
    assert [d.action for d in run(ENGINE.resolve(new, b.ctx))] == ["store", "store"]
    assert b.model.requests == []


def test_missing_and_taken_ids_are_replaced() -> None:
    b = stocked()
    new = [memory(None, "a", "goals"), memory("m1", "b", "goals"), memory("mem-001", "c", "goals")]
    decisions = run(ENGINE.resolve(new, b.ctx))
    ids = [d.result_id for d in decisions]
    assert ids[2] == "mem-001"
    assert len({*ids, "m1", "m2", "m3"}) == 6
    assert live(b)["m1"] == "lives in Porto"


def test_no_memories_no_call() -> None:
    b = stocked()
    assert run(ENGINE.resolve([], b.ctx)) == []
    assert b.model.requests == []


def test_load_stores_what_it_is_given() -> None:
    b = stocked()
    rows = b.rows("SELECT id, content, priority, created_at, source_message_ids FROM memories ORDER BY seq")
    assert rows == [
        ("m1", "lives in Porto", 70, "2025-05-01T00:00:00.000000+00:00", "[]"),
        ("m2", "drinks tea", 40, "2026-01-10T12:00:00.000000+00:00", '["old_1"]'),
        ("m3", "likes Python", None, "2026-01-10T12:00:00.000000+00:00", "[]"),
    ]


def test_load_refuses_an_id_twice_and_then_holds_nothing() -> None:
    b = bench()
    with pytest.raises(StageError, match="'m1'"):
        run(ENGINE.load([OLD[0], OLD[0]], [], b.ctx))
    assert live(b) == {}


def test_load_gives_missing_ids_and_keeps_labels_that_no_dimension_has() -> None:
    b = bench()
    given = [memory(None, "a", "identity"), memory("mem-001", "b", "weather", "identitty"), memory(None, "c")]
    run(ENGINE.load(given, [], b.ctx))
    assert live(b) == {"mem-002": "a", "mem-001": "b", "mem-003": "c"}
    tags = b.rows("SELECT dimension FROM memory_tags WHERE memory_id = 'mem-001' ORDER BY position")
    assert tags == [("weather",), ("identitty",)]


def test_loaded_aliases_are_found_as_candidates() -> None:
    b = bench([decide(0, "skip", "m1")])
    alias = b.ctx.registry.get("identity").aliases[0]
    run(ENGINE.load([memory("m1", "lives in Porto", alias)], [], b.ctx))
    assert [d.action for d in run(ENGINE.resolve([NEW], b.ctx))] == ["skip"]


def test_f28_cases_of_one_name_do_not_see_each_other() -> None:
    first, second = stocked(case_id="same"), bench(case_id="same")
    decisions = run(ENGINE.resolve([NEW], second.ctx))
    assert [d.action for d in decisions] == ["store"]
    assert live(second) == {"n1": "lives in Lisbon"}
    assert set(live(first)) == {"m1", "m2", "m3"}
