"""YAML text to a :class:`Document`, from the parser's events, without implicit typing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.documents.shield import Shield
from pytest_memeval.documents.tree import (
    LITERAL,
    MAPPING,
    PLAIN,
    QUOTED,
    SEQUENCE,
    Document,
    Tape,
)

#: Collections may lie this deep in one another.
MAX_DEPTH = 100
#: Nodes that aliases may add: this many, and ten times what is written in the file.
ALIAS_ALLOWANCE = 100_000
ALIAS_FACTOR = 10

_CORE_TAGS = "tag:yaml.org,2002:"
#: Standard tags that say nothing more than what is read anyway.
_IDLE_TAGS = frozenset(_CORE_TAGS + name for name in ("int", "float", "bool", "null", "map", "seq"))
_TEXT_TAGS = frozenset({"!", _CORE_TAGS + "str"})


class _Frame:
    """An open collection. ``keys`` maps the keys seen so far to their node index; ``None`` in a sequence."""

    __slots__ = ("anchor", "await_key", "height", "keys", "merges", "start")

    def __init__(self, start: int, anchor: str | None, mapping: bool) -> None:
        self.start = start
        self.anchor = anchor
        self.keys: dict[str, int] | None = {} if mapping else None
        self.await_key = mapping
        self.merges = False
        self.height = 0


def parse_yaml(source: str, path: Path, *, pure_python: bool = False) -> Document:
    """Parse one YAML document.

    Raises :class:`DocumentError` for anything unreadable: syntax, several documents, an empty file, custom tags,
    collections as keys, undefined or recursive aliases, too much alias expansion, too deep nesting. Duplicate keys
    are collected in ``Document.problems``. ``<<`` merges as YAML 1.1 says: what the mapping itself names wins.
    """
    return _YamlParser(source, path).parse(pure_python)


class _YamlParser:
    def __init__(self, source: str, path: Path) -> None:
        self.source = source
        self.path = path
        self.tape = Tape()
        self.place = Document(path, source, self.tape).place
        self.problems: list[Problem] = []
        self.lone: set[int] = set()  # offsets: merges and aliases move and copy nodes
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Tape, int]] = {}
        self.aliased = 0

    def parse(self, pure_python: bool) -> Document:
        try:
            shield = Shield(self.source)
        except ValueError as error:
            raise self.error(0, f"not readable as YAML: {error}") from None
        try:
            self.read(_event_source(shield.text, pure_python), shield)
        except Exception as error:  # YAMLError, by name: PyYAML is imported late
            if not any(cls.__name__ == "YAMLError" for cls in type(error).__mro__):
                raise
            raise self.syntax_error(error, shield.text) from None
        if not self.tape:
            raise self.error(0, "the file is empty")
        return Document(self.path, self.source, self.tape, tuple(self.problems), self.lone_nodes())

    def lone_nodes(self) -> tuple[int, ...]:
        if not self.lone:
            return ()
        kinds, offsets = self.tape.kinds, self.tape.offsets
        return tuple(at for at in range(len(self.tape)) if kinds[at] == QUOTED and offsets[at] in self.lone)

    def read(self, get_event: Callable[[], Any], shield: Shield) -> None:
        tape = self.tape
        kinds, texts, sizes, offsets = tape.kinds, tape.texts, tape.sizes, tape.offsets
        stack = self.stack
        shielded = shield.active
        shared: dict[str, str] = {}
        frame: _Frame | None = None
        documents = 0
        while True:
            event = get_event()
            # By name: libyaml's binding keeps the classes that it was first loaded with, and another import of yaml in
            # the process (nested pytest runs make one) has others of the same names.
            kind = event.__class__.__name__
            if kind == "ScalarEvent":
                value: str = event.value
                style = event.style
                at = len(texts)
                offset = event.start_mark.index
                if shielded:
                    value, lone = shield.restore(value, offset, style)
                    if lone:
                        self.lone.add(offset)
                code = LITERAL if style == "|" else QUOTED if style else PLAIN
                if event.tag is not None:
                    code = self.tagged(event, code)
                if frame is not None and frame.keys is not None:
                    if frame.await_key:
                        value = shared.setdefault(value, value)
                        self.add_key(frame, value, at, offset, code)
                        frame.await_key = False
                    else:
                        frame.await_key = True
                kinds.append(code)
                texts.append(value)
                sizes.append(1)
                offsets.append(offset)
                if event.anchor is not None:
                    self.anchors[event.anchor] = (tape.slice(at, at + 1), 0)
            elif kind == "MappingStartEvent" or kind == "SequenceStartEvent":
                offset = event.start_mark.index
                mapping = kind == "MappingStartEvent"
                if event.tag is not None and event.tag not in _IDLE_TAGS:
                    raise self.unknown_tag(event)
                if frame is not None and frame.keys is not None:
                    if frame.await_key:
                        raise self.error(offset, "a mapping or list cannot be a key")
                    frame.await_key = True
                if event.anchor is not None:
                    self.anchors.pop(event.anchor, None)
                frame = _Frame(len(texts), event.anchor, mapping)
                stack.append(frame)
                if len(stack) > MAX_DEPTH:
                    raise self.too_deep(offset)
                tape.add(MAPPING if mapping else SEQUENCE, "", offset)
            elif kind == "AliasEvent":
                self.add_alias(frame, event.anchor, event.start_mark.index)
            elif kind == "StreamEndEvent":
                return
            elif kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self.error(
                        event.start_mark.index, "the file holds several YAML documents (a second one starts here)"
                    )
            elif stack and frame is not None:  # the end of a mapping or sequence
                stack.pop()
                if frame.merges:
                    self.merge(frame)
                tape.close(frame.start)
                if frame.anchor is not None:
                    copied = tape.slice(frame.start, len(texts))
                    self.anchors[frame.anchor] = (copied, frame.height + 1)
                    self.spend(len(copied), tape.offsets[frame.start])
                height = frame.height + 1
                frame = stack[-1] if stack else None
                if frame is not None and height > frame.height:
                    frame.height = height

    def add_key(self, frame: _Frame, name: str, at: int, offset: int, code: int) -> None:
        assert frame.keys is not None
        earlier = frame.keys.setdefault(name, at)
        if earlier != at:
            line, column = self.place(offset)
            first = self.place(self.tape.offsets[earlier])[0]
            self.problems.append(
                Problem(self.path, line, column, f"duplicate key {name!r} in one mapping: lines {first} and {line}")
            )
        if code == PLAIN and name == "<<":
            frame.merges = True

    def add_alias(self, frame: _Frame | None, anchor: str, offset: int) -> None:
        if any(open_frame.anchor == anchor for open_frame in self.stack) and anchor not in self.anchors:
            raise self.error(offset, f"the alias *{anchor} stands inside what it names")
        if anchor not in self.anchors:
            raise self.error(offset, f"the alias *{anchor} names nothing that stands before it")
        target, height = self.anchors[anchor]
        self.spend(len(target), offset)
        if len(self.stack) + height > MAX_DEPTH:
            raise self.too_deep(offset)
        if frame is not None:
            frame.height = max(frame.height, height)
            if frame.keys is not None:
                if frame.await_key:
                    if height:
                        raise self.error(offset, "a mapping or list cannot be a key")
                    self.add_key(frame, target.texts[0], len(self.tape), offset, QUOTED)
                frame.await_key = not frame.await_key
        self.tape.extend(target)

    def spend(self, nodes: int, offset: int) -> None:
        self.aliased += nodes
        written = max(len(self.tape) - self.aliased, 0)
        if self.aliased > ALIAS_ALLOWANCE + ALIAS_FACTOR * written:
            raise self.error(offset, f"aliases expand this file too far (beyond {self.aliased - nodes:,} nodes)")

    def merge(self, frame: _Frame) -> None:
        """Replace the mapping's ``<<`` entries by the pairs that they bring in; only at the tape's end."""
        tape = self.tape
        tape.close(frame.start)
        written = tape.slice(frame.start, len(tape))
        own: list[tuple[int, int]] = []
        sources: list[int] = []
        for key, value in written.pairs(0):
            if written.texts[key] != "<<" or written.kinds[key] != PLAIN:
                own.append((key, value))
            elif written.kinds[value] == SEQUENCE:
                sources += written.elements(value)
            else:
                sources.append(value)
        tape.truncate(frame.start + 1)
        names = set()
        for key, value in own:
            names.add(written.texts[key])
            tape.extend(written, key, value + written.sizes[value])
        for source in sources:
            if written.kinds[source] != MAPPING:
                raise self.error(written.offsets[source], "'<<' merges a mapping or a list of mappings, nothing else")
            for key, value in written.pairs(source):
                if written.texts[key] not in names:
                    names.add(written.texts[key])
                    tape.extend(written, key, value + written.sizes[value])

    def tagged(self, event: Any, code: int) -> int:
        if event.tag in _TEXT_TAGS:
            return code if code != PLAIN else QUOTED
        if event.tag in _IDLE_TAGS:
            return PLAIN
        raise self.unknown_tag(event)

    def unknown_tag(self, event: Any) -> DocumentError:
        return self.error(event.start_mark.index, f"the YAML tag {event.tag!r} is not supported here")

    def too_deep(self, offset: int) -> DocumentError:
        return self.error(offset, f"nested more than {MAX_DEPTH} levels deep")

    def error(self, offset: int, message: str) -> DocumentError:
        line, column = self.place(offset)
        return DocumentError([*self.problems, Problem(self.path, line, column, message)])

    def syntax_error(self, error: Any, parsed: str) -> DocumentError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        if mark is not None:
            said = getattr(error, "problem", None) or getattr(error, "context", None) or "syntax error"
            return self.error(min(mark.index, len(self.source)), f"not readable as YAML: {said}")
        position = getattr(error, "position", None)
        if isinstance(position, int):  # a character that YAML does not allow; libyaml counts bytes
            code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
            offset = max(parsed.find(chr(code)), 0)
            return self.error(offset, f"not readable as YAML: the character U+{code:04X} is not allowed")
        return self.error(0, f"not readable as YAML: {error}")


def _event_source(text: str, pure_python: bool) -> Callable[[], Any]:
    """A function that gives the next event: libyaml's where PyYAML was built with it."""
    import yaml

    loader: Any = (
        yaml.CBaseLoader(text.encode("utf-8")) if yaml.__with_libyaml__ and not pure_python else yaml.BaseLoader(text)
    )
    get_event: Callable[[], Any] = loader.get_event
    return get_event
