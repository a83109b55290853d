"""A small project with case files and an engine of its own, run by real pytest processes."""

from __future__ import annotations

import importlib
import json
import pkgutil
import textwrap
from pathlib import Path
from typing import Any

import numpy  # noqa: F401  # cannot be loaded twice in a process
import pytest

import pytest_memeval
from pytest_memeval.report.build import VARYING_CASE_KEYS, VARYING_KEYS

# A run in this process forgets the modules that it loaded: those of the plugin must not be loaded half anew.
for module in pkgutil.walk_packages(pytest_memeval.__path__, "pytest_memeval."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

#: An engine that takes each user message "dim+dim: text" as one memory, and fails, sleeps or dies on request.
ENGINE = """
import os
import time


class LineEngine:
    name = "lines"
    version = "1"

    def extract(self, conversation, ctx):
        memories = []
        for message in conversation:
            text = message.content.strip()
            if text == "raise":
                raise RuntimeError("engine broke here")
            if text == "die":
                os._exit(3)
            if text == "sleep":
                (ctx.folder / "used").touch()
                open(f"asleep-{os.getpid()}", "w", encoding="utf-8").close()
                time.sleep(30)
            if text.startswith("nap"):
                time.sleep(0.15)
            if text == "nan":
                memories.append({"content": "x", "dimensions": ["identity"], "priority": float("nan")})
                continue
            if text == "bad":
                return "no list"
            dimensions, _, content = text.partition(": ")
            memories.append(
                {
                    "id": f"m{len(memories)}",
                    "content": content,
                    "dimensions": dimensions.split("+"),
                    "memory_type": "persona",
                    "priority": 80,
                    "time_velocity": "static",
                }
            )
        return memories
"""

CONFTEST = """
import pytest
from line_engine import LineEngine


@pytest.fixture(scope="session")
def memeval_engine():
    return LineEngine()
"""


def case(case_id: str, *messages: str, truth: list[tuple[str, str]] | None = None, **keys: Any) -> dict[str, Any]:
    """A case whose messages are "dims: text"; its labels are the messages themselves unless ``truth`` says other."""
    pairs = truth if truth is not None else [tuple(message.split(": ", 1)) for message in messages]
    return {
        "case_id": case_id,
        "conversation": [{"id": f"msg_{n}", "role": "user", "content": text} for n, text in enumerate(messages, 1)],
        "expected_l1": {
            "memories": [
                {
                    "content": content,
                    "dimensions": dimensions.split("+"),
                    "memory_type": "persona",
                    "priority": 80,
                    "time_velocity": "static",
                }
                for dimensions, content in pairs
            ]
        },
        **keys,
    }


def good_cases(count: int) -> list[dict[str, Any]]:
    """Cases that the line engine gets right, each with a text of its own."""
    return [case(f"eval-{n:03}", f"identity: number {n} is called {chr(97 + n % 26) * 5}") for n in range(1, count + 1)]


class Project:
    """Files of a project under test, and runs of pytest in it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        pytester.makepyfile(line_engine=ENGINE)
        pytester.makeconftest(CONFTEST)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def cases(self, cases: list[dict[str, Any]], name: str = "cases/v001.yaml", **meta: Any) -> Path:
        """A case file. JSON is YAML, and has one case a line, so that line numbers are known: case n is on line n+2."""
        rows = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in cases)
        return self.write(name, f"meta: {json.dumps({'version': 'v1', 'gates': [], **meta})}\ncases: [\n{rows}\n]\n")

    def run(self, *args: str, fresh: bool = False) -> pytest.RunResult:
        """Run pytest here. ``fresh`` takes a process of its own; ``-n`` always has processes of its own."""
        # What is not looked at is not loaded: hypothesis alone takes longer than a whole run of a small project.
        unused = (f"-pno:{name}" for name in ("randomly", "hypothesispytest", "anyio"))
        arguments = (*unused, "--memeval-output", "out", *args)
        if not fresh:
            return self.pytester.runpytest_inprocess(*arguments)
        from ready_workers import READY  # not above: projects import from here what they are made of

        if READY:
            return READY[0].run(self.pytester, *arguments)
        return self.pytester.runpytest_subprocess(*arguments)

    def journal(self, folder: str = "out") -> list[str]:
        """The node ids in a run's journal, in its order."""
        text = (self.path / folder / "journal.jsonl").read_text(encoding="utf-8")
        return [json.loads(line)["node_id"] for line in text.splitlines()]

    def outcomes(self) -> dict[str, str]:
        """Case id → outcome, from the last report."""
        return {entry["case_id"]: entry["outcome"] for entry in self.report()["per_case"]}

    def report(self, folder: str = "out") -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.path / folder / "report.json").read_text(encoding="utf-8"))
        return data


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "user-cache"))
    return Project(pytester)


def stable(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what may differ between equal runs."""
    kept = {key: value for key, value in report.items() if key not in VARYING_KEYS}
    kept["summary"] = {key: value for key, value in report["summary"].items() if key != "duration_seconds"}
    kept["per_case"] = [
        {key: value for key, value in entry.items() if key not in VARYING_CASE_KEYS} for entry in report["per_case"]
    ]
    return kept


#: Every behaviour has to be the same in one process and in two.
MODES = pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
