"""The metrics of a reply and its truth by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from typing import Any

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.metrics.text.bleu import bleu_scores
from pytest_memeval.metrics.text.embedding import TextModels, heavy_metrics, named_model
from pytest_memeval.metrics.text.meteor import meteor, wordnet_synonyms
from pytest_memeval.metrics.text.overlap import exact_match, token_f1
from pytest_memeval.metrics.text.rouge import rouge_l, rouge_n

#: The metrics of question answering, in report order.
ALL_METRICS: tuple[str, ...] = (
    "judge_score",
    "exact_match",
    "f1",
    "rouge1",
    "rouge2",
    "rougeL",
    "bleu1",
    "bleu2",
    "bleu4",
    "meteor",
    "bert_f1",
    "sbert_similarity",
)
#: Those that need an extra.
HEAVY_METRICS: tuple[str, ...] = ("bert_f1", "sbert_similarity")
#: Those that need none.
LIGHT_METRICS: tuple[str, ...] = tuple(name for name in ALL_METRICS if name not in HEAVY_METRICS)
#: What is given beside them on request.
MORE_METRICS: tuple[str, ...] = ("meteor_no_wordnet", "bleu1_nltk", "bleu2_nltk", "bleu4_nltk")
#: The metrics that texts alone decide (the judge's score is not one).
TEXT_METRICS: tuple[str, ...] = tuple(name for name in (*ALL_METRICS, *MORE_METRICS) if name != "judge_score")

_SIMPLE: dict[str, Callable[[str, str], float | None]] = {
    "exact_match": exact_match,
    "f1": token_f1,
    "rouge1": lambda prediction, truth: rouge_n(prediction, truth, 1),
    "rouge2": lambda prediction, truth: rouge_n(prediction, truth, 2),
    "rougeL": rouge_l,
    "meteor_no_wordnet": meteor,
}


def check_names(names: Collection[str], known: Sequence[str]) -> None:
    """ValueError, with the nearest name, for one that is no metric."""
    for name in names:
        if name not in known:
            raise ValueError(f"unknown metric {name!r}{did_you_mean(name, known)}")


def light_text_metrics(prediction: str, truth: str, names: Collection[str]) -> dict[str, float | None]:
    """The named metrics of one pair, those of :data:`HEAVY_METRICS` and the judge's left out.

    ``meteor`` is ``None`` where WordNet's data is not installed: NLTK's METEOR is another metric without it.
    """
    values: dict[str, float | None] = {}
    bleu: dict[str, float | None] | None = None
    for name in names:
        if name in _SIMPLE:
            values[name] = _SIMPLE[name](prediction, truth)
        elif name.startswith("bleu"):
            bleu = bleu if bleu is not None else bleu_scores(prediction, truth)
            values[name] = bleu[name]
        elif name == "meteor":
            synonyms = wordnet_synonyms()
            values[name] = None if synonyms is None else meteor(prediction, truth, synonyms)
    return values


def text_metrics(
    pairs: Sequence[tuple[str, str]], names: Collection[str], models: TextModels | None = None
) -> list[dict[str, float | None]]:
    """The named metrics of every (prediction, truth). ``models`` are those of :data:`HEAVY_METRICS`; without them the
    environment's, else the usual ones.

    ValueError for an unknown name, or a model that cannot be loaded; ImportError, with the install command, for a
    metric whose extra is not installed.
    """
    check_names(names, TEXT_METRICS)
    wanted = [name for name in names if name in HEAVY_METRICS]
    heavy = heavy_metrics(pairs, wanted, models or TextModels.named()) if wanted else {}
    rows = [light_text_metrics(prediction, truth, names) for prediction, truth in pairs]
    return [
        {name: heavy[name][index] if name in heavy else row[name] for name in names} for index, row in enumerate(rows)
    ]


def metrics_spec() -> dict[str, Any]:
    """How the text metrics are computed here: what a reader of their values has to know."""
    return {
        "tokens": "words and numbers, a CJK character each; NFKC, case folded",
        "rouge": "rouge-score with Porter stems; letters beyond ASCII are kept",
        "bleu": "NLTK smoothing method 1, Treebank word tokens, order capped at the shorter text",
        "meteor": "NLTK alignment over word tokens"
        + ("" if wordnet_synonyms() is not None else "; WordNet is not installed: meteor is null"),
        "left_out": [name for name, module in _EXTRAS.items() if find_spec(module) is None],
        "models": {name: named_model(name) for name, module in _EXTRAS.items() if find_spec(module) is not None},
    }


_EXTRAS = {"bert_f1": "bert_score", "sbert_similarity": "sentence_transformers"}
