from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from engine_helpers import NOW, bench, memory, message, run

from pytest_memeval.engine.protocol import StageError, UnusableAnswer
from pytest_memeval.engine.reference.engine import ReferenceEngine
from pytest_memeval.engine.reference.extract import split
from pytest_memeval.llm.protocol import ChatReply, ModelQuota, Usage

ENGINE = ReferenceEngine()
TALK = [
    message(1, "I live in Lisbon", time=datetime(2026, 1, 1, 10, 0, tzinfo=UTC)),
    message(2, "and I drink tea", time=datetime(2026, 1, 1, 11, 0, tzinfo=UTC)),
    message(3, "good"),
]


def item(content: Any = "lives in Lisbon", **fields: Any) -> dict[str, Any]:
    return {
        "content": content,
        "dimensions": ["identity"],
        "memory_type": "persona",
        "priority": 80,
        "time_velocity": "static",
        "source_message_ids": ["msg_1"],
        **fields,
    }


def test_an_answer_becomes_memories() -> None:
    b = bench([item(), item("drinks tea", dimensions=["habits", "preferences"], source_message_ids=["msg_2", "msg_1"])])
    first, second = run(ENGINE.extract(TALK, b.ctx))
    assert (first.id, second.id) == ("mem-001", "mem-002")
    assert first.content == "lives in Lisbon"
    assert second.dimensions == ("habits", "preferences")
    assert (first.memory_type, first.priority, first.time_velocity) == ("persona", 80, "static")
    assert second.source_message_ids == ("msg_2", "msg_1")
    assert first.created_at == TALK[0].time
    assert second.created_at == TALK[1].time


def test_the_request_is_the_rendered_prompt() -> None:
    b = bench([], trial=3)
    assert run(ENGINE.extract(TALK, b.ctx)) == []
    (request,) = b.model.requests
    assert request["stage"] == "l1_extraction"
    assert request["temperature"] == 0.0
    assert request["trial"] == 3
    assert "<conversation>\n[msg_1] 2026-01-01T10:00:00+00:00 user: I live in Lisbon\n" in request["text"]
    schema = request["response_format"]
    assert schema["items"]["properties"]["memory_type"]["enum"] == list(b.ctx.registry.memory_types)


def test_f31_braces_and_percent_signs_reach_the_model() -> None:
    text = "use {braces}, %s, {{conversation}} and {{dimensions:id}} \\1 as they are"
    b = bench([])
    run(ENGINE.extract([message(1, text)], b.ctx))
    assert f"[msg_1] user: {text}\n" in b.model.requests[0]["text"]


@pytest.mark.parametrize("frame", ["{}", "```json\n{}\n```", "<think>hm [1]</think> Here: {} [end]"])
def test_wrapped_answers_are_read(frame: str) -> None:
    b = bench(frame.replace("{}", '{"memories": [{"content": "a",},]}'))
    assert [found.content for found in run(ENGINE.extract(TALK, b.ctx))] == ["a"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("text", "not an object"),
        (item(""), "'content' is missing or empty"),
        (item("  "), "'content' is missing or empty"),
        ({"dimensions": ["identity"]}, "'content' is missing or empty"),
        (item(["a"]), "'content' is not a text"),
        (item(dimensions=[1]), "'dimensions' is not a list of texts"),
        (item(dimensions={"a": 1}), "'dimensions' is not a list of texts"),
        (item("\ud83d half"), "holds half of a surrogate pair"),
        (item(source_message_ids=["\udc00"]), "holds half of a surrogate pair"),
    ],
)
def test_invalid_items_are_dropped_and_recorded(bad: Any, reason: str) -> None:
    b = bench(json.dumps([item(), bad]))
    assert [found.content for found in run(ENGINE.extract(TALK, b.ctx))] == ["lives in Lisbon"]
    (record,) = b.of("invalid_item")
    assert record["stage"] == "l1"
    assert record["reason"] == reason
    record["item"].encode("utf-8")


def test_f08_never_no_memories_without_an_error() -> None:
    for answer in ("null", '["a", "b"]', "3", "I found nothing.", '[{"text": "x"}]', "{}"):
        with pytest.raises(UnusableAnswer) as caught:
            run(ENGINE.extract(TALK, bench(answer).ctx))
        assert caught.value.stage == "l1"
        assert caught.value.kind == "unusable_answer"


