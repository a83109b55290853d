"""Folders for temporary files: whose process is gone they are removed, whose lives they are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_memeval import scratch
from pytest_memeval.scratch import HELD, make_scratch, remove_scratch, remove_scratch_of, sweep

POSIX = pytest.mark.skipif(os.name == "nt", reason="locks of files as POSIX has them")


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    for folder in list(scratch._held):
        if folder.parent == tmp_path:
            remove_scratch(folder)


@pytest.mark.parametrize(
    ("uid", "start"), [("", "memeval-"), ("abc", "memeval-abc-"), ("a/b ä*", "memeval-a_b_-"), ("../x", "memeval-_x-")]
)
def test_a_folder_is_named_by_its_run_and_goes_with_it(base: Path, uid: str, start: str) -> None:
    folder = make_scratch(uid)
    assert folder.parent == base
    assert folder.name.startswith(start)
    (folder / "1").mkdir()
    (folder / "1" / "data.sqlite").write_text("x", encoding="utf-8")
    remove_scratch(folder)
    assert list(base.iterdir()) == []
    remove_scratch(folder)  # twice is no harm


def test_what_dead_workers_of_a_run_left_goes_by_its_id(base: Path) -> None:
    for name in ("memeval-abc-1", "memeval-abc-2", "memeval-abcd-1", "other"):
        (base / name).mkdir()
    remove_scratch_of("abc")
    remove_scratch_of("")
    assert {path.name for path in base.iterdir()} == {"memeval-abcd-1", "other"}


@POSIX
def test_a_sweep_leaves_what_is_in_use_and_what_is_not_ours(base: Path) -> None:
    folder = make_scratch("lives")
    for name in ("memeval-unmarked", "memeval", "other"):
        (base / name).mkdir()
    (base / "other" / HELD).touch()
    (base / "memeval-file").touch()
    elsewhere = base / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / HELD).touch()
    (base / "memeval-link").symlink_to(elsewhere, target_is_directory=True)
    (base / "memeval-marked-by-link").mkdir()
    (base / "memeval-marked-by-link" / HELD).symlink_to(elsewhere / HELD)
    before = {path.name for path in base.iterdir()}
    sweep()
    assert {path.name for path in base.iterdir()} == before
    assert folder.is_dir()
    assert (elsewhere / HELD).exists()


@POSIX
def test_a_sweep_removes_what_nobody_holds(base: Path) -> None:
    left = base / "memeval-abc-1"
    (left / "1" / "deep").mkdir(parents=True)
    (left / HELD).touch()
    sweep()
    assert not left.exists()


@POSIX
def test_the_temporary_folder_may_be_gone(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(base / "gone"))
    sweep()


HOLDER = """
import sys, time
from pytest_memeval.scratch import make_scratch
folder = make_scratch("")
(folder / "1").mkdir()
print(folder, flush=True)
time.sleep(60)
"""


@POSIX
def test_a_killed_process_leaves_its_folder_to_the_next_one(base: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.parent == base
        sweep()
        assert (folder / "1").is_dir()  # it lives
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert folder.is_dir()
    sweep()
    assert not folder.exists()
