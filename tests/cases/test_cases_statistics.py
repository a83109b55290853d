from __future__ import annotations

from pathlib import Path

import pytest

from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.cases.statistics import Spread, language_of, set_statistics, statistics_lines

TEXT = """\
cases:
  - case_id: a
    source: edge
    difficulty: easy
    conversation: "[msg#1] user: 我叫韩砚，住在厦门"
    expected_l1:
      memories:
        - {content: 韩砚, dimensions: [identity]}
        - {content: 住在厦门, dimensions: [identity, environment]}
    expected_l2: {template_section: {daily: {"0": basic_info}}}
  - case_id: b
    difficulty: hard
    conversation: |
      [msg#1] user: I live in Graz.
      [msg#2] user: And I work there.
    expected_l1: {memories: [{content: lives in Graz, dimensions: [identity]}]}
  - case_id: c
    conversation: "[msg#1] user: nothing"
    expected_l1: {memories: []}
"""


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我在用 Go", "mixed"),
        ("我在公司主要写后端服务，平时用 Go", "zh"),
        ("I live in 厦门", "mixed"),
        ("I live in Graz, 12", "en"),
        ("12 + 3 = 15", "other"),
        ("", "other"),
    ],
)
def test_language_by_letters(text: str, language: str) -> None:
    assert language_of(text) == language


def test_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT, encoding="utf-8")
    found = set_statistics(load_case_set(path))
    assert (found.cases, found.memories, found.without_memories) == (3, 3, 1)
    assert found.languages == {"zh": 1, "en": 2}
    assert found.difficulties == {"easy": 1, "hard": 1, "unspecified": 1}
    assert found.sources == {"edge": 1, "unspecified": 2}
    assert found.messages == Spread(1, 1, 2)
    assert found.coverage["identity"] == {"easy": (2, 1), "hard": (1, 1), "unspecified": (0, 0)}
    assert found.coverage["environment"]["easy"] == (1, 1)
    assert found.coverage["values"] == {"easy": (0, 0), "hard": (0, 0), "unspecified": (0, 0)}
    assert found.alone["identity"] == 2
    assert found.alone["environment"] == 0
    assert found.truths == {"section daily": 1}
    assert found.as_dict()["coverage"]["identity"]["easy"] == {"memories": 2, "cases": 1}
    lines = statistics_lines(found)
    assert "languages: zh 1 (33 %), en 2 (67 %)" in lines
    assert any(line.split() == ["identity", "2", "(1)", "1", "(1)", "-", "3", "(2)", "2"] for line in lines)


def test_an_empty_set_has_statistics() -> None:
    from pytest_memeval.cases.models import CaseSet

    assert statistics_lines(set_statistics(CaseSet(Path("x.yaml"))))[0] == "languages: none"
