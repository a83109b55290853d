"""Which files of a folder hold cases, where no pytest session says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_memeval.cases.loader import looks_like_case_file, seems_forgotten
from pytest_memeval.options import SettingsError


def case_files_in(paths: Sequence[Path]) -> list[Path]:
    """The files named, and the case files in the folders named. Raises SettingsError for a path that leads to none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for pattern in ("*.yaml", "*.yml") for file in path.rglob(pattern))
            inside = [file for file in inside if looks_like_case_file(file)]
            inside += sorted(path.rglob("*.memeval.jsonl"))
            if not inside:
                forgotten = "; ".join(forgotten_in(path, inside))
                raise SettingsError(f"{path}: no case file in this folder" + (forgotten and f"; {forgotten}"))
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise SettingsError(f"{path}: no such file")
    return found


def forgotten_in(folder: Path, taken: Sequence[Path]) -> list[str]:
    """A sentence for each file of a folder that holds cases, most likely, under a name that is not looked for."""
    known = set(taken)
    return [
        f"{file} looks like a case file, but of a folder only *.yaml, *.yml and *.memeval.jsonl are taken; name the"
        " file itself, or rename it"
        for file in sorted(folder.rglob("*"))
        if file not in known and seems_forgotten(file)
    ]
