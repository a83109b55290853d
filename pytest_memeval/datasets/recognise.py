"""Telling the benchmarks' files by what they hold."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_memeval.datasets.records import first_keys

#: Formats that can be named in ``dataset: {format: …}``.
FORMATS: tuple[str, ...] = ("locomo", "longmemeval")
_SESSION = re.compile(r"session_\d+")


def recognise(path: Path) -> str | None:
    """``locomo`` or ``longmemeval`` by the keys of the file's first record, ``None`` for anything else or no file."""
    try:
        if path.suffix.lower() != ".json" or not path.is_file():
            return None
        keys = first_keys(path)
    except OSError:
        return None
    if "question_id" in keys and (
        "haystack_sessions" in keys or "haystack_dates" in keys or "answer_session_ids" in keys
    ):
        return "longmemeval"
    if ("qa" in keys and ("conversation" in keys or "sample_id" in keys)) or (
        "qa" in keys and any(_SESSION.fullmatch(key) for key in keys)
    ):
        return "locomo"
    conversation = keys.get("conversation")
    if isinstance(conversation, dict) and any(_SESSION.fullmatch(key) for key in conversation):
        return "locomo"
    return None
