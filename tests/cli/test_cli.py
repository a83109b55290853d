"""The console command: exit statuses, sentences, and a project's own registry, templates and prompts."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval import __version__
from pytest_memeval.cli.main import SCHEMAS, main

CASES = Path(__file__).parents[2] / "cases"

GOOD = """\
meta: {version: v1, gates: []}
cases:
  - case_id: a
    conversation: "[msg#1] user: I work as a nurse in Graz."
    expected_l1: {memories: [{content: works as a nurse in Graz, dimensions: [identity]}]}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def status(*words: str) -> int:
    """The exit status; argparse ends by itself."""
    try:
        return main(list(words))
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["valdate", "x"], "unknown command 'valdate'; did you mean 'validate'?"),
        (["validate", "none.yaml"], "none.yaml: no such file"),
        (["validate", "empty"], "empty: no case file in this folder"),
        (["validate", "--registry", "none.yaml", "good.yaml"], "none.yaml"),
        (["validate", "--templates", "none", "good.yaml"], "none"),
        (["schema", "caes"], "caes"),
        (["rescore", "nowhere"], "There is no report at nowhere"),
        (["rescore", "latest"], "There is no run in .memeval/runs"),
        (["rescore", "good.yaml"], "good.yaml is not valid JSON"),
        (["init", "--prompts", "full"], "full exists already; nothing was copied"),
        (["init", "nowhere"], "nowhere: no such folder"),
        ([], "COMMAND"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_and_status_2(
    here: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "good.yaml", GOOD)
    (here / "empty").mkdir()
    write(here / "full" / "x.txt", "x")
    assert status(*words) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_an_unwritable_target_is_a_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "file", "x")
    assert status("init", "--prompts", "file/below") == 2
    assert "file/below" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["memeval"], [sys.executable, "-m", "pytest_memeval"]], ids=["script", "module"])
def test_both_ways_to_call_it(here: Path, command: list[str]) -> None:
    if command == ["memeval"]:
        script = Path(sys.executable).parent / "memeval"
        if not script.exists():
            pytest.skip("the package is not installed with its console script")
        command = [str(script)]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stdout) == (0, f"pytest-memeval {__version__}\n")
    done = subprocess.run([*command, "validate", "x"], capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stderr) == (2, "x: no such file\n")


# -- validate --------------------------------------------------------------------------------------------------------


def test_a_good_file_is_told_in_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "good.yaml", GOOD)
    assert status("validate", "good.yaml") == 0
    assert capsys.readouterr().out == "good.yaml: 1 case, 0 problems\n"


def test_the_shipped_case_sets_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("validate", str(CASES)) == 0
    assert "0 problems" in capsys.readouterr().out


def test_file_and_case_problems_come_together(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong_case = GOOD.replace("dimensions: [identity]", "dimensions: [identiti]")
    wrong_file = GOOD.replace("expected_l1", "expcted_l1").replace("gates: []", "total_cases: 9, gates: []")
    write(here / "a.yaml", wrong_case)
    write(here / "b.yaml", wrong_file)
    assert status("validate", "a.yaml", "b.yaml") == 1
    out = capsys.readouterr().out
    for fragment in ("a.yaml:5", "did you mean 'identity'", "a.yaml: 1 case, 1 problem", "b.yaml:5", "'expected_l1'"):
        assert fragment in out


def test_a_warning_changes_no_status(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "a.yaml", GOOD.replace("gates: []", "total_cases: 9, gates: []"))
    assert status("validate", "a.yaml") == 0
    assert "(warning)" in capsys.readouterr().out


def test_folders_are_searched_for_case_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "cases" / "deep" / "a.yaml", GOOD)
    write(here / "cases" / "other.yaml", "services: {}\n")
    write(
        here / "cases" / "b.memeval.jsonl",
        json.dumps({"case_id": "b", "conversation": "[msg#1] user: x", "expected_l1": {"memories": []}}) + "\n",
    )
    assert status("validate", "cases") == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        str(Path("cases/deep/a.yaml")),
        str(Path("cases/b.memeval.jsonl")),
    ]


def test_an_ascii_console_degrades(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "a.yaml", GOOD.replace("dimensions: [identity]", "dimensions: [身份证]"))
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert status("validate", "a.yaml") == 1
    assert status("schema", "cases") == 0
    stream.flush()


