"""Which fixtures keep a case from being prepared ahead: what they give, or do, is known when pytest makes them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.items import CaseItem
from pytest_memeval.kind_items import KindItem
from pytest_memeval.nodes.direct import OWN

#: Packages whose fixtures do nothing to a case by themselves. One of anybody else's that is made for each item, or for
#: a class, file or folder, may do whatever it likes: in which file it stands, and how it was installed, says nothing.
HARMLESS = frozenset(
    {
        *("_pytest", "pytest_memeval", "xdist", "anyio", "pytest_asyncio", "hypothesis", "_hypothesis_pytestplugin"),
        *("pytest_html", "pytest_metadata", "pytest_cov", "pytest_rerunfailures", "pytest_timeout", "pytest_randomly"),
        *("faker", "pytest_mock", "pytest_benchmark"),
    }
)


def definitions_of(item: CaseItem | KindItem) -> Iterator[tuple[str, Any]]:
    """(name, definition) of each fixture that is made for the item and is not the plugin's own, those included that a
    hook has added to its names, and what these ask for."""
    manager: Any = item.session._fixturemanager
    known = item._fixtureinfo.name2fixturedefs
    waiting = [*known, *item.fixturenames]
    seen = set(OWN)
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        found = known.get(name) or manager.getfixturedefs(name, item)
        if found:
            yield name, found[-1]
            waiting += found[-1].argnames


def why_foreign(item: CaseItem | KindItem, fixed: Sequence[str]) -> str | None:
    """Which fixture keeps the item's case from being prepared; ``None`` if none does. ``fixed``: the names of those
    that give the case its engine, which have to be for the whole session."""
    manager: Any = item.session._fixturemanager
    for name in sorted(OWN) if isinstance(item, CaseItem) else ():
        if len(manager.getfixturedefs(name, item) or ()) != 1:
            return f"{name} is overridden"
    for name, definition in definitions_of(item):
        if name in fixed:
            if definition.scope != "session" or definition.params is not None:
                return f"{name} is not one for the whole session"
        elif definition.scope != "session" and not _is_harmless(definition.func):
            return f"fixture {name} of {_whose(definition.func, item.config)}"
    return None


def to_be_made(item: CaseItem | KindItem, fixed: Sequence[str]) -> list[Any]:
    """The definitions of the session's fixtures that the item is the first to need."""
    return [
        definition
        for name, definition in definitions_of(item)
        if name not in fixed and definition.scope == "session" and definition.cached_result is None
    ]


def a_fixture_failed(item: CaseItem | KindItem) -> bool:
    """Whether a fixture that was made before for other items failed or skipped them, and would this one."""
    made = (definition.cached_result for _, definition in definitions_of(item))
    return any(cached is not None and cached[2] is not None for cached in made)


def _module(function: Any) -> str:
    return getattr(inspect.unwrap(function), "__module__", None) or ""


def _is_harmless(function: Any) -> bool:
    return _module(function).partition(".")[0] in HARMLESS


def _whose(function: Any, config: pytest.Config) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename) if code is not None else config.rootpath / "?"
    own = config.rootpath in path.parents and "site-packages" not in path.parts
    return "the project" if own else _module(function)
