"""Input that no case can be run with: told in a sentence by a run, serial or not, and by ``validate``."""

from __future__ import annotations

import pytest
from plugin_project import MODES, Project, good_cases

from pytest_memeval.cli.main import main

MEMORY = "{memories: [{content: x, dimensions: [identity]PRIORITY}]}"
#: What is wrong → (a case, what is said of it).
UNUSABLE = {
    "huge priority": (
        f"conversation: hi\n    expected_l1: {MEMORY.replace('PRIORITY', ', priority: 1' + '0' * 400)}",
        f"'1{'0' * 59}…' is too large a number",
    ),
    "endless timeout": (
        f"conversation: hi\n    timeout: 1e300\n    expected_l1: {MEMORY.replace('PRIORITY', '')}",
        "'1e300' must be at most 1000000",
    ),
    "the calendar's end": (
        "conversation: [{role: user, content: x, time: 9999-12-31T23:59:59-10:00}]\n"
        f"    expected_l1: {MEMORY.replace('PRIORITY', '')}",
        "'9999-12-31T23:59:59-10:00' is too near the calendar's end: years go from 0002 to 9998",
    ),
}


@MODES
@pytest.mark.parametrize(("body", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_value_is_an_error_of_its_case_and_no_other(
    project: Project,
    mode: tuple[str, ...],
    body: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    project.cases(good_cases(2), name="cases/good.yaml")
    project.write("cases/bad.yaml", f"meta: {{gates: []}}\ncases:\n  - case_id: bad\n    {body}\n")
    result = project.run("cases", *mode)
    result.assert_outcomes(passed=2, errors=1)
    text = result.stdout.str()
    assert said in text
    assert "Traceback" not in text
    assert max(map(len, text.splitlines())) < 400
    monkeypatch.chdir(project.path)
    capfd.readouterr()
    assert main(["validate", "cases"]) == 1
    shown = capfd.readouterr().out
    assert said in shown
    assert "cases/good.yaml: 2 cases, 0 problems" in shown


#: What is no priority → the same as Python that makes it.
NO_PRIORITY = ["float('nan')", "float('inf')", "1e15", "10**400", "-1e300"]


@MODES
@pytest.mark.parametrize("priority", NO_PRIORITY)
def test_a_priority_beyond_all_scales_leaves_its_case_unmeasured_and_says_so(
    project: Project, mode: tuple[str, ...], priority: str
) -> None:
    project.write(
        "line_engine.py",
        f"""
        class LineEngine:
            name = "lines"

            def extract(self, conversation, ctx):
                text = conversation[0].content.partition(": ")[2]
                priority = {priority} if text == "number 1 is called bbbbb" else 70
                return [{{"content": text, "dimensions": ["identity"], "priority": priority}}]
        """,
    )
    project.cases(good_cases(4))
    project.run("cases", *mode).assert_outcomes(passed=4)
    report = project.report()
    assert report["l1"]["unmeasured"] == {"priority_mae": 1}
    assert report["l1"]["n"]["priority_mae"]["cases"] == 3
    assert report["l1"]["priority_mae"] == 10
    assert report["l1"]["priority_within_10"] == 3 / 4
    values = {entry["case_id"]: entry["l1"]["values"]["priority_mae"] for entry in report["per_case"]}
    assert [values[f"eval-{n:03}"] for n in range(1, 5)] == [None, 10, 10, 10]


@MODES
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_row_of_predictions_with_what_is_no_json_ends_the_run(
    project: Project, mode: tuple[str, ...], word: str
) -> None:
    project.cases(good_cases(1))
    row = '{"case_id": "eval-001", "l1": [{"content": "x", "dimensions": ["identity"], "priority": WORD}]}\n'
    project.write("rows.jsonl", row.replace("WORD", "70") + row.replace("eval-001", "b").replace("WORD", word))
    result = project.run("cases", "--memeval-predictions", "rows.jsonl", *mode)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = result.stderr.str().strip().splitlines()
    assert f"rows.jsonl:2: not JSON: {word} is no number of JSON (column " in line
