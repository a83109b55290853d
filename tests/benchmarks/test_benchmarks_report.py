"""How long figures, gates and report files of many cases take: figures to read, no limits to fail."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from pytest_memeval.cases.models import GtMemory
from pytest_memeval.metrics.catalog import DEFAULT_DISTILL_GATES
from pytest_memeval.metrics.l1 import compute_l1
from pytest_memeval.report.build import build_report
from pytest_memeval.report.write import write_reports
from pytest_memeval.results import CaseResult, RunInfo, SetInfo
from pytest_memeval.values import Memory

CASES = 10_000
DIMENSIONS = ("identity", "family", "social", "values", "skills", "projects", "goals")
RUN = RunInfo("run", "2026-01-01T00:00:00+00:00", 1.0, ("all",), "chained", ("l1", "l15", "l2", "template", "inject"))


def _record(number: int, path: str, random_source: random.Random) -> CaseResult:
    truth, found = [], []
    for index in range(random_source.randint(1, 4)):
        text = f"fact {number} {index} {random_source.random()}"
        truth.append(GtMemory(content=text, dimensions=tuple(random_source.sample(DIMENSIONS, 2)), priority=80))
        if random_source.random() < 0.8:
            found.append(Memory(None, text, tuple(random_source.sample(DIMENSIONS, 2)), "persona", 70.0))
    sections = {"l1": compute_l1(found, truth).section()}
    case_id = f"e{number}"
    return CaseResult(
        f"{path}::{case_id}", path, case_id, "scored", stages={"l1": "scored"}, sections=sections, line=number
    )


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 100])
def test_report_of_many_cases(files: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random_source = random.Random(1)
    paths = [f"cases/f{number:03}.yaml" for number in range(files)]
    records = [_record(number, paths[number % files], random_source) for number in range(CASES)]
    gates = tuple((gate, "default") for gate in DEFAULT_DISTILL_GATES)
    size = CASES // files
    sets = [SetInfo(path, cases=size, gates=gates, truth_counts={"l1": size}) for path in paths]
    started = time.process_time(), time.perf_counter()
    report = build_report(RUN, sets, records)
    built = time.process_time(), time.perf_counter()
    write_reports(tmp_path / "out", report, [], "en")
    written = time.process_time(), time.perf_counter()
    stored = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert len(stored["per_case"]) == CASES
    assert len(stored["case_sets"]) == files
    with capsys.disabled():
        cpu, wall = (
            [after - before for before, after in ((started[i], built[i]), (built[i], written[i]))] for i in (0, 1)
        )
        print(
            f"\n{CASES} cases in {files} file(s): figures and gates {wall[0]:.2f} s ({cpu[0]:.2f} s of CPU), "
            f"files {wall[1]:.2f} s ({cpu[1]:.2f} s of CPU)"
        )
