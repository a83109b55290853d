"""Which files of a folder hold cases, where no pytest session says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_memeval.cases.loader import looks_like_case_file, seems_forgotten
from pytest_memeval.options import SettingsError

#: So many of the files that are passed over are named.
_NAMED = 8
#: A larger file is not read to find out whether it says anything.
_SMALL = 64 * 1024


def case_files_in(paths: Sequence[Path]) -> list[Path]:
    """The files named, and the case files in the folders named. Raises SettingsError for a path that leads to none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for pattern in ("*.yaml", "*.yml") for file in path.rglob(pattern))
            inside = [file for file in inside if looks_like_case_file(file)]
            inside += sorted(path.rglob("*.memeval.jsonl"))
            if not inside:
                why = "; ".join([*forgotten_in(path, inside), *passed_over_in(path, inside)])
                raise SettingsError(f"{path}: no case file in this folder" + (why and f"; {why}"))
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


def passed_over_in(folder: Path, taken: Sequence[Path]) -> list[str]:
    """A sentence on the YAML files of a folder that look like no case files; first those in which nothing is said,
    which may be case files that got lost."""
    known = set(taken)
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in (".yaml", ".yml") and file not in known)
    others = [file for file in files if not looks_like_case_file(file)]
    empty = [file for file in others if _says_nothing(file)]
    shown = [f"{file.relative_to(folder)} (nothing in it)" for file in empty]
    shown += [str(file.relative_to(folder)) for file in others if file not in set(empty)]
    if not shown:
        return []
    names = ", ".join(shown[:_NAMED]) + (f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else "")
    return [f"passed over in {folder}, since nothing in it says that it is a case file: {names}"]


def _says_nothing(file: Path) -> bool:
    """Whether a file is empty, or holds only comments."""
    try:
        if not file.is_file() or file.stat().st_size > _SMALL:
            return False
        lines = file.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError:
        return False
    return all(not line.strip() or line.lstrip().startswith(b"#") or line.strip() == b"---" for line in lines)
