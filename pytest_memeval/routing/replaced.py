"""Functions of other people's classes and modules, replaced for a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Replaced:
    """What stands in the place of which functions."""

    def __init__(self) -> None:
        self._each: list[tuple[Any, str, Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._each)

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put what ``make`` makes of the function into its place."""
        original = getattr(owner, name)
        ours = make(original)
        setattr(owner, name, ours)
        self._each.append((owner, name, original, ours))

    def give_back(self) -> None:
        for owner, name, original, ours in self._each:
            if getattr(owner, name) is ours:  # else somebody's stands on it
                setattr(owner, name, original)
        self._each = []
