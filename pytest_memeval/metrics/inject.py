"""Injection: do the blocks put into a prompt hold the memories that the following conversation needs?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.tallies import quotient

if TYPE_CHECKING:
    from pytest_memeval.values import Block


@dataclass(frozen=True, slots=True)
class InjectMetrics:
    """Counts of one case, or of several added up. Ratios lie in [0, 1], ``None`` where their denominator is 0."""

    blocks_present: int = 0
    blocks_relevant: int = 0
    referenced: int = 0
    injected: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inject_hit_rate(self) -> float | None:
        """Present blocks that hold a referenced memory / present blocks."""
        return quotient(self.blocks_relevant, self.blocks_present)

    @property
    def reference_coverage(self) -> float | None:
        """Distinct referenced memories in a present block / referenced memories."""
        return quotient(self.injected, self.referenced)


def compute_inject(blocks: Sequence[Block], referenced_ids: Collection[str], *, unreached: int = 0) -> InjectMetrics:
    """Score one case's blocks.

    ``referenced_ids`` are the ids under which the referenced memories live; a repeated id counts once. ``unreached``
    says how many referenced memories have no id because extraction missed them: they are referenced and not injected.
    Blocks that are not present count on neither side. Without present blocks the hit rate is ``None``, without
    referenced memories the coverage. Raises ValueError for a negative count.
    """
    if unreached < 0:
        raise ValueError(f"unreached cannot be negative: {unreached}")
    wanted = set(referenced_ids)
    present = [block for block in blocks if block.present]
    relevant = [block.title for block in present if not wanted.isdisjoint(block.memory_ids)]
    injected = wanted.intersection(one for block in present for one in block.memory_ids)
    return InjectMetrics(
        blocks_present=len(present),
        blocks_relevant=len(relevant),
        referenced=len(wanted) + unreached,
        injected=len(injected),
        details={
            "relevant_blocks": relevant,
            "injected": sorted(injected),
            "missed": sorted(wanted - injected),
            "unreached": unreached,
        },
    )


def inject_section(labelled: InjectMetrics | None, pipeline: InjectMetrics | None) -> SectionRecord:
    """The section ``inject`` of a report: on the labelled memories, and (``pipeline_*``) on the pipeline's own."""
    ratios: dict[str, tuple[float, float]] = {}
    details: dict[str, Any] = {}
    if labelled is not None:
        ratios["inject_hit_rate"] = (labelled.blocks_relevant, labelled.blocks_present)
        ratios["reference_coverage"] = (labelled.injected, labelled.referenced)
        details["labelled"] = dict(labelled.details)
    if pipeline is not None:
        ratios["pipeline_hit_rate"] = (pipeline.blocks_relevant, pipeline.blocks_present)
        ratios["pipeline_coverage"] = (pipeline.injected, pipeline.referenced)
        details["pipeline"] = dict(pipeline.details)
    return SectionRecord(ratios=ratios, details=details)


def aggregate_inject(items: Iterable[InjectMetrics]) -> InjectMetrics:
    """The sums of several cases' counts. Order does not matter; nothing gives all zeros."""
    metrics = list(items)
    return InjectMetrics(
        blocks_present=sum(one.blocks_present for one in metrics),
        blocks_relevant=sum(one.blocks_relevant for one in metrics),
        referenced=sum(one.referenced for one in metrics),
        injected=sum(one.injected for one in metrics),
    )
