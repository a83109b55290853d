"""Who does what to whom, and what goes with what: where the words are the same and the roles are not."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

from pytest_memeval.metrics.hybrid_lexicon import Concept
from pytest_memeval.metrics.hybrid_text import Item, Reading


class Argument(NamedTuple):
    """Something that can have a role. ``group`` ``person`` takes part in actions; ``place`` is its item's position."""

    key: object
    group: str
    clause: int
    place: int


_PEOPLE = frozenset(("kin", "person"))
# A name behind one of these is where or with what something happens, not who does it.
_CIRCUMSTANCE = frozenset(("in", "at", "on", "for", "of", "into", "since", "via", "about", "near"))
# Between these two there is no order: "A and B", "A 和 B".
_COORDINATING = frozenset(("and", "or", "&", "with", "和", "跟", "与", "及", "或", "同"))
_SELF = "self"
#: How many items on each side of a connecting word are compared.
_REACH = 6


def _arguments(reading: Reading, names: Container[object]) -> list[Argument]:
    found: list[Argument] = []
    items = reading.items
    for place, item in enumerate(items):
        previous = items[place - 1] if place else None
        key = item.key
        if item.kind == "self":
            following = items[place + 1] if place + 1 < len(items) else None
            if following is not None and _is_person(following):
                continue  # "her sister" is one person
            found.append(Argument(_SELF, "person", item.clause, place))
        elif _is_person(item) or (item.kind == "word" and (item.name or key in names)):
            if item.kind == "word" and previous is not None and previous.low in _CIRCUMSTANCE:
                found.append(Argument(key, "place", item.clause, place))
            else:
                found.append(Argument(key, "person", item.clause, place))
        elif isinstance(key, Concept):
            found.append(Argument(key, key.group or "thing", item.clause, place))
        elif item.kind == "quantity":
            found.append(Argument(key, "quantity", item.clause, place))
    return found


def _is_person(item: Item) -> bool:
    return isinstance(item.key, Concept) and item.key.group in _PEOPLE


def _with_speaker(arguments: list[Argument]) -> list[Argument]:
    """A memory without "I" or "she" still has its subject: the user, who is then thought in front."""
    if any(argument.key == _SELF for argument in arguments) or any(
        argument.group == "person" and argument.place == 0 for argument in arguments
    ):
        return arguments
    return [Argument(_SELF, "person", 0, -1), *arguments]


def _orders(arguments: list[Argument], items: tuple[Item, ...]) -> Iterator[tuple[str, object, object]]:
    """Pairs of one group in one clause, in their order; pairs that are merely listed are left out."""
    for position, one in enumerate(arguments):
        for other in arguments[position + 1 :]:
            if other.clause != one.clause or other.group != one.group or other.key == one.key:
                continue
            if one.group in ("quantity", "thing", "place"):
                continue
            between = items[one.place + 1 : other.place]
            if any(item.low in _COORDINATING for item in between):
                continue
            yield one.group, one.key, other.key


def roles_differ(one: Reading, two: Reading) -> bool:
    """Whether both texts name the same things in exchanged roles.

    Compared are the order of persons within a clause (a passive turns it round), the order of things that exclude each
    other ("A over B"), what stands on which side of a connecting word ("before", "先 … 再"), and what is named together
    in a clause of an enumeration.
    """
    mine, theirs = _arguments(one, two.names), _arguments(two, one.names)
    return _turned(one, two, mine, theirs) or _rebound(mine, theirs) or _crossed(one, two)


def _turned(one: Reading, two: Reading, mine: list[Argument], theirs: list[Argument]) -> bool:
    first = set(_orders(_with_speaker(mine), one.items))
    second = set(_orders(_with_speaker(theirs), two.items))
    copula = one.copula or two.copula
    for group, x, y in first:
        straight, turned = (group, x, y) in second, (group, y, x) in second
        if straight == turned or (group, y, x) in first:
            continue
        if group == "person":
            if copula:
                continue
            if turned != (one.passive != two.passive):
                return True
        elif turned:
            return True
    return False


def _rebound(mine: list[Argument], theirs: list[Argument]) -> bool:
    groups = {argument.key: argument.group for argument in mine}
    common = groups.keys() & {argument.key for argument in theirs}
    if len(common) < 3:
        return False
    first, second = _partners(mine, common), _partners(theirs, common)
    for x, partners in first.items():
        others = second.get(x, set())
        for y in partners - others:
            for z in others - partners:
                if groups[y] == groups[z] and y != z and groups[y] not in (groups[x], "long"):
                    return True
    return False


def _partners(arguments: list[Argument], common: set[object]) -> dict[object, set[object]]:
    partners: dict[object, set[object]] = {}
    for one in arguments:
        for other in arguments:
            if one.clause == other.clause and one.key != other.key and one.key in common and other.key in common:
                partners.setdefault(one.key, set()).add(other.key)
    return partners


def _crossed(one: Reading, two: Reading) -> bool:
    """Whether what stands before a connecting word in one text stands behind it in the other."""
    for word, place in one.connectors.items():
        other_place = two.connectors.get(word)
        if other_place is None:
            continue
        left, right = _sides(one, place)
        other_left, other_right = _sides(two, other_place)
        crossed = min(len(left & other_right), len(right & other_left))
        straight = min(len(left & other_left), len(right & other_right))
        if crossed > straight:
            return True
    return False


def _sides(reading: Reading, place: int) -> tuple[set[object], set[object]]:
    """The contents before and behind a place, the nearest few of each."""
    before, behind = reading.items[max(0, place - _REACH) : place], reading.items[place + 1 : place + 1 + _REACH]
    return _contents(before), _contents(behind)


def _contents(items: tuple[Item, ...]) -> set[object]:
    found: set[object] = set()
    previous: Item | None = None
    for item in items:
        if item.kind == "char":
            if previous is not None and previous.kind == "char":
                found.add(str(previous.key) + str(item.key))
        elif item.kind in ("word", "concept", "quantity"):
            found.add(item.key)
        previous = item
    return found
