"""One event loop in a background thread, so that plain pytest fixtures can wait for asynchronous work."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import queue
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar

from pytest_memeval.loop_time import Holder, is_cancelled, meter_of, own_task, tasks_on, unheard
from pytest_memeval.time_limit import GRACE, TimeLimit

T = TypeVar("T")

#: Seconds after which somebody who waits looks whether that is still of use.
_LOOK = 0.2
#: Seconds that what runs on a loop that was left behind has to end, once it can hear that it was cancelled.
_LAST = 30.0

_left = 0
_left_lock = threading.Lock()


def left_behind() -> int:
    """How many blocking calls this process has given up waiting for so far: their threads may still be at them."""
    return _left


def cancelled_in_vain() -> int:
    """How many pieces of a case's asynchronous work were cancelled, and wait on all the same."""
    return sum(not is_left_behind(task.get_loop()) for task in unheard())


def _count_left() -> None:
    global _left
    with _left_lock:
        _left += 1


class LoopBlocked(Exception):
    """The work did not come back in time. ``holder``: whose step the loop is at that lets nobody else go on, or whose
    time is over though it was cancelled; ``None`` where that is not known."""

    def __init__(self, holder: Holder | None = None) -> None:
        super().__init__("the event loop did not come back in time")
        self.holder = holder

    @property
    def is_stuck(self) -> bool:
        """Whether the holder has been left behind with its loop: on a fresh one the rest of the work can go on."""
        return self.holder is not None and self.holder.is_stuck


