"""Questions scored again from what a run kept: by ``memeval rescore``, and in a run that goes on with another."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chat_project import ChatProject
from dataset_samples import locomo_record, longmemeval_record
from plugin_project import Project, stable

from pytest_memeval.__main__ import main

SECTIONS = ("qa", "locomo", "longmemeval", "case_sets", "gates")


def put(project: Project, name: str, data: Any) -> None:
    project.write(name, json.dumps(data, ensure_ascii=False, indent=1))


@pytest.fixture
def asked(chat: ChatProject, monkeypatch: pytest.MonkeyPatch) -> ChatProject:
    """A judge that takes the answers about boats for right, and all others for wrong."""

    def verdict(request: Any) -> str:
        right = "boat" in request.prompt
        return json.dumps({"reason": "because", "score": float(right), "verdict": "correct" if right else "wrong"})

    monkeypatch.setenv("MEMEVAL_API_KEY", "sk-test-key-1234567890")
    chat.server.script = verdict
    put(chat, "locomo.json", [locomo_record("a"), locomo_record("b")])
    put(chat, "lme.json", [longmemeval_record("q1"), longmemeval_record("q2_abs", kind="multi-session")])
    monkeypatch.chdir(chat.path)
    return chat


def again(project: Project, *args: str, status: int = 0) -> dict[str, Any]:
    assert main(["rescore", str(project.path / "out"), *args]) == status
    found: dict[str, Any] = json.loads((project.path / "out" / "rescored" / "report.json").read_text("utf-8"))
    return found


def only(report: dict[str, Any], case_id: str) -> dict[str, Any]:
    [entry] = [entry for entry in report["per_case"] if entry["case_id"] == case_id]
    return dict(entry)


def test_the_same_labels_give_the_same_report(asked: ChatProject, monkeypatch: pytest.MonkeyPatch) -> None:
    for memory, kept in (("bm25", 50), ("full-context", 2)):
        monkeypatch.setattr("pytest_memeval.qa.run.KEPT_SOURCES", kept)
        asked.chat("locomo.json", "lme.json", "--memeval-judge-model", "judge-1", "--memeval-memory", memory)
        report = asked.report()
        assert report["longmemeval"]["accuracy"] is not None
        sent = asked.server.count
        rescored = again(asked)
        assert asked.server.count == sent
        assert stable(rescored)["per_case"] == stable(report)["per_case"]
        for name in SECTIONS:
            assert rescored[name] == report[name], name


@pytest.mark.parametrize("mode", [(), ("-n", "2"), ("--memeval-trials", "2")], ids=["serial", "n2", "trials"])
def test_default_thresholds_hold_for_questions_that_are_scored_again(asked: ChatProject, mode: tuple[str, ...]) -> None:
    asked.write("pytest.ini", "[pytest]\nmemeval_expect =\n    qa.f1 >= 0.99\n    qa.f1{tag=temporal} >= 0.5\n")
    asked.run("locomo.json", "--memeval-memory", "bm25", "--memeval-answerer", "extractive", *mode)
    report = asked.report()
    missed = [entry["missed_expectations"] for entry in report["per_case"]]
    assert any(missed)
    assert all(entry["has_expectations"] for entry in report["per_case"])
    rescored = again(asked)
    assert [entry["missed_expectations"] for entry in rescored["per_case"]] == missed
    assert all(entry["has_expectations"] for entry in rescored["per_case"])
    assert stable(rescored)["per_case"] == stable(report)["per_case"]


def test_a_corrected_label_changes_its_question(asked: ChatProject) -> None:
    asked.chat("locomo.json", "--memeval-judge-model", "judge-1")
    before = asked.report()
    record = locomo_record("a")
    record["qa"][3]["answer"] = only(before, "a::q3")["outputs"]["qa"]["answer"]
    record["qa"][3]["evidence"] = ["D2:1"]
    put(asked, "locomo.json", [record, locomo_record("b")])
    rescored = again(asked, "--gate", "P0 qa.f1 >= 0.9", status=1)
    changed = only(rescored, "a::q3")
    assert changed["qa"]["values"]["f1"] == 1.0
    assert only(before, "a::q3")["qa"]["values"]["f1"] < 1.0
    assert changed["locomo"]["values"]["f1_official"] == 1.0
    assert rescored["qa"]["f1_by_type"]["single_hop"] > before["qa"]["f1_by_type"]["single_hop"]
    # What the judge said was about another truth: it is no score of this one, and no zero.
    assert [error["kind"] for error in changed["errors"]] == ["not_recorded"]
    assert "judge_score" not in changed["qa"]["values"]
    assert rescored["qa"]["n"]["judge_score"]["units"] == before["qa"]["n"]["judge_score"]["units"] - 1
    assert rescored["qa"]["n"]["f1"]["units"] == before["qa"]["n"]["f1"]["units"]
    assert [gate["status"] for gate in rescored["gates"]] == ["missed"]
    [row] = [
        row for row in rescored["case_sets"]["locomo.json"]["questions"]["categories"] if row["type"] == "single_hop"
    ]
    assert row["errors"] == 1
    # The other conversation stays as it was.
    assert only(rescored, "b::q3")["qa"] == only(before, "b::q3")["qa"]


@pytest.mark.parametrize("trials", [(), ("--memeval-trials", "2")])
def test_what_is_shown_of_a_question_are_the_labels_of_today(
    asked: ChatProject, capsys: pytest.CaptureFixture[str], trials: tuple[str, ...]
) -> None:
    """Truth, trap, category and evidence follow the file; question, answer and ranking are the run's."""
    asked.chat("locomo.json", "--memeval-judge-model", "judge-1", *trials)
    before = asked.report()
    record = locomo_record("a")
    record["qa"][3] |= {"answer": "a crimson one", "evidence": ["D2:1", "D1:2"], "question": "Which boat has Ben?"}
    record["qa"][4] |= {"adversarial_answer": "York", "evidence": ["D1:1"]}
    put(asked, "locomo.json", [record, locomo_record("b")])
    rescored = again(asked, status=1)
    was, now = (only(report, "a::q3")["outputs"]["qa"] for report in (before, rescored))
    assert (was["truth"], now["truth"]) == ("red", "a crimson one")
    assert (was["evidence"], now["evidence"]) == (["D1:2", "D"], ["D2:1", "D1:2"])
    ranks = {row["id"]: row["rank"] for row in now["evidence_found"]}
    assert ranks == {"D2:1": None, "D1:2": was["sources"].index("D1:2") + 1}
    assert now["evidence_found"][0]["content"] == "I moved to Leeds last week."
    # What was said of another truth is no verdict on this one.
    assert (bool(was["verdicts"]), now["verdicts"]) == (True, [])
    for kept in ("question", "answer", "sources", "context_tokens", "hits", "question_id"):
        assert now[kept] == was[kept], kept
    trap = only(rescored, "a::q4")["outputs"]["qa"]
    assert (trap["truth"], trap["trap"], [row["id"] for row in trap["evidence_found"]]) == ("", "York", ["D1:1"])
    for trial in only(rescored, "a::q3").get("trials") or ():
        assert trial["outputs"] is None or trial["outputs"]["qa"]["truth"] == "a crimson one"
        assert (trial["outcome"], [error["kind"] for error in trial["errors"]]) == ("errored", ["not_recorded"])
    # Pages and the benchmark's own format say the same.
    capsys.readouterr()
    assert main(["show", "out/rescored", "--case", "a::q3"]) == 0
    shown = capsys.readouterr().out
    assert "a crimson one" in shown
    assert "because" not in shown
    [row] = [row for row in rescored["per_case"] if row["case_id"] == "b::q3"]
    assert row["outputs"] == only(before, "b::q3")["outputs"]
    # Once more, nothing is lost and nothing comes back.
    first = again(asked, status=1)
    assert main(["rescore", "out/rescored", "--output", "third"]) == 1
    third = json.loads((asked.path / "third" / "report.json").read_text("utf-8"))
    assert third["qa"] == first["qa"]
    assert stable(third)["per_case"] == stable(first)["per_case"]


