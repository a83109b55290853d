"""Processes for the runs within tests, forked from one that has imported what they need.

Such a small run and its workers spend nine tenths of their time importing. So the processes that pytest-xdist asks
execnet for, and those of runs that are to have one of their own, are forks of one that has pytest and this package
loaded and has done nothing else: like it, they know of no project, no configuration and no other run. All the rest is
real: a process with pipes of its own, the environment and the folder of the run, ``pytest.__main__`` or execnet's own
first line and pytest-xdist's worker, an end like any interpreter's.

Two processes are kept to fork from, for two workers hash strings differently. What a test starts as a command has
nothing of this, and ``--no-forks`` has every process started as ever.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import execnet.gateway_io
import pytest
from _pytest.config import _prepareconfig

#: What an interpreter reads of its environment as it starts, or the C library at the first use: forks have it already.
AT_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "MALLOC", "LD_")
NOT_AT_THE_START = ("PYTHONPATH",)


def at_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(AT_THE_START) and name not in NOT_AT_THE_START
    }


# -- the process that is forked --------------------------------------------------------------------------------------


def load_all() -> None:
    """Import what a worker does: pytest with its plugins, what it is sent by pytest-xdist, the package."""
    # Plugins are loaded by pytest: it rewrites their assertions, and warns where it finds one loaded without that.
    unused = (f"-pno:{name}" for name in ("randomly", "hypothesispytest", "anyio"))
    _prepareconfig(["--noconftest", "-s", "-c", os.devnull, *unused])._ensure_unconfigure()
    import xdist.remote  # noqa: F401  # for its own imports

    import pytest_memeval

    for module in pkgutil.walk_packages(pytest_memeval.__path__, "pytest_memeval."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def fork_when_asked(number: int) -> None:
    """Make a worker of each request on the socket with this file descriptor, until it is closed; return in workers."""
    with socket.socket(fileno=number) as control:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # at the end of the tests the socket is closed
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
        own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        installed = [path for path in sys.path if path and path not in own]
        load_all()
        gc.collect()
        gc.freeze()
        while True:
            size, files, _, _ = socket.recv_fds(control, 4, 6)
            if not size:
                os._exit(0)
            body = b""
            while len(body) < int.from_bytes(size):
                body += control.recv(int.from_bytes(size) - len(body))
            pid = os.fork()
            if not pid:
                break
            control.sendall(pid.to_bytes(4))
            for file in files:
                os.close(file)
    begin(json.loads(body), files, installed)


def opened(number: int, mode: str, like: Any, *, unbuffered: bool) -> io.TextIOWrapper:
    """A standard stream with the settings of the one that this process began with."""
    unbuffered = unbuffered or like.write_through
    binary: Any = open(number, mode, buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115  # until the end
    line_by_line = like.line_buffering and not unbuffered
    return io.TextIOWrapper(binary, like.encoding, like.errors, line_buffering=line_by_line, write_through=unbuffered)


def begin(request: dict[str, Any], files: list[int], installed: list[str]) -> None:
    """Be what ``python -u -c`` is for execnet, whose first line comes through the standard input, or ``python -m``."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    streams, alive, controls = files[:3], files[3], files[4:]
    for file in files[3:]:
        os.set_inheritable(file, False)
    if request["arguments"] is not None and (pid := os.fork()):
        # The one that made this process waits for no child: this one does, and tells how it ended.
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(alive, str(status).encode())
        os._exit(0)
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    path = os.environ.get("PYTHONPATH")
    sys.path[:] = ["", *(path.split(os.pathsep) if path else ()), *installed]
    importlib.invalidate_caches()
    del sys.modules["ready_workers"]
    sys.modules["__main__"].__dict__.pop("fork_when_asked")
    worker = request["arguments"] is None
    sys.stdin = sys.__stdin__ = opened(0, "rb", sys.__stdin__, unbuffered=False)
    sys.stdout = sys.__stdout__ = opened(1, "wb", sys.__stdout__, unbuffered=worker)
    sys.stderr = sys.__stderr__ = opened(2, "wb", sys.__stderr__, unbuffered=worker)
    if worker:
        # To a worker, its parent is who asked for it.
        os.getppid = lambda: int(request["asked_by"])
        exec(eval(sys.stdin.readline()), sys.modules["__main__"].__dict__)
        return
    execnet.gateway_io.create_io = creator([Forks(control=socket.socket(fileno=file)) for file in controls])
    sys.argv = ["-m", *request["arguments"]]
    sys.path[0] = os.getcwd()
    import xdist.plugin  # not above: pytest loads it

    xdist.plugin._sys_path[:] = sys.path  # kept as it was at the start, for workers
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)


