"""Options that name a device or a pipe: it is written into, and is there afterwards."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plugin_project import good_cases

from pytest_memeval.cli.main import main

if TYPE_CHECKING:
    from plugin_project import Project

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no such files")


def reader_of(path: Path, into: list[bytes]) -> threading.Thread:
    reader = threading.Thread(target=lambda: into.append(path.read_bytes()), daemon=True)
    reader.start()
    return reader


def test_predictions_go_into_a_pipe(project: Project) -> None:
    project.cases(good_cases(2))
    pipe = project.path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = reader_of(pipe, found)
    result = project.run("--memeval-save-predictions", "pipe")
    reader.join(30)
    assert result.ret == 0
    assert [json.loads(line)["case_id"] for line in found[0].splitlines()] == ["eval-001", "eval-002"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_link_to_a_device_stays_one(project: Project) -> None:
    project.cases(good_cases(2))
    (project.path / "nothing").symlink_to("/dev/null")
    assert project.run("--memeval-save-predictions", "nothing").ret == 0
    assert main(["show", "out", "--html", "nothing"]) == 0
    assert main(["history", "--html", "nothing"]) == 0
    assert main(["compare", "out", "out", "--output", "nothing"]) in (0, 2)
    assert os.readlink(project.path / "nothing") == "/dev/null"


def test_a_page_goes_into_a_pipe(project: Project) -> None:
    project.cases(good_cases(2))
    assert project.run().ret == 0
    os.mkfifo(project.path / "pipe")
    for command in (["show", "out"], ["history"]):
        found: list[bytes] = []
        reader = reader_of(project.path / "pipe", found)
        assert main([*command, "--html", "pipe"]) == 0
        reader.join(30)
        assert found[0].lower().startswith(b"<!doctype html")
        assert stat.S_ISFIFO((project.path / "pipe").lstat().st_mode)


def test_pytests_own_output_is_refused_as_a_file(project: Project) -> None:
    if not os.path.exists("/dev/stdout"):
        pytest.skip("has no /dev/stdout")
    project.cases(good_cases(1))
    result = project.run("--memeval-save-predictions", "/dev/stdout", fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--memeval-save-predictions: /dev/stdout is where pytest's own output goes; name a*"])
