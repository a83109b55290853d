"""The ways in which the benchmarks write a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pytest_memeval.documents.bounds import calendar_problem

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SLASHES = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?:\s*\(\w+\))?(?:\s+(\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_SPOKEN = re.compile(
    r"(?:(\d{1,2}):(\d{2})\s*([ap])\.?m\.?\s+on\s+)?(\d{1,2})\s+([A-Za-z]+)\.?,?\s+(\d{4})", re.IGNORECASE
)


def parse_time(text: str) -> datetime:
    """``2023/05/20 (Sat) 02:21``, ``1:56 pm on 8 May, 2023``, ``8 May 2023`` or ISO 8601 as an aware time.

    None of them says a zone (ISO may): UTC is assumed. ValueError for anything else, and for a day that does not exist.
    """
    stripped = text.strip()
    found = _SLASHES.fullmatch(stripped)
    if found:
        return _made(text, *(int(part or 0) for part in found.groups()))
    found = _SPOKEN.fullmatch(stripped)
    if found:
        hour, minute, half, day, month, year = found.groups()
        months = [number for number, name in enumerate(_MONTHS, 1) if len(month) > 2 and name.startswith(month.lower())]
        if months:
            return _made(text, int(year), months[0], int(day), _hour(text, hour, half), int(minute or 0), 0)
    elif stripped[:4].isdigit():
        try:
            time = datetime.fromisoformat(stripped)
        except ValueError:
            pass
        else:
            if (why := calendar_problem(time)) is not None:
                raise ValueError(f"not a time: {text!r} ({why})")
            return time if time.tzinfo else time.replace(tzinfo=UTC)
    raise ValueError(
        f"not a time: {text!r} (known forms: 2023/05/20 (Sat) 02:21, 1:56 pm on 8 May, 2023, and ISO 8601)"
    )


def _hour(text: str, hour: str | None, half: str | None) -> int:
    if hour is None or half is None:
        return 0
    if not 1 <= int(hour) <= 12:
        raise ValueError(f"not a time: {text!r} (there is no {hour} o'clock {half}m)")
    return int(hour) % 12 + (12 if half.lower() == "p" else 0)


def _made(text: str, year: int, month: int, day: int, hour: int, minute: int, second: int) -> datetime:
    try:
        time = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"not a time: {text!r} ({error})") from None
    if (why := calendar_problem(time)) is not None:
        raise ValueError(f"not a time: {text!r} ({why})")
    return time
