"""A pool of threads for whoever runs blocking functions by ``loop.run_in_executor(None, …)``."""

from __future__ import annotations

import concurrent.futures
import contextvars
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any


class ContextExecutor(concurrent.futures.ThreadPoolExecutor):
    """As asyncio's own default, a pool to asyncio, but for two things.

    A function sees the context variables of whoever submits it. ``asyncio.to_thread`` does so of itself; without them
    nobody knows for which case a function works. And the threads are daemons: Python waits at its end for every thread
    of its own pools, for minutes where a function is stuck that the case's time limit or an interrupt has left behind.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        #: Threads that have been started, and those that wait for a job.
        self._started = self._idle = 0
        self._under_way: set[concurrent.futures.Future[Any]] = set()
        self._ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        work = partial(contextvars.copy_context().run, fn, *args, **kwargs)
        with self._guard:
            if self._ended:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._under_way.add(future)
            self._jobs.put(partial(self._carry_out, future, work))
            if self._idle:
                self._idle -= 1
            elif self._started < self._max_workers:
                self._started += 1
                name = f"{self._thread_name_prefix}_{self._started - 1}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # what it has made is not kept until the next one
            with self._guard:
                self._idle += 1
        self._jobs.put(None)  # for the next thread

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
