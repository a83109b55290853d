"""What the search cases of one process share: embedder, corpora, and each corpus as an engine holds it."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_memeval.llm.embedding_usage import EmbeddingLedger

if TYPE_CHECKING:
    from pytest_memeval.cases.models import CaseSet
    from pytest_memeval.corpus import CorpusStore, SearchCorpus
    from pytest_memeval.harness import Harness
    from pytest_memeval.llm.protocol import Embedder
    from pytest_memeval.plan_embeddings import PlanningEmbedder


class SearchParts:
    """Each is made when first asked for. Close it at the end of the run."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        #: What was asked of an embedding server, for the cases' records to take.
        self.ledger = EmbeddingLedger()
        #: In a plan, where embeddings would be asked of a server: what counts them.
        self.planned: PlanningEmbedder | None = None
        self._corpora: dict[Path, SearchCorpus] = {}
        self._stores: dict[tuple[Path, int], CorpusStore] = {}
        #: Engines that hold a corpus, kept so that their ids stay their own.
        self._engines: list[object] = []

    def embedder(self) -> Embedder:
        """What texts are embedded with. Raises SettingsError for what it lacks; sends nothing."""
        with self._lock:
            if self._embedder is None:
                self._embedder = self._build_embedder()
            return self._embedder

    def _build_embedder(self) -> Embedder:
        from pytest_memeval.embedders import build_embedder
        from pytest_memeval.extensions import load_object

        settings = self._harness.settings
        if settings.plan:
            # It asks nobody and loads no model; what search finds is no part of it.
            if settings.embedder != "openai":
                return build_embedder("lexical")
            from pytest_memeval.plan_embeddings import PlanningEmbedder

            reads = settings.cache not in ("refresh", "off")
            self.planned = PlanningEmbedder(
                settings.embedder_settings(), self._harness.answer_cache() if reads else None
            )
            return self.planned
        if ":" in settings.embedder:
            found: Embedder = load_object(settings.embedder, settings.where("embedder"))
            return found
        if settings.embedder == "openai":
            if settings.cache not in ("replay", "batch"):
                # It takes seconds to import, which would count against the time limit of the case that asks first.
                importlib.import_module("openai")
            server = settings.embedder_settings()
            return build_embedder(
                "openai",
                settings=server,
                cache=self._harness.answer_cache() if settings.cache != "off" else None,
                mode=settings.cache,
                policy=settings.retry_policy(),
                limiter=self._harness.limiter_of(server.address),
                ledger=self.ledger,
            )
        return build_embedder(settings.embedder, model=settings.embedding_model)

    def corpus(self, case_set: CaseSet) -> SearchCorpus:
        """What the queries of a case file are searched in. Raises DocumentError."""
        with self._lock:
            known = self._corpora.get(case_set.path)
            if known is None:
                from pytest_memeval.corpus import corpus_of

                settings = self._harness.settings
                gates = (*settings.gates_from("command line"), *settings.gates_from("ini"))
                thresholds = [*(gate.threshold for gate in gates), *settings.default_expectations]
                known = self._corpora[case_set.path] = corpus_of(case_set, thresholds)
            return known

    def store(self, case_set: CaseSet, engine: object) -> CorpusStore:
        """The corpus as the engine holds it, shared by all cases of the file in this process."""
        corpus = self.corpus(case_set)
        with self._lock:
            key = (case_set.path, id(engine))
            known = self._stores.get(key)
            if known is None:
                from pytest_memeval.corpus import CorpusStore

                known = self._stores[key] = CorpusStore(corpus, lambda: self._harness.folder(corpus.name))
                self._engines.append(engine)
            return known

    def close(self) -> None:
        """Close the databases of every corpus. Safe to call twice."""
        for store in self._stores.values():
            store.close()
