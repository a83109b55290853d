"""The Python API: agents, runs, metrics of what they answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dataset_samples import locomo_record, longmemeval_record, write_json

import pytest_memeval
from pytest_memeval.datasets.locomo import load_locomo
from pytest_memeval.datasets.longmemeval import load_longmemeval
from pytest_memeval.datasets.models import Sample
from pytest_memeval.qa import BaseAgent, BaseLLMClient, BaseMemory, Bm25Memory, EvalResult, compute_metrics, run_eval
from pytest_memeval.values import Hit, Message

LIGHT = pytest_memeval.LIGHT_METRICS


class Diary(BaseMemory):
    """Notes what is done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def ingest(self, message: Message) -> None:
        self.done.append(message.id)

    def retrieve(self, query: str) -> list[Hit]:
        self.done.append("?")
        return [Hit("1", 1.0, "Ann: I adopted a cat called Miso.", ("D1:1",))]

    def reset(self) -> None:
        self.done.append("reset")


class Upper(BaseLLMClient):
    def chat(self, messages: Any) -> str:
        return "MISO" if "Miso" in messages[-1]["content"] else "unknown"


def test_a_sample_is_reset_read_and_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = load_locomo(write_json(tmp_path / "l.json", [locomo_record("a"), locomo_record("b")]))
    memory = Diary()
    results = run_eval(dataset, BaseAgent(memory, Upper()))
    one = ["reset", "D1:1", "D1:2", "D2:1", "D2:2", *["?"] * 6]
    assert memory.done == one * 2
    assert [result.question_id for result in results] == [f"{s}-q{n}" for s in "ab" for n in range(6)]
    assert {result.prediction for result in results} == {"MISO"}
    first = results[0]
    assert (first.sample_id, first.question_type, first.ground_truth) == ("a", "multi_hop", "Miso, Leeds")
    assert "2: b, 12 questions, 0 errors" in capsys.readouterr().err


def test_progress_can_be_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_eval(load_locomo(write_json(tmp_path / "l.json", [locomo_record()])), BaseAgent(Diary()), show_progress=False)
    assert capsys.readouterr().err == ""


def test_the_question_s_date_reaches_the_agent(tmp_path: Path) -> None:
    class Dated(BaseAgent):
        def answer(self, question: str, question_date: str = "") -> str:
            return question_date

    class Plain(BaseAgent):
        def answer(self, question: str) -> str:  # type: ignore[override]  # as most are written
            return "fern"

    dataset = load_longmemeval(write_json(tmp_path / "l.json", [longmemeval_record()]))
    assert run_eval(dataset, Dated(Bm25Memory()), show_progress=False)[0].prediction == "2023/05/30 (Tue) 23:40"
    assert run_eval(dataset, Plain(Bm25Memory()), show_progress=False)[0].prediction == "fern"


def test_failures_are_errors_of_their_questions(tmp_path: Path) -> None:
    class Broken(BaseAgent):
        def ingest_sample(self, sample: Sample) -> None:
            if sample.sample_id == "a":
                raise OSError("no room")
            super().ingest_sample(sample)

        def answer(self, question: str, question_date: str = "") -> str:
            if "boat" in question:
                raise RuntimeError("sank")
            return "Miso"

    dataset = load_locomo(write_json(tmp_path / "l.json", [locomo_record("a"), locomo_record("b")]))
    results = run_eval(dataset, Broken(Bm25Memory()), show_progress=False)
    assert [result.error for result in results[:6]] == ["ingest: OSError: no room"] * 6
    assert [result.error for result in results[6:]] == [None, None, None, "answer: RuntimeError: sank", None, None]
    found = compute_metrics(results, [None] * 12, metrics=("f1", "exact_match"))
    assert found["errors"] == 7
    assert found["by_type"]["single_hop"]["count"] == 1


def results_of(*rows: tuple[str, str, str]) -> list[EvalResult]:
    return [EvalResult("s", str(n), kind, "?", truth, said) for n, (kind, truth, said) in enumerate(rows)]


def test_metrics_are_means_overall_and_by_type() -> None:
    results = results_of(
        ("single_hop", "red", "Red"), ("single_hop", "a blue boat", "boat"), ("adversarial", "", "not mentioned")
    )
    found = compute_metrics(results, [1.0, None, 1.0], metrics=("judge_score", "exact_match", "f1"))
    assert found == {
        "overall": {"judge_score": 1.0, "exact_match": 0.5, "f1": 0.75},
        "by_type": {
            "adversarial": {"judge_score": 1.0, "exact_match": None, "f1": None, "count": 1},
            "single_hop": {"judge_score": 1.0, "exact_match": 0.5, "f1": 0.75, "count": 2},
        },
    }


def test_nothing_to_measure() -> None:
    assert compute_metrics([], [], metrics=LIGHT) == {"overall": dict.fromkeys(LIGHT), "by_type": {}}


def test_bad_calls() -> None:
    with pytest.raises(ValueError, match="1 results but 2 judge scores"):
        compute_metrics(results_of(("single_hop", "a", "a")), [1.0, 1.0], metrics=("f1",))
    with pytest.raises(ValueError, match="did you mean 'exact_match'"):
        compute_metrics([], [], metrics=("exactmatch",))


def test_all_twelve_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "bert_score", None)
    with pytest.raises(ImportError, match=r"pytest-memeval\[eval\]"):
        compute_metrics(results_of(("single_hop", "a", "a")), [1.0])
