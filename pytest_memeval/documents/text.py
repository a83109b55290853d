"""Bytes of a file to text: UTF-8 only, with a helpful word about anything else."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_memeval.documents.problems import DocumentError, Problem

#: A larger file is refused before it is read.
MAX_BYTES = 50 * 1024 * 1024

_BOMS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_HIGH = re.compile(rb"[\x80-\xff]")
_BOTH_HIGH = re.compile(rb"(?:[\xa1-\xfe][\xa1-\xfe])+")
_WINDOW = 64 * 1024


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The file's content. Raises DocumentError if it is missing, no regular file, unreadable or over ``max_bytes``."""
    try:
        if not path.is_file():
            raise _error(path, "not a file" if path.exists() else "no such file")
        size = path.stat().st_size
        if size > max_bytes:
            raise _too_large(path, size, max_bytes)
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise _error(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > max_bytes:
        raise _too_large(path, len(content), max_bytes)
    return content


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file of records, whatever its size, without byte-order mark and line ends; an empty file is
    one empty line. Raises DocumentError: not UTF-8, cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise _error(path, f"not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from None


def decode(content: bytes, path: Path) -> str:
    """UTF-8 text without its byte-order mark. Anything else raises DocumentError with a guess and the byte offset."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # the codec counts from behind a byte-order mark
        offset = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
    line_start = content.rfind(b"\n", 0, offset) + 1
    line = content.count(b"\n", 0, offset) + 1
    column = len(content[line_start:offset].decode("utf-8", "replace")) + 1
    guess = guess_encoding(content, offset)
    raise DocumentError(
        [
            Problem(
                path,
                line,
                column,
                f"not UTF-8: byte 0x{content[offset]:02x} at offset {offset}; it looks like {guess}, "
                "so save the file as UTF-8",
            )
        ]
    )


def guess_encoding(content: bytes, offset: int = 0) -> str:
    """The likely encoding of text that is not UTF-8: ``utf-16``, ``utf-32``, ``gb18030`` or ``latin-1``.

    Double-byte Chinese text has its high bytes in pairs, accented Latin text has them alone between letters.
    """
    for bom, name in _BOMS:
        if content.startswith(bom):
            return name
    window = content[max(offset - 256, 0) : offset + _WINDOW]
    if window.count(0) > len(window) // 8:
        return "utf-16"
    high = len(_HIGH.findall(window))
    paired = sum(len(run) for run in _BOTH_HIGH.findall(window))
    if high and paired >= 0.8 * high:
        try:
            # a cut at the window's end may split a character
            window[:-4].decode("gb18030") if len(window) > _WINDOW else window.decode("gb18030")
        except UnicodeDecodeError:
            return "latin-1"
        return "gb18030"
    return "latin-1"


def _too_large(path: Path, size: int, limit: int) -> DocumentError:
    return _error(path, f"too large: {size / 2**20:.1f} MB, the limit is {limit / 2**20:g} MB")


def _error(path: Path, message: str) -> DocumentError:
    return DocumentError([Problem(path, 0, 0, message)])
