"""The two text metrics that need a model, from the extra ``eval``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

INSTALL = 'pip install "pytest-memeval[eval]"'
#: BERTScore's own choice for English.
BERT_MODEL = "roberta-large"
#: The usual multilingual sentence model, so that Chinese is read too.
SBERT_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"


def bert_f1(pairs: Sequence[tuple[str, str]], model: str = BERT_MODEL) -> list[float | None]:
    """BERTScore F1 (Zhang et al. 2020) of each (prediction, truth), without rescaling, in [-1, 1].

    One text empty gives 0, both empty ``None``. ImportError, with the install command, without ``bert-score``.
    """
    try:
        from bert_score import BERTScorer
    except ImportError:
        raise ImportError(f"bert_f1 needs bert-score: {INSTALL}") from None
    scorer = _bert(BERTScorer, model)

    def scores(some: list[tuple[str, str]]) -> list[float]:
        return [float(one) for one in scorer.score([first for first, _ in some], [second for _, second in some])[2]]

    return _over_texts(pairs, scores)


def sbert_similarity(pairs: Sequence[tuple[str, str]], model: str = SBERT_MODEL) -> list[float | None]:
    """Cosine of the sentence embeddings (Reimers and Gurevych 2019) of each (prediction, truth), in [-1, 1].

    One text empty gives 0, both empty ``None``. ImportError, with the install command, without
    ``sentence-transformers``.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ImportError(f"sbert_similarity needs sentence-transformers: {INSTALL}") from None
    encoder = _sbert(SentenceTransformer, model)

    def cosines(some: list[tuple[str, str]]) -> list[float]:
        texts = list(dict.fromkeys(text for pair in some for text in pair))
        vectors = dict(zip(texts, encoder.encode(texts, normalize_embeddings=True), strict=True))
        return [float(vectors[first] @ vectors[second]) for first, second in some]

    return _over_texts(pairs, cosines)


@lru_cache(maxsize=2)
def _bert(scorer: Any, model: str) -> Any:
    return scorer(model_type=model)


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
