"""Cases in the page of pytest-html: summary, details, hostile names, however the run was made."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import MODES, case, good_cases, stable

if TYPE_CHECKING:
    from plugin_project import Project

HTML = ("--html", "page.html", "--self-contained-html")
HOSTILE = "<img src=x onerror=alert(1)></script>"
#: Prints before and after each case.
TALKER = """

@pytest.fixture(autouse=True)
def talker():
    print("secretword before")
    yield
    print("secretword after")
"""
NAMES = (HOSTILE, "back\\slash \"quoted\" 'single'", "emoji 😀 中文", "x" * 500)


class PageParser(HTMLParser):
    """The figures of the summary, the JSON blocks, and pytest-html's own data."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, Any] = {}
        self.images = 0
        self.cases: list[dict[str, Any]] = []
        self.tests: dict[str, list[dict[str, Any]]] = {}
        self._in_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.images += tag == "img" and given.get("src") == "x"
        if given.get("data-path") and given.get("data-value"):
            self.figures[str(given["data-path"])] = json.loads(str(given["data-value"]))
        if given.get("data-jsonblob"):
            self.tests = json.loads(str(given["data-jsonblob"]))["tests"]
        self._in_data = tag == "script" and given.get("id") == "memeval-data"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.cases = json.loads(data)["cases"]
            self._in_data = False


def page_of(project: Project) -> PageParser:
    parser = PageParser()
    parser.feed((project.path / "page.html").read_text(encoding="utf-8"))
    return parser


def place(row: dict[str, Any]) -> str | None:
    """The node id of the case whose details a row has room for."""
    found: list[str | None] = []

    class Places(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if "memeval-case" in str(dict(attrs).get("class")):
                found.append(dict(attrs).get("data-memeval-case"))

    Places().feed(row["log"])
    assert len(found) < 2
    return found[0] if found else None


@MODES
def test_summary_and_details_of_every_case(project: Project, mode: tuple[str, ...]) -> None:
    cases = [
        *good_cases(3),
        *(case(name, "identity: called Ann") for name in NAMES),
        case("errored", "raise", truth=[("identity", "x")]),
        case("failed", "identity: x", expect={"l1.memory_recall": "> 1"}),
    ]
    project.cases(cases, gates=["P0 l1.dimension_micro_f1 >= 0.5"])
    project.write("test_own.py", "def test_it():\n    assert True\n")
    project.run(*mode, *HTML)
    report, page = project.report(), page_of(project)
    assert page.figures["gates.0.value"] == report["gates"][0]["value"]
    assert {name: page.figures[f"counts.{name}"] for name in report["counts"]} == report["counts"]
    assert page.figures["summary.passed_p0"] is report["summary"]["passed_p0"]
    assert page.images == 0
    ids = [entry["node_id"] for entry in report["per_case"]]
    assert [one["id"] for one in page.cases] == ids
    assert set(page.tests) == {*ids, "test_own.py::test_it"}
    for node_id in ids:
        assert [place(row) for row in page.tests[node_id]] == [node_id]
        assert "<img" not in "".join(page.tests[node_id][0]["resultsTableRow"])
    assert [place(row) for row in page.tests["test_own.py::test_it"]] == [None]
    errored = next(one for one in page.cases if one["name"] == "errored")
    assert "engine broke here" in errored["errors"][0]["message"]


@MODES
def test_a_rerun_has_one_place_and_the_last_record(project: Project, mode: tuple[str, ...]) -> None:
    pytest.importorskip("pytest_rerunfailures")
    project.cases([*good_cases(1), case("errored", "raise", truth=[("identity", "x")])])
    project.run(*mode, *HTML, "--reruns", "1")
    page = page_of(project)
    rows = page.tests["cases/v001.yaml::errored"]
    assert len(rows) > 1
    assert [place(row) for row in rows].count("cases/v001.yaml::errored") == 1
    assert len(page.cases) == 2


def test_a_dead_worker_leaves_a_row_with_its_case(project: Project) -> None:
    project.cases([*good_cases(2), case("dead", "die", truth=[("identity", "x")])])
    project.run("-n", "2", *HTML)
    page = page_of(project)
    assert [place(row) for row in page.tests["cases/v001.yaml::dead"]] == ["cases/v001.yaml::dead"]
    assert next(one for one in page.cases if one["name"] == "dead")["outcome"] == "errored"


@pytest.mark.parametrize("policy", ["none", "hash"])
def test_private_texts_are_nowhere_in_the_page(project: Project, policy: str) -> None:
    project.cases(
        [
            case("kept", "identity: secretword one", truth=[("identity", "secretword two")]),
            case("errored", "raise", truth=[("identity", "secretword three")]),
        ]
    )
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(TALKER)
    project.run(*HTML, "--memeval-report-text", policy)
    text = (project.path / "page.html").read_text(encoding="utf-8")
    assert "secretword" not in text
    assert "engine broke here" not in text
    assert len(page_of(project).cases) == 2


def test_without_pytest_html_everything_is_as_usual(project: Project) -> None:
    project.cases(good_cases(2))
    project.run(*HTML)
    shown = project.report()
    result = project.run("-p", "no:html")
    assert result.ret == 0
    assert stable(project.report()) == stable(shown)


def test_a_run_without_cases_gets_no_summary(project: Project) -> None:
    project.write("test_own.py", "def test_it():\n    assert True\n")
    project.run(*HTML)
    assert "memeval-data" not in (project.path / "page.html").read_text(encoding="utf-8")


def test_the_page_is_written_in_the_language_of_the_run(project: Project) -> None:
    project.cases(good_cases(1))
    project.run(*HTML, "--memeval-lang", "zh")
    shown, waiting = (project.path / "page.html").read_text(encoding="utf-8").split('<template id="memeval-other"', 1)
    assert "标注记忆的去向" in shown
    assert "标注记忆的去向" not in waiting.partition("</template>")[0]


@MODES
def test_the_comparison_with_a_baseline_is_shown(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(6))
    project.run("--memeval-output", "first")
    project.cases([*good_cases(5), case("eval-006", "identity: x", truth=[("identity", "quite another text")])])
    project.run(*mode, *HTML, "--memeval-baseline", "first")
    assert "Compared with the baseline" in (project.path / "page.html").read_text(encoding="utf-8")
    assert project.report()["baseline"]["path"] == "first"
