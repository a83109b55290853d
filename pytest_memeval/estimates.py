"""A token count without a tokeniser."""

from __future__ import annotations

import unicodedata

#: Characters of other than East Asian scripts that count as one token.
CHARACTERS_PER_TOKEN = 4


def text_tokens(text: str) -> int:
    """A rough count, the same for every model: a wide character (East Asian scripts, most emoji) is one token, four
    other characters are one, rounded up."""
    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    return wide + -(-(len(text) - wide) // CHARACTERS_PER_TOKEN)
