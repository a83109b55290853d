"""Types of the fields of a case file: each reads a node and describes itself as JSON Schema.

Nodes are given by their index in the document's tape: no handle is made for the hundred thousands that are in order.
Reading takes a :class:`Reporter`, which knows whether a bad value is the file's or the current case's problem. Two
kinds of faults: a wrong *structure* (a mapping where text belongs, an unknown or missing key) is always the file's;
a *value* that cannot be used is the case's inside a case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_memeval.documents.problems import did_you_mean, shown
from pytest_memeval.documents.scalars import is_null, is_too_large, number_value
from pytest_memeval.documents.tree import MAPPING, PLAIN, SEQUENCE, Node, Tape

Schema = dict[str, Any]

_NUMBER_TEXT = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


class Reporter(Protocol):
    def structure(self, at: int, message: str) -> None: ...

    def value(self, at: int, message: str) -> None: ...

    def node(self, at: int) -> Node: ...


class FieldType(Protocol):
    """How a field's value is read. ``None`` stands for a value that could not be read (and was reported)."""

    def read(self, tape: Tape, at: int, reporter: Reporter) -> Any: ...

    def schema(self) -> Schema: ...


def _wrong_structure(at: int, wanted: str, reporter: Reporter) -> None:
    reporter.structure(at, f"{wanted} is needed here, not {reporter.node(at).describe()}")


@dataclass(frozen=True, slots=True)
class Text:
    """Any scalar, as written. ``choices`` are known values: others are a value problem."""

    choices: tuple[str, ...] = ()
    what: str = "value"

    def read(self, tape: Tape, at: int, reporter: Reporter) -> str | None:
        if tape.kinds[at] >= MAPPING:
            _wrong_structure(at, "text", reporter)
            return None
        text = tape.texts[at]
        if self.choices and text not in self.choices:
            reporter.value(at, f"unknown {self.what} {shown(text)}{did_you_mean(text, self.choices)}")
            return None
        return text

    def schema(self) -> Schema:
        # unquoted numbers and booleans are text where text is expected
        return {"enum": list(self.choices)} if self.choices else {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number, quoted or not."""

    minimum: float | None = None
    exclusive: bool = False
    maximum: float | None = None

    def read(self, tape: Tape, at: int, reporter: Reporter) -> float | None:
        if tape.kinds[at] >= MAPPING:
            _wrong_structure(at, "a number", reporter)
            return None
        text = tape.texts[at].strip()
        number = number_value(text)
        if number is None:
            why = "is too large a number" if is_too_large(text) else "is not a number"
            reporter.value(at, f"{shown(tape.texts[at])} {why}")
            return None
        if self.minimum is not None and (number < self.minimum or (self.exclusive and number == self.minimum)):
            than = "more than" if self.exclusive else "at least"
            reporter.value(at, f"{shown(tape.texts[at])} must be {than} {self.minimum:g}")
            return None
        if self.maximum is not None and number > self.maximum:
            reporter.value(at, f"{shown(tape.texts[at])} must be at most {self.maximum:.0f}")
            return None
        return number

    def schema(self) -> Schema:
        schema: Schema = {"type": ["number", "string"], "pattern": _NUMBER_TEXT}
        if self.minimum is not None:
            schema["exclusiveMinimum" if self.exclusive else "minimum"] = self.minimum
        if self.maximum is not None:
            schema["maximum"] = self.maximum
        return schema


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number from 0, quoted or not."""

    def read(self, tape: Tape, at: int, reporter: Reporter) -> int | None:
        if tape.kinds[at] >= MAPPING:
            _wrong_structure(at, "a whole number", reporter)
            return None
        text = tape.texts[at].strip()
        number = number_value(text)
        if not isinstance(number, int) or number < 0:
            why = "is too large a number" if is_too_large(text) else "is not a whole number from 0"
            reporter.value(at, f"{shown(tape.texts[at])} {why}")
            return None
        return number

    def schema(self) -> Schema:
        return {"type": ["integer", "string"], "pattern": r"^\s*\d+\s*$", "minimum": 0}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; elements that could not be read are left out. Reads into ``[(index, value), …]``."""

    element: FieldType

    def read(self, tape: Tape, at: int, reporter: Reporter) -> list[tuple[int, Any]] | None:
        if tape.kinds[at] != SEQUENCE:
            _wrong_structure(at, "a list", reporter)
            return None
        read = self.element.read
        values = [(child, read(tape, child, reporter)) for child in tape.elements(at)]
        return [pair for pair in values if pair[1] is not None]

    def schema(self) -> Schema:
        return {"type": "array", "items": self.element.schema()}


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping with keys of the author's choice. Reads into ``[(key, key's index, value's index, value), …]``."""

    element: FieldType

    def read(self, tape: Tape, at: int, reporter: Reporter) -> list[tuple[str, int, int, Any]] | None:
        if tape.kinds[at] != MAPPING:
            _wrong_structure(at, "a mapping", reporter)
            return None
        read = self.element.read
        values = [(tape.texts[key], key, child, read(tape, child, reporter)) for key, child in tape.pairs(at)]
        return [entry for entry in values if entry[3] is not None]

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.element.schema()}


