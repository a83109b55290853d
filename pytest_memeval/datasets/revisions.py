"""Which published file a file is."""

from __future__ import annotations

import hashlib
from pathlib import Path

#: SHA-256 of a published file → what it is.
KNOWN: dict[str, str] = {
    "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4": (
        "LoCoMo locomo10.json, snap-research/locomo at 3eb6f2c"
    ),
    "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c": (
        "LongMemEval oracle, xiaowu0162/longmemeval-cleaned at 98d7416"
    ),
    "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442": (
        "LongMemEval S, xiaowu0162/longmemeval-cleaned at 98d7416"
    ),
    "9d79e5524794a2e6900a3aa9cb7d9152c5a3e8319c9a87c25494ba1eacee495f": (
        "LongMemEval M, xiaowu0162/longmemeval-cleaned at 98d7416"
    ),
}


def file_sha256(path: Path) -> str:
    """The file's SHA-256 in hex; read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def known_revision(sha256: str) -> str | None:
    """The published file with this digest, ``None`` where none is known."""
    return KNOWN.get(sha256)
