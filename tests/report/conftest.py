"""Lets the tests of reports use the same sample cases as those of aggregation and gates."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from browser_bench import browser, opened, page, report, run

__all__ = ["browser", "opened", "page", "report", "run"]
