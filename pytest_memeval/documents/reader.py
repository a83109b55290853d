"""Reading YAML, JSON and JSONL files into positioned documents."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_memeval.documents import cache
from pytest_memeval.documents.json_parser import parse_json, parse_jsonl
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.documents.text import MAX_BYTES, decode, read_bytes
from pytest_memeval.documents.tree import Document, Node
from pytest_memeval.documents.yaml_parser import MAX_DEPTH, parse_yaml

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Document",
    "DocumentError",
    "Node",
    "parse_document",
    "paused_gc",
    "read_document",
    "read_text",
    "syntax_of",
]

#: Smaller files are parsed faster than a cache entry is worth.
CACHE_FROM_BYTES = 256 * 1024

_PARSERS: dict[str, Callable[[str, Path], Document]] = {"yaml": parse_yaml, "json": parse_json, "jsonl": parse_jsonl}


def syntax_of(path: Path) -> str:
    """``json``, ``jsonl`` or (anything else) ``yaml``, by the file's suffix."""
    return {".json": "json", ".jsonl": "jsonl"}.get(path.suffix.lower(), "yaml")


def read_text(path: Path, *, max_bytes: int = MAX_BYTES) -> str:
    """A UTF-8 file's text, byte-order mark removed. Raises DocumentError: missing, too large, not UTF-8."""
    return decode(read_bytes(path, max_bytes=max_bytes), path)


def parse_document(text: str, path: Path, *, syntax: str | None = None) -> Document:
    """Parse ``text``; ``path`` names it in messages and, without ``syntax``, decides between YAML, JSON and JSONL."""
    return _PARSERS[syntax or syntax_of(path)](text, path)


def read_document(
    path: Path,
    *,
    syntax: str | None = None,
    cache_dir: Path | None = None,
    max_bytes: int = MAX_BYTES,
    strict: bool = True,
    prepare: Callable[[Document], None] | None = None,
) -> Document:
    """Read and parse a file.

    Raises DocumentError with all that was found; with ``strict=False`` the problems that did not keep the rest from
    being read (duplicate keys, bad lines of JSONL) are left in ``Document.problems``. With ``cache_dir`` the parsed
    form of a large file is kept there and used as long as its content is the same; ``prepare`` is called before that,
    so that the content hashes which it computes are kept too.
    """
    content = read_bytes(path, max_bytes=max_bytes)
    source = decode(content, path)
    syntax = syntax or syntax_of(path)
    entry = cache.entry_path(cache_dir, content, syntax) if cache_dir and len(content) >= CACHE_FROM_BYTES else None
    del content
    with paused_gc():
        document = cache.load(entry, path, source) if entry else None
        if document is None:
            document = parse_document(source, path, syntax=syntax)
            if entry and not document.problems:
                if prepare is not None:
                    prepare(document)
                cache.store(entry, document)
    if strict:
        document.raise_problems()
    return document


@contextmanager
def paused_gc() -> Iterator[None]:
    """Keep the cyclic garbage collector off while many objects are made that all stay alive; restores its state."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
