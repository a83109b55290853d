"""What is kept with a pytest item or config, under which key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_memeval.cases.models import CaseSet
    from pytest_memeval.engine.predictions import PredictionsEngine
    from pytest_memeval.hooks.prefetch import Prefetcher
    from pytest_memeval.llm.proxy_calls import CaseLine
    from pytest_memeval.routing.said import Said
    from pytest_memeval.runner import CaseRun

#: The item's run, put there by the fixture that makes it and read when the item's record is written.
RUN: pytest.StashKey[CaseRun] = pytest.StashKey()
#: The engine that was looked at last, and found to be one.
SOUND_ENGINE: pytest.StashKey[object] = pytest.StashKey()
#: What the item's fixtures handed out, by fixture: the copy and what it was made of.
GIVEN: pytest.StashKey[dict[str, tuple[Any, Any]]] = pytest.StashKey()
#: What the item's case printed and logged before its turn.
SAID: pytest.StashKey[Said] = pytest.StashKey()
#: The calls that the item's engine made through the proxy.
PROXY_LINE: pytest.StashKey[CaseLine] = pytest.StashKey()
#: This process's window of cases that are prepared ahead, where there is one.
PREFETCHER: pytest.StashKey[Prefetcher] = pytest.StashKey()
#: This process's predictions file, as each variant has it.
RECORDED: pytest.StashKey[dict[str | None, PredictionsEngine]] = pytest.StashKey()
#: The case sets collected in this process by node id, whether or not any of their cases is left to run.
FILES: pytest.StashKey[dict[str, CaseSet]] = pytest.StashKey()
