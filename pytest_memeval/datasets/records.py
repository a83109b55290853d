"""The records of a benchmark file, one at a time: whole from a small file, streamed from a large one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from json.decoder import JSONDecodeError, JSONDecoder, scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from pathlib import Path
from typing import Any

from pytest_memeval.documents.json_values import json_value
from pytest_memeval.documents.problems import DocumentError, Problem, json_fault
from pytest_memeval.documents.text import decode

#: A file up to this size is read whole.
WHOLE_BYTES = 64 * 1024 * 1024
#: A larger one is read whole all the same where ``ijson`` is missing, up to this size.
WITHOUT_IJSON_BYTES = 400 * 1024 * 1024
#: How much of a file is looked at to tell what it is.
HEAD_BYTES = 1024 * 1024
INSTALL = 'pip install "pytest-memeval[benchmarks]"'


def fault(path: Path, message: str, *, line: int = 0, column: int = 0) -> DocumentError:
    """A DocumentError with one problem."""
    return DocumentError([Problem(path, line, column, message)])


def is_streamed(path: Path) -> bool:
    """Whether the file's records are read one at a time, and not kept."""
    return path.stat().st_size > WHOLE_BYTES and _ijson() is not None


def read_records(path: Path) -> Iterator[Any]:
    """The elements of a JSON file's top-level list (a lone object counts as a list of one).

    Raises DocumentError: no JSON, no list, or a file that is too large to be read without ``ijson``.
    """
    try:
        size = path.stat().st_size
        if size <= WHOLE_BYTES:
            yield from _whole(path)
        elif _ijson() is not None:
            yield from _streamed(path)
        elif size <= WITHOUT_IJSON_BYTES:
            yield from _whole(path)
        else:
            raise fault(path, f"{size / 1e9:.1f} GB: a file of that size is streamed, which needs ijson: {INSTALL}")
    except OSError as error:
        raise fault(path, f"cannot be read: {error.strerror or error}") from None


def _ijson() -> Any:
    try:
        import ijson
    except ImportError:
        return None
    return ijson


def _whole(path: Path) -> Iterator[Any]:
    text = decode(path.read_bytes(), path)
    was_enabled = gc.isenabled()
    gc.disable()  # nothing that is made here is garbage, and looking for it doubles the time
    try:
        data = json_value(text)
    except JSONDecodeError as error:
        raise fault(path, f"not readable as JSON: {json_fault(error)}", line=error.lineno, column=error.colno) from None
    finally:
        if was_enabled:
            gc.enable()
    if "\\ud" in text or "\\uD" in text:
        data = _without_lone_halves(data)
    if isinstance(data, dict):
        data = [data]
    if not isinstance(data, list):
        raise fault(path, f"a list of records is expected, not {type(data).__name__}")
    yield from data


def _without_lone_halves(value: Any) -> Any:
    """The value with U+FFFD for what is half of a surrogate pair: no file or request could hold it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_lone_halves(one) for one in value]
    if isinstance(value, dict):
        return {_without_lone_halves(key): _without_lone_halves(one) for key, one in value.items()}
    return value


def _streamed(path: Path) -> Iterator[Any]:
    ijson = _ijson()
    with path.open("rb") as stream:
        if stream.read(3) != b"\xef\xbb\xbf":
            stream.seek(0)
        try:
            yield from ijson.items(stream, "item", use_float=True)
        except ijson.JSONError as error:
            raise fault(path, f"not readable as JSON: {str(error).splitlines()[0]}") from None
        except UnicodeDecodeError:
            raise fault(path, "not UTF-8") from None


def first_keys(path: Path) -> dict[str, Any]:
    """The first record's keys with their values, as far as the beginning of the file goes; empty for anything else.

    A value that reaches beyond what is looked at is ``None``. Never raises for what a file holds.
    """
    with path.open("rb") as stream:
        text = stream.read(HEAD_BYTES).decode("utf-8-sig", "ignore")
    at = _skip(text, 0)
    if text[at : at + 1] == "[":
        at = _skip(text, at + 1)
    found: dict[str, Any] = {}
    if text[at : at + 1] != "{":
        return found
    at = _skip(text, at + 1)
    decoder = JSONDecoder()
    try:
        while text[at] == '"':
            key, at = scanstring(text, at + 1, True)
            at = _skip(text, at)
            if text[at] != ":":
                break
            found[key] = None
            found[key], at = decoder.raw_decode(text, _skip(text, at + 1))
            at = _skip(text, at)
            if text[at] != ",":
                break
            at = _skip(text, at + 1)
    except (JSONDecodeError, IndexError, RecursionError):
        pass
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
