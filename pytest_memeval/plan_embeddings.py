"""What a run would ask of an embedding server: ``--memeval-plan`` counts texts and sends none."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_memeval.llm.rate import estimate_tokens

if TYPE_CHECKING:
    from pytest_memeval.llm.cache import AnswerCache
    from pytest_memeval.llm.cost import PriceTable
    from pytest_memeval.llm.settings import ModelSettings


class PlanningEmbedder:
    """Gives the offline embedder's vectors, so that search goes on, and counts the different texts that it is handed:
    those that ``cache`` holds (``None``: it is not read) and those that the run would send."""

    name = "openai"

    def __init__(self, server: ModelSettings, cache: AnswerCache | None) -> None:
        from pytest_memeval.embedders import build_embedder
        from pytest_memeval.llm.cached_embedder import CachedEmbedder

        planned = build_embedder("openai", settings=server, mode="replay")
        self.model = server.model
        self._known = CachedEmbedder(planned, cache, "replay") if cache is not None else None
        self._offline = build_embedder("lexical")
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self.cached = 0
        self.asked = 0
        self.tokens = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._seen]
            self._seen.update(new)
        held = self._known.held(new) if self._known is not None and new else {}
        missing = [text for text in new if text not in held]
        with self._lock:
            self.cached += len(held)
            self.asked += len(missing)
            self.tokens += sum(estimate_tokens([{"content": text}]) for text in missing)
        return await self._offline.embed(texts)

    def line(self, prices: PriceTable, lang: str = "en") -> str:
        """The forecast as a sentence."""
        from pytest_memeval.report.messages import text

        price = prices.find(self.model)
        if price is None:
            cost = text("plan.embeddings_unknown", lang, model=self.model)
        else:
            cost = text("plan.cost", lang, cost=f"${self.tokens * price.input / 1e6:.4f}", model=self.model)
        counts = {"asked": self.asked, "cached": self.cached, "tokens": self.tokens}
        return text("plan.embeddings", lang, **counts, cost=cost)
