"""Requests and tokens per minute, kept by every call of a process."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: Tokens assumed for an answer before the first one was seen.
_FIRST_OUTPUT_GUESS = 256.0


def estimate_tokens(messages: Sequence[Mapping[str, str]]) -> int:
    """A rough count of a request's tokens: 4 ASCII characters, or 1 other character, a token; 4 more a message."""
    total = 0.0
    for message in messages:
        text = message.get("content") or ""
        ascii_count = sum(character.isascii() for character in text)
        total += ascii_count / 4 + (len(text) - ascii_count) + 4
    return math.ceil(total)


@dataclass(slots=True, eq=False)
class Permit:
    """A place in the minute's budget: when the request may start (monotonic seconds) and the tokens set aside;
    ``answers`` false where no tokens come back (embeddings)."""

    start: float
    tokens: float
    answers: bool = True


class RateLimiter:
    """At most ``rpm`` requests and ``tpm`` tokens in any window of ``period`` seconds (``None``: no limit).

    The limits are a server's; a process of ``workers`` equal ones keeps to its share of them. Requests are admitted in
    the order in which they ask. Tokens are set aside by estimate and corrected once the answer tells their number; a
    single request larger than the limit is let through alone. Safe for several event loops and threads.

    Raises ``ValueError`` for limits below 1 and for fewer than 1 worker.
    """

    def __init__(
        self,
        rpm: float | None = None,
        tpm: float | None = None,
        *,
        workers: int = 1,
        period: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (("rpm", rpm), ("tpm", tpm), ("workers", workers)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value!r}")
        self._requests, self._request_period = self._share(rpm, workers, period)
        self._tokens, self._token_period = self._share(tpm, workers, period)
        self._clock = clock
        self._lock = threading.Lock()
        self._permits: deque[Permit] = deque()
        self._output_guess = _FIRST_OUTPUT_GUESS

    @staticmethod
    def _share(limit: float | None, workers: int, period: float) -> tuple[int | None, float]:
        """This process's whole share of a limit; below one unit the window grows instead."""
        if limit is None:
            return None, period
        share = limit / workers
        return (math.floor(share), period) if share >= 1 else (1, period / share)

    @property
    def limited(self) -> bool:
        return self._requests is not None or self._tokens is not None

    def reserve(self, input_tokens: int = 0, *, answers: bool = True) -> Permit:
        """The earliest free place after all those given before; the caller waits until ``Permit.start``. ``answers``
        false: the answer will hold no tokens."""
        with self._lock:
            now = self._clock()
            tokens = input_tokens + (self._output_guess if answers else 0.0)
            start = max(now, self._permits[-1].start if self._permits else now)
            if self._requests is not None and len(self._permits) >= self._requests:
                start = max(start, self._permits[-self._requests].start + self._request_period)
            if self._tokens is not None:
                budget = self._tokens - tokens
                for permit in reversed(self._permits):
                    budget -= permit.tokens
                    if budget < 0:
                        start = max(start, permit.start + self._token_period)
                        break
            permit = Permit(start, tokens, answers)
            self._permits.append(permit)
            oldest = now - max(self._request_period, self._token_period)
            while self._permits and self._permits[0].start <= oldest:
                self._permits.popleft()
            return permit

    def settle(self, permit: Permit, input_tokens: int | None, output_tokens: int | None) -> None:
        """Replace a permit's estimate by the tokens that were really used, where the server told them."""
        if not permit.answers:
            permit.tokens = permit.tokens if input_tokens is None else float(input_tokens)
            return
        if output_tokens is None:
            return
        with self._lock:
            self._output_guess += 0.2 * (output_tokens - self._output_guess)
            if input_tokens is not None:
                permit.tokens = float(input_tokens + output_tokens)

    def give_back(self, permit: Permit) -> None:
        """Return a place that was not used."""
        with self._lock:
            if permit in self._permits:
                self._permits.remove(permit)

    async def acquire(self, input_tokens: int = 0, *, answers: bool = True) -> Permit:
        """Wait for a place (see :meth:`reserve`). A cancelled wait gives its place back."""
        permit = self.reserve(input_tokens, answers=answers)
        try:
            while (wait := permit.start - self._clock()) > 0:
                await asyncio.sleep(wait)
        except BaseException:
            self.give_back(permit)
            raise
        return permit
