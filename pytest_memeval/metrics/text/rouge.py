"""ROUGE-1, ROUGE-2 and ROUGE-L F-measures (Lin 2004), with the values of rouge-score with stemming on English.

The same values are reached faster: stems are kept, and the longest common subsequence is rapidfuzz's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from pytest_memeval.metrics.text.tokens import stem, word_tokens

_NOT_ASCII_WORD = re.compile(r"[^a-z0-9]+")


@lru_cache(maxsize=8192)
def rouge_tokens(text: str) -> tuple[str, ...]:
    """rouge-score's tokens: runs of ASCII letters and digits in lower case, those longer than three stemmed.

    A text with letters beyond ASCII keeps them, whole words (or CJK characters) at a time; rouge-score drops them.
    """
    lowered = text.lower()
    words: Sequence[str] = (
        [word for word in _NOT_ASCII_WORD.split(lowered) if word] if lowered.isascii() else word_tokens(text)
    )
    return tuple(stem(word) if len(word) > 3 and word.isascii() else word for word in words)


def rouge_n(prediction: str, truth: str, n: int) -> float | None:
    """F-measure of the n-grams, in [0, 1]. 0 where one text has no tokens or too few for an n-gram, ``None`` where
    neither text has tokens."""
    first, second = rouge_tokens(prediction), rouge_tokens(truth)
    if not first and not second:
        return None
    grams = _grams(first, n), _grams(second, n)
    totals = grams[0].total(), grams[1].total()
    common = (grams[0] & grams[1]).total()
    return 2 * common / sum(totals) if common else 0.0


def rouge_l(prediction: str, truth: str) -> float | None:
    """F-measure of the longest common subsequence of tokens, in [0, 1]; edges as for :func:`rouge_n`."""
    first, second = rouge_tokens(prediction), rouge_tokens(truth)
    if not first and not second:
        return None
    if not first or not second:
        return 0.0
    from rapidfuzz.distance import LCSseq

    return 2 * LCSseq.similarity(first, second) / (len(first) + len(second))


def _grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))
