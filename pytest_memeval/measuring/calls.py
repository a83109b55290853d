"""How an engine's methods are called, be they coroutine functions or not, on a loop or without one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from pytest_memeval.copies import copied
from pytest_memeval.engine.protocol import StageContext, StageError
from pytest_memeval.failures import signature_problem
from pytest_memeval.loop_time import apart
from pytest_memeval.loops import call_blocking, in_daemon_thread
from pytest_memeval.measuring.releases import Releases
from pytest_memeval.measuring.trace import no_record

#: What is called of an engine.
_METHODS = (
    "extract",
    "normalize",
    "resolve",
    "aggregate",
    "query_template",
    "inject",
    "search",
    "load",
    "await_indexed",
)


class EngineCalls:
    """Calls one engine's methods for one case."""

    def __init__(self, engine: object, releases: Releases | None = None, *, limit: float | None = None) -> None:
        self.engine = engine
        self._releases = releases if releases is not None else Releases()
        #: Seconds of the case.
        self.limit = limit
        #: Set where nothing here runs on a loop: what waits for an awaitable.
        self.wait_for: Callable[[Coroutine[Any, Any, Any]], Any] | None = None

    def has(self, method: str) -> bool:
        return callable(getattr(self.engine, method, None))

    @property
    def is_plain(self) -> bool:
        """Whether no method of the engine is a coroutine function."""
        methods = (getattr(self.engine, name, None) for name in _METHODS)
        return not any(method is not None and inspect.iscoroutinefunction(method) for method in methods)

    async def call(self, method: str, *args: Any) -> Any:
        """What the method gives for lists and mappings of its own, since it may change them. Raises what it raises;
        StageError for one that cannot be called with ``args``."""
        function = getattr(self.engine, method)
        args = tuple(copied(given) if isinstance(given, list | dict) else given for given in args)
        try:
            return await self._result(function, *args)
        except TypeError as error:
            # Raised by the call itself it would name no file but ours.
            problem = signature_problem(function, method, args)
            if problem is None:
                raise
            raise StageError(problem, kind="engine_exception") from error

    async def _result(self, function: Any, *args: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        if self.wait_for is not None:
            result = call_blocking(function, *args)
            return self.wait_for(apart(lambda: result)) if inspect.isawaitable(result) else result
        result = await in_daemon_thread(function, *args)
        return await result if inspect.isawaitable(result) else result

    async def indexed(self, ctx: StageContext) -> None:
        """Wait until an engine that indexes behind the call's back is done; the time is the stage's."""
        if self.has("await_indexed"):
            await self.call("await_indexed", ctx)

    def let_go(self, ctx: StageContext) -> None:
        """Tell the engine that the store of ``ctx`` is not used again."""
        release = getattr(self.engine, "release", None)
        if callable(release):
            here = self.limit is None and self.wait_for is not None
            self._releases.let_go(self.engine, release, replace(ctx, record=no_record), self.limit, here=here)
