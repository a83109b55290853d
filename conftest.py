"""What this repository's own test runs need; nothing here is part of the plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

OWN_TESTS = Path(__file__).parent / "tests"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-forks", action="store_true", help="start all processes of runs within tests, fork none")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # The plugin opens and closes evaluation cases; these lines do the same for the repository's own tests.
    for word in ("slow", "integration"):
        if config.getoption(f"--run-{word}", False):
            continue
        for item in items:
            if OWN_TESTS in item.path.parents and item.get_closest_marker(word) is not None:
                item.add_marker(pytest.mark.skip(reason=f"{word}: opened by --run-{word}"))
