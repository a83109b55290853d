"""The cache under many processes, and under the worst end of one."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cache_file import CacheWarning

WRITER = """
import sys, time
from pathlib import Path
from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.protocol import ChatReply

path, what, name, count = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
cache = AnswerCache(path)
requests = BatchRequests(path.with_name("requests.jsonl"))
while not path.with_name("go").exists():
    time.sleep(0.001)
for number in range(count):
    request = ChatRequest("h", "m", ({"role": "user", "content": f"{name} {number}"},))
    if what == "record":
        assert cache.put(CacheEntry.of(request, ChatReply(f"answer {number}")))
    else:
        requests.add(request, cache)
    print(number, flush=True)
"""


def start(path: Path, what: str, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), what, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")


def finish(*writers: subprocess.Popen[str]) -> None:
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors


def check(path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    connection.close()


def test_f12_two_processes_recording_2000_entries_each_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    writers = [start(path, "record", name, 2000) for name in ("first", "second")]
    (tmp_path / "go").touch()  # both open, and lay out, the same new file at once
    finish(*writers)
    with AnswerCache(path) as cache:
        texts = {(found.request["messages"][0]["content"], found.text) for found in cache.entries()}
    assert texts == {(f"{name} {n}", f"answer {n}") for name in ("first", "second") for n in range(2000)}
    check(path)


def test_f12_processes_that_meet_a_damaged_file_set_it_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(b"not a database" * 1000)
    writers = [start(path, "record", name, 50) for name in "abcd"]
    (tmp_path / "go").touch()
    finish(*writers)
    assert [file.name for file in tmp_path.glob("*.damaged-*")] == ["c.sqlite.damaged-1"]
    with AnswerCache(path) as cache:
        assert len(cache) == 200


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_process_killed_while_recording_leaves_a_usable_cache(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    (tmp_path / "go").touch()
    confirmed: dict[str, int] = {}
    for round_number, least in enumerate((1, 120, 300)):
        name = f"round {round_number}"
        writer = start(path, "record", name, 100_000)
        assert writer.stdout is not None
        assert writer.stderr is not None
        for line in writer.stdout:
            confirmed[name] = int(line)
            if confirmed[name] >= least:
                break
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split("\n")
        confirmed[name] = max([confirmed[name], *(int(line) for line in rest[:-1])])
        assert writer.wait(30) == -signal.SIGKILL
        writer.stdout.close()
        writer.stderr.close()
    with AnswerCache(path) as cache:
        held = {found.request["messages"][0]["content"] for found in cache.entries()}
    # Every answer that was confirmed before the kill is there.
    assert {f"{name} {n}" for name, last in confirmed.items() for n in range(last + 1)} <= held
    check(path)


def test_processes_write_each_open_request_once(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    writers = [start(path, "batch", "same", 100) for _ in range(3)]
    (tmp_path / "go").touch()
    finish(*writers)
    lines = (tmp_path / "requests.jsonl").read_bytes().splitlines()
    assert len(lines) == len(set(lines)) == 100
    with AnswerCache(path) as cache:
        assert len(cache.pending_keys()) == 100
        assert BatchRequests(tmp_path / "requests.jsonl").drop_answered(cache) == 100


def test_reading_goes_on_while_another_process_writes(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "c.sqlite"
    (tmp_path / "go").touch()
    writer = start(path, "record", "w", 300)
    with AnswerCache(path) as cache:
        deadline = time.monotonic() + 60
        while (count := len(cache)) < 300 and time.monotonic() < deadline:
            time.sleep(0.005)
        finish(writer)
        assert count == 300
    assert not [warning for warning in recwarn.list if issubclass(warning.category, CacheWarning)]
