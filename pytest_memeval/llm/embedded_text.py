"""Text as the embedded model sees it: units (stems and CJK characters), sentences, clauses, likeness.

The words it goes by are those of :mod:`pytest_memeval.llm.embedded_markers`, none of which belongs to a topic.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log

from pytest_memeval.llm.embedded_markers import LEADING, NEGATION, QUESTION, STOP_CHARACTERS, STOP_WORDS

#: A unit that no phrase crosses: punctuation.
BREAK = ""
CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNIT = re.compile(rf"[{CJK}]|[^\W_{CJK}]+(?:['.][^\W_{CJK}]+)*(?:\+\+|#)?|[^\w\s]")
_CJK_CHAR = re.compile(f"[{CJK}]")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*|[一二两三四五六七八九十百千万]+")


def fold(text: str) -> str:
    """NFKC, case folded, typographic apostrophes as plain ones."""
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A light English stem: plural, ``-ing``, ``-ed`` and a silent ``e`` are taken off; other words stay."""
    if not word.isascii() or len(word) < 4:
        return word
    word = word.removesuffix("'s")
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("ing") and len(word) > 5:
        word = _undouble(word[:-3])
    elif word.endswith("ed") and len(word) > 4:
        word = _undouble(word[:-2])
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _undouble(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls" else word


def units(text: str) -> list[str]:
    """CJK characters, stems of other words, and :data:`BREAK` for punctuation, in their order."""
    return [
        unit if len(unit) == 1 and _CJK_CHAR.match(unit) else stem(unit) if unit[0].isalnum() else BREAK
        for unit in _UNIT.findall(fold(text))
    ]


def is_cjk(unit: str) -> bool:
    return bool(_CJK_CHAR.match(unit))


def is_function_unit(unit: str) -> bool:
    """Whether the unit tells nothing of a topic by itself."""
    return unit == BREAK or unit in _STOP_STEMS or unit in STOP_CHARACTERS


_STOP_STEMS = frozenset(stem(word) for word in STOP_WORDS) | STOP_WORDS


def features(text: str) -> frozenset[str]:
    """What two texts on the same thing share: stems of content words and pairs of neighbouring CJK characters.

    Pairs with a function character are left out, unless the text has nothing else.
    """
    found: set[str] = set()
    weak: set[str] = set()
    previous = BREAK
    for unit in units(text):
        if not is_cjk(unit):
            if not is_function_unit(unit):
                found.add(unit)
        elif is_cjk(previous):
            (weak if unit in STOP_CHARACTERS or previous in STOP_CHARACTERS else found).add(previous + unit)
        previous = unit
    return frozenset(found or weak)


def feature_weights(texts: Iterable[frozenset[str]]) -> dict[str, float]:
    """Feature → weight that falls from 1 with the number of texts that have it (to 0.1 where all of many do)."""
    texts = list(texts)
    counts: dict[str, int] = {}
    for text in texts:
        for feature in text:
            counts[feature] = counts.get(feature, 0) + 1
    scale = log(len(texts) + 1)
    return {feature: max(0.1, 1 - log(count) / scale) for feature, count in counts.items()} if texts else {}


def covered(inner: frozenset[str], outer: frozenset[str], weights: Mapping[str, float]) -> float:
    """The weight of ``inner``'s features that ``outer`` has too, as a share in [0, 1]; 0 for no features."""
    total = sum(weights.get(feature, 1.0) for feature in inner)
    return sum(weights.get(feature, 1.0) for feature in inner & outer) / total if total else 0.0


def likeness(a: str, b: str) -> float:
    """Normalised indel similarity of the folded texts without white space and punctuation, in [0, 1]."""
    from rapidfuzz.distance import Indel

    return float(Indel.normalized_similarity(_bare(a), _bare(b)))


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", fold(text))


def is_negated(text: str) -> bool:
    """Whether the number of negations is odd."""
    return len(NEGATION.findall(fold(text))) % 2 == 1


def numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(fold(text)))


@dataclass(frozen=True, slots=True)
class Clause:
    """A stretch of a message that could state one fact. ``sentence`` counts the message's sentences from 0."""

    text: str
    sentence: int
    question: bool = False


_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SPACE = re.compile(r"[^\S\n]+")
_SENTENCE = re.compile(r"[^。！？!?；;\n.]*(?:\.(?!\s|$)[^。！？!?；;\n.]*)*(?:[。！？!?；;\n.]+|$)")
_CLAUSE_BREAK = re.compile(
    r"\s*[,，]\s*(?=(?:and |but |so |also |although |though |while )?(?:i|i'm|i've|i'd|i'll|my|we|our)\b)"
    r"|\s*[,，]?\s+(?:and|but|while|although|though)\s+(?=(?:i|i'm|i've|i'd|i'll|my|we|our)\b)"
    rf"|(?<=[{CJK}\w])\s*，\s*"
    rf"|(?<=[{CJK}])\s*,\s*(?=[{CJK}])"
    r"|\s+[—–-]{1,2}\s+",
    re.IGNORECASE,
)


_JOINT_SUBJECT = re.compile(r"(?!(?:i|we)\b)(?:[\w'’-]+\s+){0,3}[\w'’-]+", re.IGNORECASE)


def _split(sentence: str) -> list[str]:
    """The sentence's clauses; "my wife and I" is no place to split."""
    parts: list[str] = []
    start = 0
    for match in _CLAUSE_BREAK.finditer(sentence):
        before = sentence[start : match.start()].strip()
        if match[0].strip().casefold() == "and" and _JOINT_SUBJECT.fullmatch(before):
            continue
        parts.append(before)
        start = match.end()
    return [part for part in (*parts, sentence[start:].strip()) if part]


def clauses(text: str) -> Iterator[Clause]:
    """The clauses of a message in their order; code fences are left out, leading filler is taken off."""
    for number, match in enumerate(_SENTENCE.finditer(_SPACE.sub(" ", _FENCE.sub("\n", text)))):
        sentence = match[0].strip()
        if not sentence:
            continue
        asks = sentence.rstrip(" \"'”’)）").endswith(("?", "？"))
        parts = _split(sentence)
        for place, part in enumerate(parts):
            bare = part.strip().strip("。！？!?；;.，,、 ")
            content = LEADING.sub("", bare).strip("，,、：: ")
            if content:
                last = place == len(parts) - 1
                yield Clause(content, number, (asks and last) or bool(QUESTION.search(content)))
