"""What a question's record keeps of its labels beside the answer, and how that follows labels that were changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pytest_memeval.datasets.models import QAPair, Sample

#: Ids of retrieved messages that a record keeps.
KEPT_SOURCES = 50
#: Characters of a message of the evidence that a record keeps.
KEPT_TEXT = 400


def kept_labels(pair: QAPair, *, cut: bool) -> dict[str, Any]:
    """A question's labels as its record has them. ``cut``: not all retrieved ids are kept, so that it must be known of
    which messages the figures over all of them are."""
    return {
        "truth": pair.answer,
        "trap": pair.trap,
        "category": pair.category,
        "evidence": list(pair.raw_evidence),
        **({"evidence_turns": list(pair.evidence)} if cut else {}),
        **({} if pair.corrected_answer is None else {"corrected_truth": pair.corrected_answer}),
        **({} if pair.corrected_evidence is None else {"corrected_evidence": list(pair.corrected_evidence)}),
    }


def evidence_found(pair: QAPair, sample: Sample, sources: Sequence[str]) -> list[dict[str, Any]]:
    """Each message of the evidence with its rank among what was retrieved, from 1, ``None`` where it is not there."""
    texts, ranks = _texts(sample, pair.evidence), _ranks(sources)
    return [{"id": name, "rank": ranks.get(name), "content": texts.get(name)} for name in pair.evidence]


def relabelled(
    output: Mapping[str, Any], pair: QAPair, read: Callable[[], Sample], *, stale: Collection[bool]
) -> dict[str, Any]:
    """A stored output with the labels of today. What was asked, answered and retrieved stays as the run had it.

    ``stale`` names the truths (the published: False, the corrected: True) that the kept verdicts are not on: those go,
    since what they say is of other truths. ``read`` gives the conversation; it is asked only for evidence that the run
    kept no text of.
    """
    labels = kept_labels(pair, cut="evidence_turns" in output)
    known = dict.fromkeys((*kept_labels(pair, cut=True), "corrected_truth", "corrected_evidence"))
    changed = {name: value for name, value in output.items() if name not in known} | labels
    # In the order that a run writes, so that labels that are the same give the same record.
    again = {name: changed[name] for name in (*output, *labels) if name in changed}
    if stale and "verdicts" in again:
        again["verdicts"] = [one for one in again["verdicts"] if (one.get("of") is not None) not in stale]
    if "evidence_found" in again:
        again["evidence_found"] = _found_again(output, pair, read)
    return again


def _found_again(output: Mapping[str, Any], pair: QAPair, read: Callable[[], Sample]) -> list[dict[str, Any]]:
    """The rows of today's evidence; none where a message may lie behind the ids that were kept: nobody knows then."""
    before = {row["id"]: row for row in output["evidence_found"]}
    if list(before) == list(dict.fromkeys(pair.evidence)):
        return list(output["evidence_found"])
    ranks = _ranks(output["sources"])
    unknown = [name for name in pair.evidence if name not in before and name not in ranks]
    if unknown and output["sources_in_all"] > len(output["sources"]):
        return []
    texts = _texts(read(), pair.evidence)
    return [
        {"id": name, "rank": before[name]["rank"] if name in before else ranks.get(name), "content": texts.get(name)}
        for name in pair.evidence
    ]


def _texts(sample: Sample, wanted: Sequence[str]) -> dict[str, str]:
    names = frozenset(wanted)
    return {one.id: _beginning(one.content) for one in sample.messages if one.id in names} if names else {}


def _ranks(sources: Sequence[str]) -> dict[str, int]:
    return {source: rank for rank, source in reversed(list(enumerate(sources, 1)))}


def _beginning(text: str) -> str:
    return text if len(text) <= KEPT_TEXT else text[: KEPT_TEXT - 1] + "…"
