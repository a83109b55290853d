"""Gives the tests of engines the fixtures of the check that all engines have to pass."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from engine_checks import harness

__all__ = ["harness"]
