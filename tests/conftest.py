"""What all tests of this repository share."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

# A machine that is busy with something else is no fault of the code: times are bounded where a test is about time.
settings.register_profile("memeval", deadline=None)
settings.load_profile("memeval")


@pytest.fixture(scope="module", autouse=True)
def _spared_collector() -> None:
    """Each pytest run within a test ends with a search for garbage, which would go through all that was ever imported:
    what is there when a module's tests begin is passed over."""
    gc.collect()
    gc.freeze()
