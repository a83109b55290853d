"""Rules about a set as a whole: what it covers, and what it says twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from pytest_memeval.cases.findings import Finding, Rule, finding
from pytest_memeval.cases.lint_labels import memories_of
from pytest_memeval.cases.models import CaseSet, EvalCase

#: Conversations more alike than this are one case written twice.
SAME_CASE = 0.7
#: Up to this many conversations every pair is compared.
ALL_PAIRS_UP_TO = 400
#: Smaller sets are samples and examples: they need not cover anything.
WHOLE_SET_FROM = 20
#: A difficult phenomenon in fewer cases is an anecdote.
CASES_A_PHENOMENON = 3

#: Tags of what makes a case difficult; a set's own are named in ``meta.phenomena``.
PHENOMENA: frozenset[str] = frozenset(
    (
        "assistant_suggestion", "boundary_priority", "code_block", "code_switching", "correction", "duplicate_fact",
        "hearsay", "hypothetical", "joke", "misleading_candidate", "multi_speaker", "negation", "nothing_to_keep",
        "paraphrase", "quoted_text", "retraction", "role_play", "sarcasm", "suggestion_accepted",
        "suggestion_not_accepted",
    )
)  # fmt: skip
_PAIR_TAG = "pair_"

#: How many of the cases between the first and the last of a group are named.
_NAMED = 5

# Blocking: conversations share sequences of this many characters; of long texts only a part of them is looked at.
_SHINGLE = 4
_SAMPLE_FROM = 120
_SHARED_AT_LEAST = 3
_TOO_COMMON = 30


def dimension_unused(case_set: CaseSet) -> Iterator[Finding]:
    """A dimension of the registry that no labelled memory of the set has."""
    if case_set.registry is None or len(case_set.cases) < WHOLE_SET_FROM:
        return
    used = {label for case in case_set.cases for memory in memories_of(case) for label in memory.dimensions}
    for dimension in case_set.registry.ids:
        if dimension not in used:
            message = f"dimension {dimension!r} is in no labelled memory"
            yield finding("dimension-unused", "warning", case_set, 0, message)


def phenomenon_rare(case_set: CaseSet) -> Iterator[Finding]:
    """A tag of a difficult phenomenon that fewer than three cases have."""
    if len(case_set.cases) < WHOLE_SET_FROM:
        return
    own = case_set.meta.extra.get("phenomena")
    named = {str(tag) for tag in own} if isinstance(own, (list, tuple)) else None
    counts = Counter(tag for case in case_set.cases for tag in case.tags)
    for tag in sorted(named or set()):
        counts.setdefault(tag, 0)
    for tag, count in counts.items():
        counted = tag in named if named is not None else tag in PHENOMENA or tag.startswith(_PAIR_TAG)
        if not counted or count >= CASES_A_PHENOMENON:
            continue
        line = next((case.line for case in case_set.cases if tag in case.tags), 0)
        cases = "1 case has" if count == 1 else f"{count} cases have"
        message = (
            f"{cases} the tag {tag!r}: a difficult phenomenon needs at least {CASES_A_PHENOMENON} to tell anything"
        )
        yield finding("phenomenon-rare", "warning", case_set, line, message)


def origin_left_out(case_set: CaseSet) -> Iterator[Finding]:
    """A case without source or difficulty in a set whose other cases say theirs."""
    for name in ("source", "difficulty"):
        silent = [case for case in case_set.cases if getattr(case, name) == "unspecified"]
        if silent and 2 * len(silent) <= len(case_set.cases):
            for case in silent:
                message = f"the case has no {name}, most cases of this file have one"
                yield finding("origin-left-out", "warning", case_set, case.line, message, case.case_id)


def same_case_twice(case_set: CaseSet) -> Iterator[Finding]:
    """Cases whose conversations are nearly the same text (indel similarity above 0.7), one finding a group: a case
    belongs to the group of each case that it is like.

    Up to 400 cases every pair is compared. In larger sets only conversations that share enough sequences of four
    characters are; a note says so.
    """
    from rapidfuzz.distance import Indel

    cases = [case for case in case_set.cases if case.conversation]
    texts = [conversation_text(case) for case in cases]
    every = len(texts) <= ALL_PAIRS_UP_TO
    pairs = _all_pairs(texts) if every else candidate_pairs(texts)
    groups = _Groups()
    for earlier, later in pairs:
        alike = Indel.normalized_similarity(texts[earlier], texts[later], score_cutoff=SAME_CASE)
        if alike > SAME_CASE:
            groups.join(earlier, later, alike)
    for (first, *others), least in groups:
        case, last = cases[first], cases[others[-1]]
        place = f"case {case.case_id!r} in line {case.line}"
        if len(others) == 1:
            message = f"its conversation is nearly that of {place} (similarity {least:.2f})"
        else:
            between = [f"{cases[index].case_id!r} in line {cases[index].line}" for index in others[:-1]]
            listed = ", ".join(between[:_NAMED]) + (f" and {len(between) - _NAMED} more" if between[_NAMED:] else "")
            message = f"its conversation is nearly that of {place}, {listed} (similarity from {least:.2f})"
        yield finding("same-case-twice", "warning", case_set, last.line, message, last.case_id)
    if not every:
        message = (
            f"more than {ALL_PAIRS_UP_TO} cases: only conversations that share several sequences of {_SHINGLE} "
            "characters were compared, so a pair may have been missed"
        )
        yield finding("same-case-twice", "note", case_set, 0, message)


class _Groups:
    """Connected components of pairs, with the smallest similarity of each one's pairs; in the order of their ends."""

    def __init__(self) -> None:
        self._owner: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._least: dict[int, float] = {}

    def join(self, one: int, other: int, alike: float) -> None:
        large, small = sorted((self._find(one), self._find(other)), key=lambda root: -len(self._members[root]))
        if large != small:
            for index in self._members.pop(small):
                self._owner[index] = large
                self._members[large].append(index)
        self._least[large] = min(self._least[large], self._least[small], alike)

    def _find(self, index: int) -> int:
        if index not in self._owner:
            self._owner[index], self._members[index], self._least[index] = index, [index], 1.0
        return self._owner[index]

    def __iter__(self) -> Iterator[tuple[list[int], float]]:
        groups = [(sorted(members), self._least[root]) for root, members in self._members.items()]
        yield from sorted(groups, key=lambda group: group[0][-1])


