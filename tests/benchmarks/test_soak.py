"""Many cases, random faults, dying workers, an interrupt and two resumed runs: every case exactly once in the end.

``MEMEVAL_SOAK_CASES`` (default 2,000) says how many.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

CASES = int(os.environ.get("MEMEVAL_SOAK_CASES", "2000"))
#: Every so-manieth case fails always, fails once, kills its worker once.
ALWAYS, ONCE, DEADLY = 97, 31, max(211, CASES // 9)

ENGINE = f"""
import asyncio
import os
import pathlib
import random

import pytest


def first_time(kind, number):
    try:
        pathlib.Path(f"{{kind}}-{{number}}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Engine:
    name = "faulty"
    version = "1"

    async def extract(self, conversation, ctx):
        number = int(ctx.case_id[5:])
        await asyncio.sleep(random.random() / 100)
        if number % {ALWAYS} == 0:
            raise RuntimeError("never works")
        if number % {ONCE} == 0 and first_time("failed", number):
            raise RuntimeError("does not work yet")
        if number % {DEADLY} == 0 and first_time("died", number):
            os._exit(9)
        return [{{"content": conversation[0].content, "dimensions": ["identity"], "memory_type": "persona",
                 "priority": 80, "time_velocity": "static"}}]


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


def write_project(folder: Path) -> None:
    (folder / "conftest.py").write_text(ENGINE, encoding="utf-8")
    rows = []
    for number in range(1, CASES + 1):
        text = f"person number {number} is called {number * 7919 % 100_003}"
        memory = {"content": text, "dimensions": ["identity"], "memory_type": "persona", "priority": 80}
        rows.append(
            {
                "case_id": f"eval-{number:05}",
                "conversation": [{"id": "msg_1", "role": "user", "content": text}],
                "expected_l1": {"memories": [memory]},
            }
        )
    text = json.dumps({"meta": {"gates": ["P0 l1.memory_recall >= 0.9"]}, "cases": rows})
    (folder / "many.yaml").write_text(text, encoding="utf-8")


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no", "many.yaml",
        "-p", "no:hypothesispytest", "-n", "2", "--max-worker-restart", "100", *options,
    ]  # fmt: skip
    # Byte code is kept, as in an installed environment.
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "pyc"),
        "XDG_CACHE_HOME": str(folder / "user-cache"),
    }
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )


def newest(folder: Path, name: str) -> Path | None:
    return max((folder / ".memeval" / "runs").glob(f"*/{name}"), default=None)


def lines(folder: Path) -> int:
    journal = newest(folder, "journal.jsonl")
    return journal.read_bytes().count(b"\n") if journal is not None else 0


def report(folder: Path) -> dict[str, Any]:
    path = newest(folder, "report.json")
    assert path is not None, (folder / "output.txt").read_text(encoding="utf-8")[-3000:]
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_every_case_exactly_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(tmp_path)
    began = time.monotonic()
    process = start(tmp_path)
    while lines(tmp_path) < CASES // 2:
        assert process.poll() is None, (tmp_path / "output.txt").read_text(encoding="utf-8")[-3000:]
        assert time.monotonic() - began < 1800
        time.sleep(0.2)
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.wait(300)
    ended = time.monotonic() - sent
    first = report(tmp_path)
    seconds = [time.monotonic() - began]
    resumed = []
    for _ in range(2):
        at = time.monotonic()
        assert start(tmp_path, "--memeval-resume", "latest").wait(1800) == 1  # some cases never work
        seconds.append(time.monotonic() - at)
        resumed.append(report(tmp_path)["environment"]["resumed"])
    last = report(tmp_path)
    nodes = [f"many.yaml::eval-{number:05}" for number in range(1, CASES + 1)]
    assert [entry["node_id"] for entry in last["per_case"]] == nodes
    errored = [entry["node_id"] for entry in last["per_case"] if entry["outcome"] == "errored"]
    assert errored == [nodes[number - 1] for number in range(ALWAYS, CASES + 1, ALWAYS)]
    assert last["counts"]["not_run"] == 0
    journal = newest(tmp_path, "journal.jsonl")
    assert journal is not None
    told = Counter(json.loads(line)["node_id"] for line in journal.read_text(encoding="utf-8").splitlines())
    assert told == Counter(nodes)
    assert first["partial"] == "aborted"
    deaths = len(list(tmp_path.glob("died-*")))
    assert deaths == CASES // DEADLY - sum(number % ALWAYS == 0 for number in range(DEADLY, CASES + 1, DEADLY))
    # A case whose worker died in the resumed run said nothing of what became of it.
    assert CASES - deaths <= sum(resumed[0]["run_again"].values()) + resumed[0]["cases"] <= CASES
    assert resumed[0]["cases"] >= CASES // 2 - CASES // 20
    with capsys.disabled():
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(
            f"\n{CASES} cases, {len(errored)} that never work, {deaths} dead workers; interrupted at"
            f" {len(first['per_case'])} cases, ended in {ended:.1f} s; taken {[one['cases'] for one in resumed]};"
            f" {', '.join(f'{one:.0f} s' for one in seconds)}; largest process {peak:.0f} MB;"
            f" load {os.getloadavg()[0]:.1f}"
        )