def test_a_rank_that_was_not_kept_is_not_told(asked: ChatProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message behind the ids that a record keeps may have been retrieved, or not."""
    monkeypatch.setattr("pytest_memeval.qa.run.KEPT_SOURCES", 1)
    asked.chat("locomo.json", "--memeval-memory", "full-context")
    record = locomo_record("a")
    record["qa"][3]["evidence"] = ["D1:1"]  # the first of all, and kept
    record["qa"][5]["evidence"] = ["D2:2"]  # the last of all
    put(asked, "locomo.json", [record, locomo_record("b")])
    rescored = again(asked)
    kept, lost = (only(rescored, name)["outputs"]["qa"] for name in ("a::q3", "a::q5"))
    assert [(row["id"], row["rank"]) for row in kept["evidence_found"]] == [("D1:1", 1)]
    assert (lost["evidence"], lost["evidence_turns"], lost["evidence_found"]) == (["D2:2"], ["D2:2"], [])


def test_an_errata_file_of_today_counts(asked: ChatProject) -> None:
    asked.write("part.memeval.yaml", "dataset: {format: locomo, path: locomo.json}\n")
    asked.chat("part.memeval.yaml")
    assert "f1_corrected" not in asked.report()["qa"]
    answer = only(asked.report(), "a::q3")["outputs"]["qa"]["answer"]
    entry = {"sample_id": "a", "qa_index": 3, "error_type": "WRONG", "corrected_answer": answer}
    put(asked, "fixes.json", {"entries": [entry]})
    asked.write("part.memeval.yaml", "dataset: {format: locomo, path: locomo.json, errata: fixes.json}\n")
    rescored = again(asked)
    assert rescored["qa"]["f1_corrected"] > rescored["qa"]["f1"]
    assert rescored["case_sets"]["part.memeval.yaml"]["questions"]["ceiling"]["wrong_labels"] == 1


def test_a_verdict_on_a_corrected_answer_fails_alone(asked: ChatProject) -> None:
    """The verdict on the published truth stands where the one on the corrected truth cannot be had."""
    plain = asked.server.script
    asked.server.script = lambda request: "hm" if "a crimson boat" in request.prompt else plain(request)
    entry = {"sample_id": "a", "qa_index": 3, "error_type": "WRONG", "corrected_answer": "a crimson boat"}
    put(asked, "fixes.json", {"entries": [entry]})
    asked.write("part.memeval.yaml", "dataset: {format: locomo, path: locomo.json, errata: fixes.json}\n")
    asked.chat("part.memeval.yaml", "--memeval-judge-model", "judge-1")
    report = asked.report()
    assert report["counts"]["errored"] == 1
    assert (report["qa"]["n"]["judge_score"]["units"], report["qa"]["n"]["judge_score_corrected"]["units"]) == (10, 9)
    assert report["case_sets"]["part.memeval.yaml"]["questions"]["headline"]["errors"] == 0
    rescored = again(asked, status=1)
    assert rescored["qa"] == report["qa"]
    assert stable(rescored)["per_case"] == stable(report)["per_case"]


def test_damaged_outputs_are_one_sentence(asked: ChatProject, capsys: pytest.CaptureFixture[str]) -> None:
    asked.chat("locomo.json")
    file = asked.path / "out" / "report.json"
    report = asked.report()
    report["per_case"][0]["outputs"]["qa"]["sources"] = "D1:1"
    file.write_text(json.dumps(report), encoding="utf-8")
    assert main(["rescore", str(file)]) == 2
    assert "locomo.json::a::q0 cannot be read: stage qa: 'sources' must be list, not str" in capsys.readouterr().err


def test_questions_of_an_earlier_run_are_scored_anew(asked: ChatProject) -> None:
    """The journal's answers are taken, its figures are not."""
    whole = ("locomo.json", "lme.json", "--memeval-judge-model", "judge-1")
    asked.chat(*whole)
    report = asked.report()
    [journal] = (asked.path / "out").glob("journal*.jsonl")
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    for line in lines:
        for name, ratio in line["sections"]["qa"]["ratios"].items():
            if name.startswith("f1"):
                ratio[0] = 0.125
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    sent = asked.server.count
    result = asked.chat(*whole, "--memeval-resume", "out", "--memeval-output", "resumed")
    result.stdout.fnmatch_lines(["14 of 14 case(s) taken from run*"])
    assert asked.server.count == sent
    resumed = json.loads((asked.path / "resumed" / "report.json").read_text("utf-8"))
    assert resumed["qa"] == report["qa"]
    # What is only reckoned otherwise needs no answer again.
    result = asked.chat(
        *whole, "--memeval-resume", "out", "--memeval-output", "third", "--memeval-adversarial-in-headline"
    )
    result.stdout.fnmatch_lines(["14 of 14 case(s) taken from run*"])
    third = json.loads((asked.path / "third" / "report.json").read_text("utf-8"))
    assert third["qa"]["n"]["f1"]["units"] == report["qa"]["n"]["f1"]["units"] + 2
