"""What pytest's items pass through while cases may be under way beside them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_memeval.nodes.tracebacks import hidden_beside_others
from pytest_memeval.nodes.warning_filters import warning_filters
from pytest_memeval.routing.router import Router


class ItemHooks:
    """What every item has to pass while cases may be under way; those beside which none is are left as they are."""

    def __init__(
        self,
        router: Router,
        *,
        bars: Callable[[pytest.Item], bool],
        stop: Callable[[], None],
        break_off: Callable[[], None],
    ) -> None:
        self._router = router
        self._bars = bars
        self._stop = stop
        self._break_off = break_off
        #: Whether cases may be under way beside the item at hand.
        self._shared = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        router = self._router
        router.end_at_hand()
        self._shared = not self._bars(item)
        if self._shared:
            router.watch_outer()
        else:
            router.rest()
        try:
            result = yield
        except BaseException:
            # An interrupt: pytest formats tracebacks first, and calls would go on meanwhile.
            self._break_off()
            raise
        if item.session.shouldfail or item.session.shouldstop:
            self._stop()
        router.end_at_hand()
        return result

    @pytest.hookimpl(tryfirst=True, specname="pytest_runtest_protocol")
    def pytest_enter_item(self, item: pytest.Item) -> None:
        """Inside of what pytest does with warnings around an item. (It looks at no other names.)"""
        if self._shared:
            self._router.watch_warnings(warning_filters(item))

    @pytest.hookimpl(wrapper=True, trylast=True)  # when pytest already captures
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        __tracebackhide__ = hidden_beside_others
        if self._shared:
            self._router.watch()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Generator[None, Any, Any]:
        __tracebackhide__ = hidden_beside_others
        try:
            return (yield)
        finally:
            if self._shared:
                self._router.watch_streams()  # those of capsys and its like
