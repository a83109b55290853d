"""Files are put in their place whole; devices and pipes are written into, and stay."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from report_samples import full_case, run_info, set_info

from pytest_memeval.llm.export import write_jsonl
from pytest_memeval.owned_files import KINDS, refusal
from pytest_memeval.report.build import build_report
from pytest_memeval.report.write import foreign_file, write_lines, write_reports
from pytest_memeval.writing import is_stream, open_file, put

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no such files")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def null(tmp_path: Path) -> Path:
    path = tmp_path / "null"
    path.symlink_to("/dev/null")
    return path


def read_while(path: Path, write: Callable[[], object]) -> bytes:
    """What comes out of a pipe while ``write`` is called."""
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()
    write()
    reader.join(30)
    return b"".join(found)


def test_lines_go_into_a_pipe(pipe: Path) -> None:
    assert read_while(pipe, lambda: write_lines(pipe, ["one\n", "zwö\n"])) == "one\nzwö\n".encode()
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert os.listdir(pipe.parent) == ["pipe"]


def test_a_link_to_a_device_stays_one(null: Path) -> None:
    write_lines(null, ["nothing\n"])
    assert os.readlink(null) == "/dev/null"
    assert os.listdir(null.parent) == ["null"]


def test_answers_go_into_a_pipe(pipe: Path, null: Path) -> None:
    assert read_while(pipe, lambda: write_jsonl(pipe, ())).startswith(b"{")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    write_jsonl(null, ())
    assert null.is_symlink()


def test_a_runs_files_leave_devices_alone(tmp_path: Path) -> None:
    for name in ("report.md", "per_case.csv", "calls.jsonl.gz", "journal.jsonl"):
        (tmp_path / name).symlink_to("/dev/null")
    journal = tmp_path / "journal-1.jsonl"
    journal.write_text("{}\n", encoding="utf-8")
    report = build_report(run_info(), [set_info()], [full_case(1)])
    write_reports(tmp_path, report, journal=journal)
    write_reports(tmp_path, report, brief=True)
    assert all((tmp_path / name).is_symlink() for name in ("report.md", "per_case.csv", "journal.jsonl"))
    assert (tmp_path / "calls.jsonl.gz").is_symlink()
    assert (tmp_path / "report.json").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ("report.md", "per_case.csv", "calls.jsonl.gz", "journal.jsonl", "report.json")
    )


def test_a_pipe_among_a_runs_files_is_not_read_from(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.json")
    assert foreign_file(tmp_path) == tmp_path / "report.json"


def test_a_regular_file_is_replaced_as_before(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old", encoding="utf-8")
    before = target.stat().st_ino
    write_lines(target, ["new"])
    assert target.read_text(encoding="utf-8") == "new"
    assert target.stat().st_ino != before


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_written_into_is_not_refused_and_what_cannot_is(
    kind: str, pipe: Path, null: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(pipe, kind) is None
    assert refusal(null, kind) is None
    monkeypatch.chdir(pipe.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        path = Path("socket")
        assert refusal(path, kind) == "socket is a socket, and no file that could be written; name a file"
        with pytest.raises(OSError, match="socket is a socket"):
            write_lines(path, ["x"])
        assert stat.S_ISSOCK(path.lstat().st_mode)


@pytest.mark.parametrize(
    ("name", "number"),
    [("/dev/stdout", 1), ("/dev/stderr", 2), ("/dev/fd/7", 7), ("/proc/self/fd/3", 3), ("/dev/null", None)],
)
def test_open_files_of_the_process_are_known_by_their_names(tmp_path: Path, name: str, number: int | None) -> None:
    assert open_file(Path(name)) == number
    link = tmp_path / "link"
    link.symlink_to(name)
    assert open_file(link) == number
    assert not is_stream(tmp_path / "none")


def test_output_that_was_sent_to_a_file_goes_on_there(tmp_path: Path) -> None:
    if not os.path.exists("/dev/stdout"):
        pytest.skip("has no /dev/stdout")
    code = (
        "from pathlib import Path; from pytest_memeval.report.write import write_lines;"
        "print('before'); write_lines(Path('/dev/stdout'), ['between\\n']); print('after')"
    )
    target = tmp_path / "out"
    with target.open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert target.read_text(encoding="utf-8") == "before\nbetween\nafter\n"
    assert not Path("/dev/stdout").is_file() or Path("/dev/stdout").is_symlink()


def test_putting_leaves_nothing_behind(tmp_path: Path, null: Path) -> None:
    made = tmp_path / "made"
    made.write_text("x", encoding="utf-8")
    put(made, null)
    assert os.listdir(tmp_path) == ["null"]
