"""Standard output and error whose reader may go away, as ``| head`` does: the command goes on without it.

What a command is to write to files, and what its status tells, does not hang on anybody reading what it prints.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class _Forgiving:
    """A stream that passes everything on until its reader has gone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.gone = False

    def write(self, value: Any) -> int:
        self._pass_on("write", value)
        return len(value)

    def writelines(self, lines: Any) -> None:
        self._pass_on("writelines", lines)

    def flush(self) -> None:
        self._pass_on("flush")

    def _pass_on(self, method: str, *args: Any) -> None:
        if not self.gone:
            try:
                getattr(self._stream, method)(*args)
            except BrokenPipeError:
                self.gone = True

    @property
    def buffer(self) -> _Forgiving:
        return _Forgiving(self._stream.buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def readers_may_go() -> Iterator[None]:
    """Have nobody in the block be told that the reader of standard output or error has gone."""
    before = sys.stdout, sys.stderr
    streams = [None if stream is None else _Forgiving(stream) for stream in before]
    sys.stdout, sys.stderr = (cast("TextIO", stream) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in streams:
            if stream is not None:
                stream.flush()
                if stream.gone:
                    _lead_nowhere(stream)


def _lead_nowhere(stream: _Forgiving) -> None:
    """What is still to be written at the interpreter's end is not worth its complaint."""
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
