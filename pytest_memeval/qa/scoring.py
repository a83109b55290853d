"""One answered question to its share of the report's sections ``qa``, ``locomo`` and ``longmemeval``.

Section ``qa`` is about questions that have an answer: LoCoMo's category 5 and LongMemEval's ``_abs`` questions have
rates of their own there, and their texts are compared with nothing. The benchmarks' sections follow the benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from pytest_memeval.datasets.models import QAPair, QuestionType
from pytest_memeval.judge.refusal import is_unanswerable
from pytest_memeval.metrics import locomo, longmemeval
from pytest_memeval.metrics.ranking import hit_at, recall_at
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.text.meteor import wordnet_synonyms
from pytest_memeval.metrics.text.pairs import LIGHT_METRICS, light_text_metrics

#: Cut-offs of the retrieval figures.
CUTOFFS: tuple[int, ...] = (1, 5, 10)
#: A judge's score from here on is right where right or wrong is asked for, as in LongMemEval's accuracy.
RIGHT_FROM = 0.5
Ratios = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Answered:
    """What a question's run has found out.

    ``sources`` are the ids of the messages behind what was retrieved, best first, ``None`` where the memory does not
    tell them. ``ranked`` is false for a memory whose order means nothing. ``judged`` is the judge's score, ``None``
    without one; ``judged_corrected`` the same against the errata's truth. ``arms`` are other answers to the question.
    """

    answer: str
    sources: Sequence[str] | None
    ranked: bool = True
    context_tokens: int = 0
    judged: float | None = None
    judged_corrected: float | None = None
    arms: Mapping[str, str] = field(default_factory=dict)


@cache
def text_names() -> tuple[str, ...]:
    """The text metrics that can be computed here without an extra; METEOR under the name that is right here."""
    meteor = "meteor" if wordnet_synonyms() is not None else "meteor_no_wordnet"
    return tuple(meteor if name == "meteor" else name for name in LIGHT_METRICS if name != "judge_score")


def score(
    pair: QAPair,
    found: Answered,
    format_name: str,
    *,
    adversarial_counts: bool = False,
    errata: bool = False,
) -> dict[str, SectionRecord]:
    """The question's sections. ``adversarial_counts`` lets category 5 into the headline figures; ``errata`` says that
    the set has corrections, so that corrected figures stand beside the published ones for every question."""
    sections = {"qa": SectionRecord(ratios=_qa(pair, found, adversarial_counts=adversarial_counts, errata=errata))}
    if format_name == "locomo":
        sections["locomo"] = SectionRecord(ratios=_locomo(pair, found, errata=errata))
    if format_name == "longmemeval":
        sections["longmemeval"] = SectionRecord(ratios=_longmemeval(pair, found))
    return sections


def _qa(pair: QAPair, found: Answered, *, adversarial_counts: bool, errata: bool) -> Ratios:
    ratios: Ratios = {}
    refused = float(is_unanswerable(found.answer))
    kind = pair.question_type.value
    adversarial = pair.question_type is QuestionType.adversarial
    if pair.unanswerable:
        ratios["adversarial_accuracy" if adversarial else "abstention_accuracy"] = (refused, 1.0)
    else:
        ratios["refusal_rate"] = (refused, 1.0)
    values: dict[str, float | None] = {}
    if not pair.unanswerable:
        values = light_text_metrics(found.answer, pair.answer, text_names())
    elif adversarial and adversarial_counts:
        values = {"f1": refused, "exact_match": refused}
    if found.judged is not None and (not adversarial or adversarial_counts):
        values["judge_score"] = found.judged
    for name, value in values.items():
        if value is not None:
            ratios[name] = (value, 1.0)
            ratios[f"{name}_by_type.{kind}"] = (value, 1.0)
    if adversarial and found.judged is not None:
        ratios["judge_score_by_type.adversarial"] = (found.judged, 1.0)
    _add_arms(ratios, pair, found, values.get("f1"))
    if errata and not pair.unanswerable:
        _add_corrected(ratios, pair, found, values)
    ratios["context_tokens"] = (float(found.context_tokens), 1.0)
    if not pair.unanswerable:
        _add_retrieval(ratios, pair.evidence, found, "")
        if errata:
            _add_retrieval(ratios, pair.corrected_evidence or pair.evidence, found, "_corrected")
    return ratios


def _add_arms(ratios: Ratios, pair: QAPair, found: Answered, own: float | None) -> None:
    """Other answers' F1, and by how much the memory's own is above it."""
    for arm, answer in found.arms.items():
        if own is None or pair.unanswerable:
            continue
        other = light_text_metrics(answer, pair.answer, ("f1",))["f1"]
        if other is not None:
            name = arm.replace("-", "_")
            ratios[f"f1_by_arm.{name}"] = (other, 1.0)
            ratios[f"f1_lift_over.{name}"] = (own - other, 1.0)


def _add_corrected(ratios: Ratios, pair: QAPair, found: Answered, values: Mapping[str, float | None]) -> None:
    """The same figures against the corrected truth; where nothing was corrected they are the published ones."""
    if pair.corrected_answer is None:
        corrected = {name: values.get(name) for name in ("f1", "exact_match", "rougeL", "judge_score")}
    else:
        texts = light_text_metrics(found.answer, pair.corrected_answer, ("f1", "exact_match", "rougeL"))
        corrected = {**texts, "judge_score": found.judged_corrected}
    for name, value in corrected.items():
        if value is not None:
            ratios[f"{name}_corrected"] = (value, 1.0)


def _add_retrieval(ratios: Ratios, evidence: Sequence[str], found: Answered, suffix: str) -> None:
    """Recall and hits of the evidence among what was retrieved, by turn and by session."""
    if not evidence or found.sources is None:
        return
    levels = {
        "turn": (list(found.sources), list(evidence)),
        "session": (_sessions(found.sources), _sessions(evidence)),
    }
    for level, (ranking, relevant) in levels.items():
        whole = recall_at(ranking, relevant, max(1, len(ranking)))
        if whole is not None:
            ratios[f"{level}_recall{suffix}"] = (whole, 1.0)
        if not found.ranked:
            continue
        for k in CUTOFFS:
            for name, value in (("recall", recall_at(ranking, relevant, k)), ("hit", hit_at(ranking, relevant, k))):
                if value is not None:
                    ratios[f"{level}_{name}{suffix}@{k}"] = (value, 1.0)


def session_of(message_id: str) -> str:
    """The session of a message by its id: ``D8:6`` → ``D8``, ``answer_1_3`` → ``answer_1``."""
    return message_id.partition(":")[0] if ":" in message_id else longmemeval.session_of(message_id)


def _sessions(messages: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(session_of(one) for one in messages))


def _locomo(pair: QAPair, found: Answered, *, errata: bool) -> Ratios:
    assert pair.category is not None
    # Rounded one by one, as the benchmark's own tables are.
    value = round(locomo.f1_official(found.answer, pair.answer, pair.category), 3)
    ratios: Ratios = {"f1_official": (value, 1.0), f"f1_official_by_category.{pair.category}": (value, 1.0)}
    if errata:
        truth = pair.corrected_answer if pair.corrected_answer is not None else pair.answer
        ratios["f1_official_corrected"] = (round(locomo.f1_official(found.answer, truth, pair.category), 3), 1.0)
    if found.sources is not None:
        recall = locomo.recall_official(pair.raw_evidence, found.sources)
        ratios["recall_official"] = (recall, 1.0)
        ratios[f"recall_official_by_category.{pair.category}"] = (recall, 1.0)
    return ratios


def _longmemeval(pair: QAPair, found: Answered) -> Ratios:
    ratios: Ratios = {}
    if found.judged is not None:
        right = (float(found.judged >= RIGHT_FROM), 1.0)
        ratios["accuracy"] = right
        ratios[f"accuracy_by_type.{pair.question_type.value}"] = right
        if pair.unanswerable:
            ratios["abstention_accuracy"] = right
    # As the benchmark does: questions without an answer have no retrieval figures.
    if found.sources is None or not found.ranked or pair.unanswerable or not pair.evidence:
        return ratios
    known = _LabelledTurns(pair)
    ranking = [known.label(one) for one in found.sources]
    # They stand for the whole corpus, too: its other turns are relevant nowhere, and so in no ideal order.
    relevant = list(pair.evidence)
    for k in CUTOFFS:
        for prefix, result in (
            ("turn_", longmemeval.evaluate_retrieval(ranking, relevant, relevant, k)),
            ("", longmemeval.evaluate_retrieval_by_session(ranking, relevant, relevant, k)),
        ):
            ratios[f"{prefix}recall_any@{k}"] = (result.recall_any, 1.0)
            ratios[f"{prefix}recall_all@{k}"] = (result.recall_all, 1.0)
            ratios[f"{prefix}ndcg_any@{k}"] = (result.ndcg_any, 1.0)
    return ratios


class _LabelledTurns:
    """Turn ids as the benchmark's evaluation names them: a turn of an answer session that holds no answer is another
    session's there, so that finding it earns nothing."""

    def __init__(self, pair: QAPair) -> None:
        self._evidence = set(pair.evidence)
        self._answering = {session_of(one) for one in pair.evidence} | set(pair.evidence_sessions)

    def label(self, message_id: str) -> str:
        if message_id in self._evidence or session_of(message_id) not in self._answering:
            return message_id
        return f"noans:{message_id}"
