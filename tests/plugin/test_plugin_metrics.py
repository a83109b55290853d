"""Metrics of a project's own in pytest runs: from a conftest, an option, an installed package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugin_project import MODES, Project, case, good_cases, stable

CONFTEST = """
import pytest
from line_engine import LineEngine
from pytest_memeval import metric


@pytest.fixture(scope="session")
def memeval_engine():
    return LineEngine()


@metric
def from_conftest(case, outputs):
    if case.case_id == "eval-003":
        raise ValueError("no such thing")
    return len(outputs.l1)
"""


def package(folder: Path, name: str, group: str, point: str, module: str, source: str) -> None:
    """An installed package with one entry point, as far as Python's metadata go."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{point}\n", encoding="utf-8")
    (folder / f"{module}.py").write_text(source, encoding="utf-8")


@pytest.fixture
def site(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = project.path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[2]}")
    return folder


@MODES
def test_every_way_to_add_one(project: Project, site: Path, mode: tuple[str, ...]) -> None:
    package(
        site, "spare", "memeval.metrics", "installed = spare_metrics:always", "spare_metrics",
        "def always(case, outputs):\n    return True\n",
    )  # fmt: skip
    project.write("conftest.py", CONFTEST)
    project.write("mine.py", "def by_option(case, outputs):\n    return {'x': 0.5}\n")
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    project.cases(good_cases(4), gates=["P0 metrics.installed >= 1", "P0 metrics.from_conftest >= 1"])
    result = project.run("--memeval-metric", "mine:by_option", *mode, fresh=True)
    result.assert_outcomes(passed=3, errors=1)
    report = project.report()
    assert report["metrics"]["installed"] == 1
    assert report["metrics"]["by_option"] == {"x": 0.5}
    assert report["metrics"]["from_conftest"] == 1
    assert report["metrics"]["metric_errors"] == {"from_conftest": 1}
    assert [gate["status"] for gate in report["gates"]] == ["passed", "unmeasured"]
    result.stdout.fnmatch_lines(["*cases/v001.yaml:5: [[]metrics.from_conftest[]] metric_exception: ValueError: no *"])
    if mode:
        alone = project.run("--memeval-metric", "mine:by_option", "--memeval-output", "alone", fresh=True)
        assert alone.ret == 1
        assert stable(project.report("alone")) == stable(report)


def test_an_installed_engine_has_a_short_name(project: Project, site: Path) -> None:
    source = "from line_engine import LineEngine\n\n\nclass Spare(LineEngine):\n    name = 'spare-lines'\n"
    package(site, "spare", "memeval.engines", "spare = spare_engine:Spare", "spare_engine", source)
    project.write("conftest.py", "")
    project.cases(good_cases(2))
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    result = project.run("--memeval-engine", "spare", fresh=True)
    result.assert_outcomes(passed=2)
    assert project.report()["engine"]["name"] == "spare-lines"
    result = project.run("--memeval-engine", "spere", fresh=True)
    result.stderr.fnmatch_lines(["*unknown engine 'spere' (your own is named module:attribute); did you mean 'spare'*"])
    (site / "spare_engine.py").write_text("raise RuntimeError('half installed')", encoding="utf-8")
    result = project.run("--memeval-engine", "spare", fresh=True)
    result.stdout.fnmatch_lines(["*entry point 'spare' of package spare*half installed*"])


#: What names no metric → what is said.
NO_METRIC = {
    "mine:always_": "'mine:always_' cannot be imported: module 'mine' has no attribute 'always_';",
    "mne:always": "'mne:always' cannot be imported: No module named 'mne'; did you mean 'mine'?",
    "mine:number": "metric number: int is no function",
    "mine": "module 'mine' has no function with @metric; name a function as 'mine:function'",
    "mne": "'mne' cannot be imported: No module named 'mne'; did you mean 'mine'?",
    "": "'' is not of the form module:attribute",
    "__main__:nothing_there": "'__main__:nothing_there' cannot be imported",
    "mine:two words": "'mine:two words' cannot be imported",
}