#: Loops that did not come back in time. Nothing more is to begin on them, should they ever go on.
_left_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def is_left_behind(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether nobody may wait for anything on that loop."""
    return loop in _left_loops


def refuse_on_left_loop() -> None:
    """CancelledError on a loop that was left behind."""
    if is_left_behind(asyncio.get_running_loop()):
        raise asyncio.CancelledError


class LoopPlaces(asyncio.Semaphore):
    """Places that are shared on each loop by itself: what holds one on a loop that was left behind may never give it
    back."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._count = count
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    def _here(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = asyncio.Semaphore(self._count)
        return self._by_loop[loop]

    def locked(self) -> bool:
        return self._here().locked()

    async def acquire(self) -> Literal[True]:
        return await self._here().acquire()

    def release(self) -> None:
        self._here().release()


#: Loops that are to end at their next stop.
_ending: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def lasting_loop() -> asyncio.AbstractEventLoop:
    """A loop that what runs on it cannot stop: whoever waits for the rest of its work would wait for ever."""
    loop = asyncio.new_event_loop()
    with contextlib.suppress(AttributeError):  # another maker's loop may take none: a stop has no effect there
        loop.stop = _refuse_to_stop  # type: ignore[method-assign]  # of this one loop
    return loop


def _refuse_to_stop() -> None:
    raise RuntimeError("Cannot stop the event loop that all cases run on")


def serve_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until :func:`stop_loop`, whatever else would end it, and close it. Where something on it has not
    ended, the thread stays, and keeps it as it is: thrown away, it would run on in whoever's thread finds it."""
    asyncio.set_event_loop(loop)
    while loop not in _ending and not loop.is_closed():
        # A task's SystemExit comes through: whoever waits for that task hears of it.
        with contextlib.suppress(BaseException):
            loop.run_forever()
    left = [] if loop.is_closed() else [task for task in tasks_on(loop) if not task.done()]
    while left:
        threading.Event().wait()
    loop.close()


def stop_loop(loop: asyncio.AbstractEventLoop) -> None:
    """End :func:`serve_loop`; called on the loop."""
    _ending.add(loop)
    type(loop).stop(loop)


class LoopThread:
    """A daemon thread that runs an event loop from the first :meth:`run` until :meth:`close`.

    A daemon, so that a stage that blocks for ever cannot keep the process from ending.
    """

    def __init__(self, name: str = "memeval-loop", *, counts: bool = True) -> None:
        self._name = name
        #: Whether what blocks it is counted among what is left behind.
        self._counts = counts
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                from pytest_memeval.executors import ContextExecutor

                self._loop = lasting_loop()
                self._loop.set_default_executor(ContextExecutor())
                self._loop.set_task_factory(own_task)
                self._thread = threading.Thread(target=serve_loop, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def run(
        self,
        work: Coroutine[Any, Any, T],
        *,
        timeout: float | None = None,
        limits: Callable[[], Sequence[TimeLimit]] | None = None,
    ) -> T:
        """Run ``work`` on the loop and wait. An interrupt while waiting cancels the work and is raised again.

        LoopBlocked where waiting longer is of no use: after ``timeout`` seconds, or, where ``limits`` gives the limits
        that hold for the work, when somebody holds the loop whose own time is over, when that of all these limits is,
        or when the loop answers nobody for longer than they allow. A loop that is stuck is left behind with its thread,
        and later work gets a fresh one.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("called from the loop's own thread: await the coroutine there instead")
        loop = self.loop()
        future = asyncio.run_coroutine_threadsafe(contained(work), loop)
        try:
            if limits is None:
                if not concurrent.futures.wait([future], timeout).done:
                    raise self._left_behind(future, loop)
            else:
                self._watch(future, loop, limits)
            escaped, result = future.result()
        except BaseException:
            future.cancel()
            raise
        if escaped is not None:
            raise escaped
        return result  # type: ignore[return-value]  # set where nothing escaped

    def _watch(
        self,
        future: concurrent.futures.Future[Any],
        loop: asyncio.AbstractEventLoop,
        limits: Callable[[], Sequence[TimeLimit]],
    ) -> None:
        """Wait for the future. LoopBlocked as :meth:`run` says."""
        meter, heard = meter_of(loop), time.monotonic()
        while not concurrent.futures.wait([future], _LOOK).done:
            holder = meter.stuck_at(GRACE)
            if holder is not None:
                raise self._left_behind(future, loop, holder)
            if meter.worker is not None:
                heard = time.monotonic()  # it is somebody's turn, whose own limit says for how long
            own = limits()
            overdue = [limit for limit in own if limit.is_overdue(GRACE)]
            allowed = max((limit.seconds for limit in own if limit.seconds is not None), default=None)
            silent = allowed is not None and time.monotonic() - heard > allowed + GRACE
            if not overdue and not silent:
                continue
            if not _answers(loop):
                if meter.worker is None and not future.done():
                    raise self._left_behind(future, loop)
                continue
            heard = time.monotonic()
            if overdue and not future.done() and not any(limit.is_at_work for limit in own if limit not in overdue):
                future.cancel()  # once more: it did not hear the first time
                raise LoopBlocked(overdue[0])

    def settle(self, within: float = 0.2) -> None:
        """Let what was cancelled hear of it, at most so many seconds; nothing where no loop was ever needed."""
        with self._lock:
            loop = self._loop
        if loop is not None:
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(_some_rounds(), loop).result(within)

    def _left_behind(
        self, future: concurrent.futures.Future[Any], stuck: asyncio.AbstractEventLoop, holder: Holder | None = None
    ) -> LoopBlocked:
        """Have later work get a fresh loop, and say why."""
        if holder is not None:
            holder.is_stuck = True
        _left_loops.add(stuck)
        future.cancel()
        if self._counts:
            _count_left()
        with self._lock:
            if self._loop is stuck:
                self._loop = self._thread = None
        # Served as soon as what blocks the loop ends, if ever.
        asyncio.run_coroutine_threadsafe(_end(stuck), stuck)
        return LoopBlocked(holder)

    def close(self, timeout: float = 1.0) -> None:
        """Cancel what still runs, wait for it at most ``timeout`` seconds, and stop. Safe to call twice."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        until = time.monotonic() + timeout
        called = threading.Event()
        loop.call_soon_threadsafe(called.set)
        if not called.wait(timeout / 2):
            # Stuck, so that there is nobody to cancel anything; it ends when what blocks it does, if ever.
            asyncio.run_coroutine_threadsafe(_end(loop), loop)
            return
        with contextlib.suppress(Exception):
            left = max(0.01, until - time.monotonic())
            asyncio.run_coroutine_threadsafe(_wind_up(loop, 0.8 * left), loop).result(left)
        loop.call_soon_threadsafe(stop_loop, loop)
        thread.join(max(0.01, until - time.monotonic()))


def _answers(loop: asyncio.AbstractEventLoop, within: float = 1.0) -> bool:
    """Whether the loop gets round to a call within so many seconds."""
    called = threading.Event()
    loop.call_soon_threadsafe(called.set)
    return called.wait(within)


async def contained(work: Coroutine[Any, Any, T]) -> tuple[BaseException | None, T | None]:
    """(what a future cannot tell, result). A SystemExit or KeyboardInterrupt that passes through a task ends its loop,
    and whoever waits on that would wait for ever."""
    try:
        return None, await work
    except (SystemExit, KeyboardInterrupt) as error:
        return error, None
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return error, None  # a cancelled future would not say where it came from


async def _some_rounds() -> None:
    # A cancellation takes a round to reach its task and one to reach what that waits for.
    for _ in range(5):
        await asyncio.sleep(0)


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    await _wind_up(loop, _LAST)
    stop_loop(loop)


async def _wind_up(loop: asyncio.AbstractEventLoop, within: float) -> None:
    """Cancel what runs on the loop, and give it so many seconds to end."""
    tasks = [task for task in tasks_on(loop) if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if not tasks or not (await asyncio.wait(tasks, timeout=within))[1]:
        await loop.shutdown_asyncgens()


class _Worker:
    """A daemon thread that runs one blocking function after the other."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="memeval-stage", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self.jobs.get()()
            _idle.append(self)


#: Workers without a job, the one that was busy last at the end; one that was left behind is back here when it is done.
_idle: list[_Worker] = []


async def in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function in a daemon thread and wait for it.

    Not on the loop: there a blocking call would stop everything else, and ``asyncio.run`` inside of it would fail. When
    cancelled, the thread is left behind and its result dropped. Context variables are the caller's.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # set only where function returned

    ended = False

    def work() -> None:
        nonlocal ended
        outcome = _outcome(context, function, args)
        ended = True
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(deliver, *outcome)

    _give_to_worker(work)
    try:
        return await future
    except asyncio.CancelledError:
        if not ended:
            _count_left()
        raise


def call_blocking(function: Callable[..., T], *args: Any) -> T:
    """Call a blocking function for a caller that may block, in a copy of its context.

    In the calling thread, since going to another and back costs more than a small function does; unless a loop runs
    here, as in a notebook: ``asyncio.run`` inside the function would fail then, so it gets a daemon thread.
    """
    context = contextvars.copy_context()
    if asyncio._get_running_loop() is None:
        result, error = _outcome(context, function, args)
    else:
        answer: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
        _give_to_worker(lambda: answer.put(_outcome(context, function, args)))
        result, error = answer.get()
    if error is not None:
        try:
            raise error
        finally:
            del error  # it holds this frame by its traceback
    return result  # type: ignore[return-value]  # set where nothing was raised


def call_within(seconds: float, function: Callable[..., T], *args: Any) -> tuple[T | None, BaseException | None] | None:
    """(value, error) of a blocking function that is called in a daemon thread; ``None`` where it does not come back in
    time: it is left behind then."""
    context = contextvars.copy_context()
    answer: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
    _give_to_worker(lambda: answer.put(_outcome(context, function, args)))
    try:
        return answer.get(timeout=seconds)
    except queue.Empty:
        return None


def _outcome(
    context: contextvars.Context, function: Callable[..., T], args: tuple[Any, ...]
) -> tuple[T | None, BaseException | None]:
    try:
        return context.run(function, *args), None
    except StopIteration as error:  # a future refuses it, and nobody would ever hear of it
        wrapped = RuntimeError(f"StopIteration was raised: {error}".rstrip(": "))
        return None, wrapped.with_traceback(error.__traceback__)
    except BaseException as error:  # handed to whoever waits
        return None, error


def _give_to_worker(job: Callable[[], None]) -> None:
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.jobs.put(job)


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has nothing to wait for in the calling thread, without a loop. RuntimeError if it waits."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("the coroutine waits for something that only a loop can give")
