"""The documentation tells the truth: its examples run and print what they show, its links and generated parts hold.

In a page, a fenced block after ``<!-- file: NAME -->`` is written to the page's project folder. The ``$`` lines of a
``console`` block after ``<!-- exit: N -->`` are run there, each ending with status N. The block's other lines must
appear in the output in this order; ``…`` stands for any text, on a line of its own for any lines. A ``python`` block
after ``<!-- exit: N -->`` is run as a script. Blocks are taken from top to bottom; ``<!-- new project -->`` empties the
folder, ``<!-- repository cases -->`` goes on in another one with this repository's cases and recorded answers, and
``<!-- back to the project -->`` comes back from there.

Every other block says by ``<!-- shown: REASON -->`` why it is not run; it has to parse all the same, and its commands
have to be ones that exist. Diagrams are held to the code.
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
    r"|^<!-- (?P<reset>new project|repository cases|back to the project) -->$",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)")


@dataclass(frozen=True)
class Step:
    """A file to write (``name``), commands or a script to run (``exit_status``), or a new project (neither)."""

    body: str
    line: int
    name: str | None = None
    exit_status: int | None = None
    language: str = "console"


def steps_of(page: Path) -> list[Step]:
    text = page.read_text(encoding="utf-8")
    steps = []
    for match in _PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["reset"]:
            steps.append(Step(match["reset"], line))
        elif match["directive"] == "file":
            steps.append(Step(match["body"], line, name=match["value"]))
        else:
            assert match["language"] in ("console", "python"), f"{page}:{line}: only console and python blocks are run"
            steps.append(Step(match["body"], line, exit_status=int(match["value"]), language=match["language"]))
    return steps


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


RUNNABLE = [page for page in PAGES if any(step.exit_status is not None for step in steps_of(page))]


#: Option of another plugin → the plugins that it needs.
PLUGINS = {
    "-n": ("xdist.plugin", "xdist.looponfail"),
    "--html": ("pytest_metadata.plugin", "pytest_html.plugin", "pytest_html.fixtures"),
}


def command_line(text: str) -> list[str]:
    """The command as this interpreter runs it. ``-P`` keeps the current folder off the import path, as scripts do."""
    program, *arguments = shlex.split(text)
    modules = {"pytest": "pytest", "memeval": "pytest_memeval"}
    # Plugins are not loaded by themselves here; those that a command asks for are.
    if program == "pytest":
        for option, plugins in PLUGINS.items():
            if option in arguments:
                arguments = [*(f"-p{plugin}" for plugin in plugins), *arguments]
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


def commands_in(body: str, where: str) -> list[tuple[str, list[str]]]:
    """Each command of a console block with the lines that are shown of its output."""
    commands: list[tuple[str, list[str]]] = []
    for line in body.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            assert commands, f"{where}: output before the first command"
            commands[-1][1].append(line)
    return commands


def run_command(command: list[str], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def run_block(step: Step, folder: Path, env: dict[str, str], where: str) -> None:
    if step.language == "python":
        done = run_command([sys.executable, "-c", step.body], folder, env)
        assert done.returncode == step.exit_status, f"{where}: ended with {done.returncode}\n{done.stdout}"
        return
    for command, shown in commands_in(step.body, where):
        done = run_command(command_line(command), folder, env)
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
        elif step.body == "repository cases":
            folder = tmp_path / "repository"
            copy_repository_cases(folder)
        elif step.body == "back to the project":
            folder = tmp_path / "project"
        else:
            folder = tmp_path / "project"
            shutil.rmtree(folder)
            folder.mkdir()


def copy_repository_cases(folder: Path) -> None:
    """A project whose cases are this repository's, answered from its recorded answers."""
    shutil.copytree(ROOT / "cases", folder / "cases", dirs_exist_ok=True)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    ini = f"[pytest]\nmemeval_recorded = {settings['memeval_recorded']}\n"
    (folder / "pytest.ini").write_text(ini, encoding="utf-8")


def test_the_figures_of_the_readme_are_those_of_its_first_run(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^```text\n(collected .*?)^```$", text, re.MULTILINE | re.DOTALL)
    first = re.search(r"^```console\n\$ pip install -e \.\n\$ (pytest .*)\n```$", text, re.MULTILINE)
    assert shown
    assert first
    # Progress, notes on what is installed and the report's folder differ from machine to machine.
    lines = [line for line in shown[1].splitlines() if re.match(r"  |\d+ cases|\d+ recorded|all P0|model ", line)]
    assert len(lines) > 20
    project = tmp_path / "project"
    copy_repository_cases(project)
    done = run_command(command_line(first[1]), project, environment(tmp_path))
    assert missing_line(lines, done.stdout) is None, done.stdout


def test_ci_begins_with_the_first_commands_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"pip install --quiet -e \.\npytest cases/ --memeval-prompt-version v002 ", script)
    assert 'pip install --quiet -e ".[test' in script
    assert "pytest -n auto" in script


def test_every_how_to_page_is_run() -> None:
    assert {page.name for page in (DOCS / "how-to").glob("*.md")} <= {page.name for page in RUNNABLE}


