"""LoCoMo's own scores, as its published evaluation computes them.

Rules that matter: commas and ASCII punctuation are deleted, not replaced by blanks; ``a an the and`` are dropped;
words are Porter stems. Category 5 looks for two fixed phrases and never at the truth. Each F1 is rounded to three
decimals before it is averaged, and the overall figure includes category 5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_memeval.metrics.text.overlap import multiset_f1
from pytest_memeval.metrics.text.tokens import stem

_PUNCTUATION = str.maketrans("", "", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_DROPPED = re.compile(r"\b(?:a|an|the|and)\b")
_REFUSALS = ("no information available", "not mentioned")


def _tokens(text: str) -> list[str]:
    plain = text.lower().translate(_PUNCTUATION)
    return [stem(word) for word in _DROPPED.sub(" ", plain).split()]


def _f1(prediction: str, truth: str) -> float:
    return multiset_f1(_tokens(prediction), _tokens(truth)) or 0.0


def f1_official(prediction: str, truth: str, category: int) -> float:
    """The benchmark's F1 of one reply, in [0, 1].

    Category 1: both sides cut at commas, mean over the truth's parts of the best part of the reply. Category 3: the
    truth up to its first ``;``. Categories 2 and 4: whole texts. Category 5: 1 for a reply with one of the two refusal
    phrases, else 0. No overlap is 0, and so is empty against empty. ValueError for another category.
    """
    if category == 5:
        lowered = prediction.lower()
        return float(any(phrase in lowered for phrase in _REFUSALS))
    if category == 1:
        parts = [part.strip() for part in prediction.split(",")]
        best = [max(_f1(part, wanted.strip()) for part in parts) for wanted in truth.split(",")]
        return math.fsum(best) / len(best)
    if category == 3:
        return _f1(prediction, truth.split(";")[0].strip())
    if category in (2, 4):
        return _f1(prediction, truth)
    raise ValueError(f"LoCoMo has categories 1 to 5, not {category}")


def recall_official(evidence: Sequence[str], context: Sequence[str]) -> float:
    """Share of the evidence entries (as published) that are in the retrieved context, turn ids or sessions ``S3``.

    1 where there is no evidence, as the benchmark has it; 0 for an empty context (there its script stops).
    """
    if not evidence:
        return 1.0
    if context and context[0].startswith("S"):
        sessions = {one[1:] for one in context}
        return sum(entry.split(":")[0][1:] in sessions for entry in evidence) / len(evidence)
    known = set(context)
    return sum(entry in known for entry in evidence) / len(evidence)


def aggregate_official(rows: Iterable[tuple[int, float]]) -> dict[str, object]:
    """(category, F1) of every question → ``by_category {category: {n, accuracy}}`` and ``overall``, each F1 rounded to
    three decimals first, as in the benchmark's own tables. Empty: no categories, ``overall`` ``None``."""
    sums: dict[int, list[float]] = {}
    for category, value in rows:
        sums.setdefault(category, []).append(round(value, 3))
    everything = [value for values in sums.values() for value in values]
    by_category: Mapping[int, dict[str, float]] = {
        category: {"n": len(values), "accuracy": math.fsum(values) / len(values)}
        for category, values in sorted(sums.items())
    }
    return {
        "by_category": by_category,
        "overall": math.fsum(everything) / len(everything) if everything else None,
    }
