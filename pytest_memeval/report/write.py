"""A run's output folder."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from pytest_memeval.report.calls import CALLS_NAME, write_calls
from pytest_memeval.report.csv_report import csv_chunks
from pytest_memeval.report.json_report import report_chunks
from pytest_memeval.report.markdown import markdown_report
from pytest_memeval.report.prediction_files import HYPOTHESES_NAME, LOCOMO_NAME, prediction_files
from pytest_memeval.report.reader import JOURNAL_NAME, REPORT_NAME
from pytest_memeval.writing import is_stream, naming, open_stream, put

#: Where runs go without an output option, relative to the current folder.
MEMEVAL_FOLDER = ".memeval"
LATEST_NAME = "latest"
#: What a run that has to end at once does not write: the calls are in its journal, the table's figures in its report.
DISPENSABLE: tuple[str, ...] = (CALLS_NAME, "per_case.csv")


def new_run_id(now: datetime | None = None) -> str:
    """A run id that sorts by time, to the microsecond in UTC, and differs between runs started at the same instant:
    ``20260806T101530.123456Z-1a2b3c``."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond:06d}Z-{secrets.token_hex(3)}"


def default_folder(base: Path, run_id: str) -> Path:
    """The folder of a run without an output option."""
    return base / MEMEVAL_FOLDER / "runs" / run_id


def make_home(base: Path) -> Path:
    """The folder ``.memeval``, made if it is not there, with a ``.gitignore`` of its own."""
    home = base / MEMEVAL_FOLDER
    home.mkdir(parents=True, exist_ok=True)
    ignored = home / ".gitignore"
    if not ignored.exists():
        # Runs are not to be committed by accident; pytest does the same for its cache.
        ignored.write_text("*\n", encoding="utf-8")
    return home


def foreign_file(folder: Path) -> Path | None:
    """A file of ``folder`` that a run's reports would replace though no run wrote it; ``None`` where there is none, or
    where the folder holds an earlier run."""
    names = ("report.md", "per_case.csv", CALLS_NAME, JOURNAL_NAME, HYPOTHESES_NAME, LOCOMO_NAME)
    if not folder.is_dir() or _begins(folder / REPORT_NAME, '"schema_version"', '"run_id"'):
        return None
    ours = _begins(folder / JOURNAL_NAME, '"node_id"')  # a run that was killed at its end, or one over variants
    found = (folder / name for name in (REPORT_NAME, *(() if ours else names)))
    return next((file for file in found if file.exists()), None)


def _begins(file: Path, *words: str) -> bool:
    """Whether all of the words stand near a file's beginning."""
    if is_stream(file):  # reading from a pipe would wait, for ever
        return False
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            head = text.read(4096)
    except OSError:
        return False
    return all(word in head for word in words)


def write_latest(base: Path, folder: Path) -> None:
    """Let ``.memeval/latest`` name the newest run's folder, relative to ``.memeval`` with forward slashes."""
    home = make_home(base)
    try:
        named = folder.resolve().relative_to(home.resolve()).as_posix()
    except ValueError:
        named = folder.resolve().as_posix()
    _replace(home / LATEST_NAME, lambda file: _write_text(file, [named + "\n"]))


def latest_folder(base: Path) -> Path | None:
    """The folder that ``.memeval/latest`` names, ``None`` where there is none."""
    home = base / MEMEVAL_FOLDER
    try:
        named = (home / LATEST_NAME).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    folder = home / named
    return folder if named and folder.is_dir() else None


def write_reports(
    folder: Path,
    report: Mapping[str, Any],
    calls: Iterable[Mapping[str, Any]] = (),
    lang: str = "en",
    *,
    journal: Path | None = None,
    appendix: Sequence[str] = (),
    brief: bool = False,
    line_of: Callable[[Mapping[str, Any]], str] | None = None,
) -> list[Path]:
    """Write a run's files into ``folder`` and return their paths.

    Everything is first written beside its place and then moved there, ``report.json`` last, so that an older run's
    files stay until this one is complete and no reader ever sees half a file. ``journal`` is this run's journal if it
    was kept under another name: it takes its place with the rest. ``appendix``: lines that end the Markdown report.
    ``brief`` leaves out the files that take longest, an older run's with them; all of their content is in the others.
    ``line_of`` gives the text of an entry of ``per_case`` that was made already.
    Raises OSError where the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[BinaryIO], None]] = {
        CALLS_NAME: lambda file: write_calls(file, calls),
        "report.md": lambda file: _write_text(
            file, [markdown_report(report, lang), *(line + "\n" for line in appendix)]
        ),
        "per_case.csv": lambda file: _write_text(file, csv_chunks(report)),
        **{name: partial(_write_text, chunks=chunks) for name, chunks in prediction_files(report).items()},
        REPORT_NAME: lambda file: _write_text(file, report_chunks(report, line_of)),
    }
    left_out = [folder / name for name in DISPENSABLE if brief]
    for file in left_out:
        del makers[file.name]
    written: list[tuple[Path, Path]] = []
    try:
        for name, make in makers.items():
            written.append((_write_beside(folder / name, make), folder / name))
        if journal is not None and journal != folder / JOURNAL_NAME:
            written.insert(0, (journal, folder / JOURNAL_NAME))
        for temporary, target in written:
            put(temporary, target)
        for file in left_out:
            if not is_stream(file):
                file.unlink(missing_ok=True)
    finally:
        for temporary, _ in written:
            if temporary != journal:
                temporary.unlink(missing_ok=True)
    return [target for _, target in written]


def write_lines(target: Path, lines: Iterable[str]) -> None:
    """Write one text file whole, making its folder; an older one stays until the new one is complete. A device or a
    pipe is written into."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _replace(target, lambda file: _write_text(file, lines))


def _write_text(file: BinaryIO, chunks: Iterable[str]) -> None:
    for chunk in chunks:
        # Half a surrogate pair has no UTF-8 form; only prose can still hold one here, JSON has it as an escape.
        file.write(chunk.encode("utf-8", "backslashreplace"))


def _replace(target: Path, make: Callable[[BinaryIO], None]) -> None:
    if is_stream(target):
        with naming(target), open_stream(target) as stream:
            make(stream)
        return
    put(_write_beside(target, make), target)


def _write_beside(target: Path, make: Callable[[BinaryIO], None]) -> Path:
    """Write a new file in the target's folder, and leave nothing behind where that fails."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:  # it names a file that nobody has heard of
        raise OSError(error.errno, error.strerror, str(target)) from error
    temporary = Path(name)
    try:
        with naming(target, temporary), os.fdopen(handle, "wb") as file:
            make(file)
        # mkstemp files are private; a report is as readable as any other file of its folder.
        temporary.chmod(0o666 & ~_umask())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
