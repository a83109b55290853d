"""JSON and JSONL text to a :class:`Document`. Iterative, so that no nesting can exhaust the interpreter's stack."""

from __future__ import annotations

import re
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from pathlib import Path

from pytest_memeval.documents.problems import DocumentError, Problem, json_fault
from pytest_memeval.documents.shield import has_surrogate_escape, mend_surrogates
from pytest_memeval.documents.tree import MAPPING, PLAIN, QUOTED, SEQUENCE, Document, Tape
from pytest_memeval.documents.yaml_parser import MAX_DEPTH

_TOKEN = re.compile(
    r'[ \t\r\n]*(?:([{}\[\],:"])|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-]))'
)
_SPACE = re.compile(r"[ \t\r\n]*")


def parse_json(source: str, path: Path) -> Document:
    """Parse strict JSON (RFC 8259). Raises DocumentError on anything else; duplicate keys are collected."""
    parser = _JsonParser(source, path)
    parser.read_value(0, len(source))
    return parser.document()


def parse_jsonl(source: str, path: Path) -> Document:
    """Parse one JSON value a line into a list of them; empty lines are skipped, unreadable ones are collected."""
    parser = _JsonParser(source, path)
    parser.tape.add(SEQUENCE, "", 0)
    start = 0
    while start < len(source):
        end = source.find("\n", start)
        end = len(source) if end < 0 else end
        if source[start:end].strip(" \t\r"):
            size = len(parser.tape)
            try:
                parser.read_value(start, end)
            except DocumentError as error:
                parser.tape.truncate(size)
                parser.problems += error.problems
        start = end + 1
    parser.tape.close(0)
    return parser.document()


class _JsonParser:
    def __init__(self, source: str, path: Path) -> None:
        self.source = source
        self.path = path
        self.tape = Tape()
        self.place = Document(path, source, self.tape).place
        self.problems: list[Problem] = []
        self.lone: list[int] = []
        self.check_surrogates = has_surrogate_escape(source)
        self.shared: dict[str, str] = {}

    def document(self) -> Document:
        lone = tuple(at for at in self.lone if at < len(self.tape))
        return Document(self.path, self.source, self.tape, tuple(self.problems), lone)

    def read_value(self, start: int, end: int) -> None:
        """Append the one value that ``source[start:end]`` holds."""
        source, tape = self.source, self.tape
        stack: list[tuple[int, dict[str, int] | None]] = []
        keys: dict[str, int] | None = None
        expect = "value"  # value | first (value or "]") | key | first_key (key or "}") | comma | end
        match_token = _TOKEN.match
        at = start
        while expect != "end":
            match = match_token(source, at, end)
            if match is None:
                raise self.unexpected(at, end, expect)
            mark = match[1]
            at = match.end()
            offset = match.start(match.lastindex or 0)
            if mark == '"':
                if expect == "comma":
                    raise self.unexpected(offset, end, expect)
                is_key = expect in ("key", "first_key")
                text, at = self.string(offset, end)
                node = tape.add(QUOTED, self.shared.setdefault(text, text) if is_key else text, offset)
                if is_key and keys is not None:
                    self.check_key(keys, text, node, offset)
                    match = match_token(source, at, end)
                    if match is None or match[1] != ":":
                        raise self.unexpected(at, end, "':'")
                    at = match.end()
                    expect = "value"
                    continue
            elif mark is None:
                if expect not in ("value", "first"):
                    raise self.unexpected(offset, end, expect)
                tape.add(PLAIN, match[2], offset)
            elif mark in "{[":
                if expect not in ("value", "first"):
                    raise self.unexpected(offset, end, expect)
                if len(stack) >= MAX_DEPTH:
                    raise self.error(offset, f"nested more than {MAX_DEPTH} levels deep")
                stack.append((tape.add(MAPPING if mark == "{" else SEQUENCE, "", offset), keys))
                keys = {} if mark == "{" else None
                expect = "first_key" if mark == "{" else "first"
                continue
            elif mark == ",":
                if expect != "comma":
                    raise self.unexpected(offset, end, expect)
                expect = "key" if keys is not None else "value"
                continue
            elif mark in "}]":
                closes = keys is not None if mark == "}" else keys is None
                if not stack or not closes or expect not in ("comma", "first", "first_key"):
                    raise self.unexpected(offset, end, expect)
                opened, keys = stack.pop()
                tape.close(opened)
            else:
                raise self.unexpected(offset, end, expect)
            expect = "comma" if stack else "end"
        space = _SPACE.match(source, at, end)
        rest = space.end() if space else at
        if rest < end:
            raise self.error(rest, f"not readable as JSON: {source[rest : rest + 20]!r} follows the end of the value")

    def string(self, offset: int, end: int) -> tuple[str, int]:
        try:
            text, after = scanstring(self.source, offset + 1, True)
        except JSONDecodeError as error:
            raise self.error(min(error.pos, end), f"not readable as JSON: {json_fault(error)}") from None
        if after > end:
            raise self.error(offset, "not readable as JSON: the string is not closed")
        if self.check_surrogates:
            text, lone = mend_surrogates(text)
            if lone:
                self.lone.append(len(self.tape))
        return text, after

    def check_key(self, keys: dict[str, int], name: str, node: int, offset: int) -> None:
        earlier = keys.setdefault(name, node)
        if earlier != node:
            line, column = self.place(offset)
            first = self.place(self.tape.offsets[earlier])[0]
            self.problems.append(
                Problem(self.path, line, column, f"duplicate key {name!r} in one object: lines {first} and {line}")
            )

    def unexpected(self, at: int, end: int, expect: str) -> DocumentError:
        space = _SPACE.match(self.source, at, end)
        at = space.end() if space else at
        wanted = {
            "value": "a value",
            "first": "a value or ']'",
            "key": "a key in double quotes",
            "first_key": "a key in double quotes or '}'",
            "comma": "',' or the closing bracket",
        }.get(expect, expect)
        found = repr(self.source[at : min(at + 20, end)]) if at < end else "the end"
        return self.error(at, f"not readable as JSON: expected {wanted}, found {found}")

    def error(self, offset: int, message: str) -> DocumentError:
        line, column = self.place(offset)
        return DocumentError([Problem(self.path, line, column, message)])
