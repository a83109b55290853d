"""Injection: do the blocks put into a prompt hold the memories that the following conversation needs?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_memeval.estimates import text_tokens
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.tallies import quotient

if TYPE_CHECKING:
    from pytest_memeval.values import Block


@dataclass(frozen=True, slots=True)
class InjectMetrics:
    """Counts of one case, or of several added up. Ratios lie in [0, 1] but for the last two, ``None`` where their
    denominator is 0.

    ``placements`` counts the memories in present blocks, one that stands in two blocks twice; ``repeated`` those that
    stood in an earlier place already. ``tokens`` is over the ``blocks_counted`` present blocks that have a text,
    ``budget`` and ``budget_tokens`` are over the injections that had a token budget, ``over_budget`` counts those whose
    tokens are more than their budget.
    """

    blocks_present: int = 0
    blocks_relevant: int = 0
    referenced: int = 0
    injected: int = 0
    placements: int = 0
    repeated: int = 0
    tokens: int = 0
    blocks_counted: int = 0
    budget: int = 0
    budget_tokens: int = 0
    over_budget: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inject_hit_rate(self) -> float | None:
        """Present blocks that hold a referenced memory / present blocks."""
        return quotient(self.blocks_relevant, self.blocks_present)

    @property
    def reference_coverage(self) -> float | None:
        """Distinct referenced memories in a present block / referenced memories."""
        return quotient(self.injected, self.referenced)

    @property
    def redundancy(self) -> float | None:
        """Placements of a memory that an earlier block, or the same one, holds already / placements."""
        return quotient(self.repeated, self.placements)

    @property
    def tokens_per_block(self) -> float | None:
        """Estimated tokens of a present block's text, on average."""
        return quotient(self.tokens, self.blocks_counted)

    @property
    def budget_use(self) -> float | None:
        """Estimated tokens / token budget, over the injections that had one; above 1 where the budget was broken."""
        return quotient(self.budget_tokens, self.budget)


def compute_inject(
    blocks: Sequence[Block], referenced_ids: Collection[str], *, unreached: int = 0, budget: int | None = None
) -> InjectMetrics:
    """Score one case's blocks.

    ``referenced_ids`` are the ids under which the referenced memories live; a repeated id counts once. ``unreached``
    says how many referenced memories have no id because extraction missed them: they are referenced and not injected.
    Blocks that are not present count on neither side. Without present blocks the hit rate is ``None``, without
    referenced memories the coverage. ``budget`` is the template's token budget (``None``: no limit); tokens are those
    of :func:`pytest_memeval.estimates.text_tokens`, whatever the model's tokeniser. A block without a text has no
    tokens to count, and a budget is not judged by part of the blocks. Raises ValueError for a negative count.
    """
    if unreached < 0:
        raise ValueError(f"unreached cannot be negative: {unreached}")
    wanted = set(referenced_ids)
    present = [block for block in blocks if block.present]
    relevant = [block.title for block in present if not wanted.isdisjoint(block.memory_ids)]
    placed = [one for block in present for one in block.memory_ids]
    injected = wanted.intersection(placed)
    sizes = {index: text_tokens(block.text) for index, block in enumerate(present) if block.text}
    tokens = sum(sizes.values())
    judged = budget is not None and len(sizes) == len(present)
    return InjectMetrics(
        blocks_present=len(present),
        blocks_relevant=len(relevant),
        referenced=len(wanted) + unreached,
        injected=len(injected),
        placements=len(placed),
        repeated=len(placed) - len(set(placed)),
        tokens=tokens,
        blocks_counted=len(sizes),
        budget=budget if judged and budget is not None else 0,
        budget_tokens=tokens if judged else 0,
        over_budget=int(judged and budget is not None and tokens > budget),
        details={
            "relevant_blocks": relevant,
            "injected": sorted(injected),
            "missed": sorted(wanted - injected),
            "unreached": unreached,
            "repeated": sorted(one for one, times in Counter(placed).items() if times > 1),
            "block_tokens": [sizes.get(index) for index in range(len(present))],
            "budget": budget,
        },
    )


def inject_section(labelled: InjectMetrics | None, pipeline: InjectMetrics | None) -> SectionRecord:
    """The section ``inject`` of a report: on the labelled memories, and (``pipeline_*``) on the pipeline's own."""
    ratios: dict[str, tuple[float, float]] = {}
    details: dict[str, Any] = {}
    counts: dict[str, float] = {}
    if labelled is not None:
        ratios["inject_hit_rate"] = (labelled.blocks_relevant, labelled.blocks_present)
        ratios["reference_coverage"] = (labelled.injected, labelled.referenced)
        ratios["redundancy"] = (labelled.repeated, labelled.placements)
        ratios["tokens_per_block"] = (labelled.tokens, labelled.blocks_counted)
        ratios["budget_use"] = (labelled.budget_tokens, labelled.budget)
        counts["over_budget"] = labelled.over_budget
        details["labelled"] = dict(labelled.details)
    if pipeline is not None:
        ratios["pipeline_hit_rate"] = (pipeline.blocks_relevant, pipeline.blocks_present)
        ratios["pipeline_coverage"] = (pipeline.injected, pipeline.referenced)
        ratios["pipeline_redundancy"] = (pipeline.repeated, pipeline.placements)
        details["pipeline"] = dict(pipeline.details)
    return SectionRecord(ratios=ratios, counts=counts, details=details)


def aggregate_inject(items: Iterable[InjectMetrics]) -> InjectMetrics:
    """The sums of several cases' counts. Order does not matter; nothing gives all zeros."""
    metrics = list(items)
    return InjectMetrics(
        blocks_present=sum(one.blocks_present for one in metrics),
        blocks_relevant=sum(one.blocks_relevant for one in metrics),
        referenced=sum(one.referenced for one in metrics),
        injected=sum(one.injected for one in metrics),
        placements=sum(one.placements for one in metrics),
        repeated=sum(one.repeated for one in metrics),
        tokens=sum(one.tokens for one in metrics),
        blocks_counted=sum(one.blocks_counted for one in metrics),
        budget=sum(one.budget for one in metrics),
        budget_tokens=sum(one.budget_tokens for one in metrics),
        over_budget=sum(one.over_budget for one in metrics),
    )
