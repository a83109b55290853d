from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from report_samples import case, errored_case, full_case

from pytest_memeval.report import prepared as module
from pytest_memeval.report.entries import case_entry
from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.prepared import PreparedEntries
from pytest_memeval.report.text_policy import apply_text_policy

RESULTS = [
    full_case(1),
    errored_case(2),
    case("a\u2028b\u0085c \ud800 日本", {}, outputs={"l1": [{"content": "x\r\ny", "priority": float("nan")}]}),
]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The case ids of the entries whose texts are made from here on."""
    made: list[str] = []

    def noting(entry):
        made.append(entry["case_id"])
        return dumps(entry)

    monkeypatch.setattr(module, "dumps", noting)
    return made


@pytest.mark.parametrize("policy", ["full", "hash", "none"])
def test_entries_and_lines_are_those_that_would_be_made_at_the_end(tmp_path: Path, encoded: list[str], policy: str):
    prepared = PreparedEntries(tmp_path, report_text=policy)
    for result in RESULTS:
        prepared.add(result)
    assert encoded == [result.case_id for result in RESULTS]
    for result in reversed(RESULTS):
        entry = prepared.entry_of(result)
        assert entry is prepared.entry_of(result)
        assert dumps(entry) == dumps(apply_text_policy(case_entry(result), policy)) == prepared.line_of(entry)
    assert len(encoded) == len(RESULTS)  # none was made twice
    prepared.close()
    assert list(tmp_path.iterdir()) == []


def test_only_the_very_same_result_and_entry_are_known(tmp_path: Path):
    prepared = PreparedEntries(tmp_path)
    first = full_case(1)
    again = dataclasses.replace(first, outcome="errored", duration_seconds=7.0)
    prepared.add(first)
    assert prepared.entry_of(again)["duration_seconds"] == 7.0
    old = prepared.entry_of(first)
    prepared.add(again)
    entry = prepared.entry_of(again)
    assert (entry["outcome"], json.loads(prepared.line_of(entry))["outcome"]) == ("errored", "errored")
    assert json.loads(prepared.line_of(old)) == json.loads(dumps(old))
    changed = {**entry, "tags": ["changed"]}
    assert json.loads(prepared.line_of(changed))["tags"] == ["changed"]
    assert json.loads(prepared.line_of(case_entry(full_case(5))))["case_id"] == "eval-005"
    prepared.close()
    assert json.loads(prepared.line_of(entry))["outcome"] == "errored"  # made anew


class NoPlace:
    """A file of a disk that fills up after some bytes."""

    def __init__(self, file, room: int, *, tells: bool) -> None:
        self._file, self._room, self._tells = file, room, tells

    def write(self, text: bytes) -> int:
        if len(text) > self._room and self._tells:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._file.write(text[: self._room])
        self._room -= written
        return written

    def __getattr__(self, name: str):
        return getattr(self._file, name)


@pytest.mark.parametrize("tells", [True, False])
def test_a_full_disk_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tells: bool):
    make = module.tempfile.TemporaryFile
    room = len(dumps(case_entry(full_case(1)))) + 100
    monkeypatch.setattr(module.tempfile, "TemporaryFile", lambda **given: NoPlace(make(**given), room, tells=tells))
    prepared = PreparedEntries(tmp_path)
    for number in range(1, 5):
        prepared.add(full_case(number))
    for number in range(1, 5):
        entry = case_entry(full_case(number))
        assert json.loads(prepared.line_of(entry)) == json.loads(dumps(entry))


def test_a_folder_that_is_gone_costs_nothing_but_time(tmp_path: Path):
    prepared = PreparedEntries(tmp_path / "gone")
    prepared.add(full_case(1))
    entry = prepared.entry_of(full_case(1))
    assert json.loads(prepared.line_of(entry)) == json.loads(dumps(entry))


def test_an_interrupt_in_between_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    prepared = PreparedEntries(tmp_path)
    prepared.add(full_case(1))
    make = PreparedEntries._keep_text

    def interrupted(self, made):
        make(self, made)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PreparedEntries, "_keep_text", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepared.add(full_case(2))
    second, third = full_case(2), full_case(3)
    prepared.add(second)
    prepared.add(third)
    for result in (second, third):
        entry = prepared.entry_of(result)
        assert prepared.line_of(entry) == dumps(case_entry(result))
    prepared.close()


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
def test_a_killed_process_leaves_no_file(tmp_path: Path):
    program = (
        "import os, signal, sys; from pathlib import Path; from report_samples import full_case\n"
        "from pytest_memeval.report.prepared import PreparedEntries\n"
        "prepared = PreparedEntries(Path(sys.argv[1])); prepared.add(full_case(1))\n"
        "assert prepared._file is not None; os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environment, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
