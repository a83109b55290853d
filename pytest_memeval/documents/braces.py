"""The keys of a file that is one mapping in braces, as JSON is, without parsing it."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: What may stand before a mapping that is written with braces, as JSON is.
_BEFORE_BRACE = re.compile(rb"(?:\s|#[^\n]*\n|%[^\n]*\n|---(?=[\s{]))*\{")
_STRING = rb'"(?:[^"\\]++|\\.|\\\Z)*+(?:"|\Z)|\'[^\']*+(?:\'|\Z)'
_COMMENT = rb"(?<=\s)#[^\n]*"
#: The parts of such a text: strings, comments, what opens and closes, and what stands between.
_TOKEN = re.compile(_STRING + b"|" + _COMMENT + rb"|[\[\]{},:]|[^\s\"'\[\]{},:]+", re.S)
#: What lies deeper than the keys that are looked for, up to the next thing that opens or closes.
_NESTED = re.compile(rb"(?:[^\"'\[\]{}#]++|" + _STRING + b"|" + _COMMENT + rb"|#)*+([\[\]{}])", re.S)


def keys_in_braces(text: bytes) -> Iterator[tuple[str, str]] | None:
    """The keys of the mapping in braces, as JSON is, that ``text`` begins with, each with its value where that is a
    scalar (else empty); ``None`` where it begins otherwise. What is nested in it is passed over."""
    start = _BEFORE_BRACE.match(text)
    return None if start is None else _pairs(text, start.end())


def _pairs(text: bytes, at: int) -> Iterator[tuple[str, str]]:
    key, value, is_key = b"", b"", True
    while (match := _TOKEN.search(text, at)) is not None:
        token, at = match[0], match.end()
        if token.startswith(b"#"):
            continue
        if token in (b"{", b"["):
            if not is_key:
                yield _shown(key), ""
                key = b""
            at = _end_of_nested(text, at)
        elif token in (b",", b"}", b"]"):
            if not is_key and key:
                yield _shown(key), _shown(value)
            key, value, is_key = b"", b"", True
            if token != b",":
                return
        elif token == b":" and is_key:
            is_key = False
        else:
            key, value = (token, b"") if is_key else (key, token)


def _end_of_nested(text: bytes, at: int) -> int:
    """Behind what closes that which was opened just before ``at``."""
    depth = 1
    while depth:
        match = _NESTED.match(text, at)
        if match is None:
            return len(text)
        depth += 1 if match[1] in (b"{", b"[") else -1
        at = match.end()
    return at


def _shown(token: bytes) -> str:
    return token.strip(b"\"'").decode("utf-8", "replace")
