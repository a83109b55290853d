"""How large the numbers may be that people write for times and trials, and how near the calendar's ends a time."""

from __future__ import annotations

from datetime import datetime

#: So many seconds at most, 11 days: a much longer time is no limit, and clocks and sockets cannot wait for it.
MAX_SECONDS = 1_000_000
#: So many days at most, 2737 years: what reaches further back leaves nothing out.
MAX_DAYS = 1_000_000
#: So many trials of each case at most: a run measures all of them, and beyond it waits for hours to say no more.
MAX_TRIALS = 1000


def seconds_problem(value: float) -> str | None:
    """Why this is no number of seconds to wait for, or ``None``."""
    if not 0 < value < float("inf"):
        return f"{value} is not a number of seconds above 0"
    return None if value <= MAX_SECONDS else f"{value:g} is more than {MAX_SECONDS} seconds"


def calendar_problem(time: datetime) -> str | None:
    """Why the time cannot be reckoned with, or ``None``: in another zone, one of the first or last year may be none."""
    if datetime.min.year < time.year < datetime.max.year:
        return None
    return f"too near the calendar's end: years go from {datetime.min.year + 1:04} to {datetime.max.year - 1}"
