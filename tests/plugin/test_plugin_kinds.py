"""Items of other kinds than distillation, by a small kind of their own: every kind's journal, gates and concurrency."""

from __future__ import annotations

import json
from typing import Any

import pytest
from plugin_project import MODES, Project, good_cases, stable

from pytest_memeval.kinds import registry

#: Cases say what becomes of them: a number to score, "raise", "skip", "hang", or "one", of whose two metrics one fails.
KIND = """
import asyncio, json
from pathlib import Path
import pytest
from pytest_memeval.cases.models import CaseSet
from pytest_memeval.documents.problems import Problem
from pytest_memeval.kind_items import KindFile, KindItem
from pytest_memeval.kinds import Kind, KindCase, KindRun, KindSet
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.results import CallRecord, CaseError, StageResult

flying, most = 0, 0


class EchoRun(KindRun):
    stage = "rag"

    async def measure(self):
        global flying, most
        flying += 1
        most = max(most, flying)
        print("echo", self.case.case_id)
        try:
            await asyncio.sleep(0.05)
        finally:
            flying -= 1
        what = SAYS[self.case.case_id]
        if what == "raise":
            raise ValueError("it broke")
        if what == "hang":
            await asyncio.sleep(60)
        if what == "skip":
            self.why_skipped = "nothing here"
            return
        value = 0.5 if what == "one" else float(what)
        self.sections["rag"] = SectionRecord({"share": (value, 1.0)})
        self.statuses["rag"] = "scored"
        self.results["rag"] = StageResult(calls=(CallRecord(self.case.case_id, "rag", latency=0.05),), seconds=0.05)
        if what == "one":
            self.errors.append(CaseError("rag", "broken_metric", "other failed"))
            self.statuses.update({"rag": "errored", "rag.share": "scored", "rag.other": "errored"})
        Path("most.txt").write_text(str(most))

    def meta(self, set_path):
        return {"engine": {"name": "echo", "version": None}}


SAYS = {}


class EchoFile(KindFile):
    def nodes(self):
        yield Group.from_parent(self, name="group")


class Group(pytest.Collector):
    def collect(self):
        for case in self.parent.case_set.cases:
            yield KindItem.from_parent(self, name=case.case_id.partition("::")[2], case=case)


class Echo(Kind):
    name, stage, sections = "rag", "rag", ("rag",)
    main_figures = (("rag.share", "share"),)

    def recognizes(self, path, head):
        return b'"says"' in head

    def load(self, path, harness):
        cases = []
        for line, text in enumerate(path.read_text().splitlines(), 1):
            row = json.loads(text)
            name = "group::" + row["id"]
            SAYS[name] = row["says"]
            problems = (Problem(path, line, 1, "a bad label"),) if row["says"] == "bad" else ()
            cases.append(KindCase(name, line=line, stages=("rag",), cluster=row.get("cluster", ""),
                                  tags=tuple(row.get("tags", ())), timeout=row.get("timeout"), problems=problems))
        return KindSet(path, "rag", tuple(cases))

    def make_run(self, case, case_set, values, harness, label):
        return EchoRun(case, kind="rag", loop=harness.loop, label=label, timeout=harness.settings.timeout)

    def file_class(self):
        return EchoFile


KIND = Echo()
"""

ROWS: list[dict[str, Any]] = [
    {"id": "a", "says": 1, "cluster": "x"},
    {"id": "b", "says": 0.5, "cluster": "x"},
    {"id": "c", "says": "raise"},
    {"id": "d", "says": "skip"},
    {"id": "e", "says": "one"},
    {"id": "f", "says": "hang", "timeout": 0.2},
    {"id": "g", "says": "bad"},
    {"id": "h", "says": 0, "tags": ["night"]},
]
GATE = ("--memeval-gate", "P0 rag.share >= 0.5")


