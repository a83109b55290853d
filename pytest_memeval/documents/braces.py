"""The keys of a file that is one mapping in braces, as JSON is, without parsing it."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: What may stand before a mapping that is written with braces, as JSON is.
_BEFORE_BRACE = re.compile(rb"(?:\s|#[^\n]*\n|%[^\n]*\n|---(?=[\s{]))*\{")
#: The parts of such a text: strings, comments, what opens and closes, and what stands between.
_TOKEN = re.compile(
    rb'"(?:[^"\\]++|\\.|\\\Z)*+(?:"|\Z)|\'[^\']*+(?:\'|\Z)|(?<=\s)#[^\n]*|[\[\]{},:]|[^\s"\'\[\]{},:]+', re.S
)


def keys_in_braces(text: bytes) -> Iterator[tuple[str, str]] | None:
    """The keys of the mapping in braces, as JSON is, that ``text`` begins with, each with its value where that is a
    scalar (else empty); ``None`` where it begins otherwise. What is nested in it is passed over."""
    start = _BEFORE_BRACE.match(text)
    return None if start is None else _pairs(text, start.end())


def _pairs(text: bytes, at: int) -> Iterator[tuple[str, str]]:
    depth, key, value, is_key = 1, b"", b"", True
    for match in _TOKEN.finditer(text, at):
        token = match[0]
        if token.startswith(b"#"):
            continue
        if token in (b"{", b"["):
            if depth == 1 and not is_key:
                yield _shown(key), ""
                key = b""
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and token == b":" and is_key:
            is_key = False
        elif depth == 1 and token != b",":
            key, value = (token, b"") if is_key else (key, token)
        if depth == 0 or (depth == 1 and token == b","):
            if not is_key and key:
                yield _shown(key), _shown(value)
            key, value, is_key = b"", b"", True
        if depth == 0:
            return


def _shown(token: bytes) -> str:
    return token.strip(b"\"'").decode("utf-8", "replace")
