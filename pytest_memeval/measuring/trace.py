"""What one attempt at a stage leaves behind while it runs: its model calls, and what the engine notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_memeval.copies import copied

if TYPE_CHECKING:
    from pytest_memeval.results import CallRecord


@dataclass(frozen=True, slots=True)
class Trace:
    """The calls of one stage's attempt, and its ``ctx.record``."""

    calls: list[CallRecord]
    notes: Notes


class Notes:
    """A stage's ``ctx.record``. Closed with the stage: what an engine says after its time is over counts nowhere."""

    def __init__(self, stage: str, facts: list[dict[str, Any]]) -> None:
        self.stage = stage
        self._facts: list[dict[str, Any]] | None = facts

    def __call__(self, kind: str, **fields: Any) -> None:
        facts = self._facts
        if facts is not None:
            facts.append({"kind": kind, "stage": self.stage, **copied(fields)})

    def close(self) -> None:
        self._facts = None


def no_record(kind: str, **fields: Any) -> None:
    """The ``ctx.record`` of work that belongs to no stage of a case."""
