"""Numbers as people read them."""

from __future__ import annotations

from pytest_memeval.metrics.thresholds import TOLERANCE

#: Decimals of a value in a table, and the most that are spent on telling it from its threshold.
DECIMALS = 3
MOST_DECIMALS = 12


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number, without a needless ``.0``: ``0.75``, ``3``."""
    text = repr(float(value))
    return text.removesuffix(".0")


def value_text(value: float | None, *, against: float | None = None, decimals: int = DECIMALS) -> str:
    """A value in a table: ``0.813``, whole numbers without decimals, ``-`` for ``None``.

    With ``against`` (a threshold) it gets as many decimals as it takes to look different from it, so that 0.7996 does
    not stand beside 0.80 as 0.800. A difference within the tolerance of gates is none.
    """
    if value is None:
        return "-"
    if against is not None and abs(value - against) > TOLERANCE:
        while decimals < MOST_DECIMALS and f"{value:.{decimals}f}" == f"{against:.{decimals}f}":
            decimals += 1
    elif float(value).is_integer() and abs(value) >= 2:
        return str(int(value))
    return f"{value:.{decimals}f}"


def interval_text(interval: tuple[float, float] | list[float] | None, decimals: int = DECIMALS) -> str:
    """``[0.741, 0.852]``, or ``-`` where there is none."""
    if interval is None:
        return "-"
    return f"[{interval[0]:.{decimals}f}, {interval[1]:.{decimals}f}]"


def seconds_text(seconds: float | None) -> str:
    """A latency: ``0.123 s``; ``-`` for none."""
    return "-" if seconds is None else f"{seconds:.3f} s"
