from __future__ import annotations

import pytest

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.failures import case_error
from pytest_memeval.outputs import OutputError


@pytest.mark.parametrize("kind", [ValueError, OutputError, StageError])
def test_addresses_of_objects_are_left_out(kind: type[Exception]) -> None:
    texts = {case_error("l1", kind(f"{thing!r} has no text (0x10 of 16)")).message for thing in (object(), object())}
    (text,) = texts
    assert "<object object at 0x…> has no text (0x10 of 16)" in text
