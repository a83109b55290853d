"""What the embedded model knows of dimensions: the lines of a prompt's ``<dimensions>`` block, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import log

from pytest_memeval.llm.embedded_text import BREAK, is_cjk, is_function_unit, units

#: How much a matching phrase counts by where it stands.
CUE_WEIGHT, PROSE_WEIGHT, FRAGMENT_WEIGHT = 1.0, 0.6, 0.25
_TERM_BREAK = re.compile(r"[、，,。.；;：:（）()/|]|\s(?=[一-鿿])|(?<=[一-鿿])\s")

Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DimensionText:
    """A line of the block."""

    id: str
    name: str = ""
    description: str = ""
    boundaries: str = ""
    cues: str = ""


@dataclass(slots=True)
class _Node:
    """A node of the phrase trie; ``weights`` are dimension index → weight of the phrase that ends here."""

    children: dict[str, _Node] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)


def parse_dimensions(body: str) -> tuple[DimensionText, ...]:
    """The block's lines ``- id | name | description | boundaries | cues``; lines of another form are passed over."""
    found = []
    for line in body.split("\n"):
        if line.startswith("- "):
            parts = [part.strip() for part in f"{line[2:]} ".split("|")]
            parts += [""] * (5 - len(parts))
            if parts[0]:
                found.append(DimensionText(parts[0], parts[1], parts[2], parts[3], ", ".join(filter(None, parts[4:]))))
    return tuple(found)


class DimensionScorer:
    """Scores texts against the dimensions of a block by the phrases they share.

    Phrases come from a dimension's cues and description; its name is read only where it has neither. The id and the
    boundaries are never read: an id is an arbitrary label, and word overlap cannot tell what a boundary excludes. A
    phrase that several dimensions share weighs less, and where phrases overlap in the text, the longest counts.
    """

    def __init__(self, dimensions: Sequence[DimensionText]) -> None:
        self.dimensions = tuple(dimensions)
        # Equal scores are ordered by what the texts say, so that neither ids nor places in the block matter.
        texts = [(item.description, item.cues, item.name) for item in dimensions]
        order = sorted(range(len(texts)), key=lambda index: texts[index])
        self._rank = {index: rank for rank, index in enumerate(order)}
        self._root = _Node()
        owners: dict[Phrase, dict[int, float]] = {}
        for index, item in enumerate(self.dimensions):
            for phrase, weight in _phrases(item):
                weights = owners.setdefault(phrase, {})
                weights[index] = max(weight, weights.get(index, 0.0))
        scale = log(len(self.dimensions)) if len(self.dimensions) > 1 else 1.0
        for phrase, weights in owners.items():
            rarity = max(0.0, 1 - log(len(weights)) / scale) * _specificity(phrase)
            if rarity:
                self._insert(phrase, {index: weight * rarity for index, weight in weights.items()})

    def _insert(self, phrase: Phrase, weights: dict[int, float]) -> None:
        node = self._root
        for unit in phrase:
            node = node.children.setdefault(unit, _Node())
        node.weights = weights

    def score(self, text: str) -> dict[int, float]:
        """Dimension index → score above 0, for the phrases found in ``text`` (each counted once)."""
        sequence = units(text)
        best_end = 0
        totals: dict[int, float] = {}
        seen: set[Phrase] = set()
        for start in range(len(sequence)):
            end, weights = self._longest(sequence, start)
            # A phrase inside an earlier, longer one says nothing of its own.
            if weights is None or end <= best_end:
                continue
            best_end = end
            phrase = tuple(sequence[start:end])
            if phrase in seen:
                continue
            seen.add(phrase)
            for index, weight in weights.items():
                totals[index] = totals.get(index, 0.0) + weight
        return totals

    def _longest(self, sequence: list[str], start: int) -> tuple[int, dict[int, float] | None]:
        node, end, weights = self._root, start, None
        for place in range(start, len(sequence)):
            following = node.children.get(sequence[place])
            if following is None:
                break
            node = following
            if node.weights:
                end, weights = place + 1, node.weights
        return end, weights

    def ranked(self, scores: dict[int, float]) -> list[tuple[int, float]]:
        """Dimension indices by falling score."""
        return sorted(scores.items(), key=lambda item: (-round(item[1], 9), self._rank[item[0]]))


def _phrases(item: DimensionText) -> Iterator[tuple[Phrase, float]]:
    for cue in item.cues.split(","):
        phrase = _phrase(cue)
        if phrase:
            yield phrase, CUE_WEIGHT
    prose = item.description or ("" if item.cues else item.name)
    for term in _TERM_BREAK.split(prose):
        phrase = _phrase(term)
        if not phrase:
            continue
        if all(is_cjk(unit) for unit in phrase):
            if len(phrase) <= 4:
                if len(phrase) > 1:
                    yield phrase, PROSE_WEIGHT
                continue
            for pair in pairwise(phrase):
                if not any(is_function_unit(unit) for unit in pair):
                    yield pair, FRAGMENT_WEIGHT
            continue
        for unit in phrase:
            if not is_cjk(unit) and not is_function_unit(unit) and len(unit) > 2:
                yield (unit,), PROSE_WEIGHT


def _phrase(text: str) -> Phrase:
    return tuple(unit for unit in units(text) if unit != BREAK)


def _specificity(phrase: Phrase) -> float:
    """0.7 for a single CJK character, 1 for a word or two characters, up to 1.5 for longer phrases."""
    if all(is_cjk(unit) for unit in phrase):
        return 0.7 if len(phrase) == 1 else min(1.5, 1 + 0.2 * (len(phrase) - 2))
    return min(1.5, 1 + 0.25 * (len(phrase) - 1))


@lru_cache(maxsize=64)
def scorer_for(body: str) -> DimensionScorer:
    """The scorer of a block's text; the last blocks' scorers are kept."""
    return DimensionScorer(parse_dimensions(body))
