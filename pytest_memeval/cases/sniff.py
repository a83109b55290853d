"""Telling case files from all the other YAML files of a project, without parsing them."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_memeval.documents.braces import keys_in_braces
from pytest_memeval.documents.text import MAX_BYTES

_SNIFFED = re.compile(
    rb"(?:^|\n)(?:(?P<q>[\"']?)(?:cases|dataset)(?P=q)[ \t]*:"
    rb"|(?P<k>[\"']?)kind(?P=k)[ \t]*:[ \t]*(?P<v>[\"']?)(?:distill|qa|rag)(?P=v)[ \t]*(?:#[^\n]*)?\r?\n)"
)
_KEYS = frozenset({"cases", "dataset"})
_KINDS = frozenset({"distill", "qa", "rag"})
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

    In a file that is one mapping in braces, as JSON is, these are keys of that mapping, on whatever line.
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
            if keys_in_braces(kept) is not None:
                pairs = keys_in_braces(kept + stream.read(MAX_BYTES)) or ()
                return any(key in _KEYS or (key == "kind" and value in _KINDS) for key, value in pairs)
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
