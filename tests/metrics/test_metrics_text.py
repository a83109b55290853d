"""Text metrics: rules, edges, and equality with the libraries whose values they have."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_memeval.metrics.text import embedding
from pytest_memeval.metrics.text.bleu import bleu_scores, bleu_tokens
from pytest_memeval.metrics.text.meteor import meteor
from pytest_memeval.metrics.text.overlap import exact_match, token_f1
from pytest_memeval.metrics.text.pairs import (
    ALL_METRICS,
    LIGHT_METRICS,
    MORE_METRICS,
    light_text_metrics,
    metrics_spec,
    text_metrics,
)
from pytest_memeval.metrics.text.rouge import rouge_l, rouge_n
from pytest_memeval.metrics.text.tokens import word_tokens

WORDS = [
    "the",
    "cat",
    "cats",
    "running",
    "ran",
    "quickly",
    "Paris",
    "2023",
    "don't",
    "can't",
    "cannot",
    "gonna",
    "it's",
    "state-of-the-art",
    "U.S.",
    "1,250",
    "$5",
    "(really)",
    '"quoted"',
    "e.g.",
    "Mr.",
    "Smith's",
    "end.",
    "why?",
    "yes!",
    "a,b",
    "x/y",
    "10%",
    "o'clock",
    "relational",
    "happily",
]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
any_text = st.one_of(texts, st.text(max_size=40))
VALUES = [name for name in (*LIGHT_METRICS, *MORE_METRICS) if name not in ("judge_score", "meteor")]


def test_twelve_metrics_of_which_ten_are_light() -> None:
    assert len(ALL_METRICS) == 12
    assert tuple(name for name in ALL_METRICS if name not in ("bert_f1", "sbert_similarity")) == LIGHT_METRICS


def test_tokens_of_chinese_are_characters() -> None:
    assert word_tokens("我在Python 3.11里写 C++，ＯＫ！") == (
        *"我在",
        "python",
        "3",
        "11",
        *"里写",
        "c",
        "ok",
    )


@pytest.mark.parametrize(
    "text", ["left right", "我喜欢喝咖啡", "日本語のテスト", "Paris", "Да, конечно", "한국어 텍스트"]
)
def test_a_text_equals_itself(text: str) -> None:
    values = light_text_metrics(text, text, VALUES)
    ones = ("exact_match", "f1", "rouge1", "rougeL", "bleu1", "bleu2", "bleu4")
    assert {name: values[name] for name in ones} == dict.fromkeys(ones, 1.0)


@pytest.mark.parametrize(("prediction", "truth", "value"), [("", "", None), ("", "a b", 0.0), ("a b", " ", 0.0)])
def test_empty_texts(prediction: str, truth: str, value: float | None) -> None:
    values = light_text_metrics(prediction, truth, VALUES)
    exact = values.pop("exact_match")
    assert exact == (1.0 if value is None else 0.0)
    assert values == dict.fromkeys(values, value)


def test_exact_match_folds_case_width_and_blanks() -> None:
    assert exact_match(" Ｐaris ", "paris") == 1.0
    assert exact_match("Paris.", "paris") == 0.0


def test_f1_reads_punctuation_as_a_blank() -> None:
    assert token_f1("It's blue, blue.", "it s blue") == pytest.approx(2 * 3 / 7)


def test_a_short_text_is_not_punished_for_its_length() -> None:
    values = bleu_scores("left right", "left right")
    assert values["bleu4"] == 1.0
    assert values["bleu4_nltk"] == pytest.approx(math.exp(math.log(0.1 * 0.1) / 4))


@given(texts, texts)
@settings(max_examples=150, deadline=None)
def test_values_are_the_libraries(prediction: str, truth: str) -> None:
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    from nltk.translate.meteor_score import single_meteor_score
    from rouge_score.rouge_scorer import RougeScorer

    class NoWordNet:
        def synsets(self, word: str) -> list[Any]:
            return []

    left, right = word_tokens(prediction), word_tokens(truth)
    if not left or not right:
        return
    reference = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True).score(truth, prediction)
    assert rouge_n(prediction, truth, 1) == pytest.approx(reference["rouge1"].fmeasure, abs=1e-9)
    assert rouge_n(prediction, truth, 2) == pytest.approx(reference["rouge2"].fmeasure, abs=1e-9)
    assert rouge_l(prediction, truth) == pytest.approx(reference["rougeL"].fmeasure, abs=1e-9)
    tokens = [NLTKWordTokenizer().tokenize(text.casefold()) for text in (prediction, truth)]
    assert [list(bleu_tokens(text)) for text in (prediction, truth)] == tokens
    ours = bleu_scores(prediction, truth)
    for order, weights in ((1, (1.0,)), (2, (0.5, 0.5)), (4, (0.25,) * 4)):
        theirs = sentence_bleu([tokens[1]], tokens[0], weights=weights, smoothing_function=SmoothingFunction().method1)
        assert ours[f"bleu{order}_nltk"] == pytest.approx(theirs, abs=1e-9)
    assert meteor(prediction, truth) == pytest.approx(single_meteor_score(right, left, wordnet=NoWordNet()), abs=1e-9)


@given(any_text, any_text)
@settings(max_examples=200, deadline=None)
def test_every_value_lies_between_0_and_1(prediction: str, truth: str) -> None:
    for name, value in light_text_metrics(prediction, truth, VALUES).items():
        assert value is None or 0.0 <= value <= 1.0 + 1e-12, name


def test_synonyms_are_aligned_after_stems() -> None:
    known = {"choos": frozenset({"pick"})}
    plain = meteor("choose gifts", "pick gift")
    assert plain is not None
    meant = meteor("choose gifts", "pick gift", lambda word: known.get(word, frozenset()))
    # Both words are aligned, in one run.
    assert plain < 0.5 < (meant or 0.0)
    assert meant == pytest.approx(1 - 0.5 * (1 / 2) ** 3)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown metric 'rougel'; did you mean 'rougeL'"):
        text_metrics([("a", "a")], ["rougel"])


@pytest.mark.parametrize("name", ["bert_f1", "sbert_similarity"])
def test_what_needs_an_extra_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in ("bert_score", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install \"pytest-memeval\[eval\]\""):
        text_metrics([("a", "a")], [name])


def test_texts_by_rule_need_no_model() -> None:
    def score(pairs: list[tuple[str, str]]) -> list[float]:
        assert pairs == [("x", "y")]
        return [0.25]

    assert embedding._over_texts([("", ""), ("x", "y"), ("", "z")], score) == [None, 0.25, 0.0]


def test_the_spec_says_what_was_left_out() -> None:
    spec = metrics_spec()
    assert set(spec) == {"tokens", "rouge", "bleu", "meteor", "left_out", "models"}
    # A metric of the extra is either left out or has its model.
    assert sorted([*spec["left_out"], *spec["models"]]) == ["bert_f1", "sbert_similarity"]
