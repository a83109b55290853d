"""Cases whose stages run before their turn, so that waiting for one model call overlaps with waiting for others."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.loops import LoopPlaces, LoopThread
from pytest_memeval.routing.said import Said, routed


@dataclass
class Prepared:
    """A case under way: its run (a CaseRun, or one of another kind), what it printed and logged, and what is to be
    closed with it."""

    run: Any
    resources: ExitStack
    said: Said = field(default_factory=Said)
    work: concurrent.futures.Future[None] | None = None
    #: Whether the run's ``work_ahead`` takes something to wait for between its stages.
    pauses: bool = False
    #: Whether the case has had its slot, so that its calls may have been made.
    begun: bool = False
    #: Whether it is not to begin here any more: another process runs the case, or the run is over.
    given_away: bool = False
    #: Whether all of its work is done, and nobody had cut it short.
    ended: bool = False

    def close(self) -> None:
        """Stop what still runs and close everything the case has opened."""
        self.said.past = True
        if self.work is not None:
            self.work.cancel()
        self.resources.close()

    def end(self) -> None:
        """:meth:`close`, at the end of the case's own item."""
        self.close()
        self.said.end()


class _Slot:
    """A place among those that work at once."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._held = False

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        self._held = True

    async def __aexit__(self, *exc: object) -> None:
        if self._held:
            self._slots.release()

    async def queue_again(self) -> None:
        """Let all go first that wait for a place."""
        self._held = False
        self._slots.release()
        await self._slots.acquire()
        self._held = True


class Ahead:
    """Runs cases on the loop, at most ``limit`` at once, and keeps each until its item takes it.

    Keys are the items' ids. A case is handed out once: an item that is run again gets none.
    """

    def __init__(self, loop: LoopThread, limit: int, slots: asyncio.Semaphore | None = None) -> None:
        self.limit = limit
        self._loop = loop
        self._slots = slots
        self._prepared: dict[str, Prepared] = {}
        self._closed = False
        #: Whether all cases that are still to come are under way here: then those that have not begun go first.
        self.last_in_sight = False
        #: The slot of a case that its item runs by itself.
        self._beside: asyncio.Task[Any] | None = None
        #: Cases that were stopped by :meth:`break_off`, to be closed.
        self._stopped: list[Prepared] = []
        #: Between the loop, which begins cases, and the threads that give them away or have them cancelled.
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._prepared)

    def __contains__(self, key: str) -> bool:
        return key in self._prepared

    def start(self, key: str, make: Callable[[], Prepared]) -> None:
        """Begin a case; nothing after :meth:`close`, and nothing for a key that is under way."""
        if self._closed or key in self._prepared:
            return
        prepared = make()
        with self._lock:
            if not self._closed:
                self._prepared[key] = prepared
        if self._closed:
            prepared.close()
            return
        # Said before anybody can ask the run for a result: from now on its stages run on the loop alone.
        go_ahead = getattr(prepared.run, "go_ahead", None)
        if go_ahead is not None:
            go_ahead()
        prepared.work = asyncio.run_coroutine_threadsafe(self._work(prepared), self._loop.loop())

    def begin_beside(self) -> None:
        """Count a case that its item runs by itself among those at once. It does not wait, so where no slot is free
        there is one case more than the limit for a while."""
        self._loop.loop().call_soon_threadsafe(self._occupy)

    def end_beside(self) -> None:
        """That case is over; nothing where none began."""
        self._loop.loop().call_soon_threadsafe(self._free)

    def _shared(self) -> asyncio.Semaphore:
        if self._slots is None:
            self._slots = LoopPlaces(self.limit)
        return self._slots

    def _occupy(self) -> None:
        if self._beside is None and not self._shared().locked():
            self._beside = asyncio.get_running_loop().create_task(self._shared().acquire())

    def _free(self) -> None:
        own, self._beside = self._beside, None
        if own is None or own.get_loop() is not asyncio.get_running_loop():
            return  # that loop was left behind, and its slots with it
        if not own.cancel():  # it has the slot, or never ran
            self._shared().release()

    async def _work(self, prepared: Prepared) -> None:
        slot = _Slot(self._shared())
        async with slot:
            with self._lock:
                if prepared.given_away:
                    return
                prepared.begun = True

            async def pause() -> None:
                # Cases begun together end together. One begun last would end long after all others, alone.
                if self.last_in_sight:
                    await slot.queue_again()

            with routed(prepared.said):
                try:
                    await (prepared.run.work_ahead(pause) if prepared.pauses else prepared.run.work_ahead())
                except asyncio.CancelledError:
                    raise
                except BaseException:
                    # An interrupt: whatever passes a stage is raised again where the item asks for it.
                    return
            with self._lock:
                prepared.ended = not prepared.given_away

    def take(self, key: str) -> Prepared | None:
        """The case's run, finished or not; the caller closes it."""
        return self._prepared.pop(key, None)

    def part_with(self, key: str) -> bool:
        """Leave the case to another process: it will not begin here. False if it has begun. Called from any thread."""
        with self._lock:
            prepared = self._prepared.get(key)
            if prepared is None:
                return True
            prepared.given_away = not prepared.begun
            return prepared.given_away

    def runs(self) -> list[Any]:
        """The runs that no item has taken yet."""
        return [prepared.run for prepared in list(self._prepared.values())]

    def hold(self) -> None:
        """Begin nothing more: cases that still wait for a slot are forgotten, those under way go on."""
        self._closed = True
        for key in [key for key in self._prepared if self.part_with(key)]:
            self._prepared.pop(key).close()

    def cancel(self, *, but: str) -> None:
        """Begin nothing more, and stop all cases under way ``but`` that one, called from any thread. What they
        have opened is left to :meth:`close`."""
        with self._lock:
            self._closed = True
            for key, prepared in list(self._prepared.items()):
                if key != but:
                    prepared.given_away = True
                    if prepared.work is not None:
                        prepared.work.cancel()

    def break_off(self) -> None:
        """Begin nothing more, and stop and forget all that is under way. What it has opened is left to :meth:`close`;
        cases that have come to their end by themselves can still be taken."""
        with self._lock:
            self._closed = True
            for key in [key for key, prepared in self._prepared.items() if not prepared.ended]:
                prepared = self._prepared.pop(key)
                prepared.given_away = True
                if prepared.work is not None:
                    prepared.work.cancel()
                self._stopped.append(prepared)

    def ended(self) -> dict[str, Prepared]:
        """The cases that have come to their end and wait for their items."""
        return {key: prepared for key, prepared in list(self._prepared.items()) if prepared.ended}

    def drop(self) -> None:
        """Stop and forget every case that no item has taken."""
        for key in self._prepared:
            self.part_with(key)  # or the first to be stopped would hand its slot on to the next
        waiting = [*self._stopped, *self._prepared.values()]
        self._stopped, self._prepared = [], {}
        for prepared in waiting:
            prepared.close()

    def close(self) -> None:
        """:meth:`drop`, and start nothing any more."""
        self._closed = True
        self.drop()
