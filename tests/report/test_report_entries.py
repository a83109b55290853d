from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import case, errored_case, full_case

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.entries import add_usage, case_entry, usage_of
from pytest_memeval.report.text_policy import apply_text_policy, scrub_call, text_digest
from pytest_memeval.results import CallRecord, CaseError

WORD = "geheim"


def private_case():
    """Every place where a text can stand holds the same word."""
    return case(
        "a",
        {
            "l1": SectionRecord(
                ratios={"memory_recall": (1, 2)},
                tables={"confusions": {"x→y": 1}},
                details={
                    "pairs": [{"truth": 0, "pred": 0, "missed": ["family"], "note": WORD}],
                    "near_misses": [{"text": WORD}],
                },
            ),
            "l2": SectionRecord(details={"scenes": {"labels": [{"truth": WORD, "pred": WORD}]}}),
        },
        outcome="errored",
        errors=(CaseError("l15", "unusable_answer", f"cannot read {WORD}"),),
        outputs={
            "l1": [
                {
                    "content": WORD,
                    "dimensions": ["family"],
                    "memory_type": "persona",
                    "extra": {WORD: WORD, "mode": WORD},
                }
            ],
            "l15": [{"action": "merge", "target_ids": ["m1"], "merged_content": WORD, "reason": WORD}],
            "l2": [{"id": "s1", "title": WORD, "memory_ids": ["m1"]}],
            "template": {"daily": [{"id": "basic", "title": WORD, "memory_ids": ["m1"]}]},
            "inject": [{"title": WORD, "text": WORD, "present": True}],
            "search": {WORD: [{"id": "m1", "score": 0.5, "content": WORD}]},
        },
        facts=({"kind": "invalid_item", "stage": "l1", "reason": WORD, "item": {"dimensions": [WORD], WORD: 1}},),
        calls=(
            CallRecord("1", "l1_extraction", request=({"role": "user", "content": WORD},), answer=WORD, error=WORD),
        ),
    )


@pytest.mark.parametrize("record", [private_case(), full_case(0), errored_case(1)], ids=["texts", "full", "errored"])
def test_an_entry_leaves_its_record_as_it_was(record):
    before = json.dumps(record.to_json())
    entry = case_entry(record)
    apply_text_policy(entry, "hash")
    assert json.dumps(record.to_json()) == before
    assert json.dumps(case_entry(record)) == json.dumps(entry)


def test_full_leaves_everything():
    entry = case_entry(private_case())
    assert apply_text_policy(entry, "full") == entry


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_no_text_is_left_but_figures_and_structure_are(policy):
    for form in (case_entry(private_case()), private_case().to_json()):
        scrubbed = apply_text_policy(form, policy)
        assert WORD not in json.dumps(scrubbed, ensure_ascii=False)
        assert scrubbed["outputs"]["l1"][0]["dimensions"] == ["family"]
        assert scrubbed["outputs"]["l15"][0]["target_ids"] == ["m1"]
        assert scrubbed["outputs"]["template"]["daily"][0]["id"] == "basic"
        assert scrubbed["outputs"]["inject"][0]["present"] is True
        assert len(scrubbed["outputs"]["search"]) == 1
        assert scrubbed["errors"][0]["kind"] == "unusable_answer"
        assert scrubbed["facts"][0]["kind"] == "invalid_item"
        assert scrubbed["calls"][0]["error"] is not None
    entry = apply_text_policy(case_entry(private_case()), policy)
    assert entry["matched_memories"][0]["missed"] == ["family"]
    assert entry["l1"]["ratios"] == {"memory_recall": [1, 2]}
    assert entry["error"] == entry["errors"][0]


