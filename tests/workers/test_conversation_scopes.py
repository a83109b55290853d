"""Which worker runs what."""

from __future__ import annotations

from pytest_memeval.workers.conversations import conversation_of, has_conversations, scopes_of


def test_a_question_belongs_to_its_conversation() -> None:
    assert conversation_of("locomo10.json::conv-26::q12") == "locomo10.json::conv-26"
    assert conversation_of("sets/x.memeval.yaml::trip::q1") == "sets/x.memeval.yaml::trip"
    assert conversation_of("longmemeval_oracle.json::q1") is None
    assert conversation_of("cases/v001.yaml::eval-001") is None
    assert conversation_of("tests/test_x.py::TestA::test_b") is None


def test_conversations_are_seen() -> None:
    assert has_conversations(["a.json::c::q1", "t.py::test", "a.json::c::q2"])
    assert not has_conversations(["a.json::c::q1", "a.json::d::q1", "t.py::T::test_a", "t.py::T::test_b"])


def test_scopes() -> None:
    few = scopes_of(["a.json::c::q1", "t.py::test_a", "a.json::c::q2", "t.py::test_b"])
    assert few["a.json::c::q1"] == few["a.json::c::q2"]
    assert len(set(few.values())) == 3
    many = scopes_of([f"t.py::test_{n}" for n in range(1600)])
    assert len(set(many.values())) == 200
