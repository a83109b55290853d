"""Which upcoming items are prepared ahead, and how pytest notices nothing of it.

pytest sets up one item after the other. While it waits for the item at hand, the cases of the next ones already run in
:class:`~pytest_memeval.ahead.Ahead`; an item's own set-up then takes what is there and waits for the rest. Only items
whose fixtures are the plugin's own are prepared: what a project's fixture gives is known when pytest makes it, not
before. No case is under way beside any other item: that may put its own into the place of whatever belongs to the whole
process. Everything else, selection, reports, reruns, time limits, stays pytest's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.ahead import Ahead, Prepared
from pytest_memeval.engine.protocol import can_overlap
from pytest_memeval.hooks.in_turn import InTurn
from pytest_memeval.hooks.item_hooks import ItemHooks
from pytest_memeval.items import CaseItem, file_of
from pytest_memeval.kind_items import KindItem
from pytest_memeval.nodes.cases import prompts_of, registry_of, templates_of
from pytest_memeval.nodes.runs import key_of, make_run
from pytest_memeval.nodes.warning_filters import warning_filters
from pytest_memeval.routing.router import Router
from pytest_memeval.runner import CaseRun
from pytest_memeval.workers.stops import interactor_of

if TYPE_CHECKING:
    from pytest_memeval.harness import Harness
    from pytest_memeval.results import CallRecord

#: Own work of a case, in seconds, from which it is worth preparing others meanwhile; until one is known, it is.
WORTH_SECONDS = 0.002
#: So many of the last cases are looked at for that.
JUDGED = 10
#: The window looks this many times the limit ahead, so that one slow case at its head does not empty it.
DEPTH = 2
#: Over so many items that are taken from an earlier run the window looks for one to prepare.
FURTHEST = 500

HOOKS_NAME = "memeval-prefetch-items"

_FIXED = ("memeval_engine", "memeval_llm")


def _can_overlap(item: CaseItem | KindItem, known: Any) -> bool:
    return item.kind.can_overlap(known) if isinstance(item, KindItem) else can_overlap(known)


class Prefetcher:
    """One process's window of prepared cases."""

    def __init__(self, config: pytest.Config, harness: Harness, limit: int) -> None:
        self._config = config
        self._harness = harness
        self._ahead = Ahead(harness.loop, limit, harness.slots)
        capturing = config.pluginmanager.getplugin("capturemanager")
        self.router = Router(
            straight=capturing is None or not capturing.is_globally_capturing(),
            logging_plugin=config.pluginmanager.getplugin("logging-plugin"),
        )
        self._items: list[pytest.Item] = []
        self._places: dict[str, int] = {}
        #: Fixture definitions of engine and model → their values, as the items so far have got them.
        self._known: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        #: The same definitions → whether several cases may be asked of them at once.
        self._overlap: dict[tuple[Any, ...], bool] = {}
        self._in_turn = InTurn(_FIXED)
        self._costs: deque[float] = deque(maxlen=JUDGED)
        self._hooks = ItemHooks(self.router, bars=self._in_turn.bars, stop=self.stop, break_off=self.break_off)
        config.pluginmanager.register(self._hooks, HOOKS_NAME)
        self._awake = True
        #: Items whose results an earlier run has.
        self._taken: set[str] = set()
        #: For so many items the window is not to be filled.
        self._pause = 0
        #: Items that another worker has taken over, which are forgotten here.
        self._lost: deque[str] = deque()
        self._in_vain = 0
        #: Case sets of which nothing more is to be prepared.
        self._left_out: set[str] = set()
        self._worker: Any = None
        self._over = False
        option = config.option
        #: Whether the case at hand runs by itself and holds one of the places.
        self._beside = False
        self._careful = bool(option.maxfail) or bool(getattr(option, "stepwise", False))

    # -- what the items tell -----------------------------------------------------------------------------------

    def take(self, item: pytest.Item, engine: object, llm: Any) -> Prepared | None:
        """The item's prepared case, if its engine and model are those that the item has got."""
        if isinstance(item, CaseItem):
            self._learn(item, engine, llm)
        if self._needs_nothing():
            return None
        prepared = self._ahead.take(item.nodeid)
        if prepared is not None and prepared.run.engine is not engine:
            prepared.close()
            prepared = None
        self._begin(item, alone=prepared is None)
        return prepared

    def take_kind(self, item: KindItem, values: Mapping[str, Any]) -> Prepared | None:
        """The same for an item of another kind, whose fixtures have these values."""
        self._learn(item, values, None)
        if self._needs_nothing():
            return None
        prepared = self._ahead.take(item.nodeid)
        if prepared is not None and any(prepared.run.values[name] is not value for name, value in values.items()):
            prepared.close()
            prepared = None
        self._begin(item, alone=prepared is None)
        return prepared

    def _learn(self, item: CaseItem | KindItem, first: Any, second: Any) -> None:
        definitions = self._definitions(item)
        known = self._known.get(definitions)
        if known is None or known[0] is not first or known[1] is not second:
            self._known[definitions] = (first, second)
            self._overlap[definitions] = _can_overlap(item, first)

    def _needs_nothing(self) -> bool:
        """Whether nothing is under way, and nothing known so far may be: then items are left alone."""
        if not self.idle or any(self._overlap.values()):
            return False
        self._rest()
        return True

    def _begin(self, item: pytest.Item, *, alone: bool) -> None:
        """Fill the window beside the item's case, which takes one of the places if it was not prepared."""
        if alone and not self._over:
            self._beside = True
            self._ahead.begin_beside()
        if not self._in_turn.bars(item):
            self._fill(item)
        if alone:
            self.router.begin_at_hand(warning_filters(item))

    def tell_cost(self, seconds: float) -> None:
        """The own work of a case that has ended."""
        self._costs.append(seconds)
        if self._beside:
            self._beside = False
            self._ahead.end_beside()

    def hold(self) -> None:
        """Prepare nothing more; the cases that are under way go on until their items take them."""
        self._over = True
        self._ahead.hold()

    def cancel(self, *, but: str) -> None:
        """Prepare nothing more, and stop all that is under way but the case of the item ``but``. From any thread."""
        self._over = True
        self._ahead.cancel(but=but)

    def break_off(self) -> None:
        """Prepare nothing more, and stop all that is under way; what has ended is kept for :meth:`ended`."""
        self._over = True
        self._ahead.break_off()

    def ended(self) -> list[tuple[int, CaseItem | KindItem, Prepared]]:
        """The cases that have ended before the turn of their items, in the order of these, each with its place."""
        self._forget_lost()
        found = []
        for key, prepared in self._ahead.ended().items():
            place = self._places[key]
            item = self._items[place]
            assert isinstance(item, CaseItem | KindItem)
            found.append((place, item, prepared))
        return sorted(found, key=itemgetter(0))

    def leave_out(self, path: str) -> None:
        """Prepare nothing more of a case set; its cases that are under way go on until their items take them."""
        if path in self._left_out:
            return
        self._left_out.add(path)
        for item in self._items:
            own = item.nodeid in self._ahead and isinstance(item, CaseItem | KindItem) and file_of(item) == path
            if own and self._ahead.part_with(item.nodeid):
                prepared = self._ahead.take(item.nodeid)
                if prepared is not None:
                    prepared.close()

    def has(self, item: pytest.Item) -> bool:
        """Whether the item's case is under way."""
        return item.nodeid in self._ahead

    def calls_so_far(self) -> Iterator[CallRecord]:
        """The calls of finished stages of the cases that are under way."""
        for run in self._ahead.runs():
            for one in getattr(run, "trials", (run,)):
                for result in list(one.results.values()):
                    yield from result.calls

    @property
    def idle(self) -> bool:
        """Whether no case is under way that an item is still to take."""
        return not len(self._ahead)

    def reason(self, item: pytest.Item) -> str | None:
        """Why the item cannot be prepared ahead; ``None`` if it can."""
        return self._in_turn.reason(item)

    @staticmethod
    def _definitions(item: CaseItem | KindItem) -> tuple[Any, ...]:
        found = item._fixtureinfo.name2fixturedefs
        own = (item.kind.name, *item.kind.fixtures) if isinstance(item, KindItem) else _FIXED
        params = getattr(getattr(item, "callspec", None), "params", {})
        return tuple((id(found[name][-1]) if found.get(name) else name, params.get(name)) for name in own)

    # -- pytest's hooks ----------------------------------------------------------------------------------------

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._items = session.items
        self._places = {item.nodeid: place for place, item in enumerate(session.items)}
        self._worker = interactor_of(self._config)
        if self._worker is not None and getattr(self._config, "workerinput", {}).get("memeval_steals", False):
            from pytest_memeval.workers.schedule import keep_begun

            keep_begun(self._worker, self._part_with, self._lose)

    def _part_with(self, place: object) -> bool:
        return isinstance(place, int) and self._ahead.part_with(self._items[place].nodeid)

    def _lose(self, places: Sequence[int]) -> None:
        """Asked for by xdist's own thread; what was prepared is forgotten in the main one."""
        self._lost.extend(self._items[place].nodeid for place in places)

    def _forget_lost(self) -> None:
        while self._lost:
            prepared = self._ahead.take(self._lost.popleft())
            if prepared is not None:
                self._in_vain += prepared.begun
                prepared.close()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        interrupted = False
        try:
            return (yield)
        except KeyboardInterrupt:
            interrupted = True
            raise
        finally:
            # Here rather than at the session's end, which another plugin's fault may keep from this one.
            try:
                self._forget_lost()
                (self.break_off if interrupted else self.stop)()
            finally:
                self.router.close()

    def pytest_keyboard_interrupt(self) -> None:
        self.stop()

    def pytest_sessionfinish(self) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["memeval_in_vain"] = self._in_vain

    def stop(self) -> None:
        """Forget every case that is under way, and prepare no other."""
        self._over = True
        self._ahead.close()

    def _rest(self) -> None:
        """Take the hooks off the items while nothing is prepared: they cost as much as a trivial case does."""
        if self._awake:
            self._awake = False
            self._config.pluginmanager.unregister(self._hooks)
            self.router.rest()

    def _wake(self, item: pytest.Item) -> None:
        if not self._awake:
            self._awake = True
            self._config.pluginmanager.register(self._hooks, HOOKS_NAME)
            # The item at hand is past its own.
            self.router.watch()
            self.router.watch_warnings(warning_filters(item))

    # -- the window --------------------------------------------------------------------------------------------

    def _fill(self, item: pytest.Item) -> None:
        if self._over:
            return
        if self._costs and sorted(self._costs)[len(self._costs) // 2] < WORTH_SECONDS:
            if len(self._costs) == JUDGED and self.idle:
                self._rest()
            return
        self._forget_lost()
        depth = self._ahead.limit * (1 if self._careful else DEPTH)
        if self._pause:
            self._pause -= 1
            return
        passed = 0
        self._ahead.last_in_sight = False
        for upcoming in self._upcoming(item):
            if len(self._ahead) >= depth:
                return
            if upcoming.nodeid in self._ahead:
                continue
            if self._in_turn.bars(upcoming):
                break
            if upcoming.nodeid in self._taken or self._is_left_out(upcoming):
                passed += 1
                if passed > FURTHEST:
                    # All that is near is under way or taken: no need to look at the same items from the next one.
                    self._pause = FURTHEST // 2
                    return
                continue
            if self.reason(upcoming) is not None:
                continue
            assert isinstance(upcoming, CaseItem | KindItem)
            known = self._known.get(self._definitions(upcoming))
            if known is None or not _can_overlap(upcoming, known[0]):
                # Its engine is made when its first item is set up; until then nothing behind it is touched.
                return
            self._wake(item)
            if isinstance(upcoming, KindItem):
                self._ahead.start(upcoming.nodeid, partial(self._prepare, upcoming, known[0]))
            elif self._harness.resume_from is not None and self._is_taken(upcoming, *known):
                self._taken.add(upcoming.nodeid)
            else:
                self._start(upcoming, *known)
        self._ahead.last_in_sight = True

    def _is_left_out(self, item: pytest.Item) -> bool:
        return bool(self._left_out) and isinstance(item, CaseItem | KindItem) and file_of(item) in self._left_out

    def _is_taken(self, item: CaseItem, engine: object, llm: Any) -> bool:
        """Whether the item has its results from an earlier run, so that there is nothing to prepare."""
        assets = prompts_of(item), registry_of(item), templates_of(item)
        return self._harness.resumer.takes(item, key_of(item, item.case, engine, llm, *assets))

    def _start(self, item: CaseItem, engine: object, llm: Any) -> None:
        def make() -> Prepared:
            prompts, registry, templates = prompts_of(item), registry_of(item), templates_of(item)
            run, close = make_run(item, item.case, engine, llm, prompts=prompts, registry=registry, templates=templates)
            resources = ExitStack()
            resources.callback(close)
            return self._expected(item, Prepared(run, resources, pauses=isinstance(run, CaseRun)))

        self._ahead.start(item.nodeid, make)

    def _prepare(self, item: KindItem, values: Mapping[str, Any]) -> Prepared:
        return self._expected(item, Prepared(*item.prepare(values)))

    def _expected(self, item: pytest.Item, prepared: Prepared) -> Prepared:
        self.router.expect(prepared.said, warning_filters(item))
        return prepared

    def _upcoming(self, item: pytest.Item) -> Iterator[pytest.Item]:
        """The items that come after this one in this process, nearest first."""
        worker = self._worker
        if worker is None:
            start = self._places.get(item.nodeid, len(self._items)) + 1
            yield from (self._items[place] for place in range(start, len(self._items)))
            return
        yield from (self._items[place] for place in _places_to_come(worker) if isinstance(place, int))


def _places_to_come(worker: Any) -> list[Any]:
    """What an xdist worker has still to run: places of items, and its mark of the end."""
    queue = worker.torun
    if hasattr(queue, "lock"):
        with queue.lock() as waiting:
            return [worker.nextitem_index, *islice(waiting, 2 * FURTHEST)]
    with queue.mutex:  # a plain queue, before pytest-xdist 3.7
        return [worker.nextitem_index, *islice(queue.queue, 2 * FURTHEST)]
