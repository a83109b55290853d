"""A hash of what is written in a part of a document, whatever its format, comments and order of keys."""

from __future__ import annotations

import hashlib

from pytest_memeval.documents.scalars import typed_text
from pytest_memeval.documents.tree import MAPPING, PLAIN, Node, Tape

#: First characters of unquoted null, booleans and numbers; what starts otherwise is text.
_TYPED_START = frozenset("0123456789+-.~ntfNTF")


def content_hash(node: Node) -> str:
    """SHA-256 (hex) of the content under ``node``: equal for the same content in YAML and JSON.

    An unquoted number and the same digits in quotes differ, as they may be told apart where any value is kept.
    """
    known = node.document.digests.get(node.at)
    if known is not None:
        return known
    tape = node.document.tape
    text = _collection(tape, node.at) if tape.kinds[node.at] >= MAPPING else _scalar(tape, node.at)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    node.document.digests[node.at] = digest
    return digest


def _scalar(tape: Tape, at: int) -> str:
    text = tape.texts[at]
    if tape.kinds[at] == PLAIN and (not text or text[0] in _TYPED_START):
        typed = typed_text(text)
        if typed is not None:
            return f"p{typed};"
    # the length makes the boundary unmistakable
    return f"s{len(text)}:{text}"


def _collection(tape: Tape, at: int) -> str:
    kinds, texts, sizes = tape.kinds, tape.texts, tape.sizes
    mapping = kinds[at] == MAPPING
    end = at + sizes[at]
    at += 1
    parts = []
    while at < end:
        key = ""
        if mapping:
            key = texts[at]
            key = f"{len(key)}:{key}"
            at += 1
        kind = kinds[at]
        text = texts[at]
        if kind >= MAPPING:
            parts.append(key + _collection(tape, at))
        elif kind == PLAIN and (not text or text[0] in _TYPED_START):
            parts.append(key + _scalar(tape, at))
        else:
            parts.append(f"{key}s{len(text)}:{text}")
        at += sizes[at]
    if mapping:
        parts.sort()
        return f"{{{''.join(parts)}}}"
    return f"[{''.join(parts)}]"