def test_f08_one_object_is_a_list_of_one() -> None:
    assert len(run(ENGINE.extract(TALK, bench(item()).ctx))) == 1


def test_one_label_as_a_text_and_missing_optional_fields() -> None:
    b = bench([{"content": "a", "dimensions": "identity"}, {"content": "b"}])
    first, second = run(ENGINE.extract(TALK, b.ctx))
    assert first.dimensions == ("identity",)
    assert second.dimensions == ()
    assert (first.memory_type, first.priority, first.time_velocity, first.source_message_ids) == (None, None, None, ())
    assert b.records == []


@pytest.mark.parametrize("priority", ["high", "85", True, -1, 101, float("nan"), 10**400, [1]])
def test_a_priority_outside_the_range_is_null_with_a_note(priority: Any) -> None:
    b = bench(json.dumps([item(priority=priority)]))
    (found,) = run(ENGINE.extract(TALK, b.ctx))
    assert found.priority is None
    # NaN is no JSON number and is read as null, which is just missing.
    assert len(b.of("note")) == (0 if priority != priority else 1)


def test_fields_of_a_wrong_type_are_null_with_a_note() -> None:
    b = bench([item(memory_type=["persona"], time_velocity=1, source_message_ids=[True, {"id": "msg_1"}, "msg_1"])])
    (found,) = run(ENGINE.extract(TALK, b.ctx))
    assert (found.memory_type, found.time_velocity, found.source_message_ids) == (None, None, ("msg_1",))
    assert len(b.of("note")) == 4


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["[msg_1]"], ("msg_1",)),
        ("msg_2", ("msg_2",)),
        ([1, "x"], ("1", "x")),
        (None, ()),
        ([" ", "msg_1", "msg_1"], ("msg_1",)),
    ],
)
def test_source_ids_are_texts(sources: Any, expected: tuple[str, ...]) -> None:
    (found,) = run(ENGINE.extract(TALK, bench([item(source_message_ids=sources)]).ctx))
    assert found.source_message_ids == expected


def test_created_at_falls_back_on_the_last_time_and_then_the_clock() -> None:
    (found,) = run(ENGINE.extract(TALK, bench([item(source_message_ids=[])]).ctx))
    assert found.created_at == TALK[1].time
    (found,) = run(ENGINE.extract(TALK, bench([item(source_message_ids=["msg_3"])]).ctx))
    assert found.created_at == TALK[1].time
    (found,) = run(ENGINE.extract([message(1, "x")], bench([item()]).ctx))
    assert found.created_at == NOW


def test_new_ids_leave_out_those_of_the_store() -> None:
    b = bench([item("a"), item("b")])
    run(ENGINE.load([memory("mem-001", "old", "identity")], [], b.ctx))
    assert [found.id for found in run(ENGINE.extract(TALK, b.ctx))] == ["mem-002", "mem-003"]


def test_no_messages_no_call() -> None:
    b = bench()
    assert run(ENGINE.extract([], b.ctx)) == []
    assert b.model.requests == []


# --- long conversations -------------------------------------------------------------------------------------------


def test_chunks_break_between_messages() -> None:
    talk = [message(number, "x" * length) for number, length in enumerate([4, 4, 4, 30, 1])]
    assert [[m.id for m in chunk] for chunk in split(talk, 10)] == [["msg_0", "msg_1"], ["msg_2"], ["msg_3"], ["msg_4"]]
    assert split([], 10) == []


def test_a_long_conversation_is_read_in_parts_and_merged() -> None:
    talk = [message(1, "a" * 5000), message(2, "b" * 5000)]
    b = bench(
        [item("drinks tea"), item("only here")],
        [item("Drinks  TEA", dimensions=["habits"], source_message_ids=["msg_2"], memory_type="episodic")],
    )
    first, second = run(ENGINE.extract(talk, b.ctx))
    assert ["a" * 100 in b.model.requests[0]["text"], "b" * 100 in b.model.requests[0]["text"]] == [True, False]
    assert ["a" * 100 in b.model.requests[1]["text"], "b" * 100 in b.model.requests[1]["text"]] == [False, True]
    assert first.content == "drinks tea"
    assert first.source_message_ids == ("msg_1", "msg_2")
    assert first.dimensions == ("identity", "habits")
    assert first.memory_type == "persona"
    assert second.content == "only here"


