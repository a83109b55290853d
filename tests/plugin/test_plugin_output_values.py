"""What an engine gives that is no plain value: it counts alike however the run is scored, and nothing is made of it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import MODES, case

if TYPE_CHECKING:
    from plugin_project import Project

GATE = "--memeval-gate=P0 l1.priority_mae <= 1"
UNMEASURED = "l1.priority_mae was NaN, infinite or too large to count in 4 case(s)."

ODD = """
import pytest
from line_engine import LineEngine

ODD = {"nan": float("nan"), "inf": float("inf"), "minus": float("-inf"), "large": 1e308}


class OddEngine(LineEngine):
    def extract(self, conversation, ctx):
        memories = super().extract(conversation, ctx)
        if ctx.case_id in ODD:
            memories[0]["priority"] = ODD[ctx.case_id]
            memories[0]["extra"] = {"weight": float("nan")}
        return memories


@pytest.fixture(scope="session")
def memeval_engine():
    return OddEngine()
"""


def odd_project(project: Project) -> None:
    project.pytester.makeconftest(ODD)
    project.cases([case(name, f"identity: called {name}") for name in ("nan", "inf", "minus", "large", "a", "b")])


def said(project: Project, *args: str) -> tuple[int, bool, dict[str, Any]]:
    """The exit status of a run, whether its gate is said to be unmeasured, and the figures of its report."""
    result = project.run(GATE, *args)
    report = project.report()
    return int(result.ret), UNMEASURED in result.stdout.str(), report["l1"]


@MODES
def test_numbers_that_json_lacks_count_alike_however_a_run_is_scored(project: Project, mode: tuple[str, ...]) -> None:
    odd_project(project)
    status, told, first = said(project, *mode, "--memeval-save-predictions=saved.jsonl")
    assert (status, told) == (1, True)
    text = (project.path / "out/report.json").read_text("utf-8")
    json.loads(text, parse_constant=pytest.fail)
    outputs = {entry["case_id"]: entry["outputs"]["l1"][0] for entry in json.loads(text)["per_case"]}
    written = {name: outputs[name]["priority"] for name in ("nan", "inf", "minus", "large", "a")}
    assert written == {"nan": "NaN", "inf": "Infinity", "minus": "-Infinity", "large": 1e308, "a": 80}
    assert outputs["nan"]["extra"] == {"weight": "NaN"}
    (project.path / "out").rename(project.path / "kept")
    for args in (("--memeval-resume=kept",), ("--memeval-predictions=saved.jsonl",)):
        assert said(project, *mode, *args) == (1, True, first), args
    command = [sys.executable, "-m", "pytest_memeval", "rescore", "kept", "--output", "again"]
    again = subprocess.run(command, cwd=project.path, capture_output=True, text=True, encoding="utf-8")
    assert (again.returncode, UNMEASURED in again.stdout) == (1, True)
    assert project.report("again")["l1"] == first


@pytest.mark.parametrize("mode", [pytest.param((), id="serial"), pytest.param(("-n", "2"), id="n2")])
def test_trials_keep_them_too(project: Project, mode: tuple[str, ...]) -> None:
    odd_project(project)
    first = said(project, *mode, "--memeval-trials=2")
    assert first[:2] == (1, True)
    (project.path / "out").rename(project.path / "kept")
    assert said(project, *mode, "--memeval-trials=2", "--memeval-resume=kept") == first
    entry = next(one for one in project.report("kept")["per_case"] if one["case_id"] == "inf")
    assert entry["trials"][1]["outputs"]["l1"][0]["priority"] == "Infinity"


STAGES = """
import pytest


