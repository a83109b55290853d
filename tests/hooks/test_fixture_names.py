"""What pytest's versions know of fixtures, and which of them were meant to be ours."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pytest_memeval.fixtures
from pytest_memeval.hooks.fixture_names import all_definitions, misspelt_fixtures


def definition(function: Any, *argnames: str) -> Any:
    return SimpleNamespace(func=function, argnames=argnames)


def own() -> None:
    """A fixture of a project: this file's."""


def ours() -> None:
    """One of the plugin's."""


ours.__module__ = pytest_memeval.fixtures.__name__


@pytest.mark.parametrize(
    "held",
    [
        {"_arg2fixturedefs": {"a": [1, 2], "b": [3]}},
        {"_arg2node2fixturedefs": {"a": {"x": [1], "y": [2]}}, "_arg2nodeid2fixturedefs": {"b": {"": [3]}}},
    ],
    ids=["by name", "by name and place"],
)
def test_definitions_of_every_version_of_pytest(held: dict[str, Any]) -> None:
    assert all_definitions(SimpleNamespace(**held)) == {"a": [1, 2], "b": [3]}
    assert all_definitions(object()) == {}


def test_only_what_lies_in_the_project_is_told() -> None:
    definitions = {"memeval_engine": [definition(ours)], "memeval_engin": [definition(own)]}
    here = Path(__file__).parent
    (found,) = misspelt_fixtures(definitions, [], here)
    assert (found.file, found.line) == (__file__, own.__code__.co_firstlineno)
    assert list(misspelt_fixtures(definitions, [], here / "elsewhere")) == []
    assert list(misspelt_fixtures(definitions, ["memeval_engin"], here)) == []
    # A callable without code of its own is nothing that could be shown.
    assert list(misspelt_fixtures({**definitions, "memeval_engin": [definition(print)]}, [], here)) == []
