"""The documentation tells the truth: its examples run and print what they show, its links and generated parts hold.

In a page, a fenced block after ``<!-- file: NAME -->`` is written to the page's project folder. The ``$`` lines of a
``console`` block after ``<!-- exit: N -->`` are run there, each ending with status N. The block's other lines must
appear in the output in this order; ``…`` stands for any text, on a line of its own for any lines. Blocks are taken from
top to bottom; ``<!-- new project -->`` empties the folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from pytest_memeval import fixtures
from pytest_memeval.options import OPTIONS
from pytest_memeval.session import SHARED_OPTIONS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])

_PART = re.compile(
    r"^<!-- (?P<directive>file|exit): (?P<value>[^\n]+?) -->\n```(?P<language>\w*)\n(?P<body>.*?)^```$"
    r"|^(?P<reset><!-- new project -->)$",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)")


@dataclass(frozen=True)
class Step:
    """A file to write (``name``), commands to run (``exit_status``), or a new project (neither)."""

    body: str
    line: int
    name: str | None = None
    exit_status: int | None = None


def steps_of(page: Path) -> list[Step]:
    text = page.read_text(encoding="utf-8")
    steps = []
    for match in _PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["reset"]:
            steps.append(Step("", line))
        elif match["directive"] == "file":
            steps.append(Step(match["body"], line, name=match["value"]))
        else:
            assert match["language"] == "console", f"{page}:{line}: only console blocks are run"
            steps.append(Step(match["body"], line, exit_status=int(match["value"])))
    return steps


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


RUNNABLE = [page for page in PAGES if any(step.exit_status is not None for step in steps_of(page))]


def command_line(text: str) -> list[str]:
    """The command as this interpreter runs it. ``-P`` keeps the current folder off the import path, as scripts do."""
    program, *arguments = shlex.split(text)
    modules = {"pytest": "pytest", "memeval": "pytest_memeval"}
    if program == "python":
        return [sys.executable, *arguments]
    assert program in modules, f"{program} is none of pytest, memeval, python"
    return [sys.executable, "-P", "-m", modules[program], *arguments]


def environment(home: Path) -> dict[str, str]:
    """A quiet terminal of 80 columns, no other plugins, nothing of the user's and of the test run that this is in."""
    drop = ("PYTEST_", "COV_", "GITHUB_", "XDG_", "OPENAI_", "MEMEVAL_")
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(drop) and key not in ("CI", "COLUMNS")
    }
    return {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_memeval.plugin",
    }


def missing_line(shown: list[str], output: str) -> str | None:
    """The first shown line that the output does not have after the lines before it."""
    left = iter(output.splitlines())
    for line in shown:
        wanted = line.rstrip()
        if wanted in ("", "…"):
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("…")))
        if not any(pattern.fullmatch(actual.rstrip()) for actual in left):
            return line
    return None


