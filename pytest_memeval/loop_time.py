"""Whose work an event loop is at, and for how long: what one case holds the loop for is no other case's time. And tasks
of this package's own, which the code that it calls does not cancel by accident."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Holder:
    """Somebody whose work runs on loops, and the clock that counts that work's time: it goes while the loop is free or
    at that work, and stands still while the loop is held by somebody else's."""

    def __init__(self) -> None:
        #: Seconds for which the work has held the loop that it is on.
        self.held = 0.0
        #: Whether the loop was left behind because this work did not let go of it.
        self.is_stuck = False
        #: Whether nobody wants the work any more: its next step is cancelled.
        self.is_dropped = False
        self._meter: Meter | None = None

    def _clock(self, meter: Meter) -> float:
        """May be asked from any thread."""
        others = meter.held - self.held
        if meter.holder is not None and meter.holder is not self:
            others += time.monotonic() - meter.since
        return time.monotonic() - others

    def _held_so_far(self, meter: Meter) -> float:
        """:attr:`held`, with the step at hand. May be asked from any thread."""
        return self.held + (time.monotonic() - meter.since if meter.holder is self else 0.0)

    @property
    def is_at_work(self) -> bool:
        """Whether the loop has work of this one at hand: a task that it started long ago may go on behind it."""
        return False

    def is_overdue(self, grace: float) -> bool:
        """Whether the work at hand should have ended more than so many seconds ago. May be asked from any thread."""
        return False


class Meter:
    """Of one loop: whose step it is at, since when, and for how long all steps together have held it."""

    def __init__(self) -> None:
        self.holder: Holder | None = None
        self.since = 0.0
        self.held = 0.0

    def turn_to(self, holder: Holder | None) -> Holder | None:
        """The loop is at this one's step from now on; gives whose it was at."""
        now, before = time.monotonic(), self.holder
        if before is not None:
            # In this order: whoever reads from another thread takes too much as held by others for a moment, and too
            # little as held by itself, never the reverse, and looks again.
            spent = now - self.since
            self.held += spent
            self.since = now
            before.held += spent
        self.since, self.holder = now, holder
        return before

    @property
    def worker(self) -> Holder | None:
        """Who is known to be at work on the loop. May be asked from any thread."""
        holder = self.holder
        return holder if holder is not None and holder.is_at_work else None

    def stuck_at(self, grace: float) -> Holder | None:
        """Who holds the loop in one step though its time is over for so many seconds. May be asked from any thread."""
        holder, since = self.holder, self.since
        if holder is None or time.monotonic() - since < grace or not holder.is_overdue(grace):
            return None
        return holder if self.holder is holder and self.since == since else None


_meters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Meter] = weakref.WeakKeyDictionary()

#: Whose work the code at hand is part of.
_at_work: contextvars.ContextVar[tuple[Holder, Meter] | None] = contextvars.ContextVar("memeval_at_work", default=None)


def at_work_here() -> Holder | None:
    """Whose work the code at hand is part of; ``None`` where it is nobody's."""
    found = _at_work.get()
    return None if found is None else found[0]


def meter_of(loop: asyncio.AbstractEventLoop) -> Meter:
    try:
        return _meters[loop]
    except KeyError:
        return _meters.setdefault(loop, Meter())


async def on_account(holder: Holder, meter: Meter, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work as the holder's, :func:`apart`; so are the tasks that it starts, on a loop with :func:`own_task`."""
    return await apart(work, (holder, meter))


async def apart(work: Callable[[], Awaitable[T]], account: tuple[Holder, Meter] | None = None) -> T:
    """Do the work in a task of its own. Code that cancels the task that it runs in cancels that one alone: the caller
    gets the CancelledError, and :func:`is_cancelled` says that nobody cancelled it.

    Who cancels the caller cancels the work. Context variables that the work sets are the caller's afterwards.
    """
    context = contextvars.copy_context()
    if account is not None:
        context.run(_at_work.set, account)
    task: asyncio.Task[tuple[BaseException | None, T | None]] = context.run(
        own_task, asyncio.get_running_loop(), _contained(work), context=context
    )
    if account is not None:
        with _accounts_lock:
            _accounts.add(task)
    try:
        escaped, value = await hidden(task)
    finally:
        if task.done():  # else the caller was thrown away, by whoever found it left over
            for variable, given in context.items():
                if variable is not _at_work and variable.get(None) is not given:
                    variable.set(given)
    if escaped is not None:
        raise escaped
    return value  # type: ignore[return-value]  # set where nothing escaped


async def _contained(work: Callable[[], Awaitable[T]]) -> tuple[BaseException | None, T | None]:
    # These two would end the loop on their way out of a task.
    try:
        return None, await work()
    except (SystemExit, KeyboardInterrupt) as error:
        return error, None


def is_cancelled() -> bool:
    """Whether somebody cancels the running task; else a CancelledError came out of what it waits for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


#: The tasks that ``asyncio.all_tasks`` does not give, by their loop.
_hidden: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakSet[asyncio.Task[Any]]] = (
    weakref.WeakKeyDictionary()
)
#: The tasks of work on somebody's account.
_accounts: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
_accounts_lock = threading.Lock()


def hidden(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """The task, which on a loop of this package's own ``asyncio.all_tasks`` does not give any more: an engine that
    cancels all of those, to tidy up behind itself, means its own, and not the other cases'."""
    loop = task.get_loop()
    if loop.get_task_factory() is own_task:  # whoever made another loop ends what is on it
        asyncio._unregister_task(task)
        _hidden.setdefault(loop, weakref.WeakSet()).add(task)
    return task


def tasks_on(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[Any]]:
    """The loop's tasks that have not ended, the hidden ones among them. Asked on the loop."""
    return {*asyncio.all_tasks(loop), *(task for task in _hidden.get(loop, ()) if not task.done())}


def unheard() -> list[asyncio.Task[Any]]:
    """Work on somebody's account that was cancelled, and has not ended: it waits on all the same."""
    with _accounts_lock:
        tasks = list(_accounts)
    return [task for task in tasks if not task.done() and task.cancelling() > 0]


def own_task(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    """A loop's task factory: a task started by somebody's work is part of that work, any other one is :func:`hidden`
    from it."""
    found = _at_work.get()
    if found is not None and found[1] is meter_of(loop):
        return asyncio.Task(_Steps(work, *found), loop=loop, **more)
    return hidden(asyncio.Task(work, loop=loop, **more))


class _Steps(Coroutine[Any, Any, T]):
    """A coroutine whose every step is measured."""

    __slots__ = ("_holder", "_meter", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], holder: Holder, meter: Meter) -> None:
        self._work, self._holder, self._meter = work, holder, meter

    def send(self, value: Any) -> Any:
        if self._holder.is_dropped:
            return self.throw(asyncio.CancelledError())
        before = self._meter.turn_to(self._holder)
        try:
            return self._work.send(value)
        finally:
            self._meter.turn_to(before)

    def throw(self, *error: Any) -> Any:
        before = self._meter.turn_to(self._holder)
        try:
            return self._work.throw(*error)
        finally:
            self._meter.turn_to(before)

    def close(self) -> None:
        self._work.close()

    def __getattr__(self, name: str) -> Any:
        # What tells how far a coroutine is, by which anyio knows whether a task has begun, and what its task is called.
        return getattr(self._work, name)

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def __iter__(self) -> _Steps[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)
