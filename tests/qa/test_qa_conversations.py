"""A conversation that cannot be read: each of the questions that wait for it is told the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.qa.conversations import Conversations


class Sample:
    sessions = ()


class Inkless:
    """A memory that fails, after the questions have begun to wait or at once."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.calls: list[Any] = []

    async def ingest(self, sample: Any) -> None:
        for _ in range(self.rounds):
            await asyncio.sleep(0)
        raise RuntimeError("no ink")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("rounds", [0, 1, 20])
@pytest.mark.parametrize("alone", [False, True])
def test_each_question_is_told_the_failure_with_its_place(rounds: int, alone: bool) -> None:
    made: Any = lambda: Inkless(rounds)  # noqa: E731  # as the harness gives it
    conversations = Conversations(made, alone=alone)

    async def load() -> Any:
        # The others wait for their turn meanwhile, and come when the reading has failed already.
        for _ in range(20):
            await asyncio.sleep(0)
        return Sample()

    async def ask(later: int) -> str:
        for _ in range(later):
            await asyncio.sleep(0)
        with pytest.raises(StageError) as told:
            async with conversations.use("a", load):
                raise AssertionError("it cannot be read")
        assert told.value.kind == "ingest_failed"
        assert isinstance(told.value.__cause__, RuntimeError) or told.value.__cause__ is None
        return str(told.value)

    async def all_of_them() -> list[str]:
        return [*await asyncio.gather(*(ask(n % 3) for n in range(6))), await ask(0)]

    said = set(asyncio.run(all_of_them()))
    assert len(said) == 1
    (text,) = said
    assert text.startswith("the conversation could not be read: engine_exception: RuntimeError: no ink (")
    assert text.endswith(" in ingest)")