@MODES
@pytest.mark.parametrize(("name", "said"), NO_METRIC.items())
def test_an_option_that_names_no_metric_ends_the_run_before_its_first_case(
    project: Project, mode: tuple[str, ...], name: str, said: str
) -> None:
    project.write("mine.py", "number = 1\n\n\ndef always(case, outputs):\n    return True\n")
    project.cases(good_cases(2))
    result = project.run("--memeval-metric", "mine:always", "--memeval-metric", name, *mode, fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = result.stderr.str().strip().splitlines()
    assert line.startswith(f"ERROR: --memeval-metric: {said}")
    assert not (project.path / "out").exists()


SEVERAL = """
from line_engine import LineEngine
from pytest_memeval import metric


@metric(name="first", stages=("l1",))
def one(case, outputs):
    return len(outputs.l1)


@metric
def two(case, outputs):
    return 2


def plain(case, outputs):
    return 3
"""

#: Options, another file that is there → the metrics of the report.
NAMED: dict[str, tuple[tuple[str, ...], tuple[str, str], set[str]]] = {
    "one": (("--memeval-metric", "mets:one"), ("note.txt", ""), {"first"}),
    "both": (("--memeval-metric", "mets:one", "--memeval-metric", "mets:two"), ("note.txt", ""), {"first", "two"}),
    "plain": (("--memeval-metric", "mets:plain"), ("note.txt", ""), {"plain"}),
    "module": (("--memeval-metric", "mets"), ("note.txt", ""), {"first", "two"}),
    "module and plain": (
        ("--memeval-metric", "mets:plain", "--memeval-metric", "mets"), ("note.txt", ""), {"first", "two", "plain"},
    ),
    "engine": (("--memeval-engine", "mets:LineEngine", "--memeval-metric", "mets:two"), ("note.txt", ""), {"two"}),
    "conftest": (("--memeval-metric", "mets:two"), ("conftest.py", "import mets\n"), {"first", "two"}),
    "folder": (("--memeval-metric", "mets:two"), ("cases/conftest.py", "import mets\n"), {"first", "two"}),
    "test module": (
        ("--memeval-metric", "mets:two"), ("test_x.py", "from mets import one\n\ndef test_it():\n    pass\n"),
        {"first", "two"},
    ),
    "conftest of another": (("--memeval-metric", "mets:two"), ("conftest.py", "import line_engine\n"), {"two"}),
    "the conftest itself": (("--memeval-metric", "conftest:two"), ("conftest.py", SEVERAL), {"first", "two"}),
    "a plugin": (("-p", "mets", "--memeval-metric", "mets:two"), ("note.txt", ""), {"first", "two"}),
}  # fmt: skip


@MODES
@pytest.mark.parametrize("which", NAMED)
def test_a_function_that_is_named_is_the_only_one_of_its_module(
    project: Project, mode: tuple[str, ...], which: str
) -> None:
    options, (name, text), wanted = NAMED[which]
    project.write("mets.py", SEVERAL)
    project.write("conftest.py", "")
    project.write("pytest.ini", "[pytest]\npythonpath = .\nmemeval_engine = line_engine:LineEngine\n")
    project.cases(good_cases(2))
    project.write(name, text)
    result = project.run(*options, *mode, fresh=True)
    assert result.ret == 0
    assert set(project.report()["metrics"]["n"]) == wanted


@MODES
@pytest.mark.parametrize("kind", ["distill", "qa"])
def test_a_metric_whose_module_is_found_late_is_one_sentence_of_each_file(
    project: Project, mode: tuple[str, ...], kind: str
) -> None:
    project.write("conftest.py", "")
    project.write("below/mine.py", "")  # on nobody's path, unless a test module beside it is collected
    if kind == "distill":
        project.cases(good_cases(2))
    else:
        question = {"id": "q", "question": "Who?", "answer": "Ada"}
        one = {"case_id": "a", "conversation": "I am Ada.", "questions": [question]}
        project.write("cases/v001.yaml", f"kind: qa\nmeta: {{gates: []}}\ncases: {json.dumps([one])}\n")
    result = project.run("--memeval-metric", "mine:nothing", *mode, fresh=True)
    assert result.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED)  # xdist calls it the latter
    text = result.stdout.str()
    assert "--memeval-metric: 'mine:nothing' cannot be imported: No module named 'mine'" in text
    assert "Traceback" not in text
    assert "SettingsError" not in text


