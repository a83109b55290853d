"""Input that no case can be run with: told in a sentence by a run, serial or not, and by ``validate``."""

from __future__ import annotations

import pytest
from plugin_project import MODES, Project, good_cases

from pytest_memeval.cli import main

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
