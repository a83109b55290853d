"""Memories of nobody's case, which only make search harder: the file that ``meta.distractors`` names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_memeval.documents.json_values import json_value
from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean, json_fault
from pytest_memeval.documents.text import read_lines
from pytest_memeval.values import Memory

KEYS: tuple[str, ...] = ("id", "content", "extra")


def load_distractors(path: Path) -> tuple[Memory, ...]:
    """The distractors in a file of lines: each line is a JSON object ``{"content": …}`` with an optional ``id``, or a
    JSON string; in a ``.txt`` file it is the content itself. Empty lines are passed over. Without an id one is made of
    the line's number: ``distractor-7``. Raises DocumentError with every problem and its line."""
    problems: list[Problem] = []
    found: list[Memory] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        line = line.strip()
        if not line:
            continue
        try:
            row: Any = line if path.suffix == ".txt" else json_value(line)
            memory = _memory(row, number)
            if str(memory.id) in seen:
                raise ValueError(f"id {memory.id!r} is already on line {seen[str(memory.id)]}")
        except json.JSONDecodeError as error:
            problems.append(Problem(path, number, 0, f"not JSON: {json_fault(error)} (column {error.colno})"))
        except ValueError as error:
            problems.append(Problem(path, number, 0, str(error)))
        else:
            seen[str(memory.id)] = number
            found.append(memory)
    if not found and not problems:
        problems.append(Problem(path, 0, 0, "holds no distractors: one a line is expected"))
    if problems:
        raise DocumentError(problems)
    return tuple(found)


def _memory(row: Any, number: int) -> Memory:
    if isinstance(row, str):
        row = {"content": row}
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object or text, got {type(row).__name__}")
    for key in row:
        if key not in KEYS:
            raise ValueError(f"unknown key {key!r}{did_you_mean(key, KEYS)}")
    content, identifier = row.get("content"), row.get("id", f"distractor-{number}")
    if not isinstance(content, str) or not content.strip():
        raise ValueError("content is missing or no text")
    if not isinstance(identifier, str) or not identifier.strip():
        raise ValueError(f"id must be text, got {identifier!r}")
    if "#" in identifier:
        raise ValueError(f"id {identifier!r} holds a '#', as only the ids of cases' memories do")
    return Memory(id=identifier, content=content)
