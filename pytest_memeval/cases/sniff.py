"""Telling case files from all the other YAML files of a project, without parsing them."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_memeval.documents.text import MAX_BYTES

_SNIFFED = re.compile(
    rb"(?:^|\n)(?:(?:cases|dataset)[ \t]*:"
    rb"|kind[ \t]*:[ \t]*[\"']?(?:distill|qa|rag)[\"']?[ \t]*(?:#[^\n]*)?\r?\n)"
)
_CHUNK = 64 * 1024
#: Marks of encodings that are read here only to be refused later, by name; the longer ones first.
_FOREIGN_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def looks_like_case_file(path: Path) -> bool:
    """Whether a file has a line starting ``cases:``, ``dataset:`` or ``kind: distill|qa|rag``; any ``.jsonl`` does.

    A file in UTF-16 or UTF-32 with its byte-order mark is looked into as well: it cannot be read as cases, but has to
    be told of. Reads in pieces until such a line, at most to the size limit. Never raises: what cannot be read is none.
    """
    try:
        if not path.is_file():
            return False
        if path.suffix.lower() == ".jsonl":
            return True
        with path.open("rb") as stream:
            kept = stream.read(_CHUNK).removeprefix(b"\xef\xbb\xbf")
            for mark, encoding in _FOREIGN_MARKS:
                if kept.startswith(mark):
                    text = (kept + stream.read(MAX_BYTES)).decode(encoding, "replace")
                    return _SNIFFED.search(text.encode("utf-8", "replace") + b"\n") is not None
            consumed = len(kept)
            while True:
                more = stream.read(_CHUNK) if consumed < MAX_BYTES else b""
                # without more to come, the end of the text ends its last line
                if _SNIFFED.search(kept if more else kept + b"\n"):
                    return True
                if not more:
                    return False
                consumed += len(more)
                # the last line may go on in the next piece; a very long one cannot be what is looked for
                tail = kept[kept.rfind(b"\n") :] if b"\n" in kept else kept
                kept = (tail if len(tail) <= _CHUNK else b"-") + more
    except (OSError, ValueError):
        return False
