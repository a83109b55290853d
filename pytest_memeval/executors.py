"""A pool of threads for whoever runs blocking functions by ``loop.run_in_executor(None, …)``."""

from __future__ import annotations

import concurrent.futures
import contextvars
from collections.abc import Callable
from typing import Any


class ContextExecutor(concurrent.futures.ThreadPoolExecutor):
    """As asyncio's own default, but that a function sees the context variables of whoever submits it.

    ``asyncio.to_thread`` does so of itself; without them nobody knows for which case a function works.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)
