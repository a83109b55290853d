"""``memeval init``: a first case file, an engine to replace, a CI job and the configuration, for an existing project.

Nothing that exists is overwritten. Files are added; a section is appended to ``pyproject.toml`` and a line to
``.gitignore`` only where nothing there speaks of the matter. What cannot be added so is told, to be done by hand.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_memeval.cases.loader import looks_like_case_file
from pytest_memeval.documents.problems import DocumentError, Problem

Verb = Literal["wrote", "added", "kept", "todo"]

CASES = """\
# One case: a conversation and what should be remembered of it. More: memeval new-case, memeval validate cases/
meta:
  version: first-1
  gates:
    - P0 l1.memory_recall >= 0.8
    - P1 l1.dimension_micro_f1 >= 0.6
cases:
  - case_id: coffee
    tags: [starter]
    conversation: |
      [msg#1] 2026-01-05T09:00:00Z user:
        I gave up coffee last month.
      [msg#2] 2026-01-05T09:00:20Z assistant:
        Good for you!
      [msg#3] 2026-01-05T09:01:00Z user:
        From now on I prefer green tea.
    expected_l1:
      memories:
        - content: gave up coffee last month
          dimensions: [preferences]
        - content: prefers green tea from now on
          dimensions: [preferences]
"""

CONFTEST = '''\
import pytest


class MyEngine:
    """Replace the body of extract with a call of your own memory system. More stages: load, resolve, inject, …"""

    name = "my-memory"
    version = "0"

    def extract(self, conversation, ctx):
        return [{"content": m.content, "dimensions": ["preferences"]} for m in conversation if m.role == "user"]


@pytest.fixture(scope="session")
def memeval_engine():
    return MyEngine()
'''

_SETTINGS = (("memeval_cache_dir", ".memeval/cache", "answers of models, so that a second run asks nothing"),)
#: Files in which pytest looks for its configuration before or after pyproject.toml → the section that counts.
_OTHER_CONFIGS = (
    ("pytest.toml", ""),
    (".pytest.toml", ""),
    ("pytest.ini", ""),
    (".pytest.ini", ""),
    ("tox.ini", r"^\[pytest\]"),
    ("setup.cfg", r"^\[tool:pytest\]"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """What was done, or is left to do, with one file."""

    verb: Verb
    file: str
    text: str = ""


def start(folder: Path) -> Iterator[Step]:
    """Write the starter. Raises DocumentError for a pyproject.toml that cannot be read, before anything is written."""
    project = _Project(folder)
    yield project.write_cases()
    yield project.write_conftest()
    yield project.write_settings()
    yield project.write_ci()
    yield project.write_gitignore()


class _Project:
    """What can be found out about a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pyproject = self._read_pyproject()

    def _read_pyproject(self) -> dict[str, object] | None:
        path = self.folder / "pyproject.toml"
        if not path.is_file():
            return None
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise DocumentError([Problem(path, 0, 0, f"cannot be read: {error}")]) from None

    def _text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def _write(self, name: str, text: str) -> Step:
        path = self.folder / name
        if path.exists():
            return Step("kept", name, "it is there already")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return Step("wrote", name)

    # -- the parts -------------------------------------------------------------------------------------------------

    def write_cases(self) -> Step:
        folder = self.folder / "cases"
        for file in sorted(folder.rglob("*.y*ml")) if folder.is_dir() else ():
            if looks_like_case_file(file):
                return Step("kept", file.relative_to(self.folder).as_posix(), "there are cases already")
        return self._write("cases/first.yaml", CASES)

    def write_conftest(self) -> Step:
        for name in ("conftest.py", "cases/conftest.py"):
            if "memeval_engine" in self._text(name):
                return Step("kept", name, "it names an engine already")
        if self._configured("memeval_engine"):
            return Step("kept", "conftest.py", "the configuration names an engine already")
        for name in ("conftest.py", "cases/conftest.py"):
            if not (self.folder / name).exists():
                return self._write(name, CONFTEST)
        return Step("todo", "conftest.py", f"add the fixture memeval_engine:\n\n{CONFTEST}")

    def write_settings(self) -> Step:
        where = self._where_configured()
        if where is not None:
            if self._configured("memeval_"):
                return Step("kept", where, "it speaks of memeval already")
            write = _toml_line if where.endswith(".toml") else _ini_line
            shown = [write(name, value) for name, value, _ in _SETTINGS]
            return Step("todo", where, "pytest is configured here; add, if you like:\n    " + "\n    ".join(shown))
        if self.pyproject is None:
            return self._write("pytest.ini", "\n".join(["[pytest]", *_commented(_ini_line), ""]))
        path = self.folder / "pyproject.toml"
        text = path.read_text(encoding="utf-8")
        section = ["[tool.pytest.ini_options]", *_commented(_toml_line)]
        gap = "\n" if text.endswith("\n") or not text else "\n\n"
        path.write_text(text + gap + "\n".join(section) + "\n", encoding="utf-8")
        return Step("added", "pyproject.toml", "section [tool.pytest.ini_options]")

    def _where_configured(self) -> str | None:
        """The file that configures pytest."""
        for name, _ in _OTHER_CONFIGS[:4]:
            if (self.folder / name).is_file():
                return name
        tool = (self.pyproject or {}).get("tool")
        if isinstance(tool, dict) and "pytest" in tool:
            return "pyproject.toml"
        for name, section in _OTHER_CONFIGS[4:]:
            if re.search(section, self._text(name), re.MULTILINE):
                return name
        return None

    def _configured(self, word: str) -> bool:
        where = self._where_configured()
        return where is not None and re.search(rf"^\s*{word}", self._text(where), re.MULTILINE) is not None

    def write_ci(self) -> Step:
        remote = self._text(".git/config")
        gitlab = (self.folder / ".gitlab-ci.yml").exists() or ("gitlab" in remote and "github" not in remote)
        if not gitlab or (self.folder / ".github").is_dir():
            return self._write(".github/workflows/memeval.yml", self._github())
        if not (self.folder / ".gitlab-ci.yml").exists():
            return self._write(".gitlab-ci.yml", self._gitlab())
        step = self._write(".gitlab/memeval.yml", self._gitlab())
        if step.verb == "kept":
            return step
        return Step("wrote", step.file, "add to .gitlab-ci.yml: include: .gitlab/memeval.yml")

    def _install(self) -> list[str]:
        found = []
        if (self.pyproject or {}).get("project") or (self.folder / "setup.py").is_file():
            found.append("python -m pip install -e .")
        elif (self.folder / "requirements.txt").is_file():
            found.append("python -m pip install -r requirements.txt")
        return [*found, "python -m pip install pytest-memeval"]

    def _python(self) -> str:
        """The oldest Python that both the project and the plugin run on."""
        project = (self.pyproject or {}).get("project")
        wanted = str(project.get("requires-python", "")) if isinstance(project, dict) else ""
        found = re.search(r"(?:>=|==|~=)\s*3\.(\d+)", wanted)
        return f"3.{max(11, int(found[1]))}" if found else "3.12"

    def _github(self) -> str:
        install = "\n".join(f"          {line}" for line in self._install())
        return f"""\
name: memory evaluation
on: [push, pull_request]
jobs:
  memeval:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "{self._python()}"
      - uses: actions/cache@v4
        with:
          path: .memeval/cache
          key: memeval-${{{{ github.run_id }}}}
          restore-keys: memeval-
      - run: |
{install}
      - run: python -m pytest cases/ --memeval-output memeval-report
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: memeval-report
          path: memeval-report
"""

    def _gitlab(self) -> str:
        install = "\n".join(f"    - {line}" for line in self._install())
        return f"""\
memeval:
  image: python:{self._python()}
  cache:
    paths: [.memeval/cache]
  script:
{install}
    - python -m pytest cases/ --memeval-output memeval-report --junitxml junit.xml
  artifacts:
    when: always
    paths: [memeval-report]
    reports:
      junit: junit.xml
"""

    def write_gitignore(self) -> Step:
        path = self.folder / ".gitignore"
        text = self._text(".gitignore")
        if re.search(r"^/?\.memeval/?\s*$", text, re.MULTILINE):
            return Step("kept", ".gitignore", "it leaves .memeval out already")
        if not path.exists():
            return self._write(".gitignore", ".memeval/\n")
        with path.open("a", encoding="utf-8") as file:
            file.write(("" if text.endswith("\n") or not text else "\n") + ".memeval/\n")
        return Step("added", ".gitignore", "line .memeval/")


def _ini_line(name: str, value: str) -> str:
    return f"{name} = {value}"


def _toml_line(name: str, value: str) -> str:
    return f'{name} = "{value}"'


def _commented(write: Callable[[str, str], str]) -> Iterator[str]:
    for name, value, why in _SETTINGS:
        yield f"# {why}"
        yield write(name, value)
