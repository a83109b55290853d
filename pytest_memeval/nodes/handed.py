"""What the plugin's fixtures hand to a project's code: copies, so that no test changes what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from pytest_memeval.copies import copied
from pytest_memeval.nodes.keys import GIVEN
from pytest_memeval.results import StageResult

T = TypeVar("T")


def hand(node: Any, fixture: str, value: T) -> T:
    """The fixture's value for the project: a copy, known by :func:`taken_back`."""
    own = copied(value)
    node.stash.setdefault(GIVEN, {})[fixture] = (own, value)
    return own


def taken_back(node: Any, fixture: str, given: Any) -> Any:
    """What the run is to have of a fixture's value: for a copy what it was made of.

    A fixture of the project that has changed the copy it was given, and gives that, gives its own: an overridden one
    takes the place of the plugin's.
    """
    own, value = node.stash.get(GIVEN, {}).get(fixture, (None, None))
    if own is None or given is not own:
        return given
    if not _is_overridden(node, fixture) or _same(own, value):
        return value
    if isinstance(given, StageResult) and given.output != value.output:
        return replace(given, metrics=None)  # those were the engine's output's
    return given


def _is_overridden(node: Any, fixture: str) -> bool:
    return len(node.session._fixturemanager.getfixturedefs(fixture, node) or ()) != 1


def _same(own: object, value: object) -> bool:
    return own is value or own == value