def run_block(step: Step, folder: Path, env: dict[str, str], where: str) -> None:
    commands: list[tuple[str, list[str]]] = []
    for line in step.body.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            assert commands, f"{where}: output before the first command"
            commands[-1][1].append(line)
    for command, shown in commands:
        done = subprocess.run(
            command_line(command),
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == step.exit_status, f"{where}: $ {command} ended with {done.returncode}\n{done.stdout}"
        missing = missing_line(shown, done.stdout)
        assert missing is None, f"{where}: $ {command} does not print {missing!r}\n{done.stdout}"


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_examples_of_a_page_run_as_shown(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    env = environment(tmp_path)
    for step in steps_of(page):
        where = f"{name_of(page)}:{step.line}"
        if step.exit_status is not None:
            run_block(step, folder, env, where)
        elif step.name is not None:
            target = folder / step.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(step.body, encoding="utf-8")
        else:
            shutil.rmtree(folder)
            folder.mkdir()


def test_every_how_to_page_is_run() -> None:
    assert {page.name for page in (DOCS / "how-to").glob("*.md")} <= {page.name for page in RUNNABLE}


def test_missing_line_finds_what_is_not_printed() -> None:
    output = "one 1\ntwo 2\nthree 3\n"
    assert missing_line(["one …", "three 3"], output) is None
    assert missing_line(["…", "two 2"], output) is None
    assert missing_line(["three 3", "one 1"], output) == "one 1"
    assert missing_line(["two 3"], output) == "two 3"


# -- what is not run still has to be sound -------------------------------------------------------------------------


def fences() -> Iterator[tuple[str, str, str]]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            yield f"{name_of(page)}:{text.count(chr(10), 0, match.start()) + 1}", match["language"], match["body"]


def test_every_block_parses() -> None:
    for where, language, body in fences():
        try:
            if language == "python":
                compile(body, where, "exec")
            elif language in ("yaml", "yml"):
                list(yaml.safe_load_all(body))
            elif language == "json":
                json.loads(body)
            elif language in ("jsonl", "jsonlines"):
                [json.loads(line) for line in body.splitlines()]
            elif language == "toml":
                tomllib.loads(body)
        except (SyntaxError, ValueError, yaml.YAMLError) as error:
            raise AssertionError(f"{where}: {error}") from None


def anchors_of(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    for match in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = match["target"] or match["image"]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)}: {target} does not exist"
        if anchor and file.suffix == ".md":
            assert anchor in anchors_of(file), f"{name_of(page)}: {target} has no such heading"


def test_every_page_can_be_reached() -> None:
    seen = set()
    waiting = [DOCS / "index.md", ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        for match in _LINK.finditer(page.read_text(encoding="utf-8")):
            file = (page.parent / (match["target"] or match["image"]).partition("#")[0]).resolve()
            if file.suffix == ".md" and file.is_file():
                waiting.append(file)
    assert {name_of(page) for page in DOCS.rglob("*.md")} <= {name_of(page) for page in seen}


# -- options, fixtures, generated parts ----------------------------------------------------------------------------


def all_doc_text() -> str:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    return "\n".join([*texts, *(file.read_text(encoding="utf-8") for file in (DOCS / "examples").iterdir())])


def test_every_option_mentioned_exists() -> None:
    text = all_doc_text()
    flags = {option.option for option in OPTIONS if option.flag}
    assert set(re.findall(r"--memeval-[a-z][a-z-]*[a-z]", text)) <= flags
    assert set(re.findall(r"--run-[a-z]+", text)) <= {f"--run-{word}" for word in SHARED_OPTIONS}


def test_every_ini_key_mentioned_exists() -> None:
    inis = {option.dest for option in OPTIONS if option.ini}
    public = {name for name in vars(fixtures) if name.startswith("memeval_")}
    words = set(re.findall(r"(?<![\w.-])memeval_[a-z0-9_]+[a-z0-9](?![\w*])", all_doc_text()))
    assert words - inis - public == set()


def test_every_fixture_is_documented() -> None:
    page = (DOCS / "reference" / "fixtures.md").read_text(encoding="utf-8")
    public = {name for name in vars(fixtures) if name.startswith("memeval_")}
    assert {name for name in public if f"`{name}`" not in page} == set()


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("memeval_docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_up_to_date() -> None:
    generator = load_generator()
    for page in generator.PAGES:
        committed = page.read_text(encoding="utf-8")
        assert generator.fill(page, committed) == committed, f"{name_of(page)} is old: run python docs/generate.py"


def test_generated_tables_hold_what_they_are_made_from() -> None:
    options = (DOCS / "reference" / "options.md").read_text(encoding="utf-8")
    metrics = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    cases = (DOCS / "reference" / "case-format.md").read_text(encoding="utf-8")
    assert "| `--memeval-gate GATE` |" in options
    assert "`l1.dimension_micro_f1`" in metrics
    assert "| `case_id` |" in cases


def commands_of(workflow: dict[str, Any]) -> Iterator[str]:
    """The commands of a GitHub workflow's steps, or of a GitLab file's jobs."""
    for job in workflow["jobs"].values() if "jobs" in workflow else workflow.values():
        yield from (step.get("run", "") for step in job.get("steps", ()))
        for part in ("before_script", "script", "after_script"):
            yield from job.get(part, ())


@pytest.mark.parametrize("name", ["memeval-gate.yml", "memeval-gate.gitlab-ci.yml"])
def test_example_workflow_is_valid_yaml_and_uses_real_options(name: str) -> None:
    commands = " ".join(commands_of(yaml.safe_load((DOCS / "examples" / name).read_text(encoding="utf-8"))))
    assert "memeval show memeval-report --html memeval-report/report.html" in commands
    assert set(re.findall(r"--memeval-[a-z-]+", commands)) <= {option.option for option in OPTIONS}
    assert "--memeval-predictions" in commands
