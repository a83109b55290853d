"""The report of a run as the Python API returns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.results import CaseResult


class RunReport(dict[str, Any]):
    """The content of ``report.json`` as a dict, with what a reader asks for first.

    ``folder`` holds the run's files. ``results`` are the cases' records in the order in which they were given.
    """

    def __init__(
        self,
        report: Mapping[str, Any],
        *,
        results: Iterable[CaseResult] = (),
        folder: Path | None = None,
        lang: str = "en",
    ) -> None:
        super().__init__(report)
        self.results: tuple[CaseResult, ...] = tuple(results)
        self.folder = folder
        self.lang = lang

    @property
    def passed(self) -> bool:
        """What exit status 0 says of a pytest run: every case was run and measured and meets its own thresholds, and
        no P0 gate is missed or unmeasured."""
        counts, summary = self["counts"], self["summary"]
        faults = counts["errored"] + counts["not_run"] + summary["missed_own_thresholds"]
        return faults == 0 and summary["passed_p0"] is not False

    def value(self, path: str) -> float | None:
        """A metric over all cases by its path, as gates write it: ``l1.dimension_micro_f1``, ``search.ndcg@10``,
        ``l1.memory_recall{difficulty=hard}``; ``None`` where it was not measured.

        Raises ThresholdError, a ValueError, for a path that cannot be read or names no metric.
        """
        from pytest_memeval.aggregate import aggregate_metric, flat_value
        from pytest_memeval.metrics.thresholds import parse_path

        wanted = parse_path(path)
        if wanted.filters:
            return flat_value(aggregate_metric(self.results, wanted), wanted)
        return flat_value(self.get(wanted.section), wanted)

    def case(self, case_id: str) -> Mapping[str, Any]:
        """The entry of ``per_case`` with this case id or node id. Raises KeyError, which names the nearest one."""
        for entry in self["per_case"]:
            if case_id in (entry["case_id"], entry["node_id"]):
                found: Mapping[str, Any] = entry
                return found
        from pytest_memeval.documents.problems import did_you_mean

        raise KeyError(f"no case {case_id!r}{did_you_mean(case_id, [entry['case_id'] for entry in self['per_case']])}")

    def __str__(self) -> str:
        """The summary that ends a pytest run."""
        from pytest_memeval.report.terminal import summary_lines

        folder = None if self.folder is None else str(self.folder)
        return "\n".join(line for line, _ in summary_lines(self, self.lang, folder=folder))

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        """What a notebook shows."""
        from pytest_memeval.report.markdown import markdown_report

        return markdown_report(self, self.lang)
