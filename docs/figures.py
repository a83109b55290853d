"""Prints the tables of docs/case-set.md: both prompt versions, recorded answers and the offline model, and a baseline.

Run from the repository's root: ``python docs/figures.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
METRICS = (
    "l1.dimension_micro_f1",
    "l1.memory_recall",
    "l1.memory_precision",
    "l1.strict_match_rate",
    "l1.memory_type_accuracy",
    "l1.time_velocity_accuracy",
    "l15.action_accuracy",
    "l2.section_hit_rate",
    "l2.profile_quality",
    "l2.scene_grouping_f1",
    "inject.reference_coverage",
    "inject.pipeline_coverage",
)
ARMS = {
    "recorded v001": ("--memeval-prompt-version", "v001", "--memeval-llm", "recorded"),
    "recorded v002": ("--memeval-prompt-version", "v002", "--memeval-llm", "recorded"),
    "embedded v001": ("--memeval-prompt-version", "v001", "--memeval-llm", "embedded"),
    "embedded v002": ("--memeval-prompt-version", "v002", "--memeval-llm", "embedded"),
    "majority label": (
        *("--memeval-prompt-version", "v002", "--memeval-llm", "embedded"),
        *("--memeval-engine", "majority:MajorityEngine"),
    ),
}
SEARCH_METRICS = ("search.ndcg@10", "search.recall@10", "search.hit@10", "search.mrr", "search.map")
SEARCH_ARMS = {
    "words and vectors": (),
    "words": ("--memeval-search-params", "bm25_weight=1"),
    "vectors": ("--memeval-search-params", "bm25_weight=0"),
}
PARTS = {"development": "not holdout", "held out": "holdout"}


def run(name: str, options: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """One run's report."""
    target = folder / name.replace(" ", "-")
    command = [sys.executable, "-m", "pytest", "cases/v001.yaml", "-q"]
    path = os.pathsep.join(filter(None, (str(ROOT / "docs"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(
        [*command, "--memeval-no-gate", "--memeval-output", str(target), *options],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    report: dict[str, Any] = json.loads((target / "report.json").read_text(encoding="utf-8"))
    return report


def cell(report: dict[str, Any], path: str) -> str:
    """A value with its interval."""
    section, _, name = path.partition(".")
    figures = report[section] or {}
    value, interval = figures.get(name), figures.get("intervals", {}).get(name)
    if value is None:
        return "–"
    return f"{value:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def print_table(title: str, reports: dict[str, dict[str, Any]], metrics: tuple[str, ...]) -> None:
    print(f"\n**{title}**\n")
    print("| metric | " + " | ".join(reports) + " |")
    print("| --- |" + " --- |" * len(reports))
    for path in metrics:
        print(f"| `{path}` | " + " | ".join(cell(report, path) for report in reports.values()) + " |")


def print_parts(reports: dict[str, dict[str, Any]]) -> None:
    """Dimension F1 by difficulty and by dimension."""
    from pytest_memeval.aggregate import aggregate_metric, flat_value
    from pytest_memeval.metrics.thresholds import parse_path
    from pytest_memeval.report.reader import records_of

    records = {arm: records_of(report) for arm, report in reports.items()}
    print("\n**dimension F1 by difficulty and by dimension, all cases**\n")
    print("| | " + " | ".join(reports) + " |")
    print("| --- |" + " --- |" * len(reports))
    rows = {level: f"l1.dimension_micro_f1{{difficulty={level}}}" for level in ("easy", "medium", "hard")}
    rows |= {
        f"`{name}`": f"l1.per_dimension_f1.{name}" for name in next(iter(reports.values()))["l1"]["per_dimension_f1"]
    }
    for title, text in rows.items():
        path = parse_path(text)
        values = [flat_value(aggregate_metric(own, path), path) for own in records.values()]
        print(f"| {title} | " + " | ".join("–" if value is None else f"{value:.2f}" for value in values) + " |")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            reports = {
                arm: run(f"{arm} {part}", ("-m", PARTS[part], *options), Path(folder)) for arm, options in ARMS.items()
            }
            total = next(iter(reports.values()))["counts"]["total"]
            print_table(f"{part}, {total} cases", reports, METRICS)
        print_parts({arm: run(arm, options, Path(folder)) for arm, options in ARMS.items() if arm != "majority label"})
        reports = {
            arm: run(f"search {arm}", ("--memeval-stages", "search", *options), Path(folder))
            for arm, options in SEARCH_ARMS.items()
        }
        section = next(iter(reports.values()))["search"]
        queries, documents = section["queries"], section["setup"]["documents"]
        print_table(f"search, {queries} queries in {documents} memories", reports, SEARCH_METRICS)


if __name__ == "__main__":
    main()
