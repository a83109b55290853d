"""A cache of parsed files, keyed by their content.

An entry holds primitives only. Its checksum is verified before anything is decoded, so a damaged or half-written entry
is read as absent and written anew. Entries are replaced atomically; any number of processes may share the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from array import array
from pathlib import Path

from pytest_memeval.documents.tree import Document, Tape

#: Raise this when the parser's result, the content hash or the entry's layout changes.
FORMAT = 1
#: The newest entries that are kept.
MAX_ENTRIES = 32

_SUFFIX = ".parsed"
_MAGIC = b"memeval-parsed\n"
_DIGEST_BYTES = 32
_Payload = tuple[bytes, list[str], bytes, bytes, tuple[int, ...], dict[int, str]]


def entry_path(folder: Path, content: bytes, syntax: str) -> Path:
    """Where the entry for ``content``, parsed as ``syntax``, lies."""
    key = hashlib.sha256(content)
    # marshal's format belongs to the interpreter's version, the arrays' to the machine
    key.update(f"|{syntax}|{FORMAT}|{sys.version_info[:2]}|{sys.byteorder}|{array('I').itemsize}".encode())
    return folder / f"{key.hexdigest()[:40]}{_SUFFIX}"


def load(entry: Path, path: Path, source: str) -> Document | None:
    """The document of an entry, or ``None`` where there is none that can be trusted."""
    try:
        data = entry.read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + _DIGEST_BYTES
    if not data.startswith(_MAGIC) or hashlib.sha256(data[head:]).digest() != data[len(_MAGIC) : head]:
        return None
    try:
        kinds, texts, sizes, offsets, lone, digests = marshal.loads(memoryview(data)[head:])
        tape = Tape(bytearray(kinds), texts, _numbers(sizes), _numbers(offsets))
    except (ValueError, TypeError, EOFError):
        return None
    if not len(tape.kinds) == len(tape.texts) == len(tape.sizes) == len(tape.offsets):
        return None
    with contextlib.suppress(OSError):  # the newest used are kept
        os.utime(entry)
    document = Document(path, source, tape, (), tuple(lone))
    document.digests.update(digests)
    return document


def store(entry: Path, document: Document) -> None:
    """Write an entry. A folder that cannot be written to is no error: the next run parses again."""
    tape = document.tape
    payload: _Payload = (
        bytes(tape.kinds),
        tape.texts,
        tape.sizes.tobytes(),
        tape.offsets.tobytes(),
        document.lone_surrogates,
        document.digests,
    )
    body = marshal.dumps(payload)
    temporary = ""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=".writing-", suffix=_SUFFIX + ".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(_MAGIC + hashlib.sha256(body).digest() + body)
        os.replace(temporary, entry)
        _prune(entry.parent)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _prune(folder: Path) -> None:
    entries = []
    for entry in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            entries.append((entry.stat().st_mtime_ns, entry))
    for _, entry in sorted(entries)[:-MAX_ENTRIES]:
        with contextlib.suppress(OSError):
            entry.unlink()


def _numbers(data: bytes) -> array[int]:
    numbers: array[int] = array("I")
    numbers.frombytes(data)
    return numbers
