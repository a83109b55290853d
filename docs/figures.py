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
PARTS = {"development": "not holdout", "held out": "holdout"}


def run(arm: str, part: str, folder: Path) -> dict[str, Any]:
    """One run's report."""
    target = folder / f"{arm}-{part}".replace(" ", "-")
    command = [sys.executable, "-m", "pytest", "cases/v001.yaml", "-q", "-m", PARTS[part]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "docs")}
    subprocess.run(
        [*command, "--memeval-no-gate", "--memeval-output", str(target), *ARMS[arm]],
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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            reports = {arm: run(arm, part, Path(folder)) for arm in ARMS}
            total = next(iter(reports.values()))["counts"]["total"]
            print(f"\n**{part}, {total} cases**\n")
            print("| metric | " + " | ".join(ARMS) + " |")
            print("| --- |" + " --- |" * len(ARMS))
            for path in METRICS:
                print(f"| `{path}` | " + " | ".join(cell(reports[arm], path) for arm in ARMS) + " |")


if __name__ == "__main__":
    main()
