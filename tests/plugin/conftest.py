from collections.abc import Iterator

import pytest
from chat_project import chat, chat_server
from plugin_project import project

from pytest_memeval import custom_metrics

__all__ = ["chat", "chat_server", "project"]


@pytest.fixture(autouse=True)
def own_metrics_only() -> Iterator[None]:
    """A project's metrics are registered for its process, and here one process runs the projects of many tests."""
    known = dict(custom_metrics._REGISTERED)
    yield
    custom_metrics._REGISTERED.clear()
    custom_metrics._REGISTERED.update(known)
    custom_metrics._PASSED_OVER.clear()
