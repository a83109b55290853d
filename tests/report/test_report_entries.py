from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import case, errored_case, full_case

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.entries import add_usage, apply_text_policy, case_entry, scrub_call, text_digest, usage_of
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
