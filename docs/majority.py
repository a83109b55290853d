"""A baseline for the shipped case set: every extracted memory gets the labels that are most frequent.

The memories are those that the offline model finds with the richest prompt; only their labels are replaced, by the most
frequent dimension, type and velocity of the cases that are not held out. A prompt that does not beat this has
understood nothing of the dimensions. Used as ``--memeval-engine majority:MajorityEngine``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_memeval.cases.loader import load_cases
from pytest_memeval.engine.protocol import StageContext
from pytest_memeval.engine.reference.engine import ReferenceEngine
from pytest_memeval.values import Memory, Message

CASES = Path(__file__).parent.parent / "cases" / "v001.yaml"


class MajorityEngine(ReferenceEngine):
    """The reference engine with constant labels."""

    name = "majority-label baseline"

    def __init__(self) -> None:
        super().__init__()
        truths = [case.expected_l1 for case in load_cases(CASES) if "holdout" not in case.tags]
        memories = [memory for truth in truths if truth is not None for memory in truth.memories]
        self._dimension = Counter(name for memory in memories for name in memory.dimensions).most_common(1)[0][0]
        self._type = Counter(memory.memory_type for memory in memories).most_common(1)[0][0]
        self._velocity = Counter(memory.time_velocity for memory in memories).most_common(1)[0][0]

    async def extract(self, conversation: Sequence[Message], ctx: StageContext) -> list[Memory]:
        found = await super().extract(conversation, ctx)
        return [
            replace(
                memory, dimensions=(self._dimension,), memory_type=self._type, time_velocity=self._velocity, priority=75
            )
            for memory in found
        ]
