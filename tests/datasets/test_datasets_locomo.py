"""LoCoMo files: both layouts, what is mended, what is refused."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from dataset_samples import locomo_record, write_json

from pytest_memeval.datasets.errata import load_errata, with_errata
from pytest_memeval.datasets.locomo import load_locomo, mend_evidence
from pytest_memeval.datasets.models import QuestionType
from pytest_memeval.datasets.selection import categories_of, select
from pytest_memeval.documents.problems import DocumentError


@pytest.mark.parametrize("flat", [False, True])
def test_both_layouts_give_the_same(tmp_path: Path, flat: bool) -> None:
    dataset = load_locomo(write_json(tmp_path / "l.json", [locomo_record(flat=flat)]))
    [sample] = dataset
    assert [session.id for session in sample.sessions] == ["D1", "D2"]
    assert sample.speakers == ("Ann", "Ben")
    assert [message.id for message in sample.messages] == ["D1:1", "D1:2", "D2:1", "D2:2"]
    assert [message.name for message in sample.messages] == ["Ann", "Ben", "Ann", "Ben"]
    first = sample.sessions[0]
    assert first.time is not None
    assert (first.time.isoformat(), first.time_text) == ("2023-05-08T13:56:00+00:00", "1:56 pm on 8 May, 2023")
    assert [pair.question_type for pair in sample.qa_pairs] == [
        QuestionType.multi_hop,
        QuestionType.temporal,
        QuestionType.open_domain,
        QuestionType.single_hop,
        QuestionType.adversarial,
        QuestionType.single_hop,
    ]


def test_what_is_wrong_is_mended_and_counted(tmp_path: Path) -> None:
    dataset = load_locomo(write_json(tmp_path / "l.json", [locomo_record()]))
    [sample] = dataset
    assert dataset.repair_counts == {
        "adversarial_without_answer": 1,
        "answer_not_text": 1,
        "evidence_mended": 3,
        "evidence_of_no_turn": 1,
        "evidence_unreadable": 1,
        "no_evidence": 1,
        "session_without_turns": 1,
    }
    assert [pair.evidence for pair in sample.qa_pairs] == [
        ("D1:1", "D2:1"),
        ("D2:1",),
        ("D2:2",),
        ("D1:2",),
        (),
        (),
    ]
    assert sample.qa_pairs[0].evidence_sessions == ("D1", "D2")
    assert sample.qa_pairs[0].raw_evidence == ("D1:1; D2:1",)
    assert sample.qa_pairs[1].answer == "2023"
    adversarial = sample.qa_pairs[4]
    assert (adversarial.answer, adversarial.trap, adversarial.unanswerable) == ("", "Leeds", True)
    assert len(dataset.sha256) == 64
    assert dataset.revision is None


def test_captions_are_part_of_a_turn_unless_they_are_off(tmp_path: Path) -> None:
    path = write_json(tmp_path / "l.json", [locomo_record()])
    texts = {
        captions: [m.content for m in load_locomo(path, captions=captions)[0].messages] for captions in (True, False)
    }
    assert texts[True][1] == "Look at my boat! [shares an image: a photo of a red boat]"
    assert texts[False][1] == "Look at my boat!"


def test_sessions_are_sorted_by_time(tmp_path: Path) -> None:
    record = locomo_record()
    record["conversation"]["session_1_date_time"] = "1:56 pm on 8 July, 2023"
    dataset = load_locomo(write_json(tmp_path / "l.json", [record]))
    assert [session.id for session in dataset[0].sessions] == ["D2", "D1"]
    assert dataset.repair_counts["sessions_out_of_order"] == 1


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    path = write_json(tmp_path / "l.json", [locomo_record()])
    text = path.read_text(encoding="utf-8").replace("called Miso", "called \\ud83d\\ude00 \\ud83d Miso")
    path.write_text("\ufeff" + text, encoding="utf-8")
    assert next(load_locomo(path)[0].messages).content == "I adopted a cat called \U0001f600 \ufffd Miso."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["conversation"].update(session_1_date_time="soon"), ["conv-1 session_1", "'soon'", "not a time"]),
        (lambda r: r["qa"][0].update(category=7), ["conv-1 question 0", "category 7", "1, 2, 3, 4, 5"]),
        (lambda r: r["qa"][0].update(category=True), ["conv-1 question 0", "category True"]),
        (lambda r: r["qa"][3].pop("answer"), ["conv-1 question 3", "no 'answer'"]),
        (lambda r: r.pop("qa"), ["conv-1", "'qa'"]),
        (lambda r: r.update(conversation={}), ["conv-1", "session_N"]),
        (lambda r: r["conversation"].update(session_1=["hello"]), ["conv-1 session_1 turn 1"]),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, change: object, words: list[str]) -> None:
    record = locomo_record()
    assert callable(change)
    change(record)
    with pytest.raises(DocumentError) as caught:
        load_locomo(write_json(tmp_path / "l.json", [record]))
    assert all(word in str(caught.value) for word in [*words, "l.json"])


def test_a_sample_id_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="'conv-1' is there twice"):
        load_locomo(write_json(tmp_path / "l.json", [locomo_record(), locomo_record()]))


@pytest.mark.parametrize(
    ("text", "message"), [("[", "not readable as JSON"), ("3", "list of records"), ("[]", "no con")]
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "l.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        load_locomo(path)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("D8:6; D9:17", ["D8:6", "D9:17"]),
        ("D9:1 D4:4 D4:6", ["D9:1", "D4:4", "D4:6"]),
        ("D:11:26", ["D11:26"]),
        ("D30:05", ["D30:5"]),
        ("D", []),
        ("", []),
    ],
)
def test_evidence_ids(text: str, ids: list[str]) -> None:
    assert mend_evidence(text) == ids


def test_errata_lie_beside_the_labels(tmp_path: Path) -> None:
    dataset = load_locomo(write_json(tmp_path / "l.json", [locomo_record()]))
    entries = [
        {"sample_id": "conv-1", "qa_index": 3, "error_type": "HALLUCINATION", "corrected_answer": "dark red"},
        {
            "sample_id": "conv-1",
            "qa_index": 5,
            "error_type": "WRONG_CITATION",
            "corrected_answer": "flute",
            "corrected_evidence": ["D2:2"],
        },
    ]
    errata = load_errata(write_json(tmp_path / "e.json", {"entries": entries}))
    assert errata.answers == 1
    corrected = with_errata(dataset, errata)
    pairs = corrected[0].qa_pairs
    assert (pairs[3].answer, pairs[3].corrected_answer, pairs[3].error_type) == ("red", "dark red", "HALLUCINATION")
    assert (pairs[5].corrected_answer, pairs[5].corrected_evidence) == (None, ("D2:2",))
    assert corrected.outlines[0].qa_pairs == pairs
    assert pairs[0] == dataset[0].qa_pairs[0]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"sample_id": "conv-1", "qa_index": 99}], "conv-1 question 99 is not in l.json"),
        ([{"sample_id": "conv-1", "qa_index": "3"}], "qa_index '3' is no number"),
        ([{"sample_id": "conv-1", "qa_index": 3}] * 2, "is there twice"),
        (["conv-1"], "entry 0"),
        (None, "a list 'entries'"),
    ],
)
def test_errata_that_fit_nothing(tmp_path: Path, entries: object, message: str) -> None:
    dataset = load_locomo(write_json(tmp_path / "l.json", [locomo_record()]))
    with pytest.raises(DocumentError, match=message):
        with_errata(dataset, load_errata(write_json(tmp_path / "e.json", {"entries": entries})))


def test_a_part_of_a_dataset(tmp_path: Path) -> None:
    dataset = load_locomo(write_json(tmp_path / "l.json", [locomo_record("a"), locomo_record("b")]))
    assert [len(one.qa_pairs) for one in select(dataset, limit=8)] == [6, 2]
    chosen = select(dataset, limit=3, categories=categories_of([4, "multi-hop"], "locomo"))
    assert [pair.question_id for sample in chosen for pair in sample.qa_pairs] == ["a-q0", "a-q3", "a-q5"]
    assert [outline.sample_id for outline in chosen.outlines] == ["a"]
    with pytest.raises(ValueError, match="did you mean 'multi_hop'"):
        categories_of(["multihop"], "locomo")
    with pytest.raises(IndexError):
        chosen[1]


def test_the_published_file() -> None:
    """Counts of the published file, where it lies beside the reference values."""
    folder = os.environ.get("MEMEVAL_GOLDEN_DIR")
    path = Path(folder).parent / "locomo10.json" if folder else None
    if path is None or not path.is_file():
        pytest.skip("the published file is not there")
    dataset = load_locomo(path)
    pairs = [pair for outline in dataset.outlines for pair in outline.qa_pairs]
    assert Counter(pair.category for pair in pairs) == {1: 282, 2: 321, 3: 96, 4: 841, 5: 446}
    assert len(dataset) == 10
    assert dataset.revision is not None
    assert sum(1 for sample in dataset for _ in sample.messages) == 5882
    assert dataset.repair_counts == {
        "adversarial_without_answer": 444,
        "answer_not_text": 6,
        "evidence_mended": 6,
        "evidence_of_no_turn": 2,
        "evidence_unreadable": 1,
        "no_evidence": 4,
        "session_without_turns": 16,
    }
    errata = load_errata(path.with_name("locomo_errata.json"))
    corrected = with_errata(dataset, errata)
    assert sum(pair.corrected_answer is not None for one in corrected.outlines for pair in one.qa_pairs) == 99
