"""The two text metrics that need a model, from the extra ``eval``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

INSTALL = 'pip install "pytest-memeval[eval]"'
#: BERTScore's own choice for English.
BERT_MODEL = "roberta-large"
#: The usual multilingual sentence model, so that Chinese is read too.
SBERT_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
#: Environment variables that name other models.
BERT_ENV, LAYERS_ENV, SBERT_ENV = "MEMEVAL_BERT_MODEL", "MEMEVAL_BERT_LAYERS", "MEMEVAL_SBERT_MODEL"


@dataclass(frozen=True, slots=True)
class TextModels:
    """The models of the two metrics: names in the Hugging Face hub, or folders.

    ``bert_layers`` is the layer whose vectors BERTScore compares, from 1; ``None`` for the one that it knows to be
    best, which it does for published models alone.
    """

    bert: str = BERT_MODEL
    bert_layers: int | None = None
    sbert: str = SBERT_MODEL

    @classmethod
    def named(cls, bert: str | None = None, bert_layers: int | None = None, sbert: str | None = None) -> TextModels:
        """The models with these names; for what is ``None`` the environment's, else the usual ones. ValueError for a
        number of layers in the environment that is none."""
        found = os.environ
        if bert_layers is None and bert is None and (text := found.get(LAYERS_ENV)):
            if not text.strip().isascii() or not text.strip().isdigit():
                raise ValueError(f"{LAYERS_ENV} is {text!r}, not a whole number from 1")
            bert_layers = int(text)
        return cls(
            bert=bert or found.get(BERT_ENV) or BERT_MODEL,
            bert_layers=bert_layers,
            sbert=sbert or found.get(SBERT_ENV) or SBERT_MODEL,
        )


def bert_f1(pairs: Sequence[tuple[str, str]], model: str = BERT_MODEL, layers: int | None = None) -> list[float | None]:
    """BERTScore F1 (Zhang et al. 2020) of each (prediction, truth), without rescaling, in [-1, 1].

    ``model`` is a name in the Hugging Face hub or a folder; ``layers`` the layer to compare, which has to be said for a
    model that BERTScore does not know. One text empty gives 0, both empty ``None``. ImportError, with the install
    command, without ``bert-score``; ValueError for a model that cannot be loaded, or has no such layer.
    """
    try:
        from bert_score import BERTScorer
        from bert_score.utils import model2layers
    except ImportError:
        raise ImportError(f"bert_f1 needs bert-score: {INSTALL}") from None
    if layers is None and model not in model2layers:
        raise ValueError(
            f"bert_f1: BERTScore does not know which layer of {model} is best; name one with bert_layers or"
            f" {LAYERS_ENV}"
        )
    scorer = _loaded("bert_f1", model, lambda: _bert(BERTScorer, model, layers))

    def scores(some: list[tuple[str, str]]) -> list[float]:
        return [float(one) for one in scorer.score([first for first, _ in some], [second for _, second in some])[2]]

    return _over_texts(pairs, scores)


def sbert_similarity(pairs: Sequence[tuple[str, str]], model: str = SBERT_MODEL) -> list[float | None]:
    """Cosine of the sentence embeddings (Reimers and Gurevych 2019) of each (prediction, truth), in [-1, 1].

    ``model`` is a name in the Hugging Face hub or a folder. One text empty gives 0, both empty ``None``. ImportError,
    with the install command, without ``sentence-transformers``; ValueError for a model that cannot be loaded.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ImportError(f"sbert_similarity needs sentence-transformers: {INSTALL}") from None
    encoder = _loaded("sbert_similarity", model, lambda: _sbert(SentenceTransformer, model))

    def cosines(some: list[tuple[str, str]]) -> list[float]:
        texts = list(dict.fromkeys(text for pair in some for text in pair))
        vectors = dict(zip(texts, encoder.encode(texts, normalize_embeddings=True), strict=True))
        return [float(vectors[first] @ vectors[second]) for first, second in some]

    return _over_texts(pairs, cosines)


def heavy_metrics(
    pairs: Sequence[tuple[str, str]], names: Sequence[str], models: TextModels
) -> Mapping[str, list[float | None]]:
    """Those of the named metrics that need a model, each for every pair."""
    found: dict[str, list[float | None]] = {}
    if "bert_f1" in names:
        found["bert_f1"] = bert_f1(pairs, models.bert, models.bert_layers)
    if "sbert_similarity" in names:
        found["sbert_similarity"] = sbert_similarity(pairs, models.sbert)
    return found


def named_model(metric: str) -> str:
    """The model that a metric is computed with unless another is given, and its layer where the environment says."""
    if metric == "sbert_similarity":
        return os.environ.get(SBERT_ENV) or SBERT_MODEL
    layers = os.environ.get(LAYERS_ENV)
    return (os.environ.get(BERT_ENV) or BERT_MODEL) + (f", layer {layers}" if layers else "")


def _loaded(metric: str, model: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (OSError, ValueError, KeyError, AssertionError) as error:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        env = BERT_ENV if metric == "bert_f1" else SBERT_ENV
        raise ValueError(
            f"{metric}: the model {model} cannot be used: {said} (a folder, or another model, can be named with {env})"
        ) from error


@lru_cache(maxsize=2)
def _bert(scorer: Any, model: str, layers: int | None) -> Any:
    return scorer(model_type=model, num_layers=layers)


@lru_cache(maxsize=2)
def _sbert(encoder: Any, model: str) -> Any:
    return encoder(model)


def _over_texts(pairs: Sequence[tuple[str, str]], score: Any) -> list[float | None]:
    """``score`` of the pairs with two texts; the others have their value by rule."""
    whole = [(first, second) for first, second in pairs if first.strip() and second.strip()]
    values = iter(score(whole) if whole else [])
    return [
        next(values) if first.strip() and second.strip() else 0.0 if first.strip() or second.strip() else None
        for first, second in pairs
    ]
