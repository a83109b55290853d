"""Large runs and Python's garbage collector."""

from __future__ import annotations

import gc

#: From this many cases on it is worth the while.
FREEZE_FROM = 1_000


def spare_collector(cases: int) -> None:
    """Take what a large run has made so far, and keeps until it ends, out of the garbage collector's sight.

    It would look at thousands of items and results again and again and never find anything to free. What an earlier run
    of this process left there is handed back first.
    """
    if cases >= FREEZE_FROM:
        gc.unfreeze()
        gc.freeze()
