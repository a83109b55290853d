from __future__ import annotations

from pathlib import Path

from pytest_memeval.cases.lint import lint
from pytest_memeval.cases.loader import load_case_set

TEXT = """\
meta: {total_cases: 3}
cases:
  - case_id: a
    conversation: "[msg#1] user: hi"
    expected_l1:
      memories:
        - {content: x, dimensions: [identity], source_message_ids: [msg_1, msg_7]}
"""


def test_warnings_do_not_stop_the_set(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT, encoding="utf-8")
    case_set = load_case_set(path)
    assert case_set.problems == case_set.cases[0].problems == ()
    assert case_set.warnings == lint(case_set)
    assert [(warning.line, warning.case_id, warning.message) for warning in case_set.warnings] == [
        (0, None, "meta.total_cases is 3, the file holds 1 cases"),
        (7, "a", "source message 'msg_7' is not in the conversation; did you mean 'msg_1'?"),
    ]


def test_a_set_in_order_has_no_warnings(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT.replace(", msg_7", "").replace("3", "1"), encoding="utf-8")
    assert load_case_set(path).warnings == ()
