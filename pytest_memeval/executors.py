"""A pool of threads for whoever runs blocking functions by ``loop.run_in_executor(None, …)``."""

from __future__ import annotations

import concurrent.futures
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from pytest_memeval.loop_time import Holder, at_work_here


class _Share:
    """The functions of one case, or of nobody's: how many run, and those that wait for one of them to end."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[Callable[[], None]] = deque()


class ContextExecutor(concurrent.futures.ThreadPoolExecutor):
    """As asyncio's own default, a pool to asyncio, but for three things.

    Each case in flight has as many threads as it would have alone: where all share so many, one waits for a thread
    behind the others, in its own time. A function sees the context variables of whoever submits it.
    ``asyncio.to_thread`` does so of itself; without them nobody knows for which case a function works. And the threads
    are daemons: Python waits at its end for every thread of its own pools, for minutes where a function is stuck that
    the case's time limit or an interrupt has left behind.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self._jobs: queue.SimpleQueue[tuple[Holder | None, Callable[[], None]] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        #: Threads that have been started, and those that wait for a job.
        self._started = self._idle = 0
        self._shares: dict[Holder | None, _Share] = {}
        self._under_way: set[concurrent.futures.Future[Any]] = set()
        self._ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        job = partial(self._carry_out, future, partial(contextvars.copy_context().run, fn, *args, **kwargs))
        whose = at_work_here()
        with self._guard:
            if self._ended:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._under_way.add(future)
            share = self._shares.setdefault(whose, _Share())
            if share.running == self._max_workers:
                share.waiting.append(job)
                return future
            share.running += 1
            self._jobs.put((whose, job))
            if self._idle:
                self._idle -= 1
            else:
                self._started += 1
                name = f"{self._thread_name_prefix}_{self._started - 1}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def _serve(self) -> None:
        while (given := self._jobs.get()) is not None:
            whose, job = given
            del given  # what it has made is not kept until the next one
            following: Callable[[], None] | None = job
            del job
            while following is not None:
                following()
                following = self._following(whose)
            del whose
        self._jobs.put(None)  # for the next thread

    def _following(self, whose: Holder | None) -> Callable[[], None] | None:
        """Who takes the place of one of the case's functions that has ended; without anybody the thread is idle."""
        with self._guard:
            share = self._shares[whose]
            if share.waiting:
                return share.waiting.popleft()
            share.running -= 1
            if not share.running:
                del self._shares[whose]
            self._idle += 1
            return None

    def _carry_out(self, future: concurrent.futures.Future[Any], work: Callable[[], Any]) -> None:
        try:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # handed to whoever waits
                    future.set_exception(error)
        finally:
            with self._guard:
                self._under_way.discard(future)
            del future  # it holds this frame by its error's traceback

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._guard:
            self._ended = True
            left = list(self._under_way)
        if cancel_futures:
            for future in left:
                future.cancel()
        self._jobs.put(None)
        if wait:
            concurrent.futures.wait(left)
