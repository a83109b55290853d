"""Runs so large that entries of the report are made while they go on."""

from __future__ import annotations

import json

import pytest
from plugin_project import Project, case

from pytest_memeval.garbage import FREEZE_EVERY
from pytest_memeval.report.entries import case_entry
from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.reader import read_journal

COUNT = FREEZE_EVERY + 30


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
@pytest.mark.parametrize("policy", ["full", "hash"])
def test_the_report_has_what_would_be_made_at_the_end(project: Project, mode: tuple[str, ...], policy: str):
    said = [case(f"c{number:04}", f"habits: tea {number}", truth=[("habits", "tea 5")]) for number in range(COUNT)]
    project.cases(said)
    result = project.run("-q", *mode, "--memeval-report-text", policy, "cases", fresh=True)
    assert result.ret == pytest.ExitCode.OK
    lines = (project.path / "out" / "report.json").read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if line.startswith('    {"node_id"')]
    assert len(shown) == COUNT
    journal = {one.node_id: one for one in read_journal(project.path / "out" / "journal.jsonl")}
    for line in shown:
        entry = json.loads(line.strip().removesuffix(","))
        assert entry == json.loads(dumps(case_entry(journal[entry["node_id"]])))  # the journal has the policy's texts
    assert [json.loads(line.strip().removesuffix(","))["node_id"] for line in shown] == sorted(journal)
    assert sorted(path.name for path in (project.path / "out").iterdir()) == [
        "calls.jsonl.gz", "journal.jsonl", "per_case.csv", "report.json", "report.md",
    ]  # fmt: skip
