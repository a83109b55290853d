"""What all tests of this repository share."""

from __future__ import annotations

from hypothesis import settings

# A machine that is busy with something else is no fault of the code: times are bounded where a test is about time.
settings.register_profile("memeval", deadline=None)
settings.load_profile("memeval")
