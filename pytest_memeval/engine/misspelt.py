"""Methods of an engine that were meant to be others: a slip of the pen takes a stage out of a run in silence."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from pytest_memeval.engine.protocol import STAGE_METHODS
from pytest_memeval.own_code import own_errors

#: What an engine may have: none of these is another one misspelt.
PROTOCOL_METHODS: tuple[str, ...] = (
    *STAGE_METHODS.values(),
    *("load", "normalize", "await_indexed", "release", "supported_stages", "describe_search"),
    *("ingest", "ingest_session", "flush", "retrieve", "reset"),
)
#: Words from this length on may have two slips, shorter ones one; the shortest only letters that changed places.
_LONG, _SHORT = 9, 4


def meant_to_be(engine: object, method: str) -> str | None:
    """The public method of an engine without ``method`` whose name is that one with a slip of the pen, or the nearest
    of several. ``None`` where there is none, and for an engine that says itself which stages it has."""
    if callable(getattr(engine, method, None)) or callable(getattr(engine, "supported_stages", None)):
        return None
    near = [(distance, name) for name in public_methods(engine) if (distance := _slips(name, method)) is not None]
    return min(near)[1] if near else None


def public_methods(engine: object) -> Iterator[str]:
    """The names of what can be called of the engine, classes aside."""
    for name in dir(engine):
        if not name.startswith("_"):
            try:
                value = getattr(engine, name, None)
            except own_errors():  # a property of the engine's own that does not work here
                continue
            if callable(value) and not inspect.isclass(value):
                yield name


def _slips(name: str, method: str) -> int | None:
    """By how many slips ``name`` is ``method``; ``None`` where it is a word of its own.

    A slip is a letter too many, one too few, a wrong one, or two that changed places; capitals and underscores are
    none. What only adds to the method's name is no slip of it: ``extract_text``, ``resolver``, ``reload`` and
    ``aggregates`` are names that an engine may well have for a purpose of its own.
    """
    if name in PROTOCOL_METHODS:
        return None
    here, there = _plain(name), _plain(method)
    if _adds_to(here, there):
        return None
    distance = _distance(here, there)
    if distance == 0:
        return 0
    if len(there) <= _SHORT:
        return distance if distance == 1 and sorted(here) == sorted(there) else None
    if distance > 2 or (distance == 2 and (len(there) < _LONG or here[0] != there[0])):
        return None
    nearer = any(_distance(here, _plain(other)) <= distance for other in PROTOCOL_METHODS if other != method)
    return None if nearer else distance


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


def _adds_to(word: str, base: str) -> bool:
    """Whether a word is another one with more before it, behind it or in the place of its last e. A last or first
    letter that is there twice is a slip."""
    stem = base.removesuffix("e")
    if word in (base, stem, base + base[-1], base[0] + base):
        return False
    return word.startswith(stem) or word.endswith(base)


def _distance(one: str, other: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours that make the one of the other."""
    from rapidfuzz.distance import OSA

    return int(OSA.distance(one, other, score_cutoff=2))