def conversation_text(case: EvalCase) -> str:
    """What is said in a case's conversation, without ids, times and speakers."""
    return "\n".join(message.content for message in case.conversation)


def _all_pairs(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    for later in range(len(texts)):
        for earlier in range(later):
            yield earlier, later


def candidate_pairs(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs (earlier, later) of texts that share at least three sequences of four characters.

    Sequences that more than thirty texts have are not counted: they are phrases, not copies. Of texts from 120
    characters on about a quarter of the sequences is looked at, the same ones in every text. A text shorter than four
    characters counts as one sequence, and needs one shared only.
    """
    holders: dict[str, list[int]] = {}
    sizes: list[int] = []
    for position, text in enumerate(texts):
        shingles = _shingles(text)
        sizes.append(len(shingles))
        for shingle in shingles:
            holders.setdefault(shingle, []).append(position)
    count = len(texts)
    shared: Counter[int] = Counter()  # later * count + earlier: whole numbers are counted faster than tuples
    for places in holders.values():
        if 1 < len(places) <= _TOO_COMMON:
            shared.update([later * count + earlier for earlier, later in combinations(places, 2)])
    # exact copies share everything, also what is too common
    first: dict[str, int] = {}
    for position, text in enumerate(texts):
        if text in first:
            shared[position * count + first[text]] += _SHARED_AT_LEAST
        first.setdefault(text, position)
    enough = [pair for pair, found in shared.items() if found >= _SHARED_AT_LEAST or found >= _least(pair, sizes)]
    for pair in sorted(enough):
        later, earlier = divmod(pair, count)
        yield earlier, later


def _least(pair: int, sizes: Sequence[int]) -> int:
    later, earlier = divmod(pair, len(sizes))
    return min(sizes[earlier], sizes[later])


def _shingles(text: str) -> set[str]:
    if len(text) <= _SHINGLE:
        return {text}
    every = {text[start : start + _SHINGLE] for start in range(len(text) - _SHINGLE + 1)}
    if len(text) < _SAMPLE_FROM:
        return every
    return {shingle for shingle in every if (ord(shingle[0]) * 31 + ord(shingle[1]) * 7 + ord(shingle[3])) % 4 == 0}


SET_RULES: dict[str, Rule] = {
    "dimension-unused": dimension_unused,
    "phenomenon-rare": phenomenon_rare,
    "origin-left-out": origin_left_out,
    "same-case-twice": same_case_twice,
}
