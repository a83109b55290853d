"""The word list of the hybrid matcher: what means the same, and what rules each other out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pytest_memeval.metrics.hybrid_words import NEGATIONS_CHINESE, NO_NEGATION, SELF_CHINESE

LEXICON = Path(__file__).parent.parent / "data" / "matching_lexicon.txt"

Kind = Literal["concept", "word", "char", "quantity", "negation", "self"]


class Concept(NamedTuple):
    """One meaning of the lexicon; ``group`` names those that it excludes or is opposed to ("" for none)."""

    group: str
    number: int
    opposites: bool


@dataclass(frozen=True)
class Lexicon:
    """``words``: stems of English words and phrases → concept; ``starts``: first stems of phrases; ``chinese``: by
    first character, what may stand there, the longest first (form, kind, concept)."""

    words: dict[tuple[str, ...], Concept]
    starts: frozenset[str]
    chinese: dict[str, tuple[tuple[str, Kind, Concept | None], ...]]


_IRREGULAR = {
    "taught": "teach", "bought": "buy", "wrote": "write", "written": "write", "went": "go", "gone": "go", "goes": "go",
    "going": "go", "ran": "run", "grew": "grow", "grown": "grow", "made": "make", "took": "take", "taken": "take",
    "kept": "keep", "gave": "give", "given": "give", "got": "get", "met": "meet", "sold": "sell", "spoke": "speak",
    "spoken": "speak", "slept": "sleep", "ate": "eat", "eaten": "eat", "drank": "drink", "drove": "drive",
    "driven": "drive", "flew": "fly", "flown": "fly", "left": "leave", "lost": "lose", "paid": "pay", "sent": "send",
    "told": "tell", "thought": "think", "chose": "choose", "chosen": "choose", "began": "begin", "begun": "begin",
    "swam": "swim", "rode": "ride", "ridden": "ride", "stolen": "steal", "stole": "steal", "built": "build",
    "lent": "lend", "spent": "spend", "held": "hold", "led": "lead", "knew": "know", "known": "know", "came": "come",
    "has": "have", "had": "have", "does": "do", "did": "do", "children": "child", "wives": "wife", "lives": "live",
    "during": "during", "thing": "thing", "morning": "morning", "evening": "evening", "spring": "spring",
    "better": "better", "never": "never", "always": "always", "wedding": "wedding", "being": "be",
}  # fmt: skip


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A crude stem of a lower-case English word: plural, -ing, -ed, -ly and a final -e are cut off."""
    word = word.removesuffix("'s").removesuffix("'")
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """The shipped lexicon. A word that stands twice keeps its first concept."""
    words: dict[tuple[str, ...], Concept] = {}
    chinese: dict[str, tuple[Kind, Concept | None]] = dict.fromkeys(NO_NEGATION, ("char", None))
    counts: dict[str, int] = {}
    for line in LEXICON.read_text(encoding="utf-8").splitlines():
        head, colon, rest = line.partition(":")
        if not colon or line.startswith("#"):
            continue
        group = head.split()[-1] if head != "same" else ""
        for entry in rest.split("|"):
            number = counts[group] = counts.get(group, -1) + 1
            concept = Concept(group, number, head.startswith("opposites"))
            for form in entry.split():
                if form.isascii():
                    words.setdefault(tuple(stem(part) for part in form.split("_")), concept)
                else:
                    chinese.setdefault(form, ("concept", concept))
    for word in NEGATIONS_CHINESE:
        chinese.setdefault(word, ("negation", None))
    for word in SELF_CHINESE:
        chinese.setdefault(word, ("self", None))
    by_first: dict[str, list[tuple[str, Kind, Concept | None]]] = {}
    for form, (kind, meaning) in sorted(chinese.items(), key=lambda entry: -len(entry[0])):
        by_first.setdefault(form[0], []).append((form, kind, meaning))
    return Lexicon(
        words,
        frozenset(phrase[0] for phrase in words if len(phrase) > 1),
        {first: tuple(forms) for first, forms in by_first.items()},
    )
