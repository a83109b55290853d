"""Files of ours that may be replaced, told from anybody else's by how they begin."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.report.page_mark import PAGE_MARK
from pytest_memeval.writing import is_stream, stream_problem

#: Keys of a row of saved contexts.
CONTEXT_KEYS = frozenset({"set", "case_id", "query", "contexts", "response"})
_HEAD = 64 * 1024  # characters, which reach beyond the style of a page
#: A first line longer than this is no row of ours that would have to be read whole to tell.
_LONGEST_ROW = 64 * 1024 * 1024


def is_replaceable(path: Path, kind: str) -> bool:
    """Whether ``path`` may be written as a file of ``kind``, a key of :data:`KINDS`: it does not exist, holds nothing
    but white space, or is one of that kind already. A file that cannot be read is not ours."""
    if not path.exists():
        return True
    if is_stream(path):  # it takes what it is given, and keeps nothing
        return stream_problem(path) is None
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            head = file.read(_HEAD)
            if not head.strip() and len(head) < _HEAD:
                return True
            if kind in _ROWS:
                line, end, _ = head.partition("\n")
                line += "" if end else file.readline(_LONGEST_ROW)
                return _ROWS[kind](_object(line))
    except (OSError, UnicodeDecodeError):
        return False
    return _HEADS[kind](head)


def refusal(path: Path, kind: str) -> str | None:
    """Why ``path`` must not be written as a file of ``kind``, ``None`` where it may."""
    if is_replaceable(path, kind):
        return None
    problem = stream_problem(path)
    if problem is not None:
        return problem
    return f"{path} is no file of an earlier run and would be replaced; move it, or name another file"


def _object(line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _is_prediction(row: Mapping[str, Any]) -> bool:
    from pytest_memeval.engine.predictions import ROW_KEYS

    return {"case_id", "set"} <= set(row) <= set(ROW_KEYS)


def _is_page(head: str) -> bool:
    # The second is what a run's page had before there was a mark.
    is_page = head.lower().startswith("<!doctype html")
    return is_page and (PAGE_MARK in head or 'class="memeval memeval-page"' in head)


def _is_markdown(head: str) -> bool:
    from pytest_memeval.compare.messages import text

    return head.partition("\n")[0].rstrip() in {f"# {text('title', lang)}" for lang in ("en", "zh")}


def _is_tuning_page(head: str) -> bool:
    from pytest_memeval.tuning.messages import text

    return any(head.startswith(f"# {text('title', lang)}: ") for lang in ("en", "zh"))


def _is_terminal(head: str) -> bool:
    """Whether both sides of a comparison are named there, as its lines do."""
    sides = r"(?m)^{0}(?:: .* \| prompts .* \| model |：.* \| 提示词 .* \| 模型 )"
    return all(re.search(sides.format(letter), head) for letter in "AB")


_ROWS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "predictions": _is_prediction,
    "contexts": lambda row: set(row) == CONTEXT_KEYS,
    "corpus": lambda row: set(row) == {"id", "content"},
    "answers": lambda row: row.get("format") == "memeval-answers",
}
_HEADS: Mapping[str, Callable[[str], bool]] = {
    "html": _is_page,
    "markdown": _is_markdown,
    "terminal": _is_terminal,
    "json": lambda head: re.match(r'\{\s*"comparison_version"\s*:', head) is not None,
    "tuning": lambda head: re.match(r'\{[^{}]*"kind"\s*:\s*"tuning"', head) is not None,
    "tuning markdown": _is_tuning_page,
    "judge": lambda head: re.match(r'\{\s*"judge"\s*:', head) is not None,
}
#: What a file can be written as.
KINDS: tuple[str, ...] = (*_ROWS, *_HEADS)
