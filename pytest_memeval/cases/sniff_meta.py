"""Telling a case set by its ``meta``: its cases may be lost, and its gates would hold of nothing without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_memeval.documents.braces import keys_in_braces

#: Keys that nobody else's ``meta`` has, and those that another tool's may have as well.
_ONLY_OURS = frozenset({"gates", "total_cases", "distractors"})
_PERHAPS_OURS = frozenset({"registry", "templates", "prompts"})
#: The keys that may stand beside it where it is ours only perhaps.
_BESIDE = frozenset({"meta", "kind", "cases", "generate"})
_LINE = re.compile(
    rb"(?P<indent>[ ]*)(?P<q>[\"']?)(?P<key>[^\s\"'#:{}\[\],&*!|>%@`-][^\s\"'#:{}]*)(?P=q)[ \t]*:(?=\s|\Z)"
)
_META_IN_BRACES = re.compile(rb"""(?:[{,]|(?<=\s))\s*["']?meta["']?\s*:\s*(?=\{)""")


def is_head_of_cases(text: bytes) -> bool:
    """Whether a YAML text, or the beginning of one, has a ``meta`` on its top level with a key that only case sets
    have. One that other tools have, too, counts where nothing else is there."""
    if b"meta" not in text:
        return False
    in_braces = keys_in_braces(text)
    top, below = _of_lines(text) if in_braces is None else ({key for key, _ in in_braces}, _of_braces(text))
    if "meta" not in top:
        return False
    return not below.isdisjoint(_ONLY_OURS) or (top <= _BESIDE and not below.isdisjoint(_PERHAPS_OURS))


def _of_braces(text: bytes) -> set[str]:
    found = _META_IN_BRACES.search(text)
    return set() if found is None else {key for key, _ in keys_in_braces(text[found.end() :]) or ()}


def _of_lines(text: bytes) -> tuple[set[str], set[str]]:
    """The keys of the top level, and those directly below its ``meta``."""
    top: set[str] = set()
    below: set[str] = set()
    indent: int | None = None
    in_meta = False
    for at, line in _lines(text):
        match = _LINE.match(line)
        if match is None:
            continue
        depth, key = len(match["indent"]), match["key"].decode("utf-8", "replace")
        if depth == 0:
            in_meta, indent = key == "meta" and key not in top, None
            top.add(key)
            if in_meta:
                below |= {name for name, _ in keys_in_braces(text[at + match.end() :].lstrip(b" \t")) or ()}
        elif in_meta:
            indent = depth if indent is None else indent
            if depth == indent:
                below.add(key)
    return top, below


def _lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, line
        at += len(line)
