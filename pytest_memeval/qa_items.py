"""Files of questions as pytest nodes: file → conversation → question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_memeval.kind_items import KindFile, KindItem
from pytest_memeval.qa.cases import QACase, QASet


class QAFile(KindFile):
    """A file of questions. Conversations are nodes of their own, except where each has a single question."""

    def nodes(self) -> Iterator[pytest.Item | pytest.Collector]:
        assert isinstance(self.case_set, QASet)
        if not self.case_set.nested:
            yield from super().nodes()
            return
        for sample_id, cases in self.case_set.by_conversation():
            yield ConversationNode.from_parent(self, name=sample_id, cases=cases)


class ConversationNode(pytest.Collector):
    """One conversation, read into a memory once for all of its questions."""

    cases: list[QACase]
    #: What ``request.module`` gives: there is none.
    obj = None

    @classmethod
    def from_parent(cls, parent: Any, **kw: Any) -> ConversationNode:
        cases = kw.pop("cases")
        self: ConversationNode = super().from_parent(parent, **kw)
        self.cases = cases
        return self

    def collect(self) -> Iterator[KindItem]:
        for case in self.cases:
            yield KindItem.from_parent(self, name=case.case_id.partition("::")[2], case=case)
