"""Standard output as cases in flight see it."""

from __future__ import annotations

import io
import sys

import pytest

from pytest_memeval.routing.said import Said, routed
from pytest_memeval.routing.streams import Streams


def text_stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def content(stream: io.TextIOWrapper) -> str:
    stream.flush()
    below = stream.buffer
    assert isinstance(below, io.BytesIO)
    return below.getvalue().decode("utf-8")


def replaced(monkeypatch: pytest.MonkeyPatch) -> io.TextIOWrapper:
    """Standard output from here on: pytest would take that of a fixture away before the test."""
    stream = text_stream()
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


def test_text_and_bytes_are_kept_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    output = replaced(monkeypatch)
    streams, said = Streams(), Said()
    streams.watch()
    with routed(said):
        print("one", flush=True)
        sys.stdout.writelines(["two\n"])
        assert sys.stdout.buffer.write(bytearray(b"three\n")) == 6
        assert sys.stdout.write("four\n") == 5
    print("mine")
    assert content(output) == "mine\n"
    said.repeat()
    assert content(output) == "mine\none\ntwo\nthree\nfour\n"
    said.repeat()  # said once
    assert content(output).count("one") == 1
    streams.close()


def test_what_waits_in_the_stream_is_not_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    below = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(below, encoding="utf-8"))
    streams, said = Streams(), Said()
    streams.watch()
    sys.stdout.write("mine, not flushed")
    with routed(said):
        sys.stdout.flush()
        print("the case's", flush=True)
    sys.stdout.flush()
    assert below.getvalue() == b"mine, not flushed"
    assert len(said.parts) == 2  # text and line end
    streams.close()


def test_a_wrong_type_is_an_error_where_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(monkeypatch)
    streams = Streams()
    streams.watch()
    with routed(Said()):
        with pytest.raises(TypeError):
            sys.stdout.write(b"bytes")  # type: ignore[arg-type]  # what is tested
        with pytest.raises(TypeError):
            sys.stdout.buffer.write("text")  # type: ignore[arg-type]  # what is tested
    streams.close()


def test_what_comes_after_the_cases_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    output = replaced(monkeypatch)
    streams, said = Streams(), Said()
    streams.watch()
    with routed(said):
        print("early")
        said.end()
        print("late")
    assert content(output) == "early\nlate\n"
    streams.close()


def test_streams_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    output = replaced(monkeypatch)
    streams = Streams()
    streams.watch()
    streams.watch()
    streams.close()
    assert not {"write", "flush"} & {*vars(output), *vars(output.buffer)}
    with routed(Said()):
        print("at once")
    assert content(output) == "at once\n"


def test_where_nothing_is_captured_it_goes_straight_past_a_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    output = replaced(monkeypatch)
    streams, said, fixtures = Streams(straight=True), Said(), text_stream()
    streams.watch()  # before anything is known
    streams.watch_outer()
    monkeypatch.setattr(sys, "stdout", fixtures)
    streams.watch()
    with routed(said):
        print("the case's")
        sys.stdout.buffer.write(b"bytes\n")
    print("the test's")
    assert (content(output), content(fixtures)) == ("the case's\nbytes\n", "the test's\n")
    assert not said.parts
    streams.close()


@pytest.mark.parametrize("stream", [None, object(), io.StringIO()])
def test_any_object_may_be_there(stream: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    streams = Streams()
    streams.watch()
    streams.close()


def test_what_others_have_put_there_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    output = replaced(monkeypatch)
    streams, flushed, written = Streams(), [], []
    own_flush = output.flush
    monkeypatch.setattr(output, "flush", lambda: flushed.append(True) or own_flush())
    before = output.flush
    streams.watch()
    ours = output.write

    def theirs(text: str) -> int:
        written.append(text)
        return ours(text)

    monkeypatch.setattr(output, "write", theirs)
    streams.close()
    assert output.flush is before
    assert output.write is theirs
    print("late", flush=True)
    assert (written, flushed) == (["late", "\n"], [True])
