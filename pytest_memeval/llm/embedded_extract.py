"""Extraction as the embedded model does it: a user's clauses, grouped into facts by the dimensions they touch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

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
from pytest_memeval.llm.embedded_text import (
    Clause,
    clauses,
    covered,
    features,
    is_cjk,
    is_negated,
    likeness,
    numbers,
    units,
)

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
    if heads and _shape(heads[0][1]) != heads[0][1]:
        # Numbered ids are of one form, so that a line such as "[INFO] server: up" is text and no header.
        heads = [head for head in heads if _shape(head[1]) == _shape(heads[0][1])]
    ends = [head.start() for head in heads[1:]] + [len(body)]
    for head, end in zip(heads, ends, strict=False):
        yield head[1], head[3], body[head.end() : end].strip()


def _shape(message_id: str) -> str:
    return re.sub(r"\d+", "#", message_id)


def extract(
    scorer: DimensionScorer, conversation: str, schema: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The memories found in a rendered conversation, in the answer form of the extraction prompt.

    ``schema``: the JSON Schema of the answer, if one is wanted. A type or velocity outside its enumerations becomes
    ``None``, and priorities are brought into its range.
    """
    facts: list[_Fact] = []
    said = [(name, text) for name, speaker, text in parse_messages(conversation) if not NOT_A_USER.match(speaker)]
    speaks_of_self = any(FIRST_PERSON.search(text) for _, text in said)
    for message_id, text in said:
        _read_message(scorer, message_id, text, speaks_of_self, facts)
    memories = [_memory(scorer, fact) for fact in _without_repeats(facts)]
    return [_fitted(memory, schema) for memory in memories] if schema else memories


def _read_message(
    scorer: DimensionScorer, message_id: str, text: str, speaks_of_self: bool, facts: list[_Fact]
) -> None:
    current: _Fact | None = None
    corrects = False
    supposed = -1
    for clause in clauses(text):
        place = (message_id, clause.sentence)
        if HYPOTHESIS.match(clause.text):
            supposed = clause.sentence
        if clause.sentence == supposed:
            # What follows from a supposition in its sentence is supposed too.
            continue
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
        elif _has_evidence(scores) or FIRST_PERSON.search(content):
            # What the user says of themself is a fact even where no dimension can be told from the words.
            current = _Fact(content, scores, place, [message_id])
            facts.append(current)


def _states_nothing(clause: Clause, content: str) -> bool:
    return clause.question or (bool(REQUEST.match(content)) and not STANDING.search(content))


def _about_user(content: str, speaks_of_self: bool) -> bool:
    """Whether the clause speaks of the user or to the assistant.

    Chinese clauses may leave their subject out, and in a conversation about oneself other things are one's own too.
    """
    if FIRST_PERSON.search(content) or STANDING.search(content):
        return True
    if OTHER_SUBJECT.match(content):
        return False
    return speaks_of_self or is_cjk(next(iter(units(content)), " "))


def _continues(scorer: DimensionScorer, fact: _Fact, scores: dict[int, float], content: str) -> bool:
    """Whether the clause goes on with the fact before it: no new "I", and no dimension or the same as there."""
    if FIRST_PERSON.match(content):
        return False
    if not _has_evidence(scores):
        return True
    return not _has_evidence(fact.scores) or scorer.ranked(scores)[0][0] == scorer.ranked(fact.scores)[0][0]


def _has_evidence(scores: Mapping[int, float]) -> bool:
    return bool(scores) and max(scores.values()) >= KEEP_SCORE


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
    """The facts without those that nearly equal an earlier one; other numbers or a negation make another fact."""
    kept: list[_Fact] = []
    comparable: dict[tuple[frozenset[str], bool], list[_Fact]] = {}
    for fact in facts:
        others = comparable.setdefault((numbers(fact.text), is_negated(fact.text)), [])
        same = next((other for other in others if likeness(other.text, fact.text) >= SAME_FACT), None)
        if same is None:
            kept.append(fact)
            others.append(fact)
        else:
            same.message_ids += [name for name in fact.message_ids if name not in same.message_ids]
    return kept


def _memory(scorer: DimensionScorer, fact: _Fact) -> dict[str, Any]:
    ranked = scorer.ranked(fact.scores)
    chosen = [ranked[0][0]] if ranked else []
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
        "memory_type": memory_type,
        "priority": priority,
        "time_velocity": "dynamic" if passing else "static",
        "source_message_ids": fact.message_ids,
    }


def _fitted(memory: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("memory_type", "time_velocity"):
        allowed = _property(schema, name).get("enum")
        if isinstance(allowed, list) and memory[name] not in allowed:
            memory[name] = None
    bounds = _property(schema, "priority")
    low, high = bounds.get("minimum"), bounds.get("maximum")
    if isinstance(low, int | float) and isinstance(high, int | float):
        memory["priority"] = round(low + (high - low) * memory["priority"] / 100, 4)
    return memory


def _property(schema: Any, name: str) -> Mapping[str, Any]:
    """The schema of the property ``name`` wherever it stands in a JSON Schema; empty where it is not described."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and isinstance(properties.get(name), Mapping):
            return cast(Mapping[str, Any], properties[name])
        children = list(schema.values())
    else:
        children = schema if isinstance(schema, list) else []
    return next((found for child in children if (found := _property(child, name))), {})
