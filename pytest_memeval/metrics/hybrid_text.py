"""What the hybrid matcher reads in a text: words, concepts, quantities, negations, names, states."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pytest_memeval.metrics.hybrid_lexicon import Concept, Kind, Lexicon, load_lexicon, stem
from pytest_memeval.metrics.hybrid_quantities import MOST, Quantity, find_quantities
from pytest_memeval.metrics.hybrid_words import (
    BETWEEN_CHARS,
    BETWEEN_WORDS,
    CALLED,
    COMPLEMENTS,
    CONNECTORS,
    COPULA,
    LIGHT_VERBS,
    NEGATION_WORDS,
    NOW,
    PASSIVE,
    QUOTED,
    SELF_WORDS,
    STATES,
    STOP_CHARS,
    STOP_WORDS,
    SURNAMES,
)


class Item(NamedTuple):
    """A piece of a text. ``key`` is a stem, a character, a concept or a quantity; ``clause`` counts the punctuation
    before it; ``denied`` says that a negation stands before it; ``raw`` is the text itself as written, ``low`` in lower
    case."""

    kind: Kind
    key: str | Concept | Quantity
    clause: int
    raw: str
    low: str
    denied: bool = False
    name: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as the hybrid matcher sees it.

    ``units`` are what overlap is counted in, with their weights, ``weight`` their sum; ``loose`` are those among them
    that may equal a unit written otherwise. ``initials`` are the first letters of its Latin words in a row,
    ``connectors`` the places of words whose sides cannot be exchanged.
    """

    text: str
    lower: str
    squashed: str
    items: tuple[Item, ...]
    units: dict[object, float]
    weight: float
    loose: tuple[str | Quantity, ...]
    quantities: list[Quantity]
    concepts: dict[str, frozenset[int]]
    names: dict[str | Concept, str]
    quoted: frozenset[str]
    latin: tuple[str, ...]
    initials: str
    states: frozenset[str]
    passive: bool
    copula: bool
    negated: bool
    connectors: dict[str, int]
    denied: frozenset[str | Concept]
    affirmed: frozenset[str | Concept]


_SELF = "self"
_TOKEN = re.compile(
    r"(?P<word>(?:(?<=[^a-z0-9])\.(?=[a-z]))?[a-z][a-z0-9+#]*(?:['’.\-&/][a-z0-9+#]+)*)|(?P<char>[^\W\d_a-z])"
    r"|(?P<stop>[,.;:!?，。；：！？、\n—…])|(?P<other>\S)"
)


@lru_cache(maxsize=4096)
def read_text(text: str) -> Reading:
    """Read a text; the result is kept for texts that come again."""
    folded = unicodedata.normalize("NFKC", text).strip().replace("’", "'")
    lower = folded.lower()
    if len(lower) != len(folded):
        folded = lower
    quantities = find_quantities(lower)
    items = _settle(_items(folded, lower, quantities))
    units = dict(_units(items))
    concepts: dict[str, set[int]] = {}
    for item in items:
        if isinstance(item.key, Concept) and item.key.group:
            concepts.setdefault(item.key.group, set()).add(item.key.number)
    denied, affirmed = _polarity(items)
    latin = tuple(item.raw for item in items if item.raw and item.raw.isascii() and item.kind != "quantity")
    return Reading(
        text=folded,
        lower=lower,
        squashed="".join([char for char in lower if char.isalnum()]),
        items=tuple(items),
        units=units,
        weight=sum(units.values()),
        loose=tuple(unit for unit in units if isinstance(unit, Quantity) or (isinstance(unit, str) and unit.isascii()))[
            :MOST
        ],
        quantities=quantities,
        concepts={group: frozenset(numbers) for group, numbers in concepts.items()},
        names={item.key: item.raw for item in items if item.name and not isinstance(item.key, Quantity)},
        quoted=frozenset(match[1].strip() for match in QUOTED.finditer(lower)),
        latin=latin,
        initials="".join(word[0] for raw in latin for word in raw.lower().split()),
        states=_states(lower),
        passive=PASSIVE.search(lower) is not None,
        copula=COPULA.search(lower) is not None,
        negated=any(item.kind == "negation" for item in items),
        connectors={item.low: place for place, item in enumerate(items) if item.low in CONNECTORS},
        denied=denied,
        affirmed=affirmed,
    )


