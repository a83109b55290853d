"""A hash of what is written in a part of a document, whatever its format, comments and order of keys."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pytest_memeval.documents.scalars import typed_text
from pytest_memeval.documents.tree import MAPPING, PLAIN, Node, Tape

_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
#: First characters of unquoted null, booleans and numbers; what starts otherwise is text.
_TYPED_START = frozenset("0123456789+-.~ntfNTF")


def content_hash(node: Node) -> str:
    """SHA-256 (hex) of the content under ``node``: equal for the same content in YAML and JSON.

    An unquoted number and the same digits in quotes differ, as they may be told apart where any value is kept.
    """
    text = _encode(_canonical(node.document.tape, node.at))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _canonical(tape: Tape, at: int) -> Any:
    """Strings as ``s…``; unquoted null, booleans and numbers as ``p…``."""
    kinds, texts, sizes = tape.kinds, tape.texts, tape.sizes
    kind = kinds[at]
    if kind < MAPPING:
        text = texts[at]
        if kind == PLAIN and (not text or text[0] in _TYPED_START):
            typed = typed_text(text)
            if typed is not None:
                return "p" + typed
        return "s" + text
    end = at + sizes[at]
    at += 1
    if kind == MAPPING:
        mapping = {}
        while at < end:
            mapping[texts[at]] = _canonical(tape, at + 1)
            at += 1 + sizes[at + 1]
        return mapping
    sequence = []
    while at < end:
        sequence.append(_canonical(tape, at))
        at += sizes[at]
    return sequence
