"""Sentence BLEU (Papineni et al. 2002) with NLTK's smoothing method 1, all orders in one pass."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pytest_memeval.metrics.text.tokens import folded, has_cjk, word_tokens

_EPSILON = 0.1
_MAX_ORDER = 4
#: A text of plain words, commas and one full stop at the end is cut in the same places by a simpler rule …
_PLAIN = re.compile(r"[a-z0-9]+(?:(?:, ?| )[a-z0-9]+)*[.?!]?")
_PLAIN_TOKENS = re.compile(r"[a-z0-9]+|[.,?!]")
#: … unless it has a word that Treebank tokenisation cuts in two, or a comma between digits, which it leaves alone.
_SPLIT_WORDS = re.compile(r"\b(?:cannot|gimme|gonna|gotta|lemme|wanna|tis|twas|more n|d ye)\b|,\d")


@lru_cache(maxsize=8192)
def bleu_tokens(text: str) -> tuple[str, ...]:
    """NLTK's word tokens (Treebank rules, one sentence, no data files) in lower case; a text with CJK by
    :func:`~pytest_memeval.metrics.text.tokens.word_tokens`."""
    if has_cjk(text):
        return word_tokens(text)
    lowered = folded(text)
    if _PLAIN.fullmatch(lowered) and not _SPLIT_WORDS.search(lowered):
        return tuple(_PLAIN_TOKENS.findall(lowered))
    return tuple(_tokenizer().tokenize(lowered))


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


def bleu_scores(prediction: str, truth: str) -> dict[str, float | None]:
    """``bleu1``, ``bleu2``, ``bleu4`` and, under ``bleuN_nltk``, NLTK's own values; all in [0, 1].

    Ours cap the order at the shorter text's length, so that a short text equal to its truth scores 1; NLTK's do not.
    One text without tokens gives 0, both give ``None``.
    """
    names = [f"bleu{order}{suffix}" for order in (1, 2, 4) for suffix in ("", "_nltk")]
    first, second = bleu_tokens(prediction), bleu_tokens(truth)
    if not first or not second:
        return dict.fromkeys(names, None if not first and not second else 0.0)
    logs = _smoothed_logs(first, second)
    if logs is None:
        return dict.fromkeys(names, 0.0)
    brevity = min(0.0, 1 - len(second) / len(first))
    shorter = min(len(first), len(second))
    scores: dict[str, float | None] = {}
    for order in (1, 2, 4):
        for name, used in ((f"bleu{order}", min(order, shorter)), (f"bleu{order}_nltk", order)):
            scores[name] = math.exp(brevity + math.fsum(logs[:used]) / used)
    return scores


def _smoothed_logs(prediction: Sequence[str], truth: Sequence[str]) -> list[float] | None:
    """log of the clipped precision of each order, 0.1 in the place of a count of 0; ``None`` without a common word."""
    logs: list[float] = []
    for order in range(1, _MAX_ORDER + 1):
        total = max(1, len(prediction) - order + 1)
        common = (_grams(prediction, order) & _grams(truth, order)).total()
        if order == 1 and not common:
            return None
        logs.append(math.log((common or _EPSILON) / total))
    return logs


def _grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))
