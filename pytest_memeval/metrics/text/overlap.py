"""Exact match and token F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_memeval.metrics.text.tokens import folded, word_tokens


def exact_match(prediction: str, truth: str) -> float:
    """1 where both are the same text after strip, NFKC and case folding, else 0. Two empty texts are the same."""
    return float(folded(prediction) == folded(truth))


def multiset_f1(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Harmonic mean of precision and recall over two multisets, in [0, 1]; 0 where one is empty, ``None`` where both
    are."""
    if not first or not second:
        return None if not first and not second else 0.0
    common = (Counter(first) & Counter(second)).total()
    return 2 * common / (len(first) + len(second))


def token_f1(prediction: str, truth: str) -> float | None:
    """Multiset F1 of the words (Rajpurkar et al. 2016, without dropping articles), punctuation read as a blank."""
    return multiset_f1(word_tokens(prediction), word_tokens(truth))
