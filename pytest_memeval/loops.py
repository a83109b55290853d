"""One event loop in a background thread, so that plain pytest fixtures can wait for asynchronous work."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A daemon thread that runs an event loop from the first :meth:`run` until :meth:`close`.

    A daemon, so that a stage that blocks for ever cannot keep the process from ending.
    """

    def __init__(self, name: str = "memeval-loop") -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and wait. An interrupt while waiting cancels the work and is raised again."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("called from the loop's own thread: await the coroutine there instead")
        future = asyncio.run_coroutine_threadsafe(work, self.loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, timeout: float = 1.0) -> None:
        """Cancel what still runs, wait for it at most ``timeout`` seconds, and stop. Safe to call twice."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(timeout)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function in a daemon thread. When cancelled, the thread is left behind and its result dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # set only where function returned

    def work() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = (function(*args), None)
        except BaseException as error:  # handed to the waiting coroutine
            outcome = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(deliver, *outcome)

    threading.Thread(target=work, name="memeval-stage", daemon=True).start()
    return await future
