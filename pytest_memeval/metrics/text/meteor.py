"""METEOR (Banerjee and Lavie 2005) with NLTK's alignment and parameters (α 0.9, β 3, γ 0.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

from pytest_memeval.metrics.text.tokens import stem, word_tokens

#: A word → the words that WordNet knows for the same things.
Synonyms = Callable[[str], frozenset[str]]


def meteor(prediction: str, truth: str, synonyms: Synonyms | None = None) -> float | None:
    """METEOR over word tokens, in [0, 1). Words are aligned where they are equal, then where their stems are, then
    (with ``synonyms``) where WordNet has one for the other, each time from the end of the texts as NLTK does.

    The score is Fmean · (1 − 0.5 · (chunks / matches)³), so equal texts stay a little below 1, and one equal word
    scores 0.5. One text without tokens gives 0, both give ``None``.
    """
    first, second = word_tokens(prediction), word_tokens(truth)
    if not first or not second:
        return None if not first and not second else 0.0
    left, right = list(enumerate(first)), list(enumerate(second))
    pairs, left, right = _aligned(left, right)
    if left and right:
        stemmed = [(place, stem(word)) for place, word in left], [(place, stem(word)) for place, word in right]
        more, left_stems, right_stems = _aligned(*stemmed)
        pairs += more
        if synonyms is not None:
            # NLTK goes on with the stems here, not with the words.
            pairs += _aligned_by_meaning(left_stems, right_stems, synonyms)
    if not pairs:
        return 0.0
    matches = len(pairs)
    precision, recall = matches / len(first), matches / len(second)
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return mean * (1 - 0.5 * (_chunks(sorted(pairs)) / matches) ** 3)


Enumerated = list[tuple[int, str]]
Pairs = list[tuple[int, int]]


def _aligned(left: Enumerated, right: Enumerated) -> tuple[Pairs, Enumerated, Enumerated]:
    """Each word of ``left``, from the end, with the last free equal word of ``right``; and what is left of both."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in right:
        places[word].append(place)
    pairs: Pairs = []
    rest: Enumerated = []
    for place, word in reversed(left):
        free = places.get(word)
        if free:
            pairs.append((place, free.pop()))
        else:
            rest.append((place, word))
    taken = {other for _, other in pairs}
    return pairs, rest[::-1], [one for one in right if one[0] not in taken]


def _aligned_by_meaning(left: Enumerated, right: Enumerated, synonyms: Synonyms) -> Pairs:
    pairs: Pairs = []
    for place, word in reversed(left):
        known = synonyms(word) | {word}
        for index in range(len(right) - 1, -1, -1):
            if right[index][1] in known:
                pairs.append((place, right.pop(index)[0]))
                break
    return pairs


def _chunks(pairs: Pairs) -> int:
    """Runs of matches that are adjacent and in the same order in both texts."""
    return 1 + sum(
        not (later[0] == earlier[0] + 1 and later[1] == earlier[1] + 1) for earlier, later in pairwise(pairs)
    )


@lru_cache(maxsize=1)
def wordnet_synonyms() -> Synonyms | None:
    """WordNet's synonyms through NLTK, ``None`` where its data is not installed. Nothing is downloaded."""
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
        wordnet.synsets("word")
    except (LookupError, OSError):  # not there, or only a part of it
        return None
    return lru_cache(maxsize=65536)(lambda word: _lemmas(wordnet, word))


def _lemmas(wordnet: Any, word: str) -> frozenset[str]:
    return frozenset(
        lemma.name() for synset in wordnet.synsets(word) for lemma in synset.lemmas() if "_" not in lemma.name()
    )
