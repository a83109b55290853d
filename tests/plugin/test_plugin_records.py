"""What a run leaves of a case for people to look at: later conversation, evidence with ranks, passages with marks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dataset_samples import locomo_record, longmemeval_record
from plugin_project import MODES, Project, case

EVALUATORS = """
from pytest_memeval.rag import BaseEvaluator, EvalResult
from pytest_memeval.rag.offline import OfflineEvaluator


class Tone(BaseEvaluator):
    metrics = ("words", "polite", "mood", "nothing")

    async def evaluate_sample(self, sample):
        scores = {"words": 2, "polite": True, "mood": "calm", "nothing": None}
        return EvalResult(sample, scores, feedback="counted them")


class Broken(BaseEvaluator):
    metrics = ("broken",)

    async def evaluate_sample(self, sample):
        raise RuntimeError("no luck")
"""
#: What a run writes and shows of a private text is told by these words alone.
SECRET = "geheim"


def entries(project: Project) -> dict[str, dict[str, Any]]:
    return {entry["case_id"]: entry for entry in project.report()["per_case"]}


@MODES
@pytest.mark.parametrize("policy", ["full", "none"])
def test_the_later_conversation_is_kept(project: Project, mode: tuple[str, ...], policy: str) -> None:
    later = [{"id": "msg_9", "role": "user", "name": "Ann", "content": f"which tea? {SECRET}"}]
    inject = {"mode": "daily", "subsequent_conversation": later, "referenced_memory_indices": [0]}
    project.cases([case("later", "habits: drinks tea", expected_inject=inject), case("none", "habits: runs")])
    project.run(*mode, "--memeval-report-text", policy)
    kept = entries(project)
    expected = later if policy == "full" else [{"id": "msg_9", "role": "user", "name": None, "content": None}]
    assert kept["later"]["input"]["subsequent_conversation"] == expected
    assert "subsequent_conversation" not in kept["none"]["input"]
    assert SECRET not in json.dumps(kept) or policy == "full"


@MODES
@pytest.mark.parametrize("policy", ["full", "hash", "none"])
def test_evidence_has_ranks_and_texts(project: Project, mode: tuple[str, ...], policy: str) -> None:
    record = locomo_record()
    record["conversation"]["session_1"][0]["text"] = f"I adopted a cat called Miso. {SECRET * 100}"
    project.write("locomo.json", json.dumps([record]))
    (project.path / "conftest.py").write_text("", encoding="utf-8")
    project.run("locomo.json", *mode, "--memeval-report-text", policy)
    output = entries(project)["conv-1::q0"]["outputs"]["qa"]
    found = output["evidence_found"]
    assert [row["id"] for row in found] == ["D1:1", "D2:1"]
    assert [row["rank"] for row in found] == [output["sources"].index(row["id"]) + 1 for row in found]
    if policy == "full":
        assert found[0]["content"].startswith("Ann: I adopted") or found[0]["content"].startswith("I adopted")
        assert len(found[0]["content"]) == 400
    else:
        assert SECRET not in json.dumps(project.report())
        assert (found[0]["content"] is None) is (policy == "none")


def test_what_is_not_retrieved_has_no_rank(project: Project) -> None:
    project.write("locomo.json", json.dumps([locomo_record()]))
    (project.path / "conftest.py").write_text("", encoding="utf-8")
    project.run("locomo.json", "--memeval-memory", "null")
    output = entries(project)["conv-1::q0"]["outputs"]["qa"]
    assert [row["rank"] for row in output["evidence_found"]] == [None, None]
    project.write("long.json", json.dumps([longmemeval_record("q1")]))
    project.run("long.json")
    [entry] = project.report()["per_case"]
    [row] = entry["outputs"]["qa"]["evidence_found"]
    assert row["rank"] == entry["outputs"]["qa"]["sources"].index(row["id"]) + 1
    assert "spare key" in row["content"]


@MODES
@pytest.mark.parametrize("policy", ["full", "none"])
def test_a_sample_keeps_its_reference_marks_and_scores(project: Project, mode: tuple[str, ...], policy: str) -> None:
    row = {
        "id": "place",
        "query": f"Where is it? {SECRET}",
        "contexts": ["The bridge is in London.", f"The tower is in Paris. {SECRET}"],
        "response": f"In Paris. {SECRET}",
        "ground_truth": f"Paris {SECRET}",
        "reference_contexts": [f"the tower is in Paris. {SECRET}"],
    }
    bare = {"id": "bare", "query": "What?", "contexts": ["A tower."]}
    project.write("tower.memeval.jsonl", "".join(json.dumps(one) + "\n" for one in (row, bare)))
    project.pytester.makepyfile(own_evaluators=EVALUATORS)
    names = ("Tone", "Broken", "OfflineEvaluator")
    options = [word for name in names for word in ("--memeval-evaluator", f"own_evaluators:{name}")]
    project.run("tower.memeval.jsonl", *options, *mode, "--memeval-report-text", policy)
    kept = entries(project)
    output, scores = kept["place"]["outputs"]["rag"], kept["place"]["rag"]["details"]["scores"]
    assert output["relevant"] == [False, True]
    # The marks are those that the package's own precision is computed from.
    assert kept["place"]["rag"]["values"]["non_llm_context_precision_with_reference"] == 0.5
    assert scores["Tone"] == {"words": 2, "polite": True, "mood": "calm" if policy == "full" else None, "nothing": None}
    assert scores["Broken"] is None
    assert scores["OfflineEvaluator"]["non_llm_context_recall"] == 1
    assert set(kept["bare"]["outputs"]["rag"]) == {"query", "contexts"}
    if policy == "full":
        assert output["reference"] == f"Paris {SECRET}"
        assert output["reference_contexts"] == row["reference_contexts"]
    else:
        assert SECRET not in json.dumps(project.report())
