"""Answers in the formats of the benchmarks' own scripts, so that those can be run on the same output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_memeval.report.json_report import dumps

HYPOTHESES_NAME = "hypotheses.jsonl"
LOCOMO_NAME = "locomo_predictions.json"
#: Key of the answer and of the retrieved ids in LoCoMo's format.
PREDICTION, CONTEXT = "memeval_prediction", "memeval_prediction_context"


def _answered(report: Mapping[str, Any], format_name: str | None) -> Iterator[Mapping[str, Any]]:
    """Entries with an answer of sets of a format; of any set of questions with ``None``."""
    formats = {path: (scope.get("protocol") or {}).get("format") for path, scope in report["case_sets"].items()}
    for entry in report["per_case"]:
        output = (entry.get("outputs") or {}).get("qa")
        answered = isinstance(output, Mapping) and isinstance(output.get("answer"), str)
        if entry.get("kind") == "qa" and answered and format_name in (None, formats.get(entry["set"])):
            yield entry


def hypotheses(report: Mapping[str, Any]) -> Iterator[str]:
    """LongMemEval's format: a line ``{"question_id", "hypothesis"}`` an answer, of every set of questions."""
    for entry in _answered(report, None):
        output = entry["outputs"]["qa"]
        yield dumps({"question_id": output["question_id"], "hypothesis": output["answer"]}) + "\n"


def locomo_predictions(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """LoCoMo's format: a list of samples with their questions in the published order, each with its answer and what
    was retrieved. A sample that two files of the run ask about is there twice."""
    samples: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in sorted(_answered(report, "locomo"), key=_published):
        output = entry["outputs"]["qa"]
        row: dict[str, Any] = {"question": output["question"]}
        if output["truth"]:
            row["answer"] = output["truth"]
        if output.get("trap") is not None:
            row["adversarial_answer"] = output["trap"]
        row.update(
            {
                "evidence": output["evidence"],
                "category": output["category"],
                PREDICTION: output["answer"],
                CONTEXT: output["sources"],
            }
        )
        samples.setdefault(_published(entry)[:2], []).append(row)
    return [{"sample_id": sample_id, "qa": rows} for (_, sample_id), rows in samples.items()]


def _published(entry: Mapping[str, Any]) -> tuple[str, str, int]:
    """File, sample and the question's place in it: reports list ``q10`` before ``q2``, benchmarks count."""
    sample_id, _, question = entry["case_id"].rpartition("::q")
    return entry["set"], sample_id, int(question)


def prediction_files(report: Mapping[str, Any]) -> dict[str, Iterator[str]]:
    """File name → its text in pieces; empty where no question was answered, or where texts are not kept."""
    files: dict[str, Iterator[str]] = {}
    if next(_answered(report, None), None) is not None:
        files[HYPOTHESES_NAME] = hypotheses(report)
    if next(_answered(report, "locomo"), None) is not None:
        files[LOCOMO_NAME] = iter((dumps(locomo_predictions(report)), "\n"))
    return files
