"""What an interrupt is known by and shown as, and which processes it is handed on to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from types import CodeType, SimpleNamespace
from typing import Any

import execnet
import pytest

from pytest_memeval.workers.last_words import hidden_interrupt, last_words, pid_of, show_places


class Node:
    """What is used of xdist's."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway


def node(spec: str, pid: int | None = 7) -> Any:
    told = SimpleNamespace(**({} if pid is None else {"pid": pid}))
    return Node(SimpleNamespace(spec=execnet.XSpec(spec), _rinfo=lambda: told))


@pytest.mark.parametrize("spec", ["ssh=host", "popen//via=far", "socket=127.0.0.1:8888"])
def test_a_process_of_another_machine_is_none_of_ours(spec: str) -> None:
    assert pid_of(node(spec)) is None


def test_a_process_of_this_machine() -> None:
    assert pid_of(node("popen")) == 7
    assert pid_of(node("popen", pid=None)) is None


def test_one_that_is_gone() -> None:
    def gone() -> None:
        raise OSError("cannot send (already closed?)")

    lost = node("popen")
    lost.gateway._rinfo = gone
    assert pid_of(lost) is None


#: A worker's process: says of each interrupt that it has come, and goes on.
DEAF = """
import signal
signal.signal(signal.SIGINT, lambda number, frame: print("interrupted", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
@pytest.mark.timeout(60)
def test_a_worker_that_goes_on_and_on_is_interrupted_again_and_not_heard_out_for_ever() -> None:
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        worker = node("popen", pid=process.pid)
        more = ("testreport", {"node": worker, "rep": "one more"})
        talk = SimpleNamespace(get=lambda timeout: more, get_nowait=lambda: more, qsize=lambda: 3)
        plugins: dict[str, Any] = {"dsession": SimpleNamespace(queue=talk)}
        config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(getplugin=plugins.get))
        try:
            assert all(word == (more[0], worker, more[1]) for word in last_words(config, [worker]))
            assert process.stdout.readline() == "interrupted\n"
        finally:
            process.kill()


def raised(act: Callable[[], None]) -> pytest.ExceptionInfo[BaseException]:
    with pytest.raises(BaseException) as info:
        act()
    return info


def interrupted(then: Callable[[], None]) -> Callable[[], None]:
    def act() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            then()

    return act


def refuse(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def refuse_on_purpose() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise ValueError("given up") from None


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_an_interrupt_is_found_behind_what_came_up_meanwhile(depth: int) -> None:
    act = refuse(KeyboardInterrupt())
    for number in range(depth):
        act = interrupted(refuse(EOFError(number)))
    found = hidden_interrupt(raised(act).value)
    assert type(found) is KeyboardInterrupt


@pytest.mark.parametrize(
    "act",
    [
        refuse(EOFError()),
        refuse_on_purpose,
        interrupted(lambda: pytest.exit("enough", returncode=5)),
        interrupted(refuse(pytest.UsageError("no such thing"))),
        interrupted(refuse(pytest.Session.Failed("too many"))),
    ],
)
def test_what_is_raised_on_purpose_hides_none(act: Callable[[], None]) -> None:
    assert hidden_interrupt(raised(act).value) is None


def lineless(code: CodeType) -> CodeType:
    """The code with no line for any of its instructions: entries of kind 15, each for eight of them at most."""
    left, table = len(code.co_code) // 2, b""
    while left:
        table += bytes([0x80 | 15 << 3 | min(left, 8) - 1])
        left -= min(left, 8)
    return code.replace(co_linetable=table)


def without_lines() -> None:
    """As an interrupt in code that a class was made with."""
    exec(lineless(compile("raise KeyboardInterrupt", "<string>", "exec")))


@pytest.mark.parametrize("last_only", [True, False])
def test_an_interrupt_in_code_without_lines_can_be_shown(last_only: bool) -> None:
    info = raised(without_lines)
    show_places(info, last_only=last_only)
    shown = str(info.getrepr(funcargs=True))
    assert "without_lines" in shown
    assert ("act()" in shown) is not last_only


def test_an_interrupt_in_code_made_from_text_does_not_end_the_process_as_a_signal() -> None:
    lines = ("try: exec('raise KeyboardInterrupt')", "except KeyboardInterrupt: pass", "{end}")
    told = [
        subprocess.run([sys.executable, "-c", "\n".join(lines).format(end=end)], timeout=60).returncode
        for end in ("pass", "from pytest_memeval.workers.last_words import be_no_signal; be_no_signal()")
    ]
    assert told[1] == 0
    assert told[0] != 0, "be_no_signal is not needed any more"
