"""Reading the fields of an asset file with their positions; every fault is collected, none is guessed away."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean
from pytest_memeval.documents.reader import Node, read_document, read_text
from pytest_memeval.documents.scalars import number_value


def content_hash(text: str) -> str:
    """SHA-256 (hex) of ``text`` with line ends as LF, so that a checkout's line-end setting does not matter."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()


def read_asset_text(path: Path) -> str:
    """The text of a UTF-8 file, line ends as LF; :class:`DocumentError` where it cannot be read."""
    return read_text(path).replace("\r\n", "\n")


def parse_asset(path: Path, what: str) -> tuple[Fields, str]:
    """The top-level mapping of a YAML file and the hash of its text; :class:`DocumentError` where there is none.

    Faults that left the rest readable, such as a duplicate key, are in the mapping's ``problems``.
    """
    if not path.exists():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings)
        raise DocumentError([Problem(path, 0, 0, f"{what} does not exist{hint if hint.endswith('?') else ''}")])
    document = read_document(path, syntax="yaml", strict=False)
    problems = list(document.problems)
    fields = Fields.of(document.root, path, what, problems)
    if fields is None:
        raise DocumentError(problems)
    return fields, content_hash(document.source)


class Fields:
    """A mapping of the file. Each reader notes what is wrong in ``problems`` and returns a usable value."""

    def __init__(self, node: Node, path: Path, what: str, problems: list[Problem]) -> None:
        self.node, self.path, self.what, self.problems = node, path, what, problems
        self.values: dict[str, Node] = {key.text: value for key, value in node.items()}

    @classmethod
    def of(cls, node: Node, path: Path, what: str, problems: list[Problem]) -> Fields | None:
        """``node`` as a mapping, or ``None`` with the fault noted."""
        if not node.is_mapping:
            problems.append(node.problem(f"{what} must be a mapping, not {node.describe()}"))
            return None
        return cls(node, path, what, problems)

    def note(self, message: str, node: Node | None = None) -> None:
        self.problems.append((node if node is not None else self.node).problem(message))

    def known_keys(self, known: Iterable[str]) -> None:
        """Notes each key that is not one of ``known``."""
        known = tuple(known)
        for key, _ in self.node.items():
            if key.text not in known:
                self.note(f"{self.what}: unknown key {key.text!r}{did_you_mean(key.text, known)}", key)

    def _get(self, key: str) -> Node | None:
        node = self.values.get(key)
        return None if node is None or node.is_null else node

    def require(self, key: str) -> bool:
        node = self._get(key)
        if node is None:
            self.note(f"{self.what}: {key!r} is missing")
        elif node.is_scalar and not node.text.strip():
            self.note(f"{self.what}: {key!r} is empty", node)
        else:
            return True
        return False

    def text(self, key: str, default: str = "") -> str:
        """A scalar as it is written (YAML's own typing of ``no`` or ``3.10`` is not applied)."""
        node = self._get(key)
        return default if node is None else self._scalar(node, key, default)

    def _scalar(self, node: Node, key: str, default: str = "") -> str:
        if not node.is_scalar:
            self.note(f"{self.what}: {key!r} must be text, not {node.describe()}", node)
            return default
        return node.text.strip()

    def texts(self, key: str) -> list[tuple[str, Node]]:
        """A list of scalars with their places; a missing list is empty, empty entries are faults."""
        found: list[tuple[str, Node]] = []
        for node in self._list(key):
            text = self._scalar(node, key)
            if text:
                found.append((text, node))
            elif node.is_scalar:
                self.note(f"{self.what}: {key!r} has an empty entry", node)
        return found

    def _list(self, key: str) -> list[Node]:
        node = self._get(key)
        if node is None:
            return []
        if not node.is_sequence:
            self.note(f"{self.what}: {key!r} must be a list, not {node.describe()}", node)
            return []
        return list(node.elements())

    def mappings(self, key: str, what: str) -> list[Fields]:
        """A list of mappings; entries of another kind are noted and left out."""
        found = (Fields.of(node, self.path, what, self.problems) for node in self._list(key))
        return [fields for fields in found if fields is not None]

    def mapping(self, key: str, what: str) -> Fields | None:
        node = self._get(key)
        return None if node is None else Fields.of(node, self.path, what, self.problems)

    def number(self, key: str, default: float | None = None) -> float | None:
        node = self._get(key)
        return default if node is None else self._number(node, key, default)

    def _number(self, node: Node, key: str, default: float | None) -> float | None:
        value = number_value(self._scalar(node, key))
        if value is None:
            if node.is_scalar:
                self.note(f"{self.what}: {key!r} must be a number, not {node.describe()}", node)
            return default
        return float(value)

    def numbers(self, key: str) -> list[float]:
        return [value for node in self._list(key) if (value := self._number(node, key, None)) is not None]

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1) -> int | None:
        value = self.number(key)
        if value is None:
            return default
        if value != int(value) or value < minimum:
            self.note(
                f"{self.what}: {key!r} must be a whole number of at least {minimum}, not {value:g}", self._get(key)
            )
            return default
        return int(value)

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        choices = tuple(choices)
        value = self.text(key, default)
        if value not in choices and self._get(key) is not None:
            self.note(f"{self.what}: {key!r} is {value!r}{did_you_mean(value, choices)}", self._get(key))
            return default
        return value

    def boolean(self, key: str, default: bool) -> bool:
        return self.choice(key, ("true", "false"), str(default).lower()) == "true"


def raise_problems(problems: list[Problem]) -> None:
    """Raises :class:`DocumentError` with all ``problems`` if there are any."""
    if problems:
        raise DocumentError(problems)
