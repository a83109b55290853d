"""The hybrid similarity: overlap in words, characters and meanings, held down where the texts contradict each other.

Overlap is counted in stems of English words, Chinese characters and their pairs, quantities in one notation, and
concepts of a small lexicon of synonyms. A contradiction is one of: another number, time or date; another member of a
class whose members exclude each other (a city, a relative, a colour); another name; something denied in one text and
affirmed in the other; another state of affairs (planned, done, cancelled); exchanged roles. Nothing is downloaded, and
nothing is learned from data.
"""

from __future__ import annotations

import math

from rapidfuzz.distance import Indel

from pytest_memeval.metrics.hybrid_lexicon import Concept
from pytest_memeval.metrics.hybrid_quantities import Quantity, contradict, same_quantity
from pytest_memeval.metrics.hybrid_roles import roles_differ
from pytest_memeval.metrics.hybrid_text import Reading, read_text

#: The share of their similarity that is left to texts that contradict each other: below the default threshold, and for
#: texts that are otherwise alike above the floor of near misses.
CONTRADICTED = 0.45
#: How much the plain overlap weighs against how well the better covered text is covered.
PLAIN_SHARE = 0.6

#: States of affairs that rule each other out.
_STATE_CONFLICTS = (
    ("planned", "done"),
    ("ongoing", "done"),
    ("pending", "done"),
    ("cancelled", "planned"),
    ("cancelled", "ongoing"),
    ("cancelled", "done"),
)
#: States that matter even where the other text has none: what is over is not what holds.
_ENDED = ("former", "cancelled")
_LONGEST_ABBREVIATION = 5


def hybrid_similarity(a: str, b: str, floor: float = 0.0) -> float:
    """How alike two texts are, from 0 to 1; symmetric, 1 for equal texts (after NFKC).

    The overlap is 0.6 · 2·shared / total + 0.4 · the better covered text's shared / total, both in weighted units, or
    the mean of that and the indel similarity of the letters where that is larger. Times 0.45 where the texts
    contradict each other. An empty text against another: 0. Below ``floor`` any number below it may be returned.
    """
    one, two = read_text(a), read_text(b)
    if one.text == two.text:
        return 1.0
    if not one.text or not two.text:
        return 0.0
    if two.text < one.text:  # shared units are paired in an order: the same one for (a, b) and (b, a)
        one, two = two, one
    similarity = _overlap(one, two)
    if similarity < floor:
        return similarity
    return similarity * CONTRADICTED if first_contradiction(one, two) else similarity


def contradiction(a: str, b: str) -> str | None:
    """What two texts contradict each other in: ``quantity``, ``concept``, ``name``, ``negation``, ``state`` or
    ``roles``; the first that is found, ``None`` for nothing."""
    return first_contradiction(read_text(a), read_text(b))


def first_contradiction(one: Reading, two: Reading) -> str | None:
    if one.quantities and two.quantities and contradict(one.quantities, two.quantities):
        return "quantity"
    if _concepts_differ(one, two):
        return "concept"
    if _names_differ(one, two):
        return "name"
    if _denies(one, two) or _denies(two, one):
        return "negation"
    if _states_differ(one, two):
        return "state"
    if roles_differ(one, two):
        return "roles"
    return None


def _overlap(one: Reading, two: Reading) -> float:
    content = 0.0
    if one.weight and two.weight:
        shared_one, shared_two = _shared(one, two)
        plain = (shared_one + shared_two) / (one.weight + two.weight)
        covered = max(shared_one / one.weight, shared_two / two.weight)
        content = min(1.0, PLAIN_SHARE * plain + (1 - PLAIN_SHARE) * covered)
    letters: float = Indel.normalized_similarity(one.squashed, two.squashed)
    return max(content, (content + letters) / 2)


def _shared(one: Reading, two: Reading) -> tuple[float, float]:
    """The weight of what they share, in the one's and in the other's units."""
    units, others = one.units, two.units
    both = units.keys() & others.keys()
    shared_one = math.fsum(units[unit] for unit in both)
    shared_two = math.fsum(others[unit] for unit in both)
    if not (one.loose and two.loose):
        return shared_one, shared_two
    left = [unit for unit in two.loose if unit not in both]
    for unit in one.loose:
        if unit in both:
            continue
        for position, other in enumerate(left):
            if _alike(unit, other):
                shared_one += units[unit]
                shared_two += others[other]
                del left[position]
                break
    return shared_one, shared_two


def _alike(a: str | Quantity, b: str | Quantity) -> bool:
    """Whether two units that are not equal stand for the same: quantities of equal value, words of one stem."""
    if isinstance(a, str) and isinstance(b, str):
        return len(a) >= 5 and len(b) >= 5 and (a[:5] == b[:5] or a.replace("-", "") == b.replace("-", ""))
    return isinstance(a, Quantity) and isinstance(b, Quantity) and same_quantity(a, b)


def _concepts_differ(one: Reading, two: Reading) -> bool:
    for group, mine in one.concepts.items():
        theirs = two.concepts.get(group)
        if theirs and mine - theirs and theirs - mine:
            return True
    return False


def _names_differ(one: Reading, two: Reading) -> bool:
    """Whether each text has a name, or a text in quotation marks, that the other lacks."""
    if any(quoted not in two.lower for quoted in one.quoted) and any(quoted not in one.lower for quoted in two.quoted):
        return True
    return any(_unknown(key, raw, two) for key, raw in one.names.items()) and any(
        _unknown(key, raw, one) for key, raw in two.names.items()
    )


def _unknown(key: str | Concept, raw: str, other: Reading) -> bool:
    return key not in other.units and raw.lower() not in other.lower and not _abbreviated(raw, other)


def _capitals(word: str) -> str:
    return "".join(char for char in word if char.isupper())


def _abbreviated(raw: str, other: Reading) -> bool:
    """Whether the other text abbreviates this word, or spells this abbreviation out."""
    capitals = _capitals(raw)
    short = len(raw) <= _LONGEST_ABBREVIATION
    if short and len(capitals) >= 2 and capitals.lower() in other.initials:
        return True
    for word in other.latin:
        others = _capitals(word)
        if len(capitals) >= 2 and capitals == others and (short or len(word) <= _LONGEST_ABBREVIATION):
            return True  # TS, TypeScript
        for long_word, abbreviation in ((raw, word), (word, raw)):
            if (
                len(abbreviation) < len(long_word)
                and abbreviation.isupper()
                and len(abbreviation) <= _LONGEST_ABBREVIATION
                and " " not in long_word
                and long_word.lower().startswith(abbreviation.lower())
            ):
                return True  # U of T
    return False


def _denies(one: Reading, two: Reading) -> bool:
    """Whether ``one`` denies something that ``two`` affirms, and neither says both."""
    return any(key in two.affirmed and key not in one.affirmed and key not in two.denied for key in one.denied)


def _states_differ(one: Reading, two: Reading) -> bool:
    mine, theirs = one.states, two.states
    if mine == theirs:
        return False
    for x, y in _STATE_CONFLICTS:
        if x in mine and y in theirs and y not in mine and x not in theirs:
            return True
        if y in mine and x in theirs and x not in mine and y not in theirs:
            return True
    if any((state in mine) != (state in theirs) for state in _ENDED):
        return True
    # "no longer" against a plain "not" is no difference
    return ("stopped" in mine and not two.negated) or ("stopped" in theirs and not one.negated)
