"""What a run costs: the list price of each call, what embeddings cost, and what the run itself has spent so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_memeval.values import FREE_MODELS

if TYPE_CHECKING:
    from pytest_memeval.llm.cost import PriceTable
    from pytest_memeval.llm.embedding_usage import EmbeddingUsage
    from pytest_memeval.results import CallRecord, CaseResult
    from pytest_memeval.settings.model import Settings


class RunCosts:
    """Prices what the cases of one run asked for. The table of prices is read when the first call comes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prices: PriceTable | None = None
        self._models = {own.variant_name: own.model for own in settings.setups()}
        #: US dollars that this run's own requests have cost so far.
        self.spent = 0.0
        #: How many of them have a cost that is not known, by model.
        self.unpriced: Counter[str] = Counter()

    def priced(self, result: CaseResult, *, paid: bool) -> CaseResult:
        """The result with the list price of each call; a model that costs nothing is free, an unknown one unknown.

        What its requests cost is counted as spent, unless it is ``paid``: the run that this one resumes has spent it.
        """
        asked = self._models.get(result.variant, self._settings.model)
        priced = replace(result, calls=tuple(replace(call, cost=self._price(call, asked)) for call in result.calls))
        if not paid:
            self.spent += self.of_requests(priced.calls, asked)
            self.unpriced.update(
                call.model or call.provider or "-" for call in priced.calls if _is_request(call) and call.cost is None
            )
        return priced

    def unpriced_note(self, option: str) -> tuple[str, ...]:
        """A sentence on the requests that the limit ``option`` could not count, nothing where there were none."""
        if not self.unpriced:
            return ()
        named = ", ".join(f"{model} ({count})" for model, count in sorted(self.unpriced.items()))
        from pytest_memeval.report.messages import text

        return (text("run_note.unpriced", option=option, models=named),)

    def with_embeddings_priced(self, result: CaseResult) -> CaseResult:
        """The result with what its embeddings cost, which is counted as spent."""
        from pytest_memeval.llm.embedding_usage import EmbeddingUsage

        cost = self.of_embeddings(EmbeddingUsage.from_json(result.embeddings))
        self.spent += cost or 0.0
        return replace(result, embeddings={**result.embeddings, "spent_usd": cost})

    def of_embeddings(self, usage: EmbeddingUsage) -> float | None:
        """US dollars for what an embedding server was asked for; ``None`` where the model's price is not known."""
        price = self._price_table.find(self._settings.embedding_model)
        return None if price is None else usage.input_tokens * price.input / 1e6

    def of_requests(self, calls: Iterable[CallRecord], asked: str | None = None) -> float:
        """US dollars for those of the calls for which a server was asked, as far as prices are known. ``asked``: the
        model's name where the server gives it another one."""
        asked = asked or self._settings.model
        return sum(self._price(call, asked) or 0.0 for call in calls if _is_request(call))

    @property
    def _price_table(self) -> PriceTable:
        if self._prices is None:
            from pytest_memeval.llm.cost import load_prices

            self._prices = load_prices(self._settings.prices)
        return self._prices

    def _price(self, call: CallRecord, asked: str | None) -> float | None:
        from pytest_memeval.llm.cost import price_of_call
        from pytest_memeval.runs.notes import is_judging

        if is_judging(call):
            asked = self._settings.judge_model or asked
        return price_of_call(call, self._price_table, asked)


def _is_request(call: CallRecord) -> bool:
    """Whether a server, or a model of the project's own, was asked for it in this run."""
    return call.provider not in FREE_MODELS and not call.cached and call.attempts > 0
