"""Types of the fields of a case file: each reads a node and describes itself as JSON Schema.

Reading takes a :class:`Reporter`, which knows whether a bad value is the file's or the current case's problem. Two
kinds of faults: a wrong *structure* (a mapping where text belongs, an unknown or missing key) is always the file's;
a *value* that cannot be used is the case's inside a case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.documents.scalars import number_value
from pytest_memeval.documents.tree import MAPPING, PLAIN, Node

Schema = dict[str, Any]

_NUMBER_TEXT = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


class Reporter(Protocol):
    def structure(self, node: Node, message: str) -> None: ...

    def value(self, node: Node, message: str) -> None: ...


class FieldType(Protocol):
    """How a field's value is read. ``None`` stands for a value that could not be read (and was reported)."""

    def read(self, node: Node, reporter: Reporter) -> Any: ...

    def schema(self) -> Schema: ...


@dataclass(frozen=True, slots=True)
class Text:
    """Any scalar, as written. ``choices`` are known values: others are a value problem."""

    choices: tuple[str, ...] = ()
    what: str = "value"

    def read(self, node: Node, reporter: Reporter) -> str | None:
        if not node.is_scalar:
            reporter.structure(node, f"text is needed here, not {node.describe()}")
            return None
        text = node.text
        if self.choices and text not in self.choices:
            reporter.value(node, f"unknown {self.what} {text!r}{did_you_mean(text, self.choices)}")
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

    def read(self, node: Node, reporter: Reporter) -> float | None:
        if not node.is_scalar:
            reporter.structure(node, f"a number is needed here, not {node.describe()}")
            return None
        number = number_value(node.text.strip())
        if number is None:
            reporter.value(node, f"{node.describe()} is not a number")
            return None
        if self.minimum is not None and (number < self.minimum or (self.exclusive and number == self.minimum)):
            than = "more than" if self.exclusive else "at least"
            reporter.value(node, f"{node.describe()} must be {than} {self.minimum:g}")
            return None
        return number

    def schema(self) -> Schema:
        schema: Schema = {"type": ["number", "string"], "pattern": _NUMBER_TEXT}
        if self.minimum is not None:
            schema["exclusiveMinimum" if self.exclusive else "minimum"] = self.minimum
        return schema


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number from 0, quoted or not."""

    def read(self, node: Node, reporter: Reporter) -> int | None:
        if not node.is_scalar:
            reporter.structure(node, f"a whole number is needed here, not {node.describe()}")
            return None
        number = number_value(node.text.strip())
        if not isinstance(number, int) or number < 0:
            reporter.value(node, f"{node.describe()} is not a whole number from 0")
            return None
        return number

    def schema(self) -> Schema:
        return {"type": ["integer", "string"], "pattern": r"^\s*\d+\s*$", "minimum": 0}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; elements that could not be read are left out. Reads into ``[(node, value), …]``."""

    element: FieldType

    def read(self, node: Node, reporter: Reporter) -> list[tuple[Node, Any]] | None:
        if not node.is_sequence:
            reporter.structure(node, f"a list is needed here, not {node.describe()}")
            return None
        read = self.element.read
        values = [(child, read(child, reporter)) for child in node.elements()]
        return [pair for pair in values if pair[1] is not None]

    def schema(self) -> Schema:
        return {"type": "array", "items": self.element.schema()}


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping with keys of the author's choice. Reads into ``[(key node, value node, value), …]``."""

    element: FieldType

    def read(self, node: Node, reporter: Reporter) -> list[tuple[Node, Node, Any]] | None:
        if not node.is_mapping:
            reporter.structure(node, f"a mapping is needed here, not {node.describe()}")
            return None
        read = self.element.read
        values = [(key, child, read(child, reporter)) for key, child in node.items()]
        return [entry for entry in values if entry[2] is not None]

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.element.schema()}


@dataclass(frozen=True, slots=True)
class Anything:
    """Kept as plain Python (YAML 1.2 core types); ``mapping`` demands a mapping."""

    mapping: bool = False

    def read(self, node: Node, reporter: Reporter) -> Any:
        if self.mapping and not node.is_mapping:
            reporter.structure(node, f"a mapping is needed here, not {node.describe()}")
            return None
        return node.value()

    def schema(self) -> Schema:
        return {"type": "object"} if self.mapping else {}


@dataclass(frozen=True, slots=True)
class AsNode:
    """Left to the loader, which reads the node itself; ``described`` is its schema."""

    described: Mapping[str, Any] = field(default_factory=dict)

    def read(self, node: Node, reporter: Reporter) -> Node:
        return node

    def schema(self) -> Schema:
        return dict(self.described)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A list or a mapping form of the same thing."""

    mapping: MapOf
    sequence: ListOf

    def read(self, node: Node, reporter: Reporter) -> Any:
        return self.sequence.read(node, reporter) if node.is_sequence else self.mapping.read(node, reporter)

    def schema(self) -> Schema:
        return {"anyOf": [self.mapping.schema(), self.sequence.schema()]}


@dataclass(frozen=True, slots=True)
class Field:
    type: FieldType
    description: str
    required: bool = False


class Row:
    """A mapping that was read: values by key (absent and null ones are missing) and the nodes they came from."""

    __slots__ = ("node", "nodes", "values")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.values: dict[str, Any] = {}
        self.nodes: dict[str, Node] = {}

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping with known keys. ``name`` is what messages call it. ``open`` keeps unknown keys in ``"extra"``."""

    name: str
    fields: Mapping[str, Field]
    open: bool = False
    required: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        needed = tuple(name for name, spec in self.fields.items() if spec.required)
        object.__setattr__(self, "required", needed)

    def read(self, node: Node, reporter: Reporter) -> Row | None:
        document = node.document
        tape = document.tape
        kinds = tape.kinds
        if kinds[node.at] != MAPPING:
            reporter.structure(node, f"{self.name} is a mapping, not {node.describe()}")
            return None
        row = Row(node)
        values, nodes, fields = row.values, row.nodes, self.fields
        for key_at, value_at in tape.pairs(node.at):
            name = tape.texts[key_at]
            value = Node(document, value_at)
            spec = fields.get(name)
            if spec is None:
                self._unknown(row, Node(document, key_at), value, reporter)
            elif kinds[value_at] != PLAIN or not value.is_null:
                nodes[name] = value
                read = spec.type.read(value, reporter)
                if read is not None:
                    values[name] = read
        for name in self.required:
            if name not in nodes:
                reporter.structure(node, f"{self.name} needs {name!r}")
        return row

    def _unknown(self, row: Row, key: Node, value: Node, reporter: Reporter) -> None:
        if self.open:
            row.values.setdefault("extra", {})[key.text] = value.value()
        else:
            reporter.structure(key, f"unknown key {key.text!r} in {self.name}{did_you_mean(key.text, self.fields)}")

    def schema(self) -> Schema:
        properties = {}
        for name, spec in self.fields.items():
            described = spec.type.schema()
            if not spec.required:
                described = _nullable(described)
            properties[name] = {"description": spec.description, **described}
        schema: Schema = {"type": "object", "properties": properties}
        if self.required:
            schema["required"] = list(self.required)
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
