"""``--memeval-plan``: what a run would ask, told without asking."""

from __future__ import annotations

import re

import pytest
from chat_project import ChatProject, answer_to, full_case, simple_case
from plugin_project import MODES, Project, good_cases


def figures(result: pytest.RunResult) -> dict[str, list[str]]:
    """The plan's table: stage → its cells."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in result.outlines]
    return {row[0]: row[1:] for row in rows if row[0] in ("l1_extraction", "l1_conflict", "l2_scene") and len(row) == 5}


@MODES
def test_a_plan_asks_nobody_and_needs_no_key(
    chat: ChatProject, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    chat.cases([full_case(number) for number in range(1, 6)], gates=["P0 l1.dimension_micro_f1 >= 0.5"])
    result = chat.chat("--memeval-plan", "--memeval-base-url", "https://api.openai.com/v1", *mode, fresh=True)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "5 cases: 5–15 model calls, 0 need no request*, 5–15 to be asked",
            "estimated cost: $0.0*–$0.0*(model gpt-4o-mini)",
            "Nothing was asked and no report was written.",
        ]
    )
    assert chat.server.count == 0
    assert not (chat.path / "out").exists()
    assert not chat.cache.exists()
    table = figures(result)
    assert table["l1_extraction"][:2] == ["0", "5"]
    assert table["l1_conflict"][:2] == table["l2_scene"][:2] == ["0", "0–5"]


def test_what_is_recorded_needs_no_request(chat: ChatProject) -> None:
    chat.cases([full_case(number) for number in range(1, 6)])
    chat.chat("-k", "eval-001 or eval-002").assert_outcomes(passed=2)
    chat.chat("-k", "eval-003", "--memeval-stages", "l1").assert_outcomes(passed=1)
    before = chat.server.count
    result = chat.chat("--memeval-plan")
    # 2 cases are recorded whole; of the third, L1.5 and, since it has memories, L2 are to be asked; of two others all
    # behind L1 is open.
    result.stdout.fnmatch_lines(["5 cases: 11–15 model calls, 7 need no request*, 4–8 to be asked"])
    table = figures(result)
    assert table["l1_extraction"][:2] == ["3", "2"]
    assert table["l1_conflict"][:2] == ["2", "1–3"]
    assert table["l2_scene"][:2] == ["2", "1–3"]
    assert chat.server.count == before
    # The run that follows keeps within what was told.
    chat.chat().assert_outcomes(passed=5)
    assert chat.server.count - before == 8
    result = chat.chat("--memeval-plan")
    result.stdout.fnmatch_lines(["5 cases: 15 model calls, 15 need no request*, 0 to be asked"])
    result.stdout.fnmatch_lines(["estimated cost: $0.0000 (model gpt-4o-mini)"])
    result = chat.chat("--memeval-plan", "--memeval-cache", "refresh")
    result.stdout.fnmatch_lines(["5 cases: 5–15 model calls, 0 need no request*"])


def test_a_plan_counts_what_is_selected(chat: ChatProject) -> None:
    chat.cases([full_case(n, tags=["odd"] if n % 2 else ["even"]) for n in range(1, 9)])
    for args, count in (
        (("-k", "eval-001"), 1),
        (("-m", "odd"), 4),
        (("--memeval-limit", "3"), 3),
        (("--memeval-sample", "2"), 2),
    ):
        result = chat.chat("--memeval-plan", *args)
        assert result.ret == 0
        result.stdout.fnmatch_lines([f"{count} case{'s' * (count > 1)}: {count}–{3 * count} model calls*"])
    result = chat.chat("--memeval-plan", "--memeval-stages", "l1")
    result.stdout.fnmatch_lines(["8 cases: 8 model calls*"])
    assert chat.chat("--memeval-plan", "-k", "nothing").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_same_question_counts_once(chat: ChatProject) -> None:
    chat.cases([{**simple_case(1), "case_id": f"eval-{n}"} for n in range(3)])
    result = chat.chat("--memeval-plan")
    result.stdout.fnmatch_lines(["3 cases: 3 model calls, 2 need no request*, 1 to be asked"])
    chat.chat().assert_outcomes(passed=3)
    assert chat.server.count == 1


def test_estimates_lie_around_what_is_used(chat: ChatProject) -> None:
    chat.cases([simple_case(number) for number in range(1, 6)])
    table = figures(chat.chat("--memeval-plan"))
    chat.server.script = lambda request: _measured(request.prompt)
    chat.chat().assert_outcomes(passed=5)
    usage = chat.report()["usage"]
    estimated = float(table["l1_extraction"][2])
    assert 0.5 < usage["input_tokens"] / estimated < 2
    low, high = map(float, table["l1_extraction"][3].split("–"))
    assert low <= usage["output_tokens"] <= high


def _measured(prompt: str) -> object:
    from chat_server import Answer

    text = answer_to(prompt, "l1_extraction")
    return Answer(text, usage=(len(prompt) // 4, len(text) // 4))


def test_unknown_prices_offline_models_and_errors_of_files(chat: ChatProject) -> None:
    chat.cases([simple_case(1)])
    result = chat.chat("--memeval-plan", "--memeval-model", "my-own")
    result.stdout.fnmatch_lines(["estimated cost: unknown, the price of model my-own is not known*--memeval-prices"])
    result = chat.run("--memeval-plan")
    result.stdout.fnmatch_lines(["1 case: 1 model calls, 1 need no request*", "estimated cost: none*"])
    result = chat.run("--memeval-plan", "--memeval-lang", "zh")
    result.stdout.fnmatch_lines(["共 1 个用例*", "没有发出任何请求*"])
    chat.write("cases/broken.yaml", "cases: [")
    assert chat.run("--memeval-plan").ret == pytest.ExitCode.INTERRUPTED


def test_an_engine_that_may_ask_by_itself_is_not_run(project: Project) -> None:
    project.cases(good_cases(3))
    result = project.run("--memeval-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["3 cases: 0 model calls*", "*not planned, 3 case(s):*engine 'lines' may ask models*"])
    project.pytester.makeconftest(
        "import pytest\nfrom line_engine import LineEngine\n"
        "class Plain(LineEngine):\n    plannable = True\n"
        "@pytest.fixture(scope='session')\ndef memeval_engine():\n    return Plain()\n"
    )
    result = project.run("--memeval-plan", fresh=True)
    result.stdout.fnmatch_lines(["3 cases: 0 model calls*"])
    assert "not planned" not in result.stdout.str()


def test_skipped_cases_and_other_tests_are_told(chat: ChatProject) -> None:
    chat.cases([simple_case(1), simple_case(2, tags=["slow"])])
    chat.write("test_other.py", "def test_other():\n    raise SystemExit('was run')\n")
    result = chat.chat("--memeval-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["2 cases: 1 model calls*", "not planned, 1 case(s): skipped", "1 other test(s)*"])
