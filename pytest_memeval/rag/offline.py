"""Evaluators that need no model: retrieval by matching, answers by overlap, lengths, citations.

A score is ``None`` where a sample lacks what it needs (a ground truth, reference passages): it is then not measured.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from pytest_memeval.rag.base import BaseEvaluator, EvalResult, EvalSample, Score

#: Similarity from which a retrieved passage counts as a reference passage.
MATCH_THRESHOLD = 0.5


def folded(text: str) -> str:
    """NFKC, case folded, white space as single blanks: what two spellings of a passage share."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class PassageMatcher:
    """Whether a retrieved passage holds a reference passage: they are alike (``similarity`` of
    :func:`~pytest_memeval.metrics.matching.content_similarity` at ``threshold`` or more), or the longer one contains
    the whole reference (``contained``), since systems cut their passages at other places than a reference does."""

    def __init__(
        self, threshold: float = MATCH_THRESHOLD, *, similarity: str = "indel", contained: bool = True
    ) -> None:
        from pytest_memeval.metrics.matching import content_similarity

        if not 0 <= threshold <= 1:
            raise ValueError(f"the threshold must be between 0 and 1, not {threshold}")
        content_similarity("a", "b", similarity=similarity)  # has what it needs loaded, in no sample's time
        self.threshold = threshold
        self.similarity = similarity
        self.contained = contained

    def holds(self, retrieved: str, reference: str) -> bool:
        from pytest_memeval.metrics.matching import content_similarity

        if self.contained and (inner := folded(reference)) and inner in folded(retrieved):
            return True
        return content_similarity(retrieved, reference, similarity=self.similarity) >= self.threshold

    def relevant(self, passages: Sequence[str], references: Sequence[str]) -> list[bool]:
        """Of each passage, whether it holds a reference passage; none does where there is no reference."""
        return [any(self.holds(passage, one) for one in references) for passage in passages]


class _Matching(BaseEvaluator):
    plannable = True

    def __init__(
        self,
        threshold: float = MATCH_THRESHOLD,
        *,
        similarity: str = "indel",
        contained: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._matcher = PassageMatcher(threshold, similarity=similarity, contained=contained)

    def _relevant(self, sample: EvalSample) -> list[bool]:
        """Of each retrieved passage, whether it holds a reference passage."""
        return self._matcher.relevant(sample.context, sample.reference_contexts or ())


class ContextRecallByMatching(_Matching):
    """``non_llm_context_recall``: reference passages that some retrieved passage holds / reference passages, in [0, 1].

    ``None`` without reference passages, 0 where nothing was retrieved. With ``similarity="levenshtein"`` and
    ``contained=False`` it is RAGAS's NonLLMContextRecall (which wants more than the threshold).
    """

    metrics = ("non_llm_context_recall",)

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        references = sample.reference_contexts
        score: Score = None
        if references:
            found = sum(any(self._matcher.holds(passage, one) for passage in sample.context) for one in references)
            score = found / len(references)
        return EvalResult(sample, {"non_llm_context_recall": score})


class ContextPrecisionByMatching(_Matching):
    """``non_llm_context_precision_with_reference``: average precision of the ranking, in [0, 1]:
    Σ (relevant among the first k / k) over the ranks k of relevant passages, divided by the number of those.

    A passage is relevant if it holds a reference passage. 0 where none is, or nothing was retrieved; ``None`` without
    reference passages. The formula is RAGAS's NonLLMContextPrecisionWithReference.
    """

    metrics = ("non_llm_context_precision_with_reference",)

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        score = average_precision(self._relevant(sample)) if sample.reference_contexts else None
        return EvalResult(sample, {self.metrics[0]: score})


def average_precision(relevant: Sequence[bool]) -> float:
    """Mean over the relevant ranks k of (relevant among the first k) / k; 0 without a relevant rank."""
    found, total = 0, 0.0
    for rank, is_relevant in enumerate(relevant, 1):
        if is_relevant:
            found += 1
            total += found / rank
    return total / found if found else 0.0


class AnswerOverlap(BaseEvaluator):
    """``answer_f1``, ``answer_rouge1``, ``answer_rougeL`` … of the response against the ground truth, in [0, 1].

    ``names`` are text metrics of :mod:`pytest_memeval.metrics.text.pairs`. ``None`` without a response or ground truth.
    """

    plannable = True

    def __init__(self, names: Sequence[str] = ("exact_match", "f1", "rouge1", "rougeL"), **options: Any) -> None:
        from pytest_memeval.metrics.text.pairs import HEAVY_METRICS, TEXT_METRICS, check_names, text_metrics

        super().__init__(**options)
        check_names(names, TEXT_METRICS)
        # NLTK and what comes with it takes seconds to load: in no sample's time. Only longer words have a stem.
        text_metrics([("loading", "loaded")], [name for name in names if name not in HEAVY_METRICS])
        self._names = tuple(names)
        self.metrics = tuple(f"answer_{name}" for name in names)

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        from pytest_memeval.metrics.text.pairs import text_metrics

        if sample.response is None or sample.ground_truth is None:
            return EvalResult(sample, dict.fromkeys(self.metrics))
        found = text_metrics([(sample.response, sample.ground_truth)], self._names)[0]
        return EvalResult(sample, {f"answer_{name}": found[name] for name in self._names})


class ContextLength(BaseEvaluator):
    """``context_passages`` and ``context_characters``: how much was retrieved. Both from 0, without an upper bound."""

    plannable = True
    metrics = ("context_passages", "context_characters")

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        characters = sum(len(passage) for passage in sample.context)
        return EvalResult(sample, {"context_passages": len(sample.context), "context_characters": characters})


#: ``[1]``, ``[1, 3]``, ``[2-4]`` and the same in Chinese brackets; numbers count the passages from 1.
_CITATION = re.compile(r"[\[【]\s*(\d{1,4}(?:\s*[,，、;–-]\s*\d{1,4})*)\s*[\]】]")
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)")
#: The end of a sentence, with the citations that follow its full stop.
_SENTENCE_END = re.compile(r"(?:[.!?](?=\s|$|[\[【])|[。！？]|\n)(?:\s*[\[【][\d\s,，、;–-]+[\]】])*")


