"""Extraction as the embedded model does it: a user's clauses, grouped into facts by the dimensions they touch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.llm.embedded_dimensions import DimensionScorer
from pytest_memeval.llm.embedded_markers import (
    ADDRESSED,
    CORRECTION,
    EVENT,
    FIRST_PERSON,
    HYPOTHESIS,
    NOT_A_USER,
    OTHER_SUBJECT,
    PASSING,
    REQUEST,
    STANDING,
    STRONG,
    WEAK,
)
from pytest_memeval.llm.embedded_text import Clause, clauses, covered, features, is_cjk, likeness, units

#: A clause that scores less for its best dimension states no fact by itself.
KEEP_SCORE = 0.5
#: A second dimension needs this share of the best score, and this score.
SECOND_SHARE, SECOND_SCORE = 0.7, 0.9
#: Facts of one conversation that are this alike are one.
SAME_FACT = 0.9

_MESSAGE = re.compile(r"^\[([^\]\n]+)\](?: (\d{4}-\d\d-\d\dT\S+))? ([^\n:：]{1,80}): ?", re.MULTILINE)


@dataclass(slots=True)
class _Fact:
    text: str
    scores: dict[int, float]
    sentence: tuple[str, int]
    message_ids: list[str] = field(default_factory=list)


def parse_messages(body: str) -> Iterator[tuple[str, str, str]]:
    """``(id, speaker, text)`` of each message of a rendered conversation; text before the first header is left out."""
    heads = list(_MESSAGE.finditer(body))
    # In a conversation with times a line without one is text that looks like a header.
    heads = [head for head in heads if bool(head[2]) == bool(heads[0][2])]
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        yield head[1], head[3], body[head.end() : following.start() if following else len(body)].strip()


def extract(
    scorer: DimensionScorer, conversation: str, *, allowed_types: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The memories found in a rendered conversation, in the answer form of the extraction prompt.

    ``allowed_types``: where given, a memory type outside it becomes ``None``.
    """
    facts: list[_Fact] = []
    for message_id, speaker, text in parse_messages(conversation):
        if not NOT_A_USER.match(speaker):
            _read_message(scorer, message_id, text, facts)
    return [_memory(scorer, fact, allowed_types) for fact in _without_repeats(facts)]


def _read_message(scorer: DimensionScorer, message_id: str, text: str, facts: list[_Fact]) -> None:
    speaks_of_self = bool(FIRST_PERSON.search(text))
    current: _Fact | None = None
    corrects = False
    for clause in clauses(text):
        place = (message_id, clause.sentence)
        content, marks = CORRECTION.subn("", clause.text)
        corrects = corrects or marks > 0
        if not content:
            continue
        scores = scorer.score(content)
        if corrects and facts:
            corrects = False
            current = _correct(facts, scores, content, place)
            continue
        if _states_nothing(clause, content) or not _about_user(content, speaks_of_self):
            current = None
            continue
        if current is not None and current.sentence == place and _continues(scorer, current, scores, content):
            joint = "，" if is_cjk(units(content)[0] or " ") else ", "
            current.text += joint + content
            for index, score in scores.items():
                current.scores[index] = current.scores.get(index, 0.0) + score
        elif scores and max(scores.values()) >= KEEP_SCORE:
            current = _Fact(content, scores, place, [message_id])
            facts.append(current)


def _states_nothing(clause: Clause, content: str) -> bool:
    if clause.question or HYPOTHESIS.match(content):
        return True
    return bool(REQUEST.match(content)) and not STANDING.search(content)


def _about_user(content: str, speaks_of_self: bool) -> bool:
    """Whether the clause speaks of the user or to the assistant; Chinese clauses may leave their subject out."""
    if FIRST_PERSON.search(content) or STANDING.search(content):
        return True
    if OTHER_SUBJECT.match(content):
        return False
    return speaks_of_self or is_cjk(next(iter(units(content)), " "))


def _continues(scorer: DimensionScorer, fact: _Fact, scores: dict[int, float], content: str) -> bool:
    """Whether the clause goes on with the fact before it: no new "I", and no dimension or the same as there."""
    if FIRST_PERSON.match(content):
        return False
    if not scores or max(scores.values()) < KEEP_SCORE:
        return True
    return scorer.ranked(scores)[0][0] == scorer.ranked(fact.scores)[0][0]


def _correct(facts: list[_Fact], scores: dict[int, float], content: str, place: tuple[str, int]) -> _Fact:
    """Puts the corrected statement in the place of the fact that it shares most with, the latest of equals."""
    words = features(content)

    def shared(number: int) -> tuple[float, int]:
        return covered(words, features(facts[number].text), {}), number

    # One that shares no word is taken for a correction of what was said last.
    best = max(range(len(facts)), key=shared)
    old = facts.pop(best if shared(best)[0] else len(facts) - 1)
    sources = old.message_ids if place[0] in old.message_ids else [*old.message_ids, place[0]]
    facts.append(_Fact(content, scores or old.scores, place, sources))
    return facts[-1]


def _without_repeats(facts: Sequence[_Fact]) -> list[_Fact]:
    kept: list[_Fact] = []
    for fact in facts:
        same = next((other for other in kept if likeness(other.text, fact.text) >= SAME_FACT), None)
        if same is None:
            kept.append(fact)
        else:
            same.message_ids += [name for name in fact.message_ids if name not in same.message_ids]
    return kept


def _memory(scorer: DimensionScorer, fact: _Fact, allowed_types: Sequence[str] | None) -> dict[str, Any]:
    ranked = scorer.ranked(fact.scores)
    chosen = [ranked[0][0]]
    if len(ranked) > 1 and ranked[1][1] >= max(SECOND_SHARE * ranked[0][1], SECOND_SCORE):
        chosen.append(ranked[1][0])
    instruction = bool(STANDING.search(fact.text)) and bool(ADDRESSED.search(fact.text))
    passing = bool(PASSING.search(fact.text)) and not instruction
    event = bool(EVENT.search(fact.text)) and not instruction
    memory_type = "instruction" if instruction else "episodic" if passing or event else "persona"
    priority = {"instruction": 85, "episodic": 60, "persona": 75}[memory_type]
    priority += 10 * bool(STRONG.search(fact.text)) - 15 * bool(WEAK.search(fact.text))
    return {
        "content": fact.text,
        "dimensions": [scorer.dimensions[index].id for index in chosen],
        "memory_type": memory_type if allowed_types is None or memory_type in allowed_types else None,
        "priority": priority,
        "time_velocity": "dynamic" if passing else "static",
        "source_message_ids": fact.message_ids,
    }


def allowed_values(schema: Any, name: str) -> tuple[str, ...] | None:
    """The ``enum`` of the property ``name`` anywhere in a JSON Schema, or ``None`` where there is none."""
    if isinstance(schema, Mapping):
        property_schema = schema.get(name)
        if isinstance(property_schema, Mapping) and isinstance(property_schema.get("enum"), list):
            return tuple(value for value in property_schema["enum"] if isinstance(value, str))
        children: list[Any] = list(schema.values())
    elif isinstance(schema, list):
        children = schema
    else:
        return None
    return next((found for child in children if (found := allowed_values(child, name)) is not None), None)
