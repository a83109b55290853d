from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.llm.rate import RateLimiter, estimate_tokens


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def starts(limiter: RateLimiter, tokens: list[int]) -> list[float]:
    return [limiter.reserve(number).start - Clock.now for number in tokens]


def test_requests_per_minute_over_any_window() -> None:
    assert starts(RateLimiter(rpm=2, clock=Clock()), [0] * 5) == [0, 0, 60, 60, 120]


def test_the_share_of_a_worker() -> None:
    assert starts(RateLimiter(rpm=5, workers=2, clock=Clock()), [0] * 3) == [0, 0, 60]
    assert starts(RateLimiter(rpm=1, workers=4, clock=Clock()), [0] * 3) == [0, 240, 480]


def test_tokens_per_minute_with_correction_afterwards() -> None:
    limiter = RateLimiter(tpm=1000, clock=Clock())
    first = limiter.reserve(300)  # and 256 for the answer
    assert limiter.reserve(300).start == Clock.now + 60
    limiter = RateLimiter(tpm=1000, clock=Clock())
    first = limiter.reserve(300)
    limiter.settle(first, 100, 10)
    assert limiter.reserve(300).start == Clock.now
    assert limiter.reserve(300).start == Clock.now + 60


def test_a_request_larger_than_the_limit_goes_alone() -> None:
    assert starts(RateLimiter(tpm=100, clock=Clock()), [500, 500]) == [0, 60]


@given(st.integers(1, 6), st.integers(300, 3000), st.lists(st.integers(0, 800), max_size=30))
def test_no_window_holds_more_than_the_limits(rpm: int, tpm: int, tokens: list[int]) -> None:
    limiter = RateLimiter(rpm=rpm, tpm=tpm, clock=Clock())
    permits = [limiter.reserve(number) for number in tokens]
    assert [permit.start for permit in permits] == sorted(permit.start for permit in permits)
    for permit in permits:
        window = [other for other in permits if permit.start - 60 < other.start <= permit.start]
        assert len(window) <= rpm
        assert sum(other.tokens for other in window) <= tpm or len(window) == 1


def test_a_cancelled_wait_gives_its_place_back() -> None:
    limiter = RateLimiter(rpm=1, period=0.4)

    async def run() -> float:
        await limiter.acquire()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(limiter.acquire(), 0.05)
        began = time.monotonic()
        await limiter.acquire()
        return time.monotonic() - began

    assert asyncio.run(run()) < 0.7  # the second place (0.35), not the third (0.75)


def test_waiting_calls_are_spread_over_time() -> None:
    limiter = RateLimiter(rpm=4, period=0.3)

    async def run() -> float:
        began = time.monotonic()
        await asyncio.gather(*(limiter.acquire() for _ in range(12)))
        return time.monotonic() - began

    assert asyncio.run(run()) >= 0.6


@pytest.mark.parametrize("options", [{"rpm": 0}, {"tpm": -1}, {"workers": 0}])
def test_limits_below_one_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        RateLimiter(**options)


def test_no_limit_never_waits() -> None:
    assert not RateLimiter().limited
    assert starts(RateLimiter(clock=Clock()), [9] * 3) == [0, 0, 0]


def test_estimated_tokens() -> None:
    assert estimate_tokens([]) == 0
    assert estimate_tokens([{"content": "abcdefgh"}]) == 6
    assert estimate_tokens([{"content": "你好"}]) == 6
