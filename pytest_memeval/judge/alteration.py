"""Making a wrong answer out of a right one, and telling whether two answers say different things."""

from __future__ import annotations

import random
import re
import unicodedata
from calendar import day_name, month_name

_WORD = re.compile(r"[\u3400-\u9fff]|\w+")
_COMMON = frozenset(
    {
        "a", "an", "the", "of", "in", "on", "at", "to", "for", "and", "or", "with", "by", "from", "is", "are",
        "was", "were", "be", "been", "he", "she", "they", "it", "his", "her", "their", "its", "as", "that", "this",
        "some", "any", "very", "about", "after", "before", "during", "who", "what", "when", "where", "which",
        *"的了在是和与他她我你也都就",
    }
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.]*\d)")
_OPPOSITES = {
    "yes": "no", "no": "yes", "always": "never", "never": "always", "before": "after", "after": "before",
    "more": "less", "less": "more", "likely": "unlikely", "true": "false", "false": "true",
}  # fmt: skip
_MONTHS = [name for name in month_name if name]
_DAYS = list(day_name)
_NAMES = re.compile(r"\b(" + "|".join((*_MONTHS, *_DAYS)) + r")\b")
_OPPOSITE = re.compile(r"\b(" + "|".join(_OPPOSITES) + r")\b", re.IGNORECASE)


def altered(truth: str, rng: random.Random) -> str | None:
    """``truth`` with its numbers, months and days of the week changed, else its yes or no; ``None`` where that leaves
    more than half of its words as they were: such an answer would be right in part.

    Numbers move by more than one, so that a judge that forgives a count that is off by one has nothing to forgive.
    """
    changed = _NUMBER.sub(lambda match: _other_number(match[0], rng), truth)
    changed = _NAMES.sub(lambda match: _other_name(match[0], rng), changed)
    if changed == truth:
        changed = _OPPOSITE.sub(lambda match: _cased(_OPPOSITES[match[0].lower()], match[0]), truth, count=1)
    before, after = _words(truth), _words(changed)
    return None if changed == truth or 2 * len(before & after) > len(before) else changed


def _other_number(text: str, rng: random.Random) -> str:
    number = int(text)
    if 1900 <= number <= 2100 and len(text) == 4:
        return str(number - rng.randint(2, 6))
    if 1 <= number <= 31:
        # Still a day of a month, where it was one.
        moved = number + rng.randint(3, 9)
        return str(moved if moved <= 28 else max(1, number - rng.randint(5, 12)))
    return str(number + max(3, round(number * rng.uniform(0.3, 0.7))))


def _other_name(text: str, rng: random.Random) -> str:
    names = _MONTHS if text in _MONTHS else _DAYS
    return names[(names.index(text) + rng.randint(2, len(names) - 2)) % len(names)]


def _cased(word: str, like: str) -> str:
    return word.capitalize() if like[:1].isupper() else word


def _words(text: str) -> set[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return {word for word in _WORD.findall(folded) if word not in _COMMON}


def unlike(truth: str, other: str, question: str = "") -> bool:
    """Whether two answers plainly say different things: they share few words, neither holds the other, not both begin
    with yes or no, and the other one says more than the question does."""
    one, two, asked = _words(truth), _words(other), _words(question)
    if not one or not two:
        return False
    first, second = truth.strip().casefold(), other.strip().casefold()
    if first in second or second in first:
        return False
    yes_no = ("yes", "no", "是", "不", "没", "likely", "probably")
    if first.startswith(yes_no) and second.startswith(yes_no):
        return False
    # An answer made of the question's own words might fit it.
    if two <= asked:
        return False
    return len(one & two) < 0.34 * min(len(one), len(two))
