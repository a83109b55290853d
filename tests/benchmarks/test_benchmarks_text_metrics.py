"""Text metrics over 1,986 answers of LoCoMo's shape: our values against the libraries' own calls, pair by pair."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from pytest_memeval.metrics.hybrid import hybrid_similarity
from pytest_memeval.metrics.hybrid_text import read_text
from pytest_memeval.metrics.matching import match_texts
from pytest_memeval.metrics.text.bleu import bleu_scores
from pytest_memeval.metrics.text.pairs import LIGHT_METRICS, text_metrics
from pytest_memeval.metrics.text.tokens import word_tokens

pytestmark = pytest.mark.slow

PAIRS = 1986


class NoWordNet:
    def synsets(self, word: str) -> list[Any]:
        return []


def made_up_pairs() -> list[tuple[str, str]]:
    """Truths of about 5 words and replies of a sentence each, with the frequencies of words that text has."""
    chance = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(chance.choices(letters, range(22, 0, -1), k=chance.randint(2, 9))) for _ in range(4000)]
    weights = [1 / rank for rank in range(1, 4001)]

    def sentence(size: int) -> str:
        return " ".join(chance.choices(words, weights, k=size)).capitalize() + "."

    pairs = []
    for _ in range(PAIRS):
        truth = sentence(chance.randint(1, 10))
        reply = f"{sentence(chance.randint(4, 20))[:-1]}, {truth.lower()}" if chance.random() < 0.5 else sentence(20)
        pairs.append((reply, truth))
    return pairs


def test_ten_light_metrics_over_locomos_answers(capsys: pytest.CaptureFixture[str]) -> None:
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    from nltk.translate.meteor_score import single_meteor_score
    from rouge_score.rouge_scorer import RougeScorer

    pairs = made_up_pairs()
    names = [*(name for name in LIGHT_METRICS if name != "judge_score"), "meteor_no_wordnet"]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    tokenizer, smoothing = NLTKWordTokenizer(), SmoothingFunction().method1

    def straightforward(prediction: str, truth: str) -> list[float]:
        rouge = scorer.score(truth, prediction)
        left, right = tokenizer.tokenize(prediction.lower()), tokenizer.tokenize(truth.lower())
        bleu = [
            sentence_bleu([right], left, weights=weights, smoothing_function=smoothing)
            for weights in ((1.0,), (0.5, 0.5), (0.25,) * 4)
        ]
        meteor = single_meteor_score(word_tokens(truth), word_tokens(prediction), wordnet=NoWordNet())
        return [*(rouge[name].fmeasure for name in ("rouge1", "rouge2", "rougeL")), *bleu, meteor]

    text_metrics(pairs[:1], names)  # imports
    started = time.perf_counter()
    ours = text_metrics(pairs, names)
    between = time.perf_counter()
    theirs = [straightforward(*pair) for pair in pairs]
    done = time.perf_counter()
    for pair, mine, other in zip(pairs, ours, theirs, strict=True):
        bleu = bleu_scores(*pair)
        values = [mine["rouge1"], mine["rouge2"], mine["rougeL"]]
        values += [bleu["bleu1_nltk"], bleu["bleu2_nltk"], bleu["bleu4_nltk"], mine["meteor_no_wordnet"]]
        assert values == pytest.approx(other, abs=1e-6)
    with capsys.disabled():
        ratio = (done - between) / (between - started)
        print(
            f"\n{PAIRS} pairs: ours {between - started:.2f} s, libraries {done - between:.2f} s, {ratio:.1f} x faster"
        )


def test_hybrid_against_edit_distance(capsys: pytest.CaptureFixture[str]) -> None:
    """100 by 100 memories of a sentence each: what it costs to read quantities and contradictions besides."""
    predicted = [f"今天在第 {n} 天学习了 Python 并且计划去北京出差，不喜欢喝咖啡" for n in range(100)]
    truth = [f"明天在第 {n} 天学习了 Java 并且打算去上海出差，喜欢喝咖啡" for n in range(100)]
    hybrid_similarity(predicted[0], truth[0])  # reads the lexicon
    read_text.cache_clear()
    started = time.perf_counter()
    similarities = [hybrid_similarity(*pair) for pair in zip(predicted, truth, strict=True)]
    pairs = time.perf_counter()
    match_texts(predicted, truth, similarity="hybrid")
    hybrid = time.perf_counter()
    match_texts(predicted, truth)
    done = time.perf_counter()
    assert all(0 <= similarity <= 1 for similarity in similarities)
    with capsys.disabled():
        print(
            f"\na pair that is new: {(pairs - started) * 1e4:.0f} µs; 100 by 100: hybrid {hybrid - pairs:.2f} s,"
            f" edit distance {done - hybrid:.2f} s, {(hybrid - pairs) / (done - hybrid):.1f} x slower"
        )
