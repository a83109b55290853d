"""Fixtures of a project that were meant to replace one of this plugin's, and have another name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PREFIX = "memeval_"
PACKAGE = __name__.partition(".")[0]
#: How alike what follows the prefix has to be, and how alike the whole name where the prefix is misspelt, too.
_REST, _WHOLE = 0.75, 0.9


class Misspelt(NamedTuple):
    """A sentence on a fixture, and where that is."""

    message: str
    file: str
    line: int


def all_definitions(manager: Any) -> dict[str, list[Any]]:
    """Name → every definition that pytest's fixture manager has, wherever it is visible. pytest keeps them for itself,
    a version by name and another by name and place; of one that does neither nothing is known."""
    found: dict[str, list[Any]] = {}
    for attribute in ("_arg2fixturedefs", "_arg2node2fixturedefs", "_arg2nodeid2fixturedefs"):
        for name, held in getattr(manager, attribute, {}).items():
            lists = held.values() if isinstance(held, Mapping) else (held,)
            found.setdefault(name, []).extend(one for several in lists for one in several)
    return found


def misspelt_fixtures(
    definitions: Mapping[str, Sequence[Any]], requested: Iterable[str], root: Path
) -> Iterator[Misspelt]:
    """The fixtures that a project under ``root`` defines, nobody asks for, and whose name is nearly one of ours.

    ``definitions``: name → pytest's fixture definitions; ``requested``: names that tests ask for, taken only where a
    fixture is suspected. What another fixture or a test asks for has a name that was meant.
    """
    ours = our_names(definitions)
    suspects = {
        name: near
        for name, found in definitions.items()
        if name not in ours
        and any(_is_own(one, root) for one in found)
        and (near := nearest_of(name, ours)) is not None
    }
    if not suspects:
        return
    asked = {name for found in definitions.values() for one in found for name in one.argnames}.union(requested)
    for name, near in sorted(suspects.items()):
        if name not in asked:
            code = next(_code(one) for one in definitions[name] if _is_own(one, root))
            message = f"the fixture {name} replaces none of memeval's, and nothing uses it; did you mean {near!r}?"
            yield Misspelt(message, code.co_filename, code.co_firstlineno)


def our_names(definitions: Mapping[str, Sequence[Any]]) -> list[str]:
    """The names of this plugin's fixtures."""
    return [name for name, found in definitions.items() if any(_module(one).startswith(PACKAGE) for one in found)]


def is_defined_in(module: object, definition: Any) -> bool:
    """Whether the fixture's function is the module's."""
    return _module(definition) == getattr(module, "__name__", None)


def nearest_of(name: str, ours: Sequence[str]) -> str | None:
    """Which of this plugin's fixtures a name is meant to be that is none of theirs."""
    from pytest_memeval.documents.problems import nearest

    if not name.startswith(PREFIX):
        return nearest(name, ours, cutoff=_WHOLE)
    # The prefix would make any two names alike.
    near = nearest(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in ours], cutoff=_REST)
    return None if near is None else PREFIX + near


def _function(definition: Any) -> Any:
    return inspect.unwrap(getattr(definition.func, "__func__", definition.func))


def _module(definition: Any) -> str:
    return str(getattr(_function(definition), "__module__", ""))


def _code(definition: Any) -> Any:
    return getattr(_function(definition), "__code__", None)


def _is_own(definition: Any, root: Path) -> bool:
    code = _code(definition)
    if code is None:
        return False
    file = Path(code.co_filename)
    return file.is_relative_to(root) and "site-packages" not in file.relative_to(root).parts