@pytest.fixture
def echo(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    # In this process for runs in it; the conftest for workers of their own.
    monkeypatch.setattr(registry, "KINDS", {"rag": "echo_kind:KIND"})
    project.pytester.makepyfile(echo_kind=KIND)
    conftest = project.path / "conftest.py"
    own = 'from pytest_memeval.kinds import registry\nregistry.KINDS = {"rag": "echo_kind:KIND"}\n'
    conftest.write_text(own + conftest.read_text(encoding="utf-8"), encoding="utf-8")
    return project


def rows(echo: Project, rows: list[dict[str, Any]], name: str = "x.memeval.jsonl") -> None:
    echo.write(name, "".join(json.dumps(row) + "\n" for row in rows))


@MODES
def test_every_outcome_is_recorded(echo: Project, mode: tuple[str, ...]) -> None:
    rows(echo, ROWS)
    result = echo.run("x.memeval.jsonl", "-v", *mode)
    result.assert_outcomes(passed=3, errors=4, skipped=1)
    assert echo.outcomes() == {
        "group::a": "scored",
        "group::b": "scored",
        "group::c": "errored",
        "group::d": "skipped",
        "group::e": "errored",
        "group::f": "errored",
        "group::g": "errored",
        "group::h": "scored",
    }
    report = echo.report()
    entries = {entry["case_id"]: entry for entry in report["per_case"]}
    kinds_of_errors = {name: entry["error"]["kind"] for name, entry in entries.items() if entry["error"]}
    assert kinds_of_errors == {
        "group::c": "engine_exception",
        "group::e": "broken_metric",
        "group::f": "timeout",
        "group::g": "invalid_case",
    }
    assert "it broke" in entries["group::c"]["error"]["message"]
    # What was measured in a case counts, whatever else failed in it: a, b, e and h.
    section = report["rag"]
    assert section["share"] == pytest.approx(0.5)
    assert section["n"]["share"] == {"units": 4, "cases": 4, "clusters": 3}
    assert section["counts"]["errored"] == 4
    assert section["metric_errors"] == {"other": 1}
    assert report["usage"]["calls"] == 4
    assert report["engine"]["name"] == "echo"
    assert report["case_sets"]["x.memeval.jsonl"]["kind"] == "rag"
    if not mode:
        result.stdout.fnmatch_lines(["*x.memeval.jsonl::group::a PASSED share 1.00*"])
        result.stdout.fnmatch_lines(["*x.memeval.jsonl:5: [[]rag[]] broken_metric: other failed*"])


def test_serial_and_two_processes_report_the_same(echo: Project) -> None:
    rows(echo, ROWS)
    echo.run("x.memeval.jsonl", "--memeval-concurrency", "1")
    serial = stable(echo.report())
    echo.run("x.memeval.jsonl", "-n", "2")
    assert stable(echo.report()) == serial
    echo.run("x.memeval.jsonl")
    assert stable(echo.report()) == serial


def test_items_run_ahead_and_say_what_they_print_in_their_turn(echo: Project) -> None:
    rows(echo, [{"id": f"q{n}", "says": 1} for n in range(12)])
    result = echo.run("x.memeval.jsonl", "-rP", "--memeval-concurrency", "4", fresh=True)
    result.assert_outcomes(passed=12)
    # Four ahead, and the item at hand.
    assert 4 <= int((echo.path / "most.txt").read_text(encoding="utf-8")) <= 5
    said = [line.split()[-1].strip(".") for line in result.outlines if "echo group::" in line]
    assert said == [f"group::q{n}" for n in range(12)]


@pytest.mark.parametrize(
    ("given", "status", "passed", "said"),
    [
        ((), 0, True, "passed"),
        (("--memeval-limit", "1"), 0, True, "passed"),
        # Nothing is scored then, and a gate that somebody asked for is not green for that.
        (("--memeval-stages", "l1"), 1, False, "unmeasured"),
        (("-m", "night"), 1, False, "missed"),
    ],
)
def test_gates_limit_stages_and_tags(
    echo: Project, given: tuple[str, ...], status: int, passed: bool | None, said: str
) -> None:
    rows(echo, [ROWS[0], ROWS[1], ROWS[7]])
    result = echo.run("x.memeval.jsonl", "--strict-markers", *GATE, *given)
    assert result.ret == status
    report = echo.report()
    assert (report["summary"]["passed_p0"], report["gates"][0]["status"]) == (passed, said)


def test_a_gate_on_one_kind_is_not_for_files_of_another(echo: Project) -> None:
    rows(echo, ROWS[:2])
    echo.cases(good_cases(2))
    result = echo.run("x.memeval.jsonl", "cases", *GATE, "--memeval-gate", "P0 l1.memory_recall >= 0.5")
    assert result.ret == 0
    found = {(gate["scope"], gate["metric"]): gate["status"] for gate in echo.report()["gates"]}
    assert found == {
        ("x.memeval.jsonl", "rag.share"): "passed",
        ("x.memeval.jsonl", "l1.memory_recall"): "not_applicable",
        ("cases/v001.yaml", "rag.share"): "not_applicable",
        ("cases/v001.yaml", "l1.memory_recall"): "passed",
    }


def test_a_gate_on_a_kind_that_no_file_has_is_unmeasured(echo: Project) -> None:
    echo.cases(good_cases(2))
    assert echo.run("cases", *GATE).ret == 1
    assert echo.report()["gates"][0]["status"] == "unmeasured"


def test_one_failed_metric_does_not_unmake_the_gate_on_another(echo: Project) -> None:
    rows(echo, [ROWS[0], ROWS[4]])
    echo.run("x.memeval.jsonl", *GATE, "--memeval-gate", "P0 rag.other >= 0.5")
    statuses = {gate["metric"]: gate["status"] for gate in echo.report()["gates"]}
    assert statuses == {"rag.share": "passed", "rag.other": "unmeasured"}