def test_f17_a_repetition_in_one_answer_stays_for_the_metrics_to_see() -> None:
    found = run(ENGINE.extract(TALK, bench([item("A"), item("A"), item("A")]).ctx))
    assert [entry.content for entry in found] == ["A", "A", "A"]


def test_one_unusable_part_makes_the_stage_fail() -> None:
    talk = [message(1, "a" * 5000), message(2, "b" * 5000)]
    with pytest.raises(UnusableAnswer):
        run(ENGINE.extract(talk, bench([item()], "nothing here").ctx))


# --- failures and the log of calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
@pytest.mark.parametrize("text", ["", '[{"content": "a"}, {"cont', '[{"content": "a"}]'])
def test_f20_a_truncated_answer_is_an_error(text: str, reason: str) -> None:
    b = bench(ChatReply(text, reason, Usage(10, 256), "m", 1.0))
    with pytest.raises(StageError, match="token cap of 256 tokens") as caught:
        run(ENGINE.extract(TALK, b.ctx))
    assert (caught.value.kind, caught.value.stage) == ("truncated", "l1")
    assert b.rows("SELECT error LIKE 'truncated: %', output_tokens FROM refine_runs") == [(1, 256)]


@pytest.mark.parametrize("text", ["", "  \n", None])
def test_an_empty_answer_is_an_error(text: Any) -> None:
    with pytest.raises(StageError) as caught:
        run(ENGINE.extract(TALK, bench(ChatReply(text, "stop")).ctx))
    assert caught.value.kind == "empty_answer"


def test_every_call_is_a_row_of_refine_runs() -> None:
    talk = [message(1, "a" * 5000), message(2, "b" * 5000)]
    b = bench([item()], [], trial=1)
    run(ENGINE.extract(talk, b.ctx))
    versions = b.ctx.prompts.versions
    rows = b.rows(
        "SELECT run_id, file_id, stage, version, variant, provider, model, input_tokens, output_tokens, latency, "
        "trial, error FROM refine_runs ORDER BY seq"
    )
    fixed = (
        "case-1",
        "l1_extraction",
        versions["l1_extraction"],
        b.ctx.prompts.label,
        "scripted",
        "scripted-1",
        10,
        5,
        0.25,
        1,
        None,
    )
    assert rows == [("l1_extraction-001", *fixed), ("l1_extraction-002", *fixed)]


def test_a_failed_call_is_a_row_too_and_keeps_the_models_kind() -> None:
    b = bench(ModelQuota("no credit \ud800 left"))
    with pytest.raises(StageError) as caught:
        run(ENGINE.extract(TALK, b.ctx))
    assert (caught.value.kind, caught.value.stage) == ("quota_or_auth", "l1")
    assert isinstance(caught.value.__cause__, ModelQuota)
    assert b.rows("SELECT provider, model, error FROM refine_runs") == [
        ("scripted", None, "quota_or_auth: no credit ? left")
    ]


def test_any_other_exception_of_the_model_passes_and_is_logged() -> None:
    b = bench(RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        run(ENGINE.extract(TALK, b.ctx))
    assert b.rows("SELECT error FROM refine_runs") == [("RuntimeError: boom",)]


# --- normalisation ------------------------------------------------------------------------------------------------


def test_dropped_and_guessed_labels_go_into_the_anomaly_log() -> None:
    b = bench()
    result = run(ENGINE.normalize([memory("a", "x", "IDENTITY"), memory("b", "y", "qqqq", "preferencess")], b.ctx))
    assert [entry.dimensions for entry in result] == [("identity",), ("preferences",)]
    rows = b.rows("SELECT file_id, stage, kind, memory_index, label FROM anomaly_log ORDER BY seq")
    assert rows == [
        ("case-1", "l1", "dropped_label", 1, "qqqq"),
        ("case-1", "l1", "fuzzy_label", 1, "preferencess"),
    ]
    assert [record["kind"] for record in b.records] == ["dropped_label", "fuzzy_label"]
