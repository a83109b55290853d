"""Answered questions and their metrics, for use from Python."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_memeval.metrics.text.embedding import TextModels
from pytest_memeval.metrics.text.pairs import ALL_METRICS, check_names, text_metrics

#: The truth of these is a refusal: no text can be compared with it.
_NO_TRUTH = "adversarial"


@dataclass(frozen=True, slots=True)
class EvalResult:
    """One answered question. ``error`` says why there is no prediction; such a result enters no mean."""

    sample_id: str
    question_id: str
    question_type: str
    question: str
    ground_truth: str
    prediction: str
    question_date: str = ""
    error: str | None = None


def compute_metrics(
    results: Sequence[EvalResult],
    judge_scores: Sequence[float | None] | None = None,
    *,
    metrics: Collection[str] | None = None,
    bert_model: str | None = None,
    bert_layers: int | None = None,
    sbert_model: str | None = None,
) -> dict[str, Any]:
    """Means of the metrics: ``{"overall": {name: value}, "by_type": {type: {name: value, "count": n}}}``.

    ``judge_scores`` has one score a result, ``None`` for a judge error, which is left out of the mean (without any,
    ``judge_score`` is ``None``). Only the ``metrics`` asked for are computed, ``None`` asks for all twelve. A metric
    without a value is ``None``. Adversarial questions have no text as truth: only their judge score counts. Results
    with an ``error`` enter no mean; where there are any, ``"errors"`` says how many.

    ``bert_f1`` and ``sbert_similarity`` are computed with ``bert_model`` (its layer ``bert_layers``) and
    ``sbert_model``: names in the Hugging Face hub or folders, by default those that ``MEMEVAL_BERT_MODEL``,
    ``MEMEVAL_BERT_LAYERS`` and ``MEMEVAL_SBERT_MODEL`` name, else ``roberta-large`` and
    ``paraphrase-multilingual-MiniLM-L12-v2``. Of texts longer than a model reads, the beginning counts.

    ValueError for an unknown metric, another number of scores than results, or a model that cannot be loaded;
    ImportError, with the install command, for a metric whose extra is not installed.
    """
    names = tuple(ALL_METRICS if metrics is None else metrics)
    check_names(names, ALL_METRICS)
    scores: Sequence[float | None] = [None] * len(results) if judge_scores is None else judge_scores
    if len(scores) != len(results):
        raise ValueError(f"{len(results)} results but {len(scores)} judge scores")
    kept = [position for position, result in enumerate(results) if result.error is None]
    texts = [name for name in names if name != "judge_score"]
    models = TextModels.named(bert_model, bert_layers, sbert_model)
    compared = [position for position in kept if results[position].question_type != _NO_TRUTH]
    pairs = [(results[position].prediction, str(results[position].ground_truth)) for position in compared]
    rows: dict[int, Mapping[str, float | None]] = dict(zip(compared, text_metrics(pairs, texts, models), strict=True))
    values = {
        position: {
            name: scores[position] if name == "judge_score" else rows.get(position, {}).get(name) for name in names
        }
        for position in kept
    }
    by_type: dict[str, list[int]] = {}
    for position in kept:
        by_type.setdefault(str(results[position].question_type), []).append(position)
    found: dict[str, Any] = {
        "overall": {name: _mean([values[position][name] for position in kept]) for name in names},
        "by_type": {
            kind: {
                **{name: _mean([values[position][name] for position in members]) for name in names},
                "count": len(members),
            }
            for kind, members in sorted(by_type.items())
        },
    }
    if len(kept) < len(results):
        found["errors"] = len(results) - len(kept)
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(measured) / len(measured) if measured else None
