"""A run's answers as a sheet for people to label: the CSV that ``memeval judge-check --human`` reads."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.options import SettingsError
from pytest_memeval.report.csv_report import safe_cell
from pytest_memeval.report.reader import ReportError, load_report, readable

#: The sheet's columns: what identifies an answer, what people read, what they fill in, what the judge said.
COLUMNS: tuple[str, ...] = (
    *("question_id", "sample_id", "question_type", "question_date"),
    *("question", "ground_truth", "prediction", "human", "judge"),
)


def write_sheet(run: Path, path: Path) -> int:
    """Write the answers of the run to ``path``, ``human`` empty; how many rows. A judge's score stands in ``judge``.

    Raises ReportError for a report that cannot be read, holds no answered question or kept no texts; SettingsError
    where ``path`` exists: somebody's labels may be in it.
    """
    report = load_report(run)
    if report.get("config", {}).get("options", {}).get("report_text", "full") != "full":
        raise ReportError(f"{run} kept no texts (memeval_report_text), so there is nothing to label.")
    with readable(str(run)):
        rows = list(_rows(report))
    if not rows:
        raise ReportError(f"{run} holds no answered question.")
    if path.exists():
        raise SettingsError(f"--sheet: {path} exists, and may hold labels: name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({name: safe_cell(value) for name, value in row.items()} for row in rows)
    return len(rows)


def _rows(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in report["per_case"]:
        output = (entry.get("outputs") or {}).get("qa")
        if entry["kind"] != "qa" or not output or not entry.get("qa"):
            continue
        score = entry["qa"]["values"].get("judge_score")
        yield {
            "question_id": output["question_id"],
            "sample_id": entry.get("cluster") or entry["case_id"],
            "question_type": entry["tags"][0] if entry["tags"] else "",
            "question_date": output.get("question_date") or "",
            "question": output["question"],
            "ground_truth": output["truth"],
            "prediction": output["answer"],
            "human": "",
            "judge": "" if score is None else score,
        }