#: A metric that is awaited, beside an engine that lets several cases be at work at once.
AWAITED = """
import asyncio
import time
import pytest
from line_engine import LineEngine
from pytest_memeval import metric


class Engine(LineEngine):
    concurrent = True

    async def extract(self, conversation, ctx):
        await asyncio.sleep(0.05)
        if conversation[0].content.endswith("block"):
            time.sleep(8)
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()


@metric
async def slow(case, outputs):
    with open("asked", "a", encoding="utf-8") as file:
        file.write(case.case_id + "\\n")
    DOES
    return 1.0
"""
AT_ONCE = pytest.mark.parametrize("mode", [("--memeval-concurrency", "1"), ("--memeval-concurrency", "3"), ("-n", "2")])


@AT_ONCE
@pytest.mark.parametrize("limit", [(), ("--memeval-timeout", "20")], ids=["no-limit", "limit"])
def test_a_metric_is_awaited_once_a_case(project: Project, mode: tuple[str, ...], limit: tuple[str, ...]) -> None:
    project.write("conftest.py", AWAITED.replace("DOES", "await asyncio.sleep(0.4)"))
    project.cases(good_cases(6))
    project.run(*mode, *limit, fresh=True).assert_outcomes(passed=6)
    asked = (project.path / "asked").read_text(encoding="utf-8").split()
    assert sorted(asked) == [f"eval-{n:03}" for n in range(1, 7)]
    assert project.report()["metrics"]["slow"] == 1.0


OVER = "the case's time limit of 1.2 s is over"
#: What the metric does in one case → what is said of it there.
TOO_LONG = {
    "time.sleep(8)": f"{OVER}; it held the event loop all the time",
    "await asyncio.sleep(60)": OVER,
}


@AT_ONCE
@pytest.mark.parametrize("does", TOO_LONG, ids=["holds-the-loop", "waits"])
def test_a_metric_that_does_not_end_costs_its_own_case_alone(
    project: Project, does: str, mode: tuple[str, ...]
) -> None:
    project.write("conftest.py", AWAITED.replace("DOES", f"if case.case_id == 'eval-002': {does}"))
    project.cases(good_cases(5))
    project.run("--memeval-timeout", "1.2", *mode, fresh=True).assert_outcomes(passed=4, errors=1)
    said = {entry["case_id"]: entry["errors"] for entry in project.report()["per_case"]}
    (error,) = said.pop("eval-002")
    assert (error["stage"], error["kind"]) == ("metrics.slow", "metric_exception")
    assert error["message"].startswith(TOO_LONG[does])
    assert not any(said.values())
    notes = " ".join(project.report()["run_notes"])
    assert ("left behind in their threads" in notes) == (does == "time.sleep(8)")  # nobody waits for its end


@AT_ONCE
@pytest.mark.parametrize("form", ["async def", "def"])
def test_something_cancelled_within_a_metric_costs_that_metric_alone(
    project: Project, form: str, mode: tuple[str, ...]
) -> None:
    text = AWAITED.replace("async def slow", f"{form} slow")
    project.write("conftest.py", text.replace("DOES", "if case.case_id == 'eval-002': raise asyncio.CancelledError"))
    project.cases(good_cases(5))
    project.run("--memeval-timeout", "20", *mode, fresh=True).assert_outcomes(passed=4, errors=1)
    said = {entry["case_id"]: entry["errors"] for entry in project.report()["per_case"]}
    (error,) = said.pop("eval-002")
    assert (error["stage"], error["kind"]) == ("metrics.slow", "metric_exception")
    assert error["message"].startswith("CancelledError")
    assert not any(said.values())


def test_a_metric_under_way_goes_on_though_another_case_holds_the_loop(project: Project) -> None:
    project.write("conftest.py", AWAITED.replace("DOES", "await asyncio.sleep(0.3)"))
    cases = good_cases(8)
    cases[4] = case("blocks", "identity: this one will block")
    project.cases(cases)
    result = project.run("--memeval-timeout", "1.2", "--memeval-concurrency", "3", fresh=True)
    result.assert_outcomes(passed=7, errors=1)
    assert project.report()["metrics"]["slow"] == 1.0
    assert [one["case_id"] for one in project.report()["per_case"] if one["errors"]] == ["blocks"]