class Engine:
    name, version = "fields", "1"
    wrong = {}

    def load(self, memories, scenes, ctx):
        self.loaded = [memory.id for memory in memories]

    def extract(self, conversation, ctx):
        return [
            {"id": "0", "content": "bakes bread", "dimensions": ["habits"], **self.wrong.get("extract", {})},
            {"id": "1", "content": "rows", "dimensions": ["habits"]},
        ]

    def resolve(self, memories, ctx):
        return [
            {"memory_index": 0, "action": "update", "target_ids": ["m1"], "result_id": "0"},
            {"memory_index": 1, "action": "store", "result_id": "1"},
        ]

    def aggregate(self, memories, ctx):
        scene = {"id": "s", "title": "x", "memory_ids": ["0", "1"], "change": "created"}
        return [self.changed("aggregate", scene)]

    def query_template(self, mode, ctx):
        return [self.changed("query_template", {"id": "daily_life", "memory_ids": ["0"]})]

    def inject(self, mode, conversation, ctx):
        block = {"title": "x", "memory_ids": list(self.loaded), "present": True, "text": "t"}
        return [self.changed("inject", block)]

    def search(self, query, params, ctx):
        return [self.changed("search", {"id": "a#0", "score": 1.0})]

    def changed(self, method, value):
        changes = self.wrong.get(method, {})
        kept = {key: item for key, item in value.items() if changes.get(key) != "absent"}
        return {**kept, **{key: item for key, item in changes.items() if item != "absent"}}


Engine.wrong = WRONG


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""

FIELD_CASE: dict[str, Any] = {
    "case_id": "a",
    "conversation": "[msg#1] user: I bake bread. [msg#2] user: I row.",
    "existing_memories": [{"memory_id": "m1", "content": "bakes cake", "dimensions": ["habits"]}],
    "expected_l1": {
        "memories": [
            {"content": "bakes bread", "dimensions": ["habits"]},
            {"content": "rows", "dimensions": ["habits"]},
        ]
    },
    "expected_l15": {
        "actions": [
            {"new_memory_index": 0, "action": "update", "candidate_ids": ["m1"]},
            {"new_memory_index": 1, "action": "store"},
        ]
    },
    "expected_l2": {
        "scenes": [{"label": "x", "memories": [0, 1]}],
        "template_section": {"daily": {"0": "daily_life"}},
    },
    "expected_inject": {"mode": "daily", "subsequent_conversation": "bread?", "referenced_memory_indices": [0]},
    "expected_search_results": {"bread": [0]},
}


def fields_project(project: Project, wrong: dict[str, Any]) -> None:
    project.pytester.makeconftest(STAGES.replace("WRONG", repr(wrong)))
    project.cases([FIELD_CASE])


@pytest.mark.parametrize(
    ("method", "change", "stage", "what"),
    [
        ("extract", {"dimensions": None}, "l1", "memory 0: dimensions must be a list, got None"),
        ("aggregate", {"memory_ids": None}, "l2", "scene 0: memory_ids must be a list, got None"),
        ("query_template", {"memory_ids": None}, "template", "section 0: memory_ids must be a list, got None"),
        ("inject", {"memory_ids": None}, "inject", "block 0: memory_ids must be a list, got None"),
        ("inject", {"memory_ids": "absent"}, "inject", "block 0: 'memory_ids' is missing"),
        ("inject", {"present": "absent"}, "inject", "block 0: 'present' is missing"),
        ("inject", {"text": "absent"}, "inject", "block 0: 'text' is missing"),
        ("inject", {"title": "absent"}, "inject", "block 0: 'title' is missing"),
        ("inject", {"text": 5}, "inject", "block 0: text must be text, got int 5"),
        ("search", {"source_ids": None}, "search", "hit 0: source_ids must be a list, got None"),
    ],
)
def test_a_missing_key_or_a_wrong_value_is_an_error_of_its_stage(
    project: Project, method: str, change: dict[str, Any], stage: str, what: str
) -> None:
    fields_project(project, {method: change})
    result = project.run()
    assert result.ret == 1
    [error] = project.report()["per_case"][0]["errors"]
    assert (error["stage"], error["kind"]) == (stage, "bad_output")
    assert what in error["message"]


@MODES
def test_fields_with_a_default_may_be_left_out(project: Project, mode: tuple[str, ...]) -> None:
    fields_project(project, {"search": {"score": "absent"}, "aggregate": {"change": "absent"}})
    assert project.run(*mode).ret == 0
    report = project.report()
    assert report["search"]["mrr"] == 1
    # No score is made up for a hit that has none.
    assert report["per_case"][0]["outputs"]["search"] == {"bread": [{"id": "a#0", "score": None}]}


def section_notes(project: Project) -> list[str]:
    return [note for note in project.report()["notes"] if "into section" in note]


