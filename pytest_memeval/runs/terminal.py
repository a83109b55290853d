"""What a run says in pytest's terminal: how far it is, and what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.report.console import console_text
from pytest_memeval.report.messages import text

if TYPE_CHECKING:
    from pytest_memeval.runs.recorder import Recorder

_BAD = {"red": True, "bold": True}


def write_progress(terminal: Any, recorder: Recorder) -> None:
    """A line that says how many cases are done and how many errored."""
    total, done = len(recorder.selected), len(recorder.results)
    errored = sum(result.outcome == "errored" for result in recorder.results.values())
    line = text("terminal.progress", recorder.settings.lang, done=done, total=total, errored=errored)
    terminal.ensure_newline()
    if getattr(terminal._tw, "width_of_current_line", 0):
        # The dots of several workers belong to no file, and ensure_newline knows nothing of them.
        terminal.write("\n")
    terminal.write_line(f"memeval: {console_text(line, _encoding(terminal))}")


def run_lines(
    recorder: Recorder,
    *,
    verbosity: int,
    decides_exit: bool,
    only_lost: bool,
    trouble: Iterable[tuple[str, str]],
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    """The summary at the end, each line with its markup. ``decides_exit``: whether the gates decide the exit status;
    ``only_lost``: whether it is 1 for nothing but cases that were not run; ``trouble``: what could not be written, as
    (key of the sentence, error)."""
    from pytest_memeval.report.terminal import summary_lines

    lang = recorder.settings.lang
    if recorder.variants is not None:
        yield from recorder.variants.lines()
    if recorder.report is not None:
        yield from summary_lines(
            recorder.report,
            lang=lang,
            verbosity=verbosity,
            folder=None if recorder.folder is None else _shown(recorder.folder, recorder.base),
            decides_exit=decides_exit,
            middle=recorder.comparison_lines(),
        )
    if only_lost:
        yield text("terminal.not_run_exit", lang, count=len(recorder.not_run())), _BAD
    for what, error in trouble:
        yield text(f"terminal.{what}", lang, error=error), _BAD


def write_lines(terminal: Any, lines: Iterable[tuple[str, Mapping[str, bool]]]) -> None:
    """Write them in what the terminal's encoding has."""
    encoding = _encoding(terminal)
    for line, markup in lines:
        terminal.write_line(console_text(line, encoding), **markup)


def _encoding(terminal: Any) -> str | None:
    return getattr(terminal._tw._file, "encoding", None)


def _shown(path: Path, base: Path) -> str:
    try:
        return str(path.relative_to(base))
    except ValueError:
        return str(path)
