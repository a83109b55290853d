"""The kind ``qa``: files of questions about conversations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.kinds import Kind, KindRun, KindSet

if TYPE_CHECKING:
    from pytest_memeval.harness import Harness
    from pytest_memeval.results import CaseResult

_COMMENT = re.compile(rb"(?m)(?:^|[ \t])#[^\n]*")
_DATASET = re.compile(rb"(?:^|\n|\{|,)[ \t]*[\"']?dataset[\"']?[ \t]*:")
_FORMAT = re.compile(rb"format[\"']?[ \t]*:[ \t]*[\"']?(\w+)")


class QAKind(Kind):
    """LoCoMo, LongMemEval and sets of one's own: an item a question, a conversation read once for all of its own."""

    name = "qa"
    stage = "qa"
    planned = True
    sections = ("qa", "locomo", "longmemeval")
    fixtures = ("memeval_engine", "memeval_judge", "memeval_llm")
    main_figures = (
        ("qa.judge_score", "judge"),
        ("qa.f1", "F1"),
        ("qa.adversarial_accuracy", "refused"),
        ("qa.abstention_accuracy", "refused"),
    )

    def recognizes(self, path: Path, head: bytes) -> bool:
        from pytest_memeval.datasets.recognise import FORMATS, recognise
        from pytest_memeval.documents.problems import nearest

        if path.suffix.lower() == ".json":
            return recognise(path) is not None
        if path.suffix.lower() == ".jsonl":
            return False
        # Comments, and what a file says of itself before, may well speak of a "format: …" too.
        start = _DATASET.search(head)
        named = _FORMAT.search(_COMMENT.sub(b"", head[start.end() :] if start is not None else head))
        # A format that is nearly one of these is told of by the loader.
        return named is None or nearest(named[1].decode("ascii", "replace"), FORMATS) is not None

    def load(self, path: Path, harness: Harness | None) -> KindSet:
        from pytest_memeval.qa.casefile import load_question_file

        return load_question_file(path)

    def make_run(
        self, case: Any, case_set: KindSet, values: Mapping[str, Any], harness: Harness, label: str
    ) -> KindRun:
        from pytest_memeval.qa.cases import QASet
        from pytest_memeval.qa.run import QARun
        from pytest_memeval.qa.setup import setup_for

        assert isinstance(case_set, QASet)
        assert case_set.dataset is not None
        return QARun(
            case,
            partial(setup_for, harness, values, case_set.path),
            case_set.dataset,
            set_key=str(case_set.path),
            errata=case_set.extra["protocol"]["errata"] is not None,
            plan=harness.plan,
            loop=harness.loop,
            label=label,
            timeout=harness.settings.timeout,
        )

    def rescore(self, record: CaseResult, case: Any, case_set: KindSet, protocol: Mapping[str, Any]) -> CaseResult:
        from pytest_memeval.qa.cases import QASet
        from pytest_memeval.qa.stored import rescored

        assert isinstance(case_set, QASet)
        return rescored(record, case, case_set, protocol)

    def can_overlap(self, values: Mapping[str, Any]) -> bool:
        from pytest_memeval.qa.setup import may_overlap

        return may_overlap(values)

    def file_class(self) -> Any:
        from pytest_memeval.qa_items import QAFile

        return QAFile


KIND = QAKind()
