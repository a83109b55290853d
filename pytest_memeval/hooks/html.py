"""The cases in pytest-html's page: the summary above its table, each case's details in its row. Controller only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_memeval.hooks.controller import Controller


class HtmlHooks:
    """Hooks of pytest-html 4. Rows hold a place that the page's script fills when it is opened, so that a page of
    thousands of cases stays one block of data."""

    def __init__(self, config: pytest.Config, controller: Controller) -> None:
        self._config, self._controller = config, controller

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        recorder = self._controller.recorded
        if recorder is None or recorder.report is None:
            return
        from pytest_memeval.page_parts import baseline_html, history_points
        from pytest_memeval.report.calls import calls_of
        from pytest_memeval.report.html.page import embedded_page

        settings = recorder.settings
        prefix.append(
            embedded_page(
                recorder.report,
                settings.lang,
                calls=calls_of(recorder.results.values(), settings.report_text),
                comparison=baseline_html(recorder.report, recorder.comparison),
                history=history_points(recorder.report, settings.cache_folder),
            )
        )

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        """pytest-html puts an id into its page as it is."""
        if not self._is_case(report):
            return
        from html import escape

        name = report.nodeid if report.when == "call" else f"{report.nodeid}::{report.when}"
        shown = escape(name.encode("utf-8", "backslashreplace").decode("utf-8"))
        for at, cell in enumerate(cells):
            if 'class="col-testId"' in str(cell):
                cells[at] = f'<td class="col-testId">{shown}</td>'

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_html_results_table_html(self, report: pytest.TestReport, data: list[str]) -> None:
        if not self._is_case(report) or str(report.outcome) == "rerun":
            return
        from pytest_memeval.report.html.page import row_place
        from pytest_memeval.session import settings_of

        settings = settings_of(self._config)
        if settings.report_text != "full":
            # What pytest says of a failure, and what was printed, may quote what the report leaves out.
            data.clear()
            # pytest-html adds these by itself, after this hook.
            report.sections = [section for section in report.sections if "teardown" not in section[0]]
        data.insert(0, row_place(report.nodeid, settings.lang))

    def _is_case(self, report: Any) -> bool:
        if "memeval" in getattr(report, "keywords", ()):
            return True
        recorder = self._controller.recorded
        return recorder is not None and (report.nodeid in recorder.results or report.nodeid in recorder.selected)