def test_hash_keeps_equal_texts_equal_and_none_keeps_stage_and_kind():
    hashed = apply_text_policy(case_entry(private_case()), "hash")
    assert hashed["outputs"]["l1"][0]["content"] == hashed["outputs"]["l2"][0]["title"] == text_digest(WORD)
    bare = apply_text_policy(case_entry(private_case()), "none")
    assert bare["errors"] == [{"stage": "l15", "kind": "unusable_answer", "message": ""}]
    assert bare["outputs"]["l1"][0]["content"] is None
    assert scrub_call({"error": None, "answer": None}, "none") == {"error": None, "answer": None}


def test_the_entry_itself_is_not_changed():
    entry = case_entry(private_case())
    before = json.dumps(entry)
    apply_text_policy(entry, "none")
    assert json.dumps(entry) == before


def test_an_unknown_policy_is_an_error():
    with pytest.raises(ValueError, match="unknown text policy 'some'"):
        apply_text_policy({}, "some")


def test_text_digests_take_any_text():
    assert text_digest("a\ud800").startswith("sha256:")
    assert len(text_digest("")) == len("sha256:") + 12


TOKENS = st.none() | st.integers(0, 1000)


@given(st.lists(st.tuples(TOKENS, TOKENS)), st.lists(st.tuples(TOKENS, TOKENS)))
def test_usage_adds_up(first, second):
    def calls(tokens):
        return [CallRecord(str(i), "s", input_tokens=a, output_tokens=b) for i, (a, b) in enumerate(tokens)]

    total = usage_of(())
    for part in (first, second):
        add_usage(total, usage_of(calls(part)))
    assert total == usage_of(calls([*first, *second]))


def test_an_entry_does_not_repeat_what_it_moved_to_the_top():
    entry = case_entry(full_case(1))
    assert "pairs" not in entry["l1"]["details"]
    assert entry["matched_memories"] == full_case(1).sections["l1"].details["pairs"]
    assert case_entry(errored_case(1))["usage"]["calls"] == 0


SENTENCE = "SECRET: she takes lithium"


