"""Forked processes are like those that are started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import execnet.gateway_io
import pytest
from ready_workers import READY, Ready

TELLS = """
import json, locale, logging, os, signal, sys, threading, warnings
from pathlib import Path

import pytest

# Workers are started with -u, and let go of their standard streams at once.
FLAGS = [name for name in dir(sys.flags) if not name.startswith(("_", "n_", "unbuffered", "count", "index"))]


@pytest.mark.parametrize("number", [1, 2])
def test_tells(number, request):
    mask = os.umask(0)
    os.umask(mask)
    told = {
        "arguments": [word for word in sys.argv if not word.startswith("--basetemp=")],
        "environment": {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")},
        "path": sys.path,
        "flags": [getattr(sys.flags, name) for name in FLAGS],
        "folder": os.getcwd(),
        "mask": mask,
        "group": os.getpgid(0),
        "signals": {s.name: str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)},
        "threads": [thread.name for thread in threading.enumerate()],
        "warnings": [str(entry) for entry in warnings.filters],
        "importers": [type(finder).__name__ for finder in sys.meta_path],
        "locale": locale.setlocale(locale.LC_CTYPE),
        "streams": [
            (stream.encoding, stream.errors, stream.fileno(), stream.line_buffering)
            for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__)
        ],
        "handlers": [type(handler).__name__ for handler in logging.root.handlers],
        "names": sorted(vars(sys.modules["__main__"])) if hasattr(request.config, "workerinput") else None,
        "ours": "ready_workers" in sys.modules,
        "parent": os.getppid(),
        "hash": hash("text"),
    }
    process = getattr(request.config, "workerinput", {}).get("workerid", "main")
    Path(f"{process}.json").write_text(json.dumps(told), encoding="utf-8")
"""

#: What differs between any two runs, or between processes.
OWN = {"parent", "hash"}
UNUSED = ("-pno:randomly", "-pno:hypothesispytest", "-pno:anyio")


@pytest.fixture
def ready(pytester: pytest.Pytester) -> Ready:
    if not READY:
        pytest.skip("nothing is forked here")
    pytester.makepyfile(test_tells=TELLS)
    return READY[0]


def told(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))
    for key in ("PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST"):
        data["environment"].pop(key, None)
    return data


def test_workers(ready: Ready, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for way in ("forked", "started"):
        if way == "started":
            monkeypatch.setattr(execnet.gateway_io, "create_io", ready.started)
        pytester.runpytest_inprocess(*UNUSED, "-n", "2", "--dist", "each").assert_outcomes(passed=4)
        found[way] = [told(name) for name in ("gw0", "gw1")]
    for forked, started in zip(found["forked"], found["started"], strict=True):
        assert {**forked, **dict.fromkeys(OWN)} == {**started, **dict.fromkeys(OWN)}
        assert forked["parent"] == started["parent"] == os.getpid()
    one, two = found["forked"]
    assert (one["hash"] == two["hash"]) == ("PYTHONHASHSEED" in os.environ)


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
def test_runs(ready: Ready, pytester: pytest.Pytester, mode: tuple[str, ...]) -> None:
    name = "gw0" if mode else "main"
    arguments = (*UNUSED, *mode, *(("--dist", "each") if mode else ()))
    results = {}
    for way, run in (("forked", lambda: ready.run(pytester, *arguments)),
                     ("started", lambda: pytester.runpytest_subprocess(*arguments))):  # fmt: skip
        result = run()
        result.assert_outcomes(passed=4 if mode else 2)
        results[way] = {**told(name), **dict.fromkeys(OWN)}
    assert results["forked"] == results["started"]


@pytest.mark.parametrize(
    ("body", "status"), [("assert 0", 1), ("import os; os._exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)]
)
def test_a_runs_status_is_that_of_its_process(ready: Ready, pytester: pytest.Pytester, body: str, status: int) -> None:
    pytester.makepyfile(test_tells=f"def test_it():\n    {body}\n")
    assert ready.run(pytester, *UNUSED).ret == status


def test_a_worker_that_dies_is_seen_to(ready: Ready, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_tells="import os\n\n\ndef test_it():\n    os._exit(7)\n\n\ndef test_other():\n    pass\n")
    result = pytester.runpytest_inprocess(*UNUSED, "-n", "2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw?' crashed while running*"])


def test_what_an_interpreter_reads_at_its_start_has_one_started(
    ready: Ready, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    code = "def test_it():\n    assert hash('a') == {}\n"
    seven = pytester.run(sys.executable, "-c", "print(hash('a'))").outlines[0]
    pytester.makepyfile(test_tells=code.format(seven))
    ready.run(pytester, *UNUSED).assert_outcomes(passed=1)
    pytester.runpytest_inprocess(*UNUSED, "-n", "1").assert_outcomes(passed=1)