class CitationCoverage(BaseEvaluator):
    """``citation_coverage``: sentences of the response that cite a retrieved passage / sentences, in [0, 1].
    ``citation_validity``: citations that name a passage that there is / citations, in [0, 1].

    A citation is the passage's number in brackets, ``[1]``, before or behind the full stop. Both are ``None`` without a
    response; coverage without a sentence that has a letter or digit, validity without a citation.
    """

    plannable = True
    metrics = ("citation_coverage", "citation_validity")

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        if sample.response is None:
            return EvalResult(sample, dict.fromkeys(self.metrics))
        cited = [(sentence, citations(sentence)) for sentence in sentences(sample.response)]
        known = range(1, len(sample.context) + 1)
        counted = [numbers for sentence, numbers in cited if _says_something(sentence)]
        every = [number for _, numbers in cited for number in numbers]
        coverage = validity = None
        if counted:
            coverage = sum(any(number in known for number in numbers) for numbers in counted) / len(counted)
        if every:
            validity = sum(number in known for number in every) / len(every)
        return EvalResult(sample, {"citation_coverage": coverage, "citation_validity": validity})


def sentences(text: str) -> list[str]:
    """The sentences of a text, each with the citations behind its end; none for blank text."""
    found, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        found.append(text[start : end.end()])
        start = end.end()
    found.append(text[start:])
    return [sentence.strip() for sentence in found if sentence.strip()]


def citations(sentence: str) -> list[int]:
    """The passage numbers that a sentence cites, ranges written out (at most a hundred of one range)."""
    numbers: list[int] = []
    for citation in _CITATION.finditer(sentence):
        inside = citation[1]
        for first, last in _RANGE.findall(inside):
            numbers += range(int(first), min(int(last), int(first) + 99) + 1)
        numbers += map(int, re.findall(r"\d+", _RANGE.sub(" ", inside)))
    return numbers


def _says_something(sentence: str) -> bool:
    return any(character.isalnum() for character in _CITATION.sub("", sentence))


class OfflineEvaluator(BaseEvaluator):
    """All of this module's evaluators in one: what a set is measured with where none is named."""

    plannable = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._parts: tuple[BaseEvaluator, ...] = (
            ContextRecallByMatching(),
            ContextPrecisionByMatching(),
            AnswerOverlap(),
            ContextLength(),
            CitationCoverage(),
        )
        self.metrics = tuple(name for part in self._parts for name in part.metrics)

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        scores: dict[str, Score] = {}
        for part in self._parts:
            scores.update((await part.evaluate_sample(sample)).scores)
        return EvalResult(sample, scores)
