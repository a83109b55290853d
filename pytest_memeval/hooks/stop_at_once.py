"""A run under xdist that is to stop, by ``-x``, ``--maxfail`` or whatever else: no worker begins another case."""

from __future__ import annotations

import threading

import pytest

from pytest_memeval.hooks.budget import pass_over
from pytest_memeval.items import owner_of
from pytest_memeval.nodes.keys import PREFETCHER
from pytest_memeval.workers.stops import hear, interactor_of


class StopAtOnce:
    """A worker's side: when it hears of it, the case at hand goes on to its end, as any test does then. Those under way
    ahead of their turn are cancelled at once, and the cases left in the queue are passed over."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stopped = False
        self._at_hand = ""
        #: Between the main thread, which goes from item to item, and xdist's, which hears.
        self._lock = threading.Lock()

    def pytest_collection_finish(self) -> None:
        worker = interactor_of(self._config)
        if worker is not None:
            hear(worker, self._stop)

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            prefetcher = self._config.stash.get(PREFETCHER, None)
            if prefetcher is not None:
                prefetcher.cancel(but=self._at_hand)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        with self._lock:
            if not self._stopped:
                self._at_hand = item.nodeid
                return None
        return pass_over(item, nextitem) if owner_of(item) is not None else None
