"""What the commands share: printing to any console, configured paths, folders that must not be written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a text at once, with marks in the place of what the stream's encoding cannot show."""
    from pytest_memeval.report.console import console_text

    stream = stream or sys.stdout
    print(console_text(text, getattr(stream, "encoding", None)), file=stream, flush=True)


@contextmanager
def told_of(name: str | None, option: str) -> Iterator[None]:
    """Where an option names code of the project (``module:attribute``), what it raises in the block is a SettingsError
    that says so; else nothing is caught."""
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.failures import told
    from pytest_memeval.options import SettingsError
    from pytest_memeval.own_code import own_errors
    from pytest_memeval.report.reader import ReportError

    try:
        yield
    except (SettingsError, DocumentError, ReportError):
        raise
    except own_errors() as error:
        if name is None or ":" not in name:
            raise
        raise SettingsError(f"{option}: {name!r} failed: {told(error)}") from error


def configured(name: str) -> Path | None:
    """The path that the project's pytest configuration gives for a name."""
    from pytest_memeval.cli.ini import ini_value

    found = ini_value(name, Path.cwd())
    return found[1] / found[0] if found is not None and found[0] else None


def refuse_replacing(option: str, path: Path, kind: str) -> None:
    """Raise SettingsError where ``path`` is there already and is no file of this kind (see ``owned_files.KINDS``)."""
    from pytest_memeval.options import SettingsError
    from pytest_memeval.owned_files import refusal

    why = refusal(path, kind)
    if why is not None:
        raise SettingsError(f"{option}: {why}")


def refuse_foreign(folder: Path) -> None:
    """Raise ReportError where reports in ``folder`` would replace a file that no run wrote."""
    from pytest_memeval.report.reader import ReportError
    from pytest_memeval.report.write import foreign_file

    foreign = foreign_file(folder)
    if foreign is not None:
        raise ReportError(
            f"--output: {foreign} is no file of an earlier run and would be replaced; move it, or name another folder."
        )
