"""A case's fixed "now"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase

#: The clock of a case whose messages carry no time.
DEFAULT_CLOCK = datetime(2026, 1, 1, tzinfo=UTC)


def case_clock(case: EvalCase) -> datetime:
    """The case's fixed "now": as written, else one minute after its last message, else 2026-01-01T00:00Z."""
    if case.now is not None:
        return case.now
    times = [message.time for message in case.conversation if message.time is not None]
    return max(times) + timedelta(minutes=1) if times else DEFAULT_CLOCK
