"""The check of an engine, as tests ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_memeval.conformance.engine import Check
from pytest_memeval.conformance.finding import Finding
from pytest_memeval.harness import Harness
from pytest_memeval.settings.reading import read_settings


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("doctor")
    settings = read_settings(
        lambda option: None, lambda option: option.ini_default, rootdir=folder, invocation_dir=folder
    )
    made = Harness(settings)
    yield made
    made.close()


def check(make: Any, harness: Harness, *, fresh: bool = True, patience: float = 20.0) -> dict[str, Finding]:
    found = Check(make, harness, harness.build_llm(), fresh=fresh, patience=patience).findings()
    return {finding.item: finding for finding in found}


def failed(findings: dict[str, Finding]) -> list[str]:
    return [item for item, finding in findings.items() if finding.status == "failed"]
