"""Sharing out items by scope among workers of which any may die at any moment."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling, LoadGroupScheduling, LoadScopeScheduling

#: A worker that has so few items left is given another scope's.
FEW = 2


class OutlivingScopes(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's sharing out by scope where workers die.

    There a dead worker's scopes are handed on with the item that it died of, which kills the next one and so on, until
    the run ends with most of its items not run; with scopes that are done, over which a worker waits for ever; and to
    workers that are still collecting, which ends the session.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        #: Worker → the items that it has still to run, in their order.
        self._left: dict[Any, dict[str, None]] = {}
        self._places: dict[str, int] = {}

    @property
    def tests_finished(self) -> bool:
        if not self.collection_is_completed or self.workqueue:
            return False
        return all(len(left) < 2 for left in self._left.values())

    @property
    def has_pending(self) -> bool:
        return bool(self.workqueue) or any(self._left.values())

    def add_node(self, node: Any) -> None:
        super().add_node(node)
        self._left[node] = {}

    def remove_node(self, node: Any) -> str | None:
        del self.assigned_work[node]
        left = list(self._left.pop(node))
        if not left:
            return None
        crashed, *rest = left
        self._put_first(rest)
        self._share_out()
        return crashed

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        self._left[node].pop(self.registered_collections[node][item_index], None)
        super().mark_test_complete(node, item_index, duration)

    def mark_test_pending(self, item: str) -> None:
        """Have an item run once more, where the rest of its scope is."""
        scope = self._split_scope(item)
        self._put_first([item])
        for node in self.nodes:
            if not node.shutting_down and any(self._split_scope(other) == scope for other in self._left[node]):
                self._assign_work_unit(node)
                return
        self._share_out()

    def _share_out(self) -> None:
        for node in self.nodes:
            self._reschedule(node)

    def _put_first(self, items: list[str]) -> None:
        units: dict[str, dict[str, bool]] = {}
        for item in items:
            units.setdefault(self._split_scope(item), {})[item] = False
        for scope, unit in reversed(units.items()):
            self.workqueue[scope] = {**unit, **self.workqueue.pop(scope, {})}
            self.workqueue.move_to_end(scope, last=False)

    def _assign_work_unit(self, node: Any) -> None:
        if node not in self.registered_collections:
            return
        if not self._places:
            self._places = {item: place for place, item in enumerate(self.collection)}
        scope, unit = self.workqueue.popitem(last=False)
        # The worker may have had other items of the scope.
        self.assigned_work[node].setdefault(scope, {}).update(unit)
        self._left[node].update(dict.fromkeys(unit))
        node.send_runtest_some([self._places[item] for item in unit])

    def _reschedule(self, node: Any) -> None:
        if node.shutting_down or node not in self.registered_collections:
            return
        left = self._left[node]
        if self.workqueue and len(left) <= FEW:
            self._assign_work_unit(node)
            # A worker begins an item when it knows the next one.
            while self.workqueue and len(left) < 2:
                self._assign_work_unit(node)
            if len(left) > 1:
                return
        if not self.workqueue:
            node.shutdown()


class OutlivingFiles(OutlivingScopes, LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The same, a file being a scope."""


class OutlivingGroups(OutlivingScopes, LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """The same, an ``xdist_group`` being one."""
