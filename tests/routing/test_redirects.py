"""Redirections of standard output in cases in flight."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator

import pytest

from pytest_memeval.routing.redirects import Redirects
from pytest_memeval.routing.said import Said, routed
from pytest_memeval.routing.streams import Streams


@contextlib.contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.TextIOWrapper]:
    """Standard output inside: pytest would take that of a fixture away before the test."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    streams, redirects = Streams(), Redirects()
    for _ in range(2):
        streams.watch()
        redirects.watch()
    yield stream
    redirects.close()
    streams.close()


def content(stream: io.TextIOWrapper) -> str:
    below = stream.buffer
    assert isinstance(below, io.BytesIO)
    return below.getvalue().decode("utf-8")


def test_each_case_has_its_own_whichever_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as output:
        saids = Said(), Said()
        buffers = io.StringIO(), io.StringIO()
        blocks = [contextlib.redirect_stdout(buffer) for buffer in buffers]
        for step in ("enter", "speak", "leave", "speak"):
            for said, block in zip(saids, blocks, strict=True):
                with routed(said):
                    if step == "enter":
                        block.__enter__()
                    elif step == "leave":
                        block.__exit__(None, None, None)
                    print(step)
            print("mine")
        assert sys.stdout is output
        assert content(output) == "mine\n" * 4
        assert [buffer.getvalue() for buffer in buffers] == ["enter\nspeak\n"] * 2
        saids[0].repeat()
        assert content(output) == "mine\n" * 4 + "leave\nspeak\n"


def test_redirections_in_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as output:
        said, first, second = Said(), io.StringIO(), io.StringIO()
        with routed(said):
            again = contextlib.redirect_stdout(first)
            with again, contextlib.redirect_stdout(second):
                print("second")
                with again:
                    print("first")
                print("second")
            print("said")
        assert (first.getvalue(), second.getvalue()) == ("first\n", "second\nsecond\n")
        assert not said.redirections
        said.repeat()
        assert content(output) == "said\n"


def test_one_that_ends_late_puts_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    redirects, before = Redirects(), sys.stdout
    redirects.watch()
    block = contextlib.redirect_stdout(io.StringIO())
    with routed(Said()):
        block.__enter__()
        redirects.close()
        block.__exit__(None, None, None)
    assert sys.stdout is before
    monkeypatch.delattr(sys, "_memeval_nothing")


def test_other_code_does_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as output:
        with contextlib.redirect_stdout(io.StringIO()) as buffer:
            assert sys.stdout is buffer
            print("mine")
        assert sys.stdout is output
        assert buffer.getvalue() == "mine\n"
