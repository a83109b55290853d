from __future__ import annotations

from pathlib import Path

import pytest

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.llm.cost import cost_of, load_prices
from pytest_memeval.llm.protocol import Usage


def test_cost_is_tokens_times_price() -> None:
    assert cost_of(Usage(1_000_000, 100_000), "gpt-4o-mini") == pytest.approx(0.15 + 0.06)
    assert cost_of(Usage(1_000_000, 0), "gpt-4o-mini-2024-07-18") == pytest.approx(0.15)
    assert cost_of(Usage(0, 0), "gpt-4o-mini") == 0


@pytest.mark.parametrize("model", ["my-model", "gpt-4o-mini-audio", "", None])
def test_an_unknown_model_costs_nobody_knows_what(model: str | None) -> None:
    assert cost_of(Usage(10, 10), model) is None


@pytest.mark.parametrize("usage", [Usage(), Usage(10, None), Usage(None, 10)])
def test_unknown_tokens_cost_nobody_knows_what(usage: Usage) -> None:
    assert cost_of(usage, "gpt-4o-mini") is None


def test_a_users_table_adds_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("models:\n  mine: {input: 0, output: 0}\n  gpt-4o: {input: 1, output: 2}\n", encoding="utf-8")
    prices = load_prices(path)
    assert cost_of(Usage(5, 5), "mine", prices) == 0
    assert cost_of(Usage(1_000_000, 1_000_000), "gpt-4o", prices) == 3
    assert cost_of(Usage(1_000_000, 0), "gpt-4o-mini", prices) == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: [1]", "no mapping `models`"),
        ("", "no mapping `models`"),
        ("models: {m: {input: 1}}", "'m'"),
        ("models: {m: {input: -1, output: 1}}", "'m'"),
        ("models: {m: {input: .nan, output: 1}}", "'m'"),
        ("models: {m: {input: true, output: 1}}", "'m'"),
        ("models: {m: 3}", "'m'"),
        ("models: {\n  - ", ":2: is no YAML"),
    ],
)
def test_a_bad_table_is_said(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match=words):
        load_prices(path)
    with pytest.raises(DocumentError, match="cannot be read"):
        load_prices(tmp_path / "missing.yaml")
