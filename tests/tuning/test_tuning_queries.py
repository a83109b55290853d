from __future__ import annotations

from pathlib import Path

import pytest
from tuning_planted import query

from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.tuning.queries import TuningError, check_truths, labelled_query, queries_of

CASES = """
cases:
  - case_id: a
    conversation: "[msg#1] [2026-01-01T00:00:00Z] [user]: hi"
    expected_l1: {memories: [{content: one}, {content: two}]}
    expected_search_results:
      - {query: x, relevant: [0, b#0], grades: [2, 0]}
      - {query: y, relevant: []}
  - case_id: b
    conversation: "[msg#1] [2026-01-01T00:00:00Z] [user]: hi"
    expected_l1: {memories: [{content: three}]}
    expected_search_results: {z: [0]}
"""


def test_all_labelled_queries(tmp_path: Path) -> None:
    file = tmp_path / "set.yaml"
    file.write_text(CASES, encoding="utf-8")
    cases = load_case_set(file).cases
    found = queries_of(cases)
    # A grade of 0 is no relevance, and a query without a relevant memory measures nothing.
    assert [(one.query, one.relevant, one.gains, one.group) for one in found.queries] == [
        ("x", ("a#0",), (2.0,), "a"),
        ("z", ("b#0",), (1.0,), "b"),
    ]
    assert found.without_truth == 1
    assert found.groups == ("a", "b")
    assert len(queries_of(cases, group_by="query").groups) == 2
    check_truths(found.queries, ["a#0", "a#1", "b#0"])


def test_bad_truths() -> None:
    with pytest.raises(TuningError, match="2 grades for 1"):
        labelled_query("q", ["a"], [1, 2])
    with pytest.raises(TuningError, match="a grade is a number from 0, not nan"):
        labelled_query("q", ["a"], [float("nan")])
    with pytest.raises(TuningError, match="the corpus is empty"):
        check_truths([], [])
    with pytest.raises(TuningError, match="holds the id 'a' twice"):
        check_truths([], ["a", "b", "a"])
    with pytest.raises(TuningError, match=r"query 'q' of g should find 'case-1#9', .* did you mean 'case-1#0'"):
        check_truths([query("q", "case-1#9")], ["case-1#0", "other"])
