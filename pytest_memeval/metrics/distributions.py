"""The two distributions that intervals need: Student's t and the binomial's score interval."""

from __future__ import annotations

import math
from functools import lru_cache

# Two-sided 97.5 % point of the normal distribution.
_Z = 1.959963984540054


@lru_cache(maxsize=64)
def t_quantile(probability: float, degrees: int) -> float:
    """The point below which Student's t with ``degrees`` (≥ 1, whole) lies with ``probability`` (0 < p < 1).

    Inverts the exact distribution function by bisection. ValueError outside those ranges.
    """
    if degrees < 1 or not 0.0 < probability < 1.0:
        raise ValueError(f"no quantile of t for probability {probability} and {degrees} degrees of freedom")
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees)
    # The angle with tan(angle) = t / √degrees; the distribution function rises with it.
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        if _t_distribution(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return math.tan((low + high) / 2) * math.sqrt(degrees)


def _t_distribution(angle: float, degrees: int) -> float:
    """P(T ≤ √degrees · tan(angle)): the finite series for whole degrees (Abramowitz and Stegun 26.7.3–4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, series = (cosine if odd else 1.0), 0.0
    for factor in range(2 if odd else 1, degrees, 2):
        series += term
        term *= cosine * cosine * factor / (factor + 1)
    within = 2 / math.pi * (angle + sine * series) if odd else sine * series
    return 0.5 + within / 2


def wilson(successes: float, n: int) -> tuple[float, float] | None:
    """Wilson's 95 % score interval of a proportion (Wilson 1927), within [0, 1]; ``None`` for n = 0.

    ValueError unless 0 ≤ successes ≤ n.
    """
    if n < 0 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} is no proportion")
    if n == 0:
        return None
    share = successes / n
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    middle = share + _Z * _Z / (2 * n)
    scale = 1 + _Z * _Z / n
    # At the ends the formula meets 0 and 1 only up to rounding.
    low = 0.0 if successes == 0 else (middle - spread) / scale
    high = 1.0 if successes == n else (middle + spread) / scale
    return low, high
