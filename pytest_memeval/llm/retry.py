"""How often, and after how long, a failed request is sent again, and when a run stops asking."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pytest_memeval.llm.protocol import ModelQuota


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounded retries with exponential back-off and jitter. Times in seconds.

    At most ``max_attempts`` requests are sent for one call; after a time-out at most ``timeout_attempts``, since a
    server that let one long wait pass is seldom quicker the next time. The wait before attempt n + 1 is drawn evenly
    from the upper half of ``base_delay · 2^(n-1)``, which ``max_delay`` caps. A server's Retry-After is obeyed instead
    where it is longer, up to ``max_retry_after``.
    """

    max_attempts: int = 4
    timeout_attempts: int = 2
    base_delay: float = 0.5
    max_delay: float = 8.0
    max_retry_after: float = 60.0
    random: Callable[[], float] = field(default=random.random, repr=False)

    def delay(self, attempts: int, retry_after: float | None = None) -> float:
        """Seconds to wait after ``attempts`` failed requests (1 or more)."""
        step = min(self.max_delay, self.base_delay * 2.0 ** (attempts - 1))
        wait = step * (0.5 + 0.5 * self.random())
        if retry_after is None:
            return wait
        # Some jitter on top, or all waiting calls would come back in the same instant.
        return max(wait, min(retry_after, self.max_retry_after) + 0.1 * wait)


def parse_retry_after(value: str | None, *, now: datetime | None = None) -> float | None:
    """Seconds from a Retry-After header: a number of seconds or an HTTP date. Never below 0.

    ``None`` for a missing header and for one that is neither. ``now`` (aware) is the current time by default.
    """
    if value is None or not (text := value.strip()):
        return None
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if seconds == seconds and seconds != float("inf") else None
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


class CircuitBreaker:
    """Shared by all models of a run: once tripped, every later call fails at once with the same message.

    Tripped by what no retry can mend (quota, authentication), so that a run of 1,000 cases ends with one cause and not
    with 1,000 requests. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._message: str | None = None

    @property
    def message(self) -> str | None:
        """Why the run stopped asking, or ``None`` while it has not."""
        return self._message

    @property
    def tripped(self) -> bool:
        return self._message is not None

    def trip(self, message: str) -> str:
        """Stop all later calls. The first cause stays; returns the message that stands."""
        with self._lock:
            if self._message is None:
                self._message = message
            return self._message

    def check(self, attempts: int = 0) -> None:
        """Raise :class:`ModelQuota` if tripped."""
        if self._message is not None:
            raise ModelQuota(self._message, attempts=attempts)
