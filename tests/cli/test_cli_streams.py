"""Commands of which nobody reads all that they print (``| head``): files and status are as they would have been."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_cli_bisect import project as bisect_project
from test_cli_tune import case_file

PARTS = """
class EveryMessage:
    name = "every-message"

    def extract(self, conversation, ctx):
        return [{"content": message.content, "dimensions": ["identity"]} for message in conversation]


def judge(question, truth, prediction, mode):
    return truth.lower() in prediction.lower()
"""

#: What is run → what it writes, of which at least one file has to be there.
COMMANDS: dict[str, str] = {
    "compare one two --output c.json --output c.html --output c.md": "c.json",
    "compare one two --format json --output c.txt --fail-on l1.memory_recall<0.5": "",
    "rescore one --output scored": "scored/report.json",
    "merge part1 part2 --output whole --no-history": "whole/report.json",
    "history --metric l1.memory_recall --cache-dir kept --html h.html": "h.html",
    "show one --html s.html": "s.html",
    "show one": "",
    "tune set.yaml --embedder none --output tuned": "tuned/tuning.json",
    "tune set.yaml --export-corpus corpus.jsonl": "corpus.jsonl",
    "init fresh": "fresh/cases/first.yaml",
    "init --prompts own": "own/manifest.yaml",
    "judge-check q.jsonl --judge parts:judge --controls 5 --json j.json": "j.json",
    "bisect --metric l1.memory_recall --good v001 --bad v002 --runs b cases -- --memeval-llm embedded": "b",
    "doctor --engine parts:EveryMessage": "",
    "validate set.yaml --stats": "",
    "schema": "",
    "power one --metric l1.memory_recall": "",
    "new-case talk.txt": "",
}


def memeval(folder: Path, *words: str, stdout: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "pytest_memeval", *words],
        cwd=folder,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    bisect_project(folder)
    case_file(folder)
    (folder / "fresh").mkdir()
    (folder / "parts.py").write_text(PARTS, encoding="utf-8")
    (folder / "talk.txt").write_text("user: I am a nurse.\nassistant: I see.\n", encoding="utf-8")
    rows = [{"question_id": f"q{n}", "question": f"What of {n}?", "ground_truth": f"word{n * 7}"} for n in range(8)]
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": f"{folder}:{Path.cwd()}"}
    options = ("-q", "-p", "no:cacheprovider", "--memeval-engine", "parts:EveryMessage", "--memeval-cache-dir", "kept")
    for output, *more in (("one",), ("two",), ("part1", "--memeval-shard", "1/2"), ("part2", "--memeval-shard", "2/2")):
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--memeval-output", output, *more, "set.yaml"],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
    return folder


def written(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", "cache", ".pytest_cache"}.intersection(path.parts)
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_goes_changes_neither_files_nor_status(runs: Path, tmp_path: Path, command: str) -> None:
    read, unread = (tmp_path / name for name in ("read", "unread"))
    for folder in (read, unread):
        shutil.copytree(runs, folder)
    wanted = memeval(read, *command.split(), stdout=subprocess.PIPE)
    assert wanted.returncode in (0, 1), wanted.stderr
    reader, writer = os.pipe()
    os.close(reader)
    try:
        found = memeval(unread, *command.split(), stdout=writer)
    finally:
        os.close(writer)
    assert wanted.stdout
    assert found.returncode == wanted.returncode
    for word in ("Traceback", "BrokenPipe", "Broken pipe"):
        assert word not in found.stderr
    assert written(unread) == written(read)
    if COMMANDS[command]:
        assert (unread / COMMANDS[command]).exists()
