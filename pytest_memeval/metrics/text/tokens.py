"""Texts to tokens. Chinese, Japanese and Korean have no blanks: there every character is a token."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

#: Han, kana, Hangul, Bopomofo and their extensions, as the inside of a character class.
CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
_HAS_CJK = re.compile(f"[{CJK}]")
_WORDS = re.compile(f"[{CJK}]|[^\\W_{CJK}]+")


def has_cjk(text: str) -> bool:
    """Whether a character of the text stands for itself."""
    return not text.isascii() and _HAS_CJK.search(text) is not None


def folded(text: str) -> str:
    """The text without outer blanks, in NFKC and case folded."""
    text = text.strip()
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


@lru_cache(maxsize=8192)
def word_tokens(text: str) -> tuple[str, ...]:
    """Words and numbers, and every CJK character, in folded form; punctuation and symbols only separate."""
    return tuple(_WORDS.findall(folded(text)))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Porter's stem by NLTK, kept: texts repeat their words."""
    stemmed: str = _stemmer().stem(word)
    return stemmed


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
