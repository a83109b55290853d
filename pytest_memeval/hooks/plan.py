"""``--memeval-plan`` in pytest: sets up every selected case with a model that asks nobody, and ends."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from pytest_memeval.session import harness_of, settings_of
from pytest_memeval.variant_harness import variant_of


class PlanHooks:
    """Takes the place of the loop that runs tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._others = 0
        self._done = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        option = self.config.option
        if option.collectonly or (session.testsfailed and not option.continue_on_collection_errors):
            return None  # pytest's own loop lists the items, or says what is wrong with the files
        cases = [item for item in session.items if _is_planned(item)]
        self._others = len(session.items) - len(cases)
        for place, item in enumerate(cases, 1):
            self._plan(item, cases[place] if place < len(cases) else None)
        self._done = True
        return True

    def _plan(self, item: pytest.Item, following: pytest.Item | None) -> None:
        from pytest_memeval.nodes.cases import setup_of

        plan = setup_of(item).plan
        assert plan is not None
        before = plan.cases
        # Unlogged: what a case passes or fails with in a plan is nobody's result.
        reports = runtestprotocol(item, log=False, nextitem=following)
        if plan.cases == before:
            plan.left_out(_reason(reports[0]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._done:
            return
        from pytest_memeval.report.console import console_text
        from pytest_memeval.report.messages import text

        lang = settings_of(self.config).lang
        terminalreporter.section(text("plan.title", lang))
        encoding = getattr(terminalreporter._tw._file, "encoding", None)
        lines: list[str] = []
        harness = harness_of(self.config)
        for name in harness.settings.variant_names or (None,):
            plan = variant_of(harness, name).plan
            assert plan is not None
            lines += [*([] if name is None else [f"[{name}]"]), *plan.lines(lang)]
        last = lines.pop()
        lines = [line for line in lines if line != last]
        embeddings = harness.search.planned
        if embeddings is not None and (embeddings.asked or embeddings.cached):
            lines.append(embeddings.line(harness.prices, lang))
        if self._others:
            lines.append(text("plan.others", lang, count=self._others))
        for line in (*lines, last):
            terminalreporter.write_line(console_text(line, encoding))


def _is_planned(item: pytest.Item) -> bool:
    from pytest_memeval.items import CaseItem
    from pytest_memeval.kind_items import KindItem

    return isinstance(item, CaseItem) or (isinstance(item, KindItem) and item.kind.planned)


def _reason(report: pytest.TestReport) -> str:
    if report.skipped:
        return "skipped"
    return str(report.longrepr).strip().splitlines()[0] if report.longrepr else "not set up"
