"""The languages of what people read, and how a text is found in a table of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LANGUAGES: tuple[str, ...] = ("en", "zh")


def in_language(pair: tuple[str, str], lang: str) -> str:
    """The text of a pair in the order of :data:`LANGUAGES`; English for a language that there is not."""
    return pair[1] if lang == "zh" else pair[0]


def worded(texts: Mapping[str, tuple[str, str]], key: str, lang: str, values: Mapping[str, Any]) -> str:
    """The text named ``key`` with its values put in; without any it stays as it is, braces and all. An unknown key, and
    a value that the text names and ``values`` lacks, is a KeyError."""
    template = in_language(texts[key], lang)
    return template.format(**values) if values else template