def _states(lower: str) -> frozenset[str]:
    found = {name for name, pattern in STATES if pattern.search(lower)}
    if "former" in found and NOW.search(lower):
        found.discard("former")
    return frozenset(found)


def _items(folded: str, lower: str, quantities: list[Quantity]) -> list[Item]:
    lexicon = load_lexicon()
    spans = {quantity.start: quantity for quantity in quantities}
    extra = [quantity for quantity in quantities if spans[quantity.start] is not quantity]
    items: list[Item] = []
    clause = 0
    at = 0
    size = len(lower)
    chinese = not lower.isascii()
    called = {match.start(): match for match in CALLED.finditer(lower)} if chinese else {}
    while at < size:
        quantity = spans.get(at)
        if quantity is not None:
            items.append(Item("quantity", quantity._replace(start=-1, end=-1), clause, "", ""))
            items += [
                Item("quantity", one._replace(start=-1, end=-1), clause, "", "") for one in extra if one.start == at
            ]
            at = quantity.end
            continue
        char = lower[at]
        if char.isspace():
            at += 1
            continue
        if not char.isascii() and char.isalpha():
            at, item = _chinese_item(lower, at, clause, lexicon, called)
            if item is not None:
                items.append(item)
            continue
        match = _TOKEN.match(lower, at)
        if match is None or match.lastgroup == "other":
            at += 1
            continue
        if match.lastgroup == "stop":
            clause += 1
            at = match.end()
            continue
        end = match.end()
        following = min((start for start in spans if at < start < end), default=end)
        end = min(end, following)
        at, item = _word_item(folded, lower, at, end, clause, lexicon, first=not items, chinese=chinese)
        items.append(item)
    return items


def _chinese_item(
    lower: str, at: int, clause: int, lexicon: Lexicon, called: dict[int, re.Match[str]]
) -> tuple[int, Item | None]:
    match = called.get(at)
    if match is not None and (match[1] or match[2]) in SURNAMES:
        return match.end(), Item("word", match.group(), clause, match.group(), match.group(), name=True)
    for form, kind, concept in lexicon.chinese.get(lower[at], ()):
        if lower.startswith(form, at):
            key = concept if concept is not None else _SELF if kind == "self" else form
            return at + len(form), Item(kind, key, clause, form, form)
    return at + 1, Item("char", lower[at], clause, lower[at], lower[at])


def _word_item(
    folded: str,
    lower: str,
    at: int,
    end: int,
    clause: int,
    lexicon: Lexicon,
    *,
    first: bool,
    chinese: bool,
) -> tuple[int, Item]:
    word = lower[at:end]
    raw = folded[at:end]
    if word in NEGATION_WORDS:
        return end, Item("negation", word, clause, raw, word)
    # the longest phrase of up to four words
    stems = [stem(word)]
    ends = [end]
    place = end
    while stems[0] in lexicon.starts and len(stems) < 4 and place < len(lower) and lower[place] == " ":
        match = _TOKEN.match(lower, place + 1)
        if match is None or match.lastgroup != "word":
            break
        stems.append(stem(match.group()))
        place = match.end()
        ends.append(place)
    for count in range(len(stems), 0, -1):
        concept = lexicon.words.get(tuple(stems[:count]))
        if concept is not None:
            raw = folded[at : ends[count - 1]]
            return ends[count - 1], Item(
                "concept", concept, clause, raw, raw.lower(), name=raw[0].isupper() and not first
            )
    if word in SELF_WORDS:
        return end, Item("self", _SELF, clause, raw, word)
    inner = any(char.isupper() for char in raw[1:]) or (raw[0].isupper() and any(char.isdigit() for char in raw))
    initial = raw[0].isupper() and (not first or chinese)
    name = (inner or initial) and word not in STOP_WORDS and not (initial and len(raw) == 1 and raw == "I")
    return end, Item("word", stems[0], clause, raw, word, name=name)


