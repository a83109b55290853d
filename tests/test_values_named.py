"""What somebody gave in the place of something else, as messages name it."""

from __future__ import annotations

import pytest

from pytest_memeval.values import kind_of_value


@pytest.mark.parametrize(
    ("value", "named"), [(7, "an int"), (object(), "an object"), ([], "a list"), ("", "a str"), (None, "None")]
)
def test_a_value_is_named_with_its_article(value: object, named: str) -> None:
    assert kind_of_value(value) == named
