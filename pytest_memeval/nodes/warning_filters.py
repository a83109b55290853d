"""What an item's ``filterwarnings`` marks ask for."""

from __future__ import annotations

import re
from typing import Any

import pytest
from _pytest.config import parse_warning_filter


def warning_filters(item: pytest.Item) -> list[tuple[Any, ...]]:
    """Entries of ``warnings.filters``, first to be asked first, as pytest would add them for the item."""
    if not item.config.pluginmanager.hasplugin("warnings"):
        return []
    filters: list[tuple[Any, ...]] = []
    for mark in item.iter_markers(name="filterwarnings"):
        for argument in mark.args:
            action, message, category, module, line = parse_warning_filter(argument, escape=False)
            filters.insert(
                0,
                (
                    action,
                    re.compile(message, re.IGNORECASE) if message else None,
                    category,
                    re.compile(module) if module else None,
                    line,
                ),
            )
    return filters
