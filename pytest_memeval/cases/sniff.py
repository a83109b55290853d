"""Telling case files from all the other YAML files of a project, without parsing them."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path

from pytest_memeval.cases.sniff_meta import is_head_of_cases
from pytest_memeval.documents.braces import keys_in_braces
from pytest_memeval.documents.text import MAX_BYTES

_SNIFFED = re.compile(
    rb"(?:^|[\r\n])(?:(?P<q>[\"']?)(?:cases|dataset)(?P=q)[ \t]*:"
    rb"|(?P<k>[\"']?)kind(?P=k)[ \t]*:[ \t]*(?P<v>[\"']?)(?:distill|qa|rag)(?P=v)[ \t]*(?:#[^\r\n]*)?[\r\n])"
)
_KEYS = frozenset({"cases", "dataset"})
#: Suffixes by which a YAML file says that it is ours, whatever is in it.
_OWN_NAMES = (".memeval.yaml", ".memeval.yml")
_KINDS = frozenset({"distill", "qa", "rag"})
_CHUNK = 64 * 1024
_COMMENT = re.compile(rb"(?:^|(?<=[\r\n]))[ \t]*#[^\r\n]*")
_TOP_KEY = re.compile(rb"(?:^|[\r\n])(?P<q>[\"']?)(?P<key>[A-Za-z_]+)(?P=q)[ \t]*:")
#: Keys of entries, in either style of YAML or as JSON.
_CASE_ID = re.compile(rb"(?:^|[\s{,\[-])[\"']?case_id[\"']?[ \t]*:")
_CASE_KEY = re.compile(
    rb"(?:^|[\s{,\[-])[\"']?(?:conversation|existing_memories|existing_scenes|questions"
    rb"|expected_(?:l1|l15|l2|inject|search_results))[\"']?[ \t]*:"
)
#: Marks of encodings that are read here only to be refused later, by name; the longer ones first.
_FOREIGN_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
#: How the lines of a run's journal begin.
_JOURNAL = b'{"node_id": '
#: So many lines are read for one that tells whose they are.
_FIRST_LINES = 20
#: Bytes by which an encoding without a mark is told.
_FEW = 4


def looks_like_case_file(path: Path) -> bool:
    """Whether a file has a line starting ``cases:``, ``dataset:`` or ``kind: distill|qa|rag``; any ``.jsonl`` does, and
    any ``.memeval.yaml``.

    So does one whose cases are lost, with a ``meta`` that is a case set's, and one that begins with cases under another
    key than ``cases``, or under none: what is misspelt is for the loader to say. In a file that is one mapping in
    braces, as JSON is, these are keys of that mapping, on whatever line. A file in UTF-16 or UTF-32 with its byte-order
    mark is looked into as well: it cannot be read as cases, but has to be told of. Reads in pieces until such a line,
    at most to the size limit. Never raises: what cannot be read is none.
    """
    try:
        if not path.is_file():
            return False
        if path.suffix.lower() == ".jsonl" or path.name.lower().endswith(_OWN_NAMES):
            return True
        with path.open("rb") as stream:
            kept = stream.read(_CHUNK).removeprefix(b"\xef\xbb\xbf")
            encoding = _foreign_encoding(kept)
            if encoding is not None:
                text = (kept + stream.read(MAX_BYTES)).decode(encoding, "replace")
                content = text.encode("utf-8", "replace")
                return _SNIFFED.search(content + b"\n") is not None or is_head_of_cases(content)
            if _begins_with_cases(kept) or is_head_of_cases(kept):
                return True
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
                end = max(kept.rfind(b"\n"), kept.rfind(b"\r"))
                tail = kept[end:] if end >= 0 else kept
                kept = (tail if len(tail) <= _CHUNK else b"-") + more
    except (OSError, ValueError):
        return False


def seems_forgotten(path: Path) -> bool:
    """Whether a file of a name by which nobody collects it holds cases, most likely. Reads its beginning."""
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return looks_like_case_file(path)
    try:
        if suffix not in (".json", ".jsonl") or not path.is_file():
            return False
        if ".memeval." in path.name.lower():
            return True
        with path.open("rb") as stream:
            head = stream.read(_CHUNK)
    except (OSError, ValueError):
        return False
    if not (_CASE_ID.search(head) and _CASE_KEY.search(head)):
        return False
    if suffix == ".jsonl":
        return not _is_of_a_run(path)
    # Reports have all these keys, too, and cases under none of the names.
    return not head.lstrip().startswith(b"{") or _is_near_key(head)


def _is_of_a_run(path: Path) -> bool:
    """Whether a file of lines is a run's own, such as a journal: texts and labels of cases stand deeper there."""
    with path.open("rb") as stream:
        for line in islice(iter(lambda: stream.readline(MAX_BYTES), b""), _FIRST_LINES):
            if line.lstrip().startswith(_JOURNAL):  # however long, and whether or not it was written to its end
                return True
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and "case_id" in row:
                return "node_id" in row or not any(_CASE_KEY.match(f"{key}:".encode()) for key in row)
    return False


def _foreign_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32, where it is either, with its mark or, by its zeros, without."""
    for mark, encoding in _FOREIGN_MARKS:
        if head.startswith(mark):
            return encoding
    if len(head) >= _FEW and head[0] and head[2] and not head[1] and not head[3]:
        return "utf-16-le"
    if len(head) >= _FEW and head[1] and head[3] and not head[0] and not head[2]:
        return "utf-16-be"
    return None


def _begins_with_cases(head: bytes) -> bool:
    if b"case_id" not in head and not _is_near_key(head):
        return False
    head = _COMMENT.sub(b"", head)
    is_entry, is_ours = _CASE_ID.search(head) is not None, _CASE_KEY.search(head) is not None
    return (is_entry and is_ours) or ((is_entry or is_ours) and _is_near_key(head))


def _is_near_key(head: bytes) -> bool:
    """Whether a key of the file itself, as far as it is seen, is ``cases`` in other case or with one letter wrong."""
    keys = [match["key"].decode() for match in _TOP_KEY.finditer(head)]
    keys += [key for key, _ in keys_in_braces(head) or ()]
    return any(_is_near(key.lower(), "cases") for key in keys)


def _is_near(word: str, wanted: str) -> bool:
    """Whether the words differ in one letter at most: wrong, missing, too many, or changed with its neighbour."""
    if abs(len(word) - len(wanted)) > 1:
        return False
    same = next((at for at, pair in enumerate(zip(word, wanted, strict=False)) if pair[0] != pair[1]), len(wanted))
    rest, left = word[same:], wanted[same:]
    swapped = rest[:2] == left[1::-1] and rest[2:] == left[2:]
    return rest == left or rest[1:] == left[1:] or rest[1:] == left or rest == left[1:] or swapped
