from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.llm.protocol import ModelQuota
from pytest_memeval.llm.retry import CircuitBreaker, RetryPolicy, parse_retry_after

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 2.5 ", 2.5),
        ("-4", 0.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 12:00:30", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        (None, None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now=NOW) == seconds


@given(st.text())
def test_no_header_breaks_the_reading(value: str) -> None:
    seconds = parse_retry_after(value, now=NOW)
    assert seconds is None or seconds >= 0


@given(st.integers(1, 50), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_the_wait_is_bounded_and_obeys_the_server(attempts: int, drawn: float, retry_after: float | None) -> None:
    policy = RetryPolicy(base_delay=0.5, max_delay=8, max_retry_after=60, random=lambda: drawn)
    wait = policy.delay(attempts, retry_after)
    step = min(8, 0.5 * 2 ** (attempts - 1))
    assert wait >= min(retry_after or 0.0, 60)
    assert step / 2 <= wait <= max(step, 60 + step / 10)


def test_the_wait_grows_and_is_spread() -> None:
    policy = RetryPolicy(base_delay=1, max_delay=100, random=lambda: 1.0)
    assert [policy.delay(n) for n in (1, 2, 3)] == [1, 2, 4]
    assert len({RetryPolicy().delay(1) for _ in range(20)}) > 1


def test_the_breaker_keeps_the_first_cause() -> None:
    breaker = CircuitBreaker()
    breaker.check()
    assert not breaker.tripped
    assert breaker.trip("first") == "first"
    assert breaker.trip("second") == "first"
    with pytest.raises(ModelQuota, match=r"^first$") as caught:
        breaker.check(3)
    assert caught.value.attempts == 3
