"""What the queries of an item's case are searched in, and with which embeddings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_memeval.nodes.cases import case_and_set, sentences
from pytest_memeval.session import harness_of

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.corpus import CorpusStore
    from pytest_memeval.llm.protocol import Embedder


def embedder_of(node: Any) -> Embedder:
    """The embedder of this process's run."""
    with sentences():
        return harness_of(node.config).search.embedder()


def corpus_for(
    node: Any, case: EvalCase, engine: object
) -> tuple[Callable[[], CorpusStore] | None, tuple[int, ...] | None]:
    """What the case's queries are searched in, and the cut-offs of their figures; nothing for a case without any."""
    if case.expected_search is None:
        return None, None
    _, case_set = case_and_set(node)
    if case_set is None:
        from pytest_memeval.corpus import cutoffs_of

        return None, cutoffs_of(case.expect)
    harness = harness_of(node.config)
    with sentences():
        corpus = harness.search.corpus(case_set)
    return partial(harness.search.store, case_set, engine), corpus.cutoffs