# -- schema ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", SCHEMAS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_every_schema_is_a_schema_on_any_console(what: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    assert status("schema", what) == 0
    stream.flush()
    schema = json.loads(raw.getvalue().decode(encoding))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"]


# -- a project's own assets ------------------------------------------------------------------------------------------

NINE = ("who", "where", "work", "people", "likes", "plans", "health", "tools", "rest")


def own_assets(folder: Path) -> None:
    """A registry of nine dimensions with memory types of its own, and one template."""
    dimensions = [
        {"id": name, "display_name": name.title(), "category": "c", "description": f"what {name} is about"}
        for name in NINE
    ]
    registry: dict[str, Any] = {"dimensions": dimensions, "memory_types": ["fact", "rule"], "priority": [0, 10]}
    write(folder / "registry.yaml", json.dumps(registry))
    sections = [{"id": "all_work", "title": "All work", "query": {"dimensions": ["work"]}}]
    write(
        folder / "templates" / "brief.yaml",
        json.dumps({"name": "brief", "display_name": "Brief", "sections": sections}),
    )


def own_case(dimension: str = "work", memory_type: str = "fact", mode: str = "brief", meta: str = "") -> str:
    return f"""\
meta: {{gates: []{meta}}}
cases:
  - case_id: a
    conversation: "[msg#1] user: I work as a nurse in Graz."
    expected_l1: {{memories: [{{content: x, dimensions: [{dimension}], memory_type: {memory_type}, priority: 7}}]}}
    expected_l2: {{template_section: {{{mode}: {{"0": All work}}}}}}
"""


META = ", registry: ../own/registry.yaml, templates: ../own/templates"
INI = "[pytest]\nmemeval_registry = own/registry.yaml\nmemeval_templates = own/templates\n"
TOML = '[tool.pytest.ini_options]\nmemeval_registry = "own/registry.yaml"\nmemeval_templates = "own/templates"\n'


@pytest.mark.parametrize("way", ["meta", "pytest.ini", "pyproject.toml", "options"])
def test_labels_are_checked_against_the_projects_own_assets(
    here: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own_assets(here / "own")
    meta = META if way == "meta" else ""
    if way == "pytest.ini":
        write(here / way, INI)
    if way == "pyproject.toml":
        write(here / way, TOML)
    options = ["--registry", "own/registry.yaml", "--templates", "own/templates"] if way == "options" else []
    write(here / "cases" / "good.yaml", own_case(meta=meta))
    assert status("validate", *options, "cases/good.yaml") == 0, capsys.readouterr().out
    write(here / "cases" / "bad.yaml", own_case("wrok", "fcat", "breif", meta))
    capsys.readouterr()
    assert status("validate", *options, "cases/bad.yaml") == 1
    out = capsys.readouterr().out
    for word in ("'work'", "'fact'", "'brief'"):
        assert f"did you mean {word}" in out
    # What the shipped registry knows is unknown here.
    write(here / "cases" / "shipped.yaml", own_case("identity", "persona", "daily", meta))
    assert status("validate", *options, "cases/shipped.yaml") == 1


def test_broken_assets_are_told_with_their_place(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_assets(here / "own")
    write(here / "cases" / "a.yaml", own_case(meta=META + ", prompts: ../prompts"))
    assert status("init", "--prompts", "prompts") == 0
    assert status("validate", "cases/a.yaml") == 0
    frozen = here / "prompts" / "versions" / "l1_extraction" / "v001.txt"
    frozen.write_text(frozen.read_text(encoding="utf-8") + "more", encoding="utf-8")
    capsys.readouterr()
    assert status("validate", "cases/a.yaml") == 1
    assert "a frozen text must not change" in capsys.readouterr().out
    write(here / "own" / "registry.yaml", "dimensions: 3\n")
    assert status("validate", "cases/a.yaml") == 1
    assert "registry.yaml" in capsys.readouterr().out
    write(here / "pytest.ini", INI)
    assert status("validate", "cases/a.yaml") == 2
    assert "registry.yaml" in capsys.readouterr().err


def test_prompts_are_copied_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("init", "--prompts") == 0
    assert "memeval_prompts = prompts" in capsys.readouterr().out
    assert (here / "prompts" / "l1_extraction.txt").is_file()
    assert status("init", "--prompts") == 2