# -- the process of the tests ----------------------------------------------------------------------------------------


class Forks:
    """A process to fork others from; it is started at the first one."""

    def __init__(
        self,
        environment: dict[str, str] | None = None,
        folder: str | None = None,
        *,
        control: socket.socket | None = None,
    ) -> None:
        self.environment = environment
        self.folder = folder
        self._control = control
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def control(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair()
            code = (
                f"import sys; sys.path.insert(1, {str(Path(__file__).parent)!r}); from ready_workers import"
                f" fork_when_asked; del sys.path[1]; fork_when_asked({theirs.fileno()})"
            )
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    env=self.environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
        return self._control

    def fork(
        self, files: list[int], *, arguments: Sequence[str] | None = None, environment: dict[str, str] | None = None
    ) -> int:
        """The process id of a new process.

        Its ``files`` are its standard streams, one that it has open until it ends, and those to ask for workers of its
        own. Without ``arguments`` it is a worker.
        """
        request = {
            "folder": os.getcwd(),
            "environment": environment or dict(os.environ),
            "arguments": arguments,
            "asked_by": os.getpid(),
        }
        body = json.dumps(request).encode()
        socket.send_fds(self.control, [len(body).to_bytes(4)], files)
        self.control.sendall(body)
        pid = self.control.recv(4)
        assert pid, "the process that others are forked from has ended"
        return int.from_bytes(pid)

    def close(self) -> None:
        if self.process is not None:
            self.control.close()
            self.process.wait()


class ForkIO(execnet.gateway_io.Popen2IOMaster):
    """What execnet has for a process that it started."""

    def __init__(self, forks: Forks, execmodel: Any) -> None:
        their_input, output = os.pipe()
        answers, their_output = os.pipe()
        self.alive, theirs = socket.socketpair()
        with theirs:
            self.pid = forks.fork([their_input, their_output, 2, theirs.fileno()])
        os.close(their_input)
        os.close(their_output)
        to, fro = os.fdopen(output, "wb"), os.fdopen(answers, "rb")
        execnet.gateway_io.Popen2IO.__init__(self, to, fro, execmodel)

    def wait(self) -> int | None:
        return None if self.alive.recv(1) else 0

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class ForkedRun:
    """What pytester has for a run of pytest that it started."""

    stdin = None

    def __init__(self, both: list[Forks], command: Sequence[str], output: IO[str], errors: IO[str]) -> None:
        assert command[:2] == (sys.executable, "-mpytest")
        path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))
        self.alive, theirs = socket.socketpair()
        controls = [forks.control.fileno() for forks in both]
        with theirs, open(os.devnull, encoding="utf-8") as nothing:
            both[0].fork(
                [nothing.fileno(), output.fileno(), errors.fileno(), theirs.fileno(), *controls],
                arguments=command[2:],
                environment={**os.environ, "PYTHONPATH": path},
            )

    def wait(self) -> int:
        return int(self.alive.recv(10))


def creator(both: list[Forks]) -> Callable[..., Any]:
    """execnet's maker of processes, which has those forked that are like others."""
    started = execnet.gateway_io.create_io
    known = at_the_start(os.environ)

    def create_io(spec: execnet.XSpec, execmodel: Any) -> Any:
        like_others = spec.popen and not spec.python and not spec.dont_write_bytecode
        if not like_others or at_the_start(os.environ) != known:
            return started(spec, execmodel)
        return ForkIO(both[int(spec.id.strip("gw") or 0) % 2], execmodel)

    return create_io


@dataclass
class Ready:
    """What there is to fork from, the environment that it began with, and execnet's own maker of processes."""

    both: list[Forks]
    known: dict[str, str]
    started: Callable[..., Any]

    def run(self, pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
        """``runpytest_subprocess``, in a process that is forked."""
        if at_the_start(os.environ) != self.known:
            return pytester.runpytest_subprocess(*arguments)

        def popen(command: Sequence[str], *, stdout: IO[str], stderr: IO[str], **_: Any) -> ForkedRun:
            return ForkedRun(self.both, command, stdout, stderr)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pytester, "popen", popen)
            return pytester.runpytest_subprocess(*arguments)


#: While tests run, unless each process is to be started as ever.
READY: list[Ready] = []


@contextlib.contextmanager
def ready_workers() -> Iterator[None]:
    """Have processes forked that runs ask for."""
    environment = dict(os.environ)
    # Two workers of a run hash strings differently, as processes do.
    both = [Forks(environment, os.getcwd()) for _ in range(2)]
    READY.append(Ready(both, at_the_start(environment), execnet.gateway_io.create_io))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execnet.gateway_io, "create_io", creator(both))
        yield
    READY.clear()
    for forks in both:
        forks.close()
