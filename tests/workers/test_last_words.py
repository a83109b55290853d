"""Which processes an interrupt is handed on to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import execnet
import pytest

from pytest_memeval.workers.last_words import pid_of


def node(spec: str, pid: int | None = 7) -> Any:
    told = SimpleNamespace(**({} if pid is None else {"pid": pid}))
    return SimpleNamespace(gateway=SimpleNamespace(spec=execnet.XSpec(spec), _rinfo=lambda: told))


@pytest.mark.parametrize("spec", ["ssh=host", "popen//via=far", "socket=127.0.0.1:8888"])
def test_a_process_of_another_machine_is_none_of_ours(spec: str) -> None:
    assert pid_of(node(spec)) is None


def test_a_process_of_this_machine() -> None:
    assert pid_of(node("popen")) == 7
    assert pid_of(node("popen", pid=None)) is None
