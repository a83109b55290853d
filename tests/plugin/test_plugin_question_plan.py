"""``--memeval-plan`` for questions: answers, verdicts, arms and controls are counted, and nobody is asked."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chat_project import ChatProject
from dataset_samples import locomo_record

ASKING = ("locomo.json", "--memeval-answerer", "chat", "--memeval-judge-model", "judge-1")


@pytest.fixture
def asked(chat: ChatProject, monkeypatch: pytest.MonkeyPatch) -> ChatProject:
    def reply(request: Any) -> str:
        if "<context>" in request.prompt and "truth" not in request.prompt.lower():
            return "red"
        return json.dumps({"reason": "because", "score": 1.0, "verdict": "correct"})

    monkeypatch.setenv("MEMEVAL_API_KEY", "sk-test-key-1234567890")
    chat.server.script = reply
    record = locomo_record("a")
    chat.write("locomo.json", json.dumps([record], indent=1))
    return chat


def table(result: pytest.RunResult) -> dict[str, list[str]]:
    rows = [re.split(r"\s{2,}", line.strip()) for line in result.outlines]
    return {row[0]: row[1:] for row in rows if len(row) == 5 and row[0] != "stage"}


def judged(rows: dict[str, list[str]], column: int) -> int:
    return sum(int(cells[column]) for name, cells in rows.items() if name.startswith("judge_"))


def test_a_plan_counts_answers_and_verdicts(asked: ChatProject) -> None:
    result = asked.chat(*ASKING, "--memeval-plan")
    assert result.ret == 0
    # Six answers; five verdicts, since a refusal is judged by rule.
    result.stdout.fnmatch_lines(["6 cases: 11 model calls, 0 need no request*, 11 to be asked"])
    rows = table(result)
    assert rows["qa_answer"][:2] == ["0", "6"]
    assert judged(rows, 1) == 5
    assert "other test(s)" not in result.stdout.str()
    assert asked.server.count == 0
    asked.chat(*ASKING).assert_outcomes(passed=6)
    assert asked.server.count == 11
    result = asked.chat(*ASKING, "--memeval-plan")
    result.stdout.fnmatch_lines(["6 cases: 11 model calls, 11 need no request*, 0 to be asked"])
    assert asked.server.count == 11


def test_arms_controls_and_corrected_labels_count(asked: ChatProject) -> None:
    entry = {"sample_id": "a", "qa_index": 3, "error_type": "WRONG", "corrected_answer": "crimson"}
    asked.write("fixes.json", json.dumps({"entries": [entry]}))
    asked.write("part.memeval.yaml", "dataset: {format: locomo, path: locomo.json, errata: fixes.json}\n")
    more = ("--memeval-arms", "no-memory,full-context", "--memeval-judge-controls", "4")
    rows = table(asked.chat("part.memeval.yaml", *ASKING[1:], *more, "--memeval-plan"))
    # The same context gives the same request: what full-context and BM25 both find is asked once.
    assert sum(int(one) for one in rows["qa_answer"][:2]) == 18
    assert rows.pop("judge_controls")[:2] == ["0", "0–8"]
    assert judged(rows, 1) == 6
    assert asked.server.count == 0


def test_known_answers_make_known_verdicts(asked: ChatProject) -> None:
    """The extractive answerer answers in a plan, too, so that the very verdicts are looked for."""
    run = ("locomo.json", "--memeval-judge-model", "judge-1")
    asked.chat(*run, "--memeval-limit", "2").assert_outcomes(passed=2)
    result = asked.chat(*run, "--memeval-plan")
    result.stdout.fnmatch_lines(["6 cases: 5 model calls, 2 need no request*, 3 to be asked"])


def test_a_run_without_a_model_plans_nothing(asked: ChatProject) -> None:
    result = asked.chat("locomo.json", "--memeval-plan")
    result.stdout.fnmatch_lines(["6 cases: 0 model calls*"])


def test_the_reference_engine_reads_with_a_model(asked: ChatProject) -> None:
    result = asked.chat("locomo.json", "--memeval-memory", "engine", "--memeval-plan")
    assert table(result)["l1_extraction"][:2] == ["0", "2"]
    result.stdout.fnmatch_lines(["*behind the extraction*"])
    assert asked.server.count == 0


def test_an_engine_that_may_ask_by_itself_is_not_run(asked: ChatProject) -> None:
    asked.pytester.makepyfile(
        shelf="""
        class Shelf:
            name = "shelf"

            def ingest_session(self, messages, ctx):
                raise SystemExit("asked somebody")

            def retrieve(self, query, ctx):
                return []

        SHELF = Shelf()
        """
    )
    result = asked.chat("locomo.json", "--memeval-memory", "shelf:SHELF", "-o", "pythonpath=.", "--memeval-plan")
    result.stdout.fnmatch_lines(["not planned, 6 case(s): engine 'shelf' may ask models by itself*"])
    assert "asked somebody" not in result.stdout.str()
