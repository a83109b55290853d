"""200 cases of three model calls each, log-normal latency around 300 ms: how close waiting comes to what has to be.

The measure is wall time over (total latency / calls in flight). ``calls`` is from the first request to the last answer,
as the server saw it, ``all`` the whole process with its start and reports. pydantic-evals and inspect_ai are measured
beside it where ``MEMEVAL_BENCH_PYTHON`` (else this interpreter) has them. pytest runs as in an installed environment:
byte code is kept, and no plugin is loaded but this one and xdist.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "servers"))
sys.path.insert(0, str(Path(__file__).parent.parent / "plugin"))
sys.path.insert(0, str(Path(__file__).parent / "latency"))

from chat_project import full_case
from server import STAGES, latency

HERE = Path(__file__).parent
CASES = 200
#: Where one call is made after the other, so many cases are enough.
FEW = 20

PLAIN = """
import json
import pathlib

import pytest
from openai import OpenAI

CALLS = json.loads(pathlib.Path("calls.json").read_text(encoding="utf-8"))[:{few}]
CLIENT = OpenAI(base_url={url!r}, api_key="none", max_retries=0)


@pytest.mark.parametrize("calls", CALLS)
def test_case(calls):
    for messages in calls:
        assert CLIENT.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message.content
"""


def total_latency(cases: int) -> float:
    return sum(latency(number, stage) for number in range(1, cases + 1) for stage in STAGES)


class Bench:
    """The server, a project folder, and what was measured."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.rows: list[str] = []

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/stats") as answer:
            told: dict[str, Any] = json.load(answer)
        return told

    def measure(self, name: str, command: list[str], *, cases: int, in_flight: int) -> None:
        self.stats()
        environment = {**os.environ, "OPENAI_API_KEY": "none", "XDG_CACHE_HOME": str(self.folder / "user-cache")}
        if "pytest" in command:
            environment |= {
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONDONTWRITEBYTECODE": "",
                "PYTHONPYCACHEPREFIX": str(self.folder / "pyc"),
            }
        before = os.times()
        started = time.perf_counter()
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - started
        after = os.times()
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        told = self.stats()
        assert told["calls"] == 3 * cases, told
        ideal = total_latency(cases) / in_flight
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        self.rows.append(
            f"{name:34} calls {told['seconds'] / ideal:6.2f}   all {wall / ideal:6.2f}"
            f"   ({told['seconds']:.2f} s and {wall:.2f} s, ideal {ideal:.2f} s; cpu {cpu:.1f} s;"
            f" most in flight {told['in_flight']})"
        )
        print(self.rows[-1], flush=True)

    def memeval(self, name: str, cases: int, in_flight: int, *options: str) -> None:
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "pytest_memeval.plugin", "-p", "no:cacheprovider",
            f"{cases}.yaml",
            "--memeval-llm", "openai", "--memeval-model", "gpt-4o-mini", "--memeval-base-url", self.url,
            "--memeval-cache", "off", "--memeval-output", "out", *options,
        ]  # fmt: skip
        self.measure(name, command, cases=cases, in_flight=in_flight)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    server = subprocess.Popen(
        [sys.executable, str(HERE / "latency" / "server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        for cases in (FEW, CASES):
            rows = [full_case(number) for number in range(1, cases + 1)]
            text = json.dumps({"meta": {"gates": []}, "cases": rows}, ensure_ascii=False)
            (tmp_path / f"{cases}.yaml").write_text(text, encoding="utf-8")
        yield Bench(tmp_path, url)
    finally:
        server.stdin.close()
        server.wait(10)


def keep_calls(folder: Path) -> None:
    """The messages of the last run's calls, case by case, for the other tools."""
    by_case: dict[str, list[Any]] = {}
    with gzip.open(folder / "out" / "calls.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            call = json.loads(line)
            by_case.setdefault(call["node_id"], []).append(call["request"])
    (folder / "calls.json").write_text(json.dumps(list(by_case.values())), encoding="utf-8")


@pytest.mark.slow
def test_latency(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the ratios; a run that loses a call fails."""
    with capsys.disabled():
        print(f"\n{CASES} cases of 3 calls, total latency {total_latency(CASES):.1f} s; load {os.getloadavg()[0]:.1f}")
        bench.memeval("memeval, first start: compiles", FEW, 8, "--memeval-concurrency", "8")
        for number in (32, 32, 32, 8, 64):
            bench.memeval(f"memeval, {number} in flight", CASES, number, "--memeval-concurrency", str(number))
        keep_calls(bench.folder)
        bench.memeval("memeval, 1 at a time", FEW, 1, "--memeval-concurrency", "1")
        bench.memeval("memeval, -n 2 of 16 each", CASES, 32, "-p", "xdist", "-n", "2", "--memeval-concurrency", "16")
        plain = bench.folder / "test_plain.py"
        plain.write_text(PLAIN.format(few=FEW, url=bench.url), encoding="utf-8")
        own = [sys.executable, "-m", "pytest", "-q", str(plain)]
        bench.measure("plain pytest", own, cases=FEW, in_flight=1)
        bench.measure("plain pytest, -n 2", [*own, "-p", "xdist", "-n", "2"], cases=FEW, in_flight=2)
        python = os.environ.get("MEMEVAL_BENCH_PYTHON", sys.executable)
        for module in ("pydantic_evals", "inspect_ai"):
            there = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
            if not there:
                print(f"{module}: not installed")
                continue
            script = str(HERE / "latency" / f"{module}_run.py")
            command = [python, script, "calls.json", bench.url, "32"]
            for _ in range(3):
                bench.measure(f"{module}, 32 in flight", command, cases=CASES, in_flight=32)
        print(f"load {os.getloadavg()[0]:.1f}")
