"""The names that an evaluator declares, in whatever form it does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_memeval.rag.declared import declared_metrics

#: Several, so that no process has the set of them in order by chance.
NAMES = tuple("abcdefghijkl")


@pytest.mark.parametrize(
    ("metrics", "names"),
    [
        (None, ()),
        ((), ()),
        ("", ()),
        ("tone", ("tone",)),
        (["tone", "mood"], ("tone", "mood")),
        (("tone", "mood", "tone"), ("tone", "mood")),
        ({"tone": "how it sounds"}, ("tone",)),
        (set(NAMES), NAMES),
        (frozenset(NAMES), NAMES),
    ],
)
def test_names_are_told_once_and_in_the_same_order_in_every_process(metrics: Any, names: tuple[str, ...]) -> None:
    assert declared_metrics(SimpleNamespace(metrics=metrics)) == names


@pytest.mark.parametrize("metrics", [5, iter(["tone"]), object()])
def test_what_holds_no_names_or_only_once_is_refused(metrics: Any) -> None:
    with pytest.raises(TypeError, match="metrics must be a text or several"):
        declared_metrics(SimpleNamespace(metrics=metrics))
