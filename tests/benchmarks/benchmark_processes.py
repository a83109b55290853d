"""Whole pytest processes, measured one against the other. Alternating them lets a busy machine be busy for both."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """A finished process: seconds on the wall, seconds of CPU, peak memory in MB (both 0 where they cannot be had)."""

    wall: float
    cpu: float
    peak: float
    output: str


# A child's peak memory counts from that of the process that starts it, so a small one stands in between.
_LAUNCHER = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[2:], stdout=open(sys.argv[1], "wb"), stderr=subprocess.STDOUT)
cpu = peak = 0.0
if hasattr(os, "wait4"):
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
else:
    process.wait()
print(json.dumps([process.returncode, time.perf_counter() - started, cpu, peak]))
"""


def run_pytest(folder: Path, *arguments: str, cache: Path) -> Measured:
    """``pytest`` in ``folder`` with its byte code kept in ``cache``, as it is in an installed environment."""
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(cache / "pyc"),
        "XDG_CACHE_HOME": str(cache / "user"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return run_command(command, folder, cache / "output.txt", environment)


def run_command(
    command: Sequence[str],
    folder: Path,
    output: Path,
    environment: Mapping[str, str] | None = None,
    *,
    status: int = 0,
) -> Measured:
    """A command in ``folder``, measured; what it says goes to the file ``output``. It has to end with ``status``."""
    launcher = [sys.executable, "-S", "-c", _LAUNCHER, str(output), *command]
    told = subprocess.run(launcher, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
    found, wall, cpu, peak = json.loads(told)
    text = output.read_text(encoding="utf-8", errors="replace")
    assert found == status, text[-3_000:]
    return Measured(wall, cpu, peak, text)


def compared(name: str, first: Sequence[Measured], second: Sequence[Measured], words: tuple[str, str]) -> str:
    """A line with both medians and their ratio, for wall time and for CPU time."""
    parts = []
    for kind in ("wall", "cpu"):
        one, two = (statistics.median(getattr(run, kind) for run in runs) for runs in (first, second))
        ratio = f", ratio {one / two:.2f}" if two else ""
        parts.append(f"{kind} {one:.3f} s {words[0]}, {two:.3f} s {words[1]}{ratio}")
    return f"{name}: " + "; ".join(parts)
