from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.datasets.times import parse_time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2023/05/20 (Sat) 02:21", datetime(2023, 5, 20, 2, 21, tzinfo=UTC)),
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:09 am on 13 September, 2023", datetime(2023, 9, 13, 0, 9, tzinfo=UTC)),
        ("12:30 PM on 1 jan, 2024", datetime(2024, 1, 1, 12, 30, tzinfo=UTC)),
        ("8 May 2023", datetime(2023, 5, 8, tzinfo=UTC)),
        ("2023-05-08T10:00:00+08:00", datetime(2023, 5, 8, 2, tzinfo=UTC)),
        ("2023-05-08", datetime(2023, 5, 8, tzinfo=UTC)),
    ],
)
def test_known_forms(text: str, time: datetime) -> None:
    assert parse_time(text) == time


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "",
        "2023/02/30 (Thu) 10:00",
        "13:56 pm on 8 May, 2023",
        "8 Mayvember 2023",
        "last week",
        "31 June 2023",
        "9999/12/31 10:00",
        "1 January 0001",
        "9999-12-31T23:59:59-10:00",
    ],
)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        parse_time(text)


@given(st.datetimes(min_value=datetime(1900, 1, 1)))
def test_every_minute_can_be_written_both_ways(time: datetime) -> None:
    time = time.replace(second=0, microsecond=0)
    months = [datetime(2000, month, 1).strftime("%B") for month in range(1, 13)]
    spoken = (
        f"{time.hour % 12 or 12}:{time.minute:02} {'pm' if time.hour >= 12 else 'am'} on "
        f"{time.day} {months[time.month - 1]}, {time.year}"
    )
    assert parse_time(spoken) == parse_time(f"{time:%Y/%m/%d} (Mon) {time:%H:%M}") == time.replace(tzinfo=UTC)
