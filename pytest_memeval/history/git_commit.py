"""The commit that a folder is at, read from git's files: starting a process for it would cost more than a small run."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST = 5


def git_commit(start: Path) -> str | None:
    """The full hash of the commit checked out at or above ``start``; ``None`` where there is no repository, no commit
    yet, or anything that cannot be read."""
    folder = start.absolute()
    for parent in (folder, *folder.parents):
        place = parent / ".git"
        try:
            if place.is_dir():
                return _head(place, place)
            if place.is_file():
                return _linked(place)
        except (OSError, ValueError):
            return None
    return None


def _linked(file: Path) -> str | None:
    """A work tree or submodule whose ``.git`` is a file that names its folder."""
    name, _, path = file.read_text(encoding="utf-8").strip().partition(": ")
    if name != "gitdir":
        return None
    own = (file.parent / path).resolve()
    shared = own / "commondir"
    common = (own / shared.read_text(encoding="utf-8").strip()).resolve() if shared.is_file() else own
    return _head(own, common)


def _head(own: Path, common: Path) -> str | None:
    text = (own / "HEAD").read_text(encoding="utf-8").strip()
    for _ in range(_MOST):  # a reference may name another one
        if _COMMIT.fullmatch(text):
            return text
        if not text.startswith("ref: "):
            return None
        found = _reference(text[len("ref: ") :], own, common)
        if found is None:
            return None
        text = found
    return None


def _reference(name: str, own: Path, common: Path) -> str | None:
    for folder in (own, common):
        file = folder / name
        if file.is_file():
            return file.read_text(encoding="utf-8").strip()
    packed = common / "packed-refs"
    if packed.is_file():
        for line in packed.read_text(encoding="utf-8").splitlines():
            commit, _, reference = line.partition(" ")
            if reference == name and _COMMIT.fullmatch(commit):
                return commit
    return None