def free_ids_case():
    """An engine without ids of its own: contents stand where ids belong, and sentences where labels do."""
    return replace(
        private_case(),
        input={
            "conversation": [{"id": "第一条", "role": "user", "content": SENTENCE}],
            "existing_memories": [{"memory_id": "old memory", "content": SENTENCE, "dimensions": ["健康"]}],
        },
        outputs={
            "l1": [
                {
                    "id": SENTENCE,
                    "content": SENTENCE,
                    "dimensions": ["健康"],
                    "memory_type": SENTENCE,
                    "time_velocity": "static",
                    "source_message_ids": ["第一条", "SECRET"],
                }
            ],
            "l15": [{"memory_index": 0, "action": SENTENCE, "target_ids": ["old memory"], "result_id": SENTENCE}],
            "l2": [{"id": f"{SENTENCE} scene", "title": SENTENCE, "memory_ids": [SENTENCE], "change": "created"}],
            "template": {
                "daily": [
                    {"id": "基本信息", "title": "基本信息", "memory_ids": [SENTENCE, "SECRET.2", "mem-002", "a#1"]},
                    {"id": "SECRETS", "title": "SECRETS", "memory_ids": ["SECRET.2"]},
                ]
            },
            "inject": {"pipeline": [{"title": "t", "text": "t", "present": True, "memory_ids": [SENTENCE]}]},
            "search": {SENTENCE: [{"id": SENTENCE, "score": 1.0, "source_ids": ["SECRET.2", "b#0"]}]},
        },
        sections={
            "l15": SectionRecord(
                details={"actions": [{"expected": "update", "decided": SENTENCE, "expected_targets": ["old memory"],
                                      "targets": [SENTENCE]}]}
            ),
            "l2": SectionRecord(
                details={"sections": {"units": [{"mode": "daily", "expected": "基本信息",
                                                 "placed": ["基本信息", "SECRETS"]}],
                                      "misentries": [{"memory_id": SENTENCE, "section": "SECRETS"}]}}
            ),
            "search": SectionRecord(
                details={"queries": [{"query": "x", "relevant": ["b#0"], "ids": [SENTENCE, "b#0"]}]}
            ),
        },
        facts=(
            {"kind": "unknown_section", "stage": "template", "mode": "daily", "section": "SECRETS", "nearest": None},
            {"kind": "note", "stage": "l1", "id": SENTENCE, "mode": SENTENCE, "section": SENTENCE, "status": "ok.1"},
        ),
        trials=(
            {"trial": 1, "outcome": "errored", "errors": [], "outputs": {"l1": [{"id": SENTENCE, "content": "x"}]},
             "facts": [], "sections": {}, "ratios": {}},
        ),
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["hash", "none"])
@pytest.mark.parametrize("form", ["entry", "journal"])
def test_a_text_in_the_place_of_an_id_is_replaced_alike_everywhere(policy, form):
    whole = case_entry(free_ids_case()) if form == "entry" else free_ids_case().to_json()
    scrubbed = apply_text_policy(whole, policy)
    assert "SECRET" not in json.dumps(scrubbed, ensure_ascii=False)
    outputs = scrubbed["outputs"]
    [memory] = outputs["l1"]
    own = memory["id"]
    assert own == (text_digest(SENTENCE) if policy == "hash" else "id-1")
    # What refers to it still does.
    first, second = outputs["template"]["daily"]
    assert outputs["l15"][0]["result_id"] == own
    assert outputs["l2"][0]["memory_ids"] == outputs["inject"]["pipeline"][0]["memory_ids"] == [own]
    assert first["memory_ids"][0] == own
    assert first["memory_ids"][1:2] == second["memory_ids"] != [own]
    [hits] = outputs["search"].values()
    assert (hits[0]["id"], hits[0]["source_ids"]) == (own, [*second["memory_ids"], "b#0"])
    assert scrubbed["trials"][0]["outputs"]["l1"][0]["id"] == own
    assert scrubbed["facts"][1]["id"] == own
    sections = scrubbed if form == "entry" else scrubbed["sections"]
    [unit] = sections["l2"]["details"]["sections"]["units"]
    assert unit["placed"] == [first["id"], second["id"]]
    assert sections["search"]["details"]["queries"][0]["ids"] == [own, "b#0"]
    # The case's own, the package's, and what no text can be stay.
    assert memory["source_message_ids"][0] == "第一条"
    assert (memory["dimensions"], memory["time_velocity"]) == (["健康"], "static")
    assert outputs["l15"][0]["target_ids"] == ["old memory"]
    assert first["memory_ids"][2:] == ["mem-002", "a#1"]
    assert first["id"] == "基本信息"
    assert outputs["l2"][0]["change"] == "created"
    assert scrubbed["facts"][1]["status"] == "ok.1"


@pytest.mark.parametrize(
    "kept", ["m1", "mem-001", "scene-002", "12", "D1:3", "pred-0", "eval-001#4", "a-sgme-0", "0f9b12ac77",
             "6e6f0a2e-16f3-4d4a-9df1-0f4a8c0d1b11", "distractor-7"]
)  # fmt: skip
def test_ids_that_cannot_be_texts_stay(kept):
    entry = {"case_id": "a", "outputs": {"l1": [{"id": kept}]}}
    assert apply_text_policy(entry, "none")["outputs"]["l1"] == [{"id": kept}]


@pytest.mark.parametrize(
    "text", ["vegan", "Alice", "alice@example.org", "13800138000", "born 1985", "1985-03-02", "facade", "我对猫过敏",
             "a-she takes lithium-1", "a b#1", "x" * 120 + "#1"]
)  # fmt: skip
def test_ids_that_may_be_texts_do_not(text):
    entry = {"case_id": "a", "outputs": {"l1": [{"id": text}], "l2": [{"memory_ids": [text]}]}}
    scrubbed = apply_text_policy(entry, "none")["outputs"]
    assert (scrubbed["l1"][0]["id"], scrubbed["l2"][0]["memory_ids"]) == ("id-1", ["id-1"])
