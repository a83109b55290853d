"""LongMemEval files: reading, streaming, what is mended, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset_samples import locomo_record, longmemeval_record, write_json

from pytest_memeval.datasets import records
from pytest_memeval.datasets.longmemeval import load_longmemeval
from pytest_memeval.datasets.models import QuestionType
from pytest_memeval.datasets.recognise import recognise
from pytest_memeval.documents.problems import DocumentError


def test_a_haystack_has_its_sessions_by_time(tmp_path: Path) -> None:
    dataset = load_longmemeval(write_json(tmp_path / "l.json", [longmemeval_record()]))
    [sample] = dataset
    assert [session.id for session in sample.sessions] == ["noise_1", "answer_1"]
    assert [message.id for message in sample.messages] == ["noise_1_1", "noise_1_2", "answer_1_1", "answer_1_2"]
    [pair] = sample.qa_pairs
    assert (pair.evidence, pair.evidence_sessions) == (("answer_1_1",), ("answer_1",))
    assert (pair.question_type, pair.unanswerable) == (QuestionType.single_session_user, False)
    assert pair.question_time is not None
    assert pair.question_time.isoformat() == "2023-05-30T23:40:00+00:00"
    assert dataset.repair_counts == {"sessions_out_of_order": 1}


def test_abstention_and_answers_that_are_numbers(tmp_path: Path) -> None:
    rows = [longmemeval_record("a_abs", kind="multi-session"), longmemeval_record("b", answer=3)]
    dataset = load_longmemeval(write_json(tmp_path / "l.json", rows))
    pairs = [sample.qa_pairs[0] for sample in dataset]
    assert [pair.unanswerable for pair in pairs] == [True, False]
    assert pairs[0].question_type == "multi_session"
    assert pairs[1].answer == "3"
    assert dataset.repair_counts["answer_not_text"] == 1


def test_a_session_id_twice_is_told_apart(tmp_path: Path) -> None:
    row = longmemeval_record(haystack_session_ids=["s", "s"], answer_session_ids=["s", "gone"])
    dataset = load_longmemeval(write_json(tmp_path / "l.json", [row]))
    assert {session.id for session in dataset[0].sessions} == {"s", "s#2"}
    assert dataset[0].qa_pairs[0].evidence_sessions == ("s",)
    assert dataset.repair_counts["session_id_twice"] == 1
    assert dataset.repair_counts["evidence_of_no_session"] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"question_date": "yesterday"}, ["q1", "'yesterday'"]),
        (
            {"haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/13/20 (Sat) 02:21"]},
            ["q1 session noise_1", "2023/13/20"],
        ),
        ({"question_type": "multi-sesion"}, ["q1", "did you mean 'multi-session'"]),
        ({"haystack_dates": []}, ["q1", "2 ids, 0 dates, 2 sessions"]),
        ({"haystack_sessions": "x"}, ["q1", "haystack_sessions"]),
        ({"answer": None}, ["q1", "no 'answer'"]),
        ({"question_id": ""}, ["record 0", "question_id"]),
        ({"haystack_sessions": [[{"role": "user"}], []]}, ["q1 session answer_1 turn 1"]),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, object], words: list[str]) -> None:
    with pytest.raises(DocumentError) as caught:
        load_longmemeval(write_json(tmp_path / "l.json", [longmemeval_record(**changes)]))
    assert all(word in str(caught.value) for word in words)


def test_a_question_id_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="'q1' is there twice"):
        load_longmemeval(write_json(tmp_path / "l.json", [longmemeval_record(), longmemeval_record()]))


def test_a_large_file_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ijson")
    path = write_json(tmp_path / "l.json", [longmemeval_record(f"q{i}", question=f"Question {i}?") for i in range(12)])
    whole = load_longmemeval(path)
    monkeypatch.setattr(records, "WHOLE_BYTES", 100)
    streamed = load_longmemeval(path)
    assert streamed.extra == {"streamed": True}
    assert streamed.outlines == whole.outlines
    assert list(streamed) == list(whole)
    # In any order, as cases that overlap ask.
    assert [streamed[index].sample_id for index in (3, 2, 9, 0, -1)] == ["q3", "q2", "q9", "q0", "q11"]
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(DocumentError, match="has changed"):
        streamed[5]


def test_without_ijson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_json(tmp_path / "l.json", [longmemeval_record()])
    monkeypatch.setattr(records, "WHOLE_BYTES", 100)
    monkeypatch.setattr(records, "_ijson", lambda: None)
    assert len(load_longmemeval(path)) == 1
    monkeypatch.setattr(records, "WITHOUT_IJSON_BYTES", 200)
    with pytest.raises(DocumentError, match=r"needs ijson: pip install \"pytest-memeval\[benchmarks\]\""):
        load_longmemeval(path)


def test_files_are_told_by_content(tmp_path: Path) -> None:
    assert recognise(write_json(tmp_path / "a.json", [longmemeval_record()])) == "longmemeval"
    assert recognise(write_json(tmp_path / "b.json", [locomo_record()])) == "locomo"
    assert recognise(write_json(tmp_path / "c.json", [locomo_record(flat=True)])) == "locomo"
    assert recognise(write_json(tmp_path / "d.json", {"name": "x", "qa": []})) is None
    assert recognise(write_json(tmp_path / "e.json", [1, 2])) is None
    assert recognise(tmp_path / "none.json") is None
    broken = tmp_path / "f.json"
    broken.write_text('[{"question_id": "a", "haystack_dates": [', encoding="utf-8")
    assert recognise(broken) == "longmemeval"


def test_a_large_first_record_is_recognised_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "HEAD_BYTES", 300)
    assert recognise(write_json(tmp_path / "a.json", [longmemeval_record()])) == "longmemeval"