@MODES
def test_a_section_that_the_mode_lacks_is_told_with_the_nearest(project: Project, mode: tuple[str, ...]) -> None:
    fields_project(project, {"query_template": {"id": "daily_lif"}})
    result = project.run(*mode, "--memeval-save-predictions=saved.jsonl")
    note = (
        "The engine put memories into section daily_lif, which mode daily does not have, in 1 case(s); no label"
        " can point there. The nearest that it has is daily_life."
    )
    report = project.report()
    for shown in (
        result.stdout.str(),
        "".join(section_notes(project)),
        (project.path / "out/report.md").read_text("utf-8"),
    ):
        assert " ".join(note.split()) in " ".join(shown.split())
    facts = [fact for fact in report["per_case"][0]["facts"] if fact["kind"] == "unknown_section"]
    fact = {"kind": "unknown_section", "stage": "template", "mode": "daily", "section": "daily_lif"}
    assert facts == [{**fact, "nearest": "daily_life", "memories": 1}]
    # Once, wherever the outputs come from.
    project.run(*mode, "--memeval-predictions=saved.jsonl")
    assert [one for one in project.report()["per_case"][0]["facts"] if one["kind"] == "unknown_section"] == facts
    for policy in ("hash", "none"):
        project.run(*mode, f"--memeval-report-text={policy}")
        [note] = section_notes(project)
        assert "daily_lif," not in note
        assert "The nearest that it has is daily_life." in note


def test_sections_that_the_mode_has_and_empty_ones_are_not_told(project: Project) -> None:
    fields_project(project, {"query_template": {"id": "own", "memory_ids": []}})
    project.run()
    assert section_notes(project) == []
    fields_project(project, {"query_template": {"id": "absent", "title": "📅日常生活"}})
    project.run()
    assert section_notes(project) == []
    fields_project(project, {"query_template": {"id": "zzzz"}})
    project.run()
    [note] = section_notes(project)
    assert note.endswith("which mode daily does not have, in 1 case(s); no label can point there.")


NO_IDS = """
import pytest


class NoIds:
    name, version = "no-ids", "1"

    def load(self, memories, scenes, ctx):
        self.held = [memory.content for memory in memories]

    def extract(self, conversation, ctx):
        return [{"content": "SECRET " + message.content, "dimensions": ["habits"]} for message in conversation]

    def aggregate(self, memories, ctx):
        contents = [memory.content for memory in memories]
        return [{"id": contents[0], "title": "SECRET title", "memory_ids": contents}]

    def query_template(self, mode, ctx):
        return [{"id": "daily_life", "memory_ids": self.held}, {"id": "SECRET section", "memory_ids": self.held}]

    def inject(self, mode, conversation, ctx):
        return [{"title": "SECRET", "memory_ids": ["SECRET block"], "present": True, "text": "SECRET"}]

    def search(self, query, params, ctx):
        return [{"id": "SECRET hit", "content": "SECRET text"}]


@pytest.fixture(scope="session")
def memeval_engine():
    return NoIds()
"""


@pytest.mark.parametrize("policy", ["hash", "none"])
@MODES
def test_no_text_is_written_in_the_place_of_an_id(project: Project, mode: tuple[str, ...], policy: str) -> None:
    project.pytester.makeconftest(NO_IDS)
    project.cases([{**FIELD_CASE, "conversation": "[msg#1] user: I bake bread."}])
    figures = {}
    for kept in ("full", policy):
        project.run(*mode, f"--memeval-report-text={kept}", "--memeval-trials=2", "--html=page.html")
        figures[kept] = {name: project.report()[name] for name in ("l1", "l2", "inject", "search")}
        figures[kept]["l2"].pop("warnings")
    assert figures["full"] == figures[policy]
    for file in [*sorted((project.path / "out").iterdir()), project.path / "page.html"]:
        data = file.read_bytes()
        text = gzip.decompress(data) if file.suffix == ".gz" else data
        assert b"SECRET" not in text, file.name
    outputs = project.report()["per_case"][0]["outputs"]
    [scene] = outputs["l2"]
    placed = outputs["template"]["daily"][0]["memory_ids"]
    assert scene["id"] == scene["memory_ids"][0] == placed[0]
