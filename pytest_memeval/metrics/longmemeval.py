"""LongMemEval's own retrieval scores and aggregates, as its published evaluation computes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: The six types, in the order of the benchmark's tables.
TYPES: tuple[str, ...] = (
    "single_session_user",
    "single_session_preference",
    "single_session_assistant",
    "multi_session",
    "temporal_reasoning",
    "knowledge_update",
)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One question's retrieval, each in [0, 1]: any relevant item found, all of them found, and the benchmark's
    nDCG."""

    recall_any: float
    recall_all: float
    ndcg_any: float


def _dcg(gains: Sequence[float]) -> float:
    """The benchmark discounts rank i ≥ 2 by log2(i), so that ranks 1 and 2 weigh the same."""
    return math.fsum(gain / (1.0 if rank == 1 else math.log2(rank)) for rank, gain in enumerate(gains, 1))


def evaluate_retrieval(ranking: Sequence[str], relevant: Sequence[str], corpus: Sequence[str], k: int) -> Retrieval:
    """The scores at ``k`` of a ranking of corpus ids, best first.

    ``corpus`` lists every id that could be ranked: the ideal order is made from it, so an id that is there twice counts
    twice. Nothing relevant gives 0, 1 and 0, as the benchmark has it.
    """
    shown, wanted = list(ranking[:k]), set(relevant)
    found = set(shown)
    ideal = _dcg(sorted((float(one in wanted) for one in corpus), reverse=True)[:k])
    actual = _dcg([float(one in wanted) for one in shown])
    return Retrieval(
        recall_any=float(any(one in found for one in wanted)),
        recall_all=float(all(one in found for one in wanted)),
        ndcg_any=actual / ideal if ideal else 0.0,
    )


def session_of(turn_id: str) -> str:
    """``answer_622f_6_3`` → ``answer_622f_6``: a turn's id without its number."""
    return turn_id.rpartition("_")[0]


def evaluate_retrieval_by_session(
    ranking: Sequence[str], relevant: Sequence[str], corpus: Sequence[str], k: int
) -> Retrieval:
    """The same for a ranking of turns, counted by session: ``k`` is widened until ``k`` sessions are seen."""
    sessions = [session_of(one) for one in corpus]
    wide = k
    while wide <= len(ranking) and len({session_of(one) for one in ranking[:wide]}) < k:
        wide += 1
    return evaluate_retrieval(
        [session_of(one) for one in ranking], list(dict.fromkeys(map(session_of, relevant))), sessions, wide
    )


def aggregate_accuracy(rows: Iterable[tuple[str, bool, float]]) -> dict[str, object]:
    """(type, abstention, score in [0, 1]) of every question → ``by_type {type: {n, accuracy}}``, ``task_averaged``
    (unweighted mean over the types that are there), ``overall``, ``abstention`` and ``abstention_n``.

    Abstention questions count in their type, in overall, and apart. ``None`` for what has no question.
    """
    by_type: dict[str, list[float]] = {}
    abstention: list[float] = []
    for kind, abstains, score in rows:
        by_type.setdefault(kind, []).append(score)
        if abstains:
            abstention.append(score)
    means = {kind: math.fsum(scores) / len(scores) for kind, scores in by_type.items()}
    everything = [score for scores in by_type.values() for score in scores]
    order = sorted(means, key=lambda kind: (TYPES.index(kind) if kind in TYPES else len(TYPES), kind))
    return {
        "by_type": {kind: {"n": len(by_type[kind]), "accuracy": means[kind]} for kind in order},
        "task_averaged": math.fsum(means.values()) / len(means) if means else None,
        "overall": math.fsum(everything) / len(everything) if everything else None,
        "abstention": math.fsum(abstention) / len(abstention) if abstention else None,
        "abstention_n": len(abstention),
    }
