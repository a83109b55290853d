"""A parsed document in which every scalar keeps its source text and its place.

The nodes lie in document order in four parallel arrays, so that a large file costs some twenty bytes a node beside its
texts, and the whole can be written to a cache as primitives. :class:`Node` is a light handle on one of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.documents.scalars import core_value, is_null

#: Kinds of nodes. A plain scalar is unquoted YAML, or a JSON number, boolean or null; a literal one is a ``|`` block.
PLAIN, QUOTED, LITERAL, MAPPING, SEQUENCE = range(5)
_KIND_NAMES = ("text", "text", "text", "a mapping", "a list")


class Tape:
    """Nodes in document order: kind, text (empty for collections), subtree size in nodes, offset in characters."""

    __slots__ = ("kinds", "offsets", "sizes", "texts")

    def __init__(
        self,
        kinds: bytearray | None = None,
        texts: list[str] | None = None,
        sizes: array[int] | None = None,
        offsets: array[int] | None = None,
    ) -> None:
        self.kinds = bytearray() if kinds is None else kinds
        self.texts: list[str] = [] if texts is None else texts
        self.sizes: array[int] = array("I") if sizes is None else sizes
        self.offsets: array[int] = array("I") if offsets is None else offsets

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, kind: int, text: str, offset: int) -> int:
        """Append a node of size 1 and return its index."""
        self.kinds.append(kind)
        self.texts.append(text)
        self.sizes.append(1)
        self.offsets.append(offset)
        return len(self.texts) - 1

    def close(self, at: int) -> None:
        """Set the size of the collection at ``at`` to everything that was added since."""
        self.sizes[at] = len(self.texts) - at

    def slice(self, start: int, end: int) -> Tape:
        """A copy of a range; sizes are relative, so it can be appended anywhere."""
        return Tape(self.kinds[start:end], self.texts[start:end], self.sizes[start:end], self.offsets[start:end])

    def truncate(self, end: int) -> None:
        del self.kinds[end:], self.texts[end:], self.sizes[end:], self.offsets[end:]

    def extend(self, other: Tape, start: int = 0, end: int | None = None) -> None:
        self.kinds += other.kinds[start:end]
        self.texts += other.texts[start:end]
        self.sizes += other.sizes[start:end]
        self.offsets += other.offsets[start:end]

    def pairs(self, at: int) -> Iterator[tuple[int, int]]:
        """Indices of the keys and values of the mapping at ``at``."""
        sizes = self.sizes
        end = at + sizes[at]
        key = at + 1
        while key < end:
            yield key, key + 1
            key += 1 + sizes[key + 1]

    def elements(self, at: int) -> Iterator[int]:
        """Indices of the elements of the sequence at ``at``."""
        sizes = self.sizes
        end = at + sizes[at]
        child = at + 1
        while child < end:
            yield child
            child += sizes[child]


class Document:
    """A parsed file.

    ``problems`` are faults that did not keep the rest from being read (duplicate keys, bad lines of JSONL).
    ``lone_surrogates`` holds the indices of nodes whose text had half a surrogate pair, now U+FFFD. ``digests`` keeps
    content hashes by node, once computed.
    """

    __slots__ = ("_line_starts", "digests", "lone_surrogates", "path", "problems", "source", "tape")

    def __init__(
        self,
        path: Path,
        source: str,
        tape: Tape,
        problems: tuple[Problem, ...] = (),
        lone_surrogates: tuple[int, ...] = (),
    ) -> None:
        self.path = path
        self.source = source
        self.tape = tape
        self.problems = problems
        self.lone_surrogates = lone_surrogates
        self.digests: dict[int, str] = {}
        self._line_starts: list[int] | None = None

    @property
    def root(self) -> Node:
        return Node(self, 0)

    def place(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset."""
        if self._line_starts is None:
            self._line_starts = line_starts(self.source)
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def raise_problems(self) -> None:
        if self.problems:
            raise DocumentError(self.problems)


def line_starts(source: str) -> list[int]:
    """The character offset at which each line starts; lines end with LF (CRLF included)."""
    return [0, *accumulate(len(line) + 1 for line in source.split("\n"))][:-1]


class Node:
    """A scalar, mapping or sequence of a :class:`Document`."""

    __slots__ = ("at", "document")

    def __init__(self, document: Document, at: int) -> None:
        self.document = document
        self.at = at

    @property
    def is_mapping(self) -> bool:
        return self.document.tape.kinds[self.at] == MAPPING

    @property
    def is_sequence(self) -> bool:
        return self.document.tape.kinds[self.at] == SEQUENCE

    @property
    def is_scalar(self) -> bool:
        return self.document.tape.kinds[self.at] < MAPPING

    @property
    def is_plain(self) -> bool:
        """Whether the scalar was unquoted, so that it may stand for a number, a boolean or null."""
        return self.document.tape.kinds[self.at] == PLAIN

    @property
    def is_null(self) -> bool:
        """Whether it is an unquoted ``null``, ``~`` or nothing at all."""
        tape = self.document.tape
        return tape.kinds[self.at] == PLAIN and is_null(tape.texts[self.at])

    @property
    def text(self) -> str:
        """A scalar's text as written (escapes and folding resolved); empty for collections."""
        return self.document.tape.texts[self.at]

    @property
    def size(self) -> int:
        """Nodes of this subtree, keys and itself included."""
        return self.document.tape.sizes[self.at]

    @property
    def line(self) -> int:
        return self.place[0]

    @property
    def column(self) -> int:
        return self.place[1]

    @property
    def place(self) -> tuple[int, int]:
        """1-based line and column of the first character."""
        return self.document.place(self.document.tape.offsets[self.at])

    def line_of_text(self, index: int) -> int:
        """The file's line that holds line ``index`` (from 0) of this scalar's text: exact in a literal block."""
        return self.line + (index + 1 if self.document.tape.kinds[self.at] == LITERAL else 0)

    def items(self) -> Iterator[tuple[Node, Node]]:
        """Keys and values of a mapping in the order written; keys that came through ``<<`` last."""
        document = self.document
        for key, value in document.tape.pairs(self.at):
            yield Node(document, key), Node(document, value)

    def elements(self) -> Iterator[Node]:
        document = self.document
        for child in document.tape.elements(self.at):
            yield Node(document, child)

    def get(self, name: str) -> Node | None:
        """The value under a key, or ``None``."""
        for key, value in self.items():
            if key.text == name:
                return value
        return None

    def value(self) -> Any:
        """Plain Python: ``dict``, ``list``, ``str``, and for unquoted scalars YAML 1.2's numbers, booleans and null."""
        if self.is_mapping:
            return {key.text: value.value() for key, value in self.items()}
        if self.is_sequence:
            return [element.value() for element in self.elements()]
        return core_value(self.text) if self.is_plain else self.text

    def texts(self) -> Any:
        """Like :meth:`value`, but every scalar except null stays the text that was written."""
        if self.is_mapping:
            return {key.text: value.texts() for key, value in self.items()}
        if self.is_sequence:
            return [element.texts() for element in self.elements()]
        return None if self.is_null else self.text

    def describe(self) -> str:
        """What is written here, for a message: a shortened quotation, ``a mapping`` or ``a list``."""
        kind = self.document.tape.kinds[self.at]
        if kind >= MAPPING:
            return _KIND_NAMES[kind]
        text = self.text
        return repr(text if len(text) <= 60 else text[:59] + "…")

    def problem(self, message: str, case_id: str | None = None) -> Problem:
        """A problem at this place."""
        line, column = self.place
        return Problem(self.document.path, line, column, message, case_id)