def test_missing_line_finds_what_is_not_printed() -> None:
    output = "one 1\ntwo 2\nthree 3\n"
    assert missing_line(["one …", "three 3"], output) is None
    assert missing_line(["…", "two 2"], output) is None
    assert missing_line(["three 3", "one 1"], output) == "one 1"
    assert missing_line(["two 3"], output) == "two 3"


# -- what is not run still has to be sound -------------------------------------------------------------------------


@dataclass(frozen=True)
class Fence:
    """A fenced block; ``marked`` is the comment on the line before it."""

    where: str
    language: str
    body: str
    marked: str | None


def fences() -> Iterator[Fence]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            before = re.search(r"<!-- ([^\n]*) -->\n\n?\Z", text[: match.start()])
            where = f"{name_of(page)}:{text.count(chr(10), 0, match.start()) + 1}"
            yield Fence(where, match["language"], match["body"], before and before[1])


def test_no_fence_is_overlooked() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) == 2 * len(_FENCE.findall(text)), name_of(page)


def test_every_block_is_run_or_says_why_not() -> None:
    silent = [
        fence.where
        for fence in fences()
        if fence.language != "mermaid"
        and not re.match(r"(?:file|exit|generated): \S|shown: (?:\S+ ){2,}\S+", fence.marked or "")
    ]
    assert silent == [], "neither run (file, exit) nor marked with a reason (shown)"


def test_most_blocks_are_run() -> None:
    marks = [(fence.marked or "").partition(":")[0] for fence in fences() if fence.language != "mermaid"]
    assert marks.count("shown") < 0.25 * len(marks)


def test_commands_that_are_only_shown_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """``memeval`` commands are read by its own parser; of ``pytest`` the plugin's options are."""
    from pytest_memeval.cli.main import _parser

    seen = 0
    for fence in fences():
        if fence.language != "console" or not (fence.marked or "").startswith("shown"):
            continue
        for command, _ in commands_in(fence.body, fence.where):
            words = shlex.split(command.partition(" > ")[0])
            while re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            seen += 1
            if words[0] == "memeval":
                try:
                    _parser().parse_args(words[1:])
                except SystemExit:
                    raise AssertionError(f"{fence.where}: $ {command}\n{capsys.readouterr().err}") from None
            else:
                assert words[0] in ("pytest", "python", "pip", "ruff", "mypy", ".", "export"), fence.where
    assert seen > 20


def test_class_diagrams_are_true() -> None:
    """Every class of a class diagram is one of the package, and has the attributes and methods that it shows."""
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "pytest_memeval").rglob("*.py")}
    checked = 0
    for fence in fences():
        if not fence.body.startswith("classDiagram"):
            continue
        shown = dict(re.findall(r"class (\w+) \{\n(.*?)\n\s*\}", fence.body, re.DOTALL))
        named = set(re.findall(r"class (\w+)", fence.body))
        named |= {name for pair in re.findall(r"(\w+) \S*[-.]{2}\S* (\w+)", fence.body) for name in pair}
        for name in named:
            # An engine is any object with some of the stages' methods; its Protocols are one a stage.
            pattern = r"class \w*(?:Engine|Supports)\w*\b.*?" if name == "Engine" else rf"class {name}\b.*?"
            bodies = [
                match[0]
                for text in sources.values()
                for match in re.finditer(rf"^{pattern}(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
            ]
            assert bodies, f"{fence.where}: there is no class {name}"
            for word in re.findall(r"\b[a-z][a-z_0-9]+(?=\(|,|$|\s)", re.sub(r"\(.*?\)", "()", shown.get(name, ""))):
                assert any(re.search(rf"\b{word}\b", body) for body in bodies), f"{fence.where}: {name} has no {word}"
                checked += 1
    assert checked > 15


def test_every_block_parses() -> None:
    for fence in fences():
        where, language, body = fence.where, fence.language, fence.body
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


# -- the site ------------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whatever tags it uses."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def pages_in(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for entry in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        yield from pages_in(entry)


def test_the_navigation_has_every_page_once() -> None:
    site = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    pages = list(pages_in(site["nav"]))
    assert len(pages) == len(set(pages))
    beside = {"changelog.md", "contributing.md"}
    assert set(pages) - beside == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert beside <= set(pages)


@pytest.mark.parametrize("drawn", [False, True], ids=["plain", "with-a-script"])
def test_the_site_is_built_without_warnings_and_loads_nothing(tmp_path: Path, drawn: bool) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("pymdownx")
    env = {key: value for key, value in os.environ.items() if key != "MERMAID_JS"}
    if drawn:
        script = tmp_path / "mermaid.min.js"
        script.write_text("// stands for the real one\n", encoding="utf-8")
        env["MERMAID_JS"] = str(script)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    done = run_command(command, ROOT, env)
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    texts = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")}
    assert len(texts) > len(list(DOCS.rglob("*.md")))
    for page, text in texts.items():
        loaded = re.findall(r"<(?:script|img|iframe|link)[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*\"", text)
        assert loaded == [], page
    architecture = texts[tmp_path / "site" / "architecture.html"]
    kind = '<div class="mermaid">classDiagram' if drawn else '<pre class="diagram"><code>classDiagram'
    assert kind in architecture
    assert ("js/mermaid.min.js" in architecture) == drawn


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
