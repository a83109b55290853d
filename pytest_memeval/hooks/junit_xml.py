"""What pytest's JUnit XML is told besides the items: figures of the run, and attempts that are made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def add_suite_properties(config: pytest.Config, report: Mapping[str, Any], variant: str | None = None) -> None:
    """The run's calls, tokens, cost and latencies as properties of the JUnit suite, where one is written."""
    from _pytest.junitxml import xml_key

    xml = config.stash.get(xml_key, None)
    if xml is not None and report["usage"]["calls"]:
        from pytest_memeval.report.timings import usage_properties

        for name, value in usage_properties(report).items():
            xml.add_global_property(name if variant is None else f"{name}[{variant}]", value)


def forget_attempt(config: pytest.Config, report: Any) -> None:
    """An attempt that is made again, or a death after the end, leaves a test without a name in the XML."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "LogXML":
            for key, reporter in list(plugin.node_reporters.items()):
                if key[1] is report.node and reporter in plugin.node_reporters_ordered:
                    plugin.node_reporters_ordered.remove(reporter)
                    del plugin.node_reporters[key]