@dataclass(frozen=True, slots=True)
class Anything:
    """Kept as plain Python (YAML 1.2 core types); ``mapping`` demands a mapping."""

    mapping: bool = False

    def read(self, tape: Tape, at: int, reporter: Reporter) -> Any:
        if self.mapping and tape.kinds[at] != MAPPING:
            _wrong_structure(at, "a mapping", reporter)
            return None
        return reporter.node(at).value()

    def schema(self) -> Schema:
        return {"type": "object"} if self.mapping else {}


@dataclass(frozen=True, slots=True)
class AsNode:
    """Left to the loader, which reads the node itself; ``described`` is its schema."""

    described: Mapping[str, Any] = field(default_factory=dict)

    def read(self, tape: Tape, at: int, reporter: Reporter) -> int:
        return at

    def schema(self) -> Schema:
        return dict(self.described)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A list or a mapping form of the same thing."""

    mapping: MapOf
    sequence: ListOf

    def read(self, tape: Tape, at: int, reporter: Reporter) -> Any:
        return (self.sequence if tape.kinds[at] == SEQUENCE else self.mapping).read(tape, at, reporter)

    def schema(self) -> Schema:
        return {"anyOf": [self.mapping.schema(), self.sequence.schema()]}


@dataclass(frozen=True, slots=True)
class Field:
    type: FieldType
    description: str
    required: bool = False
    #: Required as well, but without it the case is in error and not its file: whoever reads the row says so.
    needed: bool = False


class Row:
    """A mapping that was read: values by key (absent and null ones are missing) and the indices of their nodes."""

    __slots__ = ("at", "get", "places", "values")

    def __init__(self, at: int) -> None:
        self.at = at
        self.values: dict[str, Any] = {}
        self.places: dict[str, int] = {}
        self.get = self.values.get


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping with known keys. ``name`` is what messages call it. ``open`` keeps unknown keys in ``"extra"``."""

    name: str
    fields: Mapping[str, Field]
    open: bool = False
    required: tuple[str, ...] = field(init=False)
    _readers: Mapping[str, Callable[[Tape, int, Reporter], Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        needed = tuple(name for name, spec in self.fields.items() if spec.required)
        object.__setattr__(self, "required", needed)
        object.__setattr__(self, "_readers", {name: spec.type.read for name, spec in self.fields.items()})

    def read(self, tape: Tape, at: int, reporter: Reporter) -> Row | None:
        kinds, texts, sizes = tape.kinds, tape.texts, tape.sizes
        if kinds[at] != MAPPING:
            reporter.structure(at, f"{self.name} has to be a mapping, not {reporter.node(at).describe()}")
            return None
        row = Row(at)
        values, places, readers = row.values, row.places, self._readers
        end = at + sizes[at]
        key = at + 1
        while key < end:
            value_at = key + 1
            name = texts[key]
            reader = readers.get(name)
            if reader is None:
                self._unknown(row, key, reporter)
            elif kinds[value_at] != PLAIN or not is_null(texts[value_at]):
                places[name] = value_at
                value = reader(tape, value_at, reporter)
                if value is not None:
                    values[name] = value
            key = value_at + sizes[value_at]
        for name in self.required:
            if name not in places:
                reporter.structure(at, f"{self.name} needs {name!r}")
        return row

    def _unknown(self, row: Row, key: int, reporter: Reporter) -> None:
        name = reporter.node(key).text
        if self.open:
            row.values.setdefault("extra", {})[name] = reporter.node(key + 1).value()
        else:
            reporter.structure(key, f"unknown key {name!r} in {self.name}{did_you_mean(name, self.fields)}")

    def schema(self) -> Schema:
        properties = {}
        for name, spec in self.fields.items():
            described = spec.type.schema()
            if not (spec.required or spec.needed):
                described = _nullable(described)
            properties[name] = {"description": spec.description, **described}
        schema: Schema = {"type": "object", "properties": properties}
        if required := [name for name, spec in self.fields.items() if spec.required or spec.needed]:
            schema["required"] = required
        if not self.open:
            schema["additionalProperties"] = False
        return schema


def _nullable(schema: Schema) -> Schema:
    """The same, or null: a key without a value counts as absent."""
    if not schema:
        return schema
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    kinds = schema.get("type")
    if kinds is None:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
