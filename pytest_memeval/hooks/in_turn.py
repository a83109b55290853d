"""Which cases run in their turn: what a project's fixture gives is known when pytest makes it, not before."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_memeval.hooks.foreign_fixtures import to_be_made, why_foreign
from pytest_memeval.items import CaseItem
from pytest_memeval.kind_items import KindItem


class InTurn:
    """Tells one process's items apart. ``fixed``: the fixtures of a distillation case that may be the project's."""

    def __init__(self, fixed: tuple[str, ...]) -> None:
        self._fixed = fixed
        #: An item's fixtures → why cases that have these run in their turn.
        self._why_not: dict[tuple[Any, ...], str | None] = {}
        #: The same → definitions of fixtures for the whole session that no item has needed yet.
        self._to_be_made: dict[tuple[Any, ...], list[Any]] = {}

    def reason(self, item: pytest.Item) -> str | None:
        """Why the item cannot be prepared ahead; ``None`` if it can."""
        if not isinstance(item, CaseItem | KindItem):
            return "no case item"
        if item.case.problems:
            return "invalid case"
        if any(item.get_closest_marker(name) is not None for name in ("skip", "skipif", "xfail")):
            return "may be skipped"
        if isinstance(item, KindItem) and item.unselected() is not None:
            return "not selected"
        return self._why(item)

    def bars(self, item: pytest.Item) -> bool:
        """Whether no case may be under way beside the item: a test, or a fixture, may change the environment, what a
        module holds or where output goes, and cases would have it so, or come in its way."""
        return not isinstance(item, CaseItem | KindItem) or self._why(item) is not None

    def _why(self, item: CaseItem | KindItem) -> str | None:
        """Which of its fixtures keeps the case from running ahead; ``None`` where none does."""
        names = item.fixturenames
        # One list for all items that ask for the same, unless a hook has given some a list of their own.
        key = id(item._fixtureinfo), None if names is item._fixtureinfo.names_closure else tuple(names)
        if key not in self._why_not:
            fixed = item.kind.fixtures if isinstance(item, KindItem) else self._fixed
            self._why_not[key] = why_foreign(item, fixed)
            self._to_be_made[key] = to_be_made(item, fixed)
        why = self._why_not[key]
        if why is None and self._to_be_made[key]:
            self._to_be_made[key] = left = [one for one in self._to_be_made[key] if one.cached_result is None]
            why = f"fixture {left[0].argname} is still to be made" if left else None
        return why