def _settle(items: list[Item]) -> list[Item]:
    """Mark what is denied, and take out negations that turn an opposite into its counterpart.

    A negation looks ahead in its clause, through helping verbs, to the first word or the first two characters. Where
    nothing follows, it denies what stands before it in the clause; where the clause has nothing else, nothing.
    """
    settled: list[Item] = []
    negation: Item | None = None
    chars = 0
    for position, item in enumerate(items):
        if item.kind == "negation":
            settled.append(item)
            negation, chars = (None if _is_complement(items, position) else item), 0
            continue
        if negation is not None and item.clause != negation.clause:
            if not chars:
                _deny_before(settled, negation)
            negation = None
        if negation is None:
            settled.append(item)
        elif item.kind == "char":
            if not chars and item.key in BETWEEN_CHARS:
                settled.append(item)
                continue
            settled.append(item._replace(denied=True))
            chars += 1
            negation = None if chars == 2 else negation
        elif chars:
            settled.append(item)
            negation = None
        elif isinstance(item.key, Concept) and item.key.opposites:
            settled.remove(negation)
            settled.append(item._replace(key=item.key._replace(number=item.key.number ^ 1)))
            negation = None
        elif item.low in LIGHT_VERBS:
            settled.append(item._replace(denied=True))
        elif item.kind in ("self", "quantity") or item.low in BETWEEN_WORDS:
            settled.append(item)
        else:
            settled.append(item._replace(denied=True))
            negation = None
    if negation is not None and not chars:
        _deny_before(settled, negation)
    return settled


def _is_complement(items: list[Item], position: int) -> bool:
    """Whether this negation says that something cannot be done: 跟不上, 静不下来."""
    return (
        items[position].key == "不"
        and 0 < position < len(items) - 1
        and items[position - 1].kind == "char"
        and items[position + 1].key in COMPLEMENTS
    )


def _deny_before(settled: list[Item], negation: Item) -> None:
    for place in range(len(settled) - 1, -1, -1):
        item = settled[place]
        if item.clause != negation.clause:
            break
        if item.kind in ("word", "concept", "char"):
            settled[place] = item._replace(denied=True)


def _units(items: list[Item]) -> Iterator[tuple[object, float]]:
    """What overlap is counted in: concepts, stems, quantities, characters and their pairs."""
    previous: str | None = None
    for item in items:
        if item.kind == "char":
            char = str(item.key)
            light = char in STOP_CHARS
            yield char, 0.15 if light else 0.6
            if previous is not None:
                yield previous + char, 0.5 if light or previous in STOP_CHARS else 1.0
            previous = char
            continue
        previous = None
        if item.kind == "word":
            yield item.key, 0.25 if item.low in STOP_WORDS else 2.0
        elif item.kind == "concept":
            yield item.key, 0.3 if item.low in STOP_WORDS else 2.0
        elif item.kind == "quantity":
            yield item.key, 1.5
        elif item.kind == "negation":
            yield "negation", 0.8


def _polarity(items: list[Item]) -> tuple[frozenset[str | Concept], frozenset[str | Concept]]:
    """What is denied and what is affirmed: stems, concepts, characters and pairs of characters.

    In a clause with a negation, or with the negative side of an opposite ("stop", "forbid"), nothing counts as
    affirmed: how far these reach is not known.
    """
    denied: set[str | Concept] = set()
    affirmed: set[str | Concept] = set()
    unsure = {
        item.clause
        for item in items
        if item.kind == "negation" or (isinstance(item.key, Concept) and item.key.opposites and item.key.number % 2)
    }
    previous: Item | None = None
    for item in items:
        sure = item.clause not in unsure
        follows = previous is not None and previous.kind == "char" and previous.clause == item.clause
        if item.kind == "char":
            char = str(item.key)
            second = follows and previous is not None and previous.denied
            if char not in STOP_CHARS:
                if item.denied and not second:
                    denied.add(char)
                elif sure:
                    affirmed.add(char)
            if follows and previous is not None:
                if item.denied and previous.denied:
                    denied.add(str(previous.key) + char)
                elif sure:
                    affirmed.add(str(previous.key) + char)
        elif item.kind in ("word", "concept") and not isinstance(item.key, Quantity) and item.low not in STOP_WORDS:
            if item.denied:
                denied.add(item.key)
            elif sure:
                affirmed.add(item.key)
        previous = item
    return frozenset(denied), frozenset(affirmed)
