"""A set evaluated by files only: each round answers one stage more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_project import MODEL, ChatProject, answer_to, full_case
from plugin_project import MODES

GATE = "P0 l1.dimension_micro_f1 >= 0.5"


def batch_lines(chat: ChatProject) -> list[dict[str, Any]]:
    text = (chat.cache / "requests.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def answer_batch(chat: ChatProject, name: str, stage: str, *, fail: int = 0) -> Path:
    """What a Batch service gives back: in another order, with the first ``fail`` requests failed."""
    results = []
    for place, line in enumerate(batch_lines(chat)):
        body = line["body"]
        assert isinstance(body, dict)
        completion = {
            "id": "c", "object": "chat.completion", "model": f"{MODEL}-2024-07-18",
            "choices": [{
                "index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": answer_to(body["messages"][-1]["content"], stage)},
            }],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        }  # fmt: skip
        response = {"status_code": 200, "body": completion}
        if place < fail:
            response = {"status_code": 500, "body": {"error": {"message": "internal"}}}
        results.append({"id": f"r{place}", "custom_id": line["custom_id"], "response": response, "error": None})
    return chat.write(name, "".join(json.dumps(result) + "\n" for result in reversed(results)))


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
def test_three_stages_in_three_rounds_by_files(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.cases([full_case(number) for number in range(1, 5)], gates=[GATE])
    for stage, case_stage in (("l1_extraction", "l1"), ("l1_conflict", "l15"), ("l2_scene", "l2")):
        result = chat.chat("--memeval-cache", "batch", *mode)
        result.assert_outcomes(errors=4)
        assert result.ret == 1
        result.stdout.fnmatch_lines([f"*4 case(s) wait for answers*{chat.cache / 'requests.jsonl'}*cache import*"])
        report = chat.report()
        assert report["counts"]["errored"] == 4
        for entry in report["per_case"]:
            assert [(error["stage"], error["kind"]) for error in entry["errors"]] == [(case_stage, "pending")]
            assert "waits for its answer" in entry["errors"][0]["message"]
        l1_gate = next(gate for gate in report["gates"] if gate["metric"] == "l1.dimension_micro_f1")
        assert l1_gate["status"] == ("unmeasured" if case_stage == "l1" else "passed")
        lines = batch_lines(chat)
        assert len(lines) == 4
        assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
        assert {line["body"]["model"] for line in lines} == {MODEL}
        answers = answer_batch(chat, f"{stage}.jsonl", stage)
        taken = chat.memeval("cache", "import", str(answers), "--cache-dir", str(chat.cache))
        assert taken.ret == 0
        taken.stdout.fnmatch_lines(["*4 answers added*"])
    result = chat.chat("--memeval-cache", "batch", *mode)
    result.assert_outcomes(passed=4)
    assert result.ret == 0
    assert "wait for answers" not in result.stdout.str()
    assert chat.report()["gates"][0]["status"] == "passed"
    assert batch_lines(chat) == []
    assert chat.server.count == 0


def test_failed_results_are_listed_and_stay_pending(chat: ChatProject) -> None:
    chat.cases([full_case(number) for number in range(1, 4)])
    chat.chat("--memeval-cache", "batch", "--memeval-stages", "l1")
    answers = answer_batch(chat, "answers.jsonl", "l1_extraction", fail=1)
    taken = chat.memeval("cache", "import", str(answers), "--cache-dir", str(chat.cache))
    assert taken.ret == 1
    taken.stderr.fnmatch_lines(["*answers.jsonl:3:*the request failed with 500*skipped*"])
    taken.stdout.fnmatch_lines(["*2 answers added, 1 skipped", "1 request still waiting*requests.jsonl"])
    result = chat.chat("--memeval-cache", "batch", "--memeval-stages", "l1")
    result.assert_outcomes(passed=2, errors=1)
    assert len(batch_lines(chat)) == 1


def test_the_same_set_answered_by_the_server_gives_the_same_figures(chat: ChatProject) -> None:
    chat.cases([full_case(number) for number in range(1, 4)])
    for stage in ("l1_extraction", "l1_conflict", "l2_scene"):
        chat.chat("--memeval-cache", "batch")
        answers = answer_batch(chat, "answers.jsonl", stage)
        chat.memeval("cache", "import", str(answers), "--cache-dir", str(chat.cache))
    chat.chat("--memeval-cache", "batch").assert_outcomes(passed=3)
    by_files = chat.report()
    chat.chat("--memeval-cache-dir", "other").assert_outcomes(passed=3)
    by_server = chat.report()
    assert chat.server.count == 9
    for section in ("l1", "l15", "l2"):
        assert by_files[section] == by_server[section]


@MODES
def test_an_answer_by_hand_is_enough(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.cases([full_case(1)])
    chat.chat("--memeval-cache", "batch", "--memeval-stages", "l1", *mode)
    (line,) = batch_lines(chat)
    body = line["body"]
    assert isinstance(body, dict)
    text = answer_to(body["messages"][-1]["content"], "l1_extraction")
    chat.write("answers.jsonl", json.dumps({"custom_id": line["custom_id"], "text": text}) + "\n")
    assert chat.memeval("cache", "import", "answers.jsonl", "--cache-dir", str(chat.cache)).ret == 0
    chat.chat("--memeval-cache", "batch", "--memeval-stages", "l1", *mode).assert_outcomes(passed=1)
