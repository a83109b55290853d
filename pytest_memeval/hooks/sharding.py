"""``--memeval-shard`` in a pytest session: which items stay, and a part that none of them falls to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.settings.shard import Shard, shard_of
from pytest_memeval.settings.variants import suffix_of

if TYPE_CHECKING:
    from pytest_memeval.runs.recorder import Recorder

#: Case set → node id → part, of all cases that the run has on all machines together.
SELECTED = pytest.StashKey[dict[str, dict[str, int]]]()


def unit_of(item: pytest.Item) -> str:
    """What decides on the item's part: the node below its file, so that a conversation stays together."""
    node: Any = item
    while node.parent is not None and not isinstance(node.parent, pytest.File):
        node = node.parent
    unit = str(node.nodeid if node.parent is not None else item.nodeid)
    # A case's variants stay together: each machine compares its own.
    return unit.removesuffix(suffix_of(getattr(item, "memeval_variant", None)))


def keep_part(
    config: pytest.Config, items: list[pytest.Item], part: Shard, owner_of: Callable[[pytest.Item], str | None]
) -> None:
    """Leave the cases, and the tests marked ``memeval``, that fall to this part. Other tests are nobody's part and run
    on every machine."""
    whole = config.stash.setdefault(SELECTED, {})
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        if item.get_closest_marker("memeval") is None:
            kept.append(item)
            continue
        index = shard_of(unit_of(item), part.count)
        owner = owner_of(item)
        if owner is not None:
            whole.setdefault(owner, {})[item.nodeid] = index
        (kept if index == part.index else dropped).append(item)
    if dropped:
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)


class EmptyPart:
    """On the controller: a part that no case falls to is no failure of the machine that has it."""

    def __init__(self, config: pytest.Config, part: Shard, get_recorder: Callable[[], Recorder]) -> None:
        self._config = config
        self._part = part
        self._get_recorder = get_recorder
        self._cases = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus != pytest.ExitCode.NO_TESTS_COLLECTED:
            return
        whole = self._config.stash.get(SELECTED, None) or self._get_recorder().shared_out
        self._cases = sum(map(len, whole.values()))
        if self._cases:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._cases:
            from pytest_memeval.report.console import console_text
            from pytest_memeval.report.messages import text
            from pytest_memeval.session import settings_of

            line = text("terminal.empty_part", settings_of(self._config).lang, part=self._part, count=self._cases)
            encoding = getattr(terminalreporter._tw._file, "encoding", None)
            terminalreporter.write_line(f"memeval: {console_text(line, encoding)}")
