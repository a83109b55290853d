"""Globs with ``**`` as regular expressions; ``pathlib`` matches them only from Python 3.13 on."""

from __future__ import annotations

import re


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob over paths with forward slashes. ``**/`` is any number of folders, none included; ``*`` and ``?`` stay
    within a name. A pattern without a slash matches a file name in any folder."""
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    out, index = "", 0
    while index < len(pattern):
        if pattern.startswith("**/", index):
            out, index = out + r"(?:[^/]+/)*", index + 3
        elif pattern.startswith("**", index):
            out, index = out + ".*", index + 2
        elif pattern[index] == "*":
            out, index = out + "[^/]*", index + 1
        elif pattern[index] == "?":
            out, index = out + "[^/]", index + 1
        else:
            out, index = out + re.escape(pattern[index]), index + 1
    return re.compile(out + r"\Z")
