"""``--memeval-stop-when-decided``: cases in random order, until a part of them shows what the gates say of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import MODES, case, good_cases, stable

if TYPE_CHECKING:
    from plugin_project import Project

STOP = "--memeval-stop-when-decided"
RECALL = "P0 l1.memory_recall >= 0.5"
F1 = "P0 l1.dimension_micro_f1 >= 0.5"
CASES = 60


def slow_cases(count: int) -> list[dict[str, Any]]:
    """Right, and long enough for the workers of a run to hear that it is decided."""
    texts = [f"number {n} is called {chr(97 + n % 26) * 5}" for n in range(count)]
    return [case(f"nap-{n:03}", f"nap: {text}", truth=[("identity", text)]) for n, text in enumerate(texts)]


def slow_wrong_cases(count: int) -> list[dict[str, Any]]:
    return [case(f"nap-{n:03}", f"nap: n {n}", truth=[("skills", "something wholly other")]) for n in range(count)]


def wrong_cases(count: int) -> list[dict[str, Any]]:
    return [case(f"bad-{n:03}", f"identity: n {n}", truth=[("skills", "something wholly other")]) for n in range(count)]


def mixed_cases(count: int) -> list[dict[str, Any]]:
    """Every other one right: at a threshold of a half nothing can be told before the end."""
    right, wrong = good_cases(count // 2), wrong_cases(count // 2)
    return [one for pair in zip(right, wrong, strict=True) for one in pair]


def scope(report: dict[str, Any], path: str = "cases/v001.yaml") -> dict[str, Any]:
    found: dict[str, Any] = report["stopping"]["scopes"][path]
    return found


def verdicts(report: dict[str, Any], path: str = "cases/v001.yaml") -> dict[str, str]:
    return {gate["gate"]: gate["verdict"] for gate in scope(report, path)["gates"]}


@MODES
@pytest.mark.parametrize("at_once", ["1", "4"])
@pytest.mark.parametrize(("cases", "verdict", "exit_status"), [(slow_cases, "PASS", 0), (slow_wrong_cases, "FAIL", 1)])
def test_a_run_stops_when_its_gates_are_decided(
    project: Project, mode: tuple[str, ...], at_once: str, cases: Any, verdict: str, exit_status: int
) -> None:
    project.cases(cases(CASES), gates=[RECALL])
    result = project.run(*mode, STOP, "--memeval-concurrency", at_once)
    report = project.report()
    assert result.ret == exit_status
    assert verdicts(report) == {RECALL: verdict}
    found = scope(report)
    assert found["total"] == {"cases": CASES, "clusters": CASES}
    # The same few whatever ran at once; only how many were under way may differ.
    used = found["used"]["cases"]
    assert used <= 10
    assert found["left_out"] == len(report["stopping"]["left_out"]) > 0
    assert len(report["per_case"]) == CASES - found["left_out"] == report["counts"]["total"]
    if not mode and at_once == "1":
        assert len(report["per_case"]) == used
    # Those left out are neither errors nor lost.
    assert report["counts"]["errored"] == report["counts"]["not_run"] == 0
    assert report["partial"] == "decided"
    gate = report["gates"][0]
    assert gate["status"] == ("passed" if verdict == "PASS" else "missed")
    assert gate["reason_id"] == ("decided_pass" if verdict == "PASS" else "decided_fail")
    assert f"first {used} cases of {CASES}" in gate["reason"]
    assert report["summary"]["passed_p0"] is (verdict == "PASS")
    assert "Stopped early: decided" in report["notes"][0]
    result.stdout.fnmatch_lines([f"*stopped early: decided by the first {used} of {CASES} cases*"])
    result.assert_outcomes(passed=len(report["per_case"]))


def test_what_counts_does_not_depend_on_how_the_run_is_done(project: Project) -> None:
    """The verdicts, and after how many cases, are those of the drawn order, not of the order in which cases end."""
    slow = [case(one["case_id"], one["conversation"][0]["content"]) for one in good_cases(20)]
    slow += [case(f"late-{n:03}", f"nap {n}: x", truth=[("identity", "quite another")]) for n in range(12)]
    project.cases(slow, gates=["P0 l1.memory_recall >= 0.3"])
    seen = []
    for mode in (("--memeval-concurrency", "1"), ("--memeval-concurrency", "8"), ("-n", "2")):
        project.run(*mode, STOP)
        report = project.report()
        seen.append((scope(report)["used"], scope(report)["gates"]))
    assert seen[0] == seen[1] == seen[2]


@MODES
def test_a_run_without_a_verdict_gets_to_its_end(project: Project, mode: tuple[str, ...]) -> None:
    """Exactly at the threshold: the ordinary gates decide, over all cases."""
    project.cases(mixed_cases(20), gates=[RECALL])
    plain = project.run(*mode, "--memeval-output", "plain")
    result = project.run(*mode, STOP)
    assert result.ret == plain.ret == 0
    report, other = project.report(), project.report("plain")
    assert report["partial"] is None
    assert scope(report)["left_out"] == 0
    assert report["gates"] == other["gates"]
    assert report["counts"] == other["counts"]
    assert report["l1"] == other["l1"]
    assert other["stopping"] is None
    result.stdout.fnmatch_lines(["*was run to the end (20 cases)*"])


def test_the_order_follows_the_seed_and_the_file_order_is_kept_without_it(project: Project) -> None:
    project.cases(good_cases(30), gates=["P0 diff:l1.memory_recall >= -1"])  # not testable: runs to the end
    orders = []
    for options in (("--memeval-seed", "1"), ("--memeval-seed", "1"), ("--memeval-seed", "2")):
        project.run(STOP, "--memeval-concurrency", "1", *options)
        orders.append(project.journal())
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    project.run("--memeval-concurrency", "1")
    assert project.journal() == sorted(orders[0])


@MODES
def test_every_case_set_stops_by_itself(project: Project, mode: tuple[str, ...]) -> None:
    """One file is decided soon, one only by its last case, one has no P0 gate; a test of the project's own runs."""
    project.cases(slow_cases(60), gates=[RECALL])
    project.cases(mixed_cases(10), "cases/v002.yaml", gates=[RECALL])
    project.cases(good_cases(6), "cases/v003.yaml", gates=["P1 l1.memory_recall >= 0.5"])
    project.write("test_own.py", "def test_own():\n    pass\n")
    result = project.run(*mode, STOP, "cases", "test_own.py", "--memeval-concurrency", "2")
    report = project.report()
    assert result.ret == 0
    run = {path: sum(one["set"] == path for one in report["per_case"]) for path in report["case_sets"]}
    assert run["cases/v001.yaml"] < 60
    assert run["cases/v002.yaml"] == 10
    assert run["cases/v003.yaml"] == 6
    assert "cases/v003.yaml" not in report["stopping"]["scopes"]
    assert report["summary"]["passed_p0"] is True
    assert {gate["scope"]: gate["status"] for gate in report["gates"]} == dict.fromkeys(run, "passed")
    result.assert_outcomes(passed=sum(run.values()) + 1)


@MODES
def test_all_gates_of_a_set_have_to_be_decided(project: Project, mode: tuple[str, ...]) -> None:
    wide, narrow = "P0 l1.memory_recall >= 0.1", "P0 l1.strict_match_rate >= 0.9"
    project.cases([*good_cases(38), *wrong_cases(2)], gates=[wide, narrow])
    project.run(*mode, STOP)
    gates = {gate["gate"]: gate for gate in scope(project.report())["gates"]}
    first, second = gates[wide], gates[narrow]
    assert first["verdict"] == "PASS"
    assert first["cases"] < (second["cases"] or 40)
    assert scope(project.report())["used"]["cases"] > first["cases"]


def test_gates_that_cannot_be_tested_keep_the_run_going(project: Project) -> None:
    gate = "P0 l1.priority_mae <= 5"
    project.cases(good_cases(30), gates=[RECALL, gate])
    result = project.run(STOP)
    report = project.report()
    assert result.ret == 0
    assert len(report["per_case"]) == 30
    assert verdicts(report) == {RECALL: "PASS", gate: "UNDECIDED"}
    told = next(one for one in scope(report)["gates"] if one["gate"] == gate)
    assert told["testable"] is False
    assert told["reason"].startswith("Not testable: nothing says beforehand")
    result.stdout.fnmatch_lines(["*l1.priority_mae <= 5: UNDECIDED. Not testable:*"])


def test_more_wrong_predictions_than_supposed_end_the_early_verdict(project: Project) -> None:
    noisy = case("eval-900", *(f"skills: wrong thing number {n}" for n in range(6)), truth=[("identity", "right")])
    project.cases([*good_cases(30), *({**noisy, "case_id": f"eval-9{n:02}"} for n in range(30))], gates=[F1])
    project.run(STOP, "--memeval-stop-most-wrong", "3")
    report = project.report()
    told = scope(report)["gates"][0]
    assert told["testable"] is False
    assert told["reason_id"] == "exceeded"
    assert "cases/v001.yaml::eval-9" in told["reason"]
    assert report["counts"]["total"] == 60
    assert report["stopping"]["most_wrong"] == 3


@MODES
def test_a_case_that_errs_leaves_no_verdict(project: Project, mode: tuple[str, ...]) -> None:
    """What could not be measured is nothing to decide by, unless a share of errors is allowed."""
    project.cases(
        # Many, since a worker goes on until it hears of the verdict.
        [*good_cases(150), *(case(f"bad-{n}", "raise", truth=[("identity", "x")]) for n in range(150))],
        gates=[RECALL],
    )
    result = project.run(*mode, STOP)
    report = project.report()
    assert result.ret == 1
    assert report["counts"]["total"] == 300
    assert report["gates"][0]["status"] == "unmeasured"
    assert verdicts(report) == {RECALL: "UNDECIDED"}
    assert "could not be measured" in scope(report)["gates"][0]["reason"]
    result = project.run(*mode, STOP, "--memeval-max-error-rate", "0.9")
    report = project.report()
    assert report["counts"]["total"] < 300
    assert report["gates"][0]["status"] == "passed"
    assert result.ret == (1 if report["counts"]["errored"] else 0)


@MODES
def test_a_run_that_is_cut_short_stays_cut_short(project: Project, mode: tuple[str, ...]) -> None:
    failing = {"expect": {"l1.memory_recall": ">= 0.5"}}
    project.cases([{**one, **failing} for one in wrong_cases(40)], gates=["P0 l1.memory_recall >= 0.01"])
    project.run(*mode, STOP, "--maxfail", "2")
    report = project.report()
    assert report["partial"] == "aborted"
    assert report["gates"][0]["status"] == "unmeasured"


@MODES
def test_a_decided_run_goes_on_where_it_is_resumed(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(slow_cases(40), gates=[RECALL])
    project.run(*mode, STOP, "--memeval-output", "first")
    assert project.report("first")["partial"] == "decided"
    result = project.run(*mode, "--memeval-resume", "first")
    assert result.ret == 0
    report = project.report()
    assert report["partial"] is None
    assert report["counts"]["total"] == 40
    project.run("--memeval-output", "plain")
    assert stable(report)["gates"] == stable(project.report("plain"))["gates"]


@MODES
def test_a_selection_can_stop_too_and_says_both(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(slow_cases(60), gates=[RECALL])
    result = project.run(*mode, STOP, "--memeval-limit", "40")
    report = project.report()
    assert result.ret == 0
    assert scope(report)["total"]["cases"] == 40
    assert report["partial"] == "decided"
    assert [note.partition(":")[0] for note in report["notes"][:2]] == ["Stopped early", "Partial run"]


def test_in_chinese(project: Project) -> None:
    project.cases(good_cases(40), gates=[RECALL])
    result = project.run(STOP, "--memeval-lang", "zh")
    text = (project.path / "out" / "report.md").read_text(encoding="utf-8")
    assert text.startswith("> 提前停止：已可判定。")
    assert "## 可判定即停止" in text
    assert "通过（PASS）" in text
    result.stdout.fnmatch_lines(["可判定即停止"])


@pytest.mark.parametrize("html", [False, True])
def test_reports_show_the_verdicts(project: Project, html: bool) -> None:
    project.cases(good_cases(40), gates=[RECALL])
    project.run(STOP, *(("--html", "page.html", "--self-contained-html") if html else ()))
    text = (project.path / ("page.html" if html else "out/report.md")).read_text(encoding="utf-8")
    assert "Stopping when decided" in text
    assert "stopped early: decided" in text
    assert "PASS" in text


def test_history_and_comparison_mark_it(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from pytest_memeval.cli.main import main

    project.cases(good_cases(40), gates=[RECALL])
    project.run("--memeval-output", "whole", "--memeval-cache-dir", "cache")
    project.run(STOP, "--memeval-output", "part", "--memeval-cache-dir", "cache")
    monkeypatch.chdir(project.path)
    assert main(["compare", "whole", "part"]) == 0
    said = capsys.readouterr().out
    assert "B stopped early: decided" in said
    assert "not run: stopped early, decided" in said
    main(["history", "--cache-dir", "cache", "--metric", "l1.memory_recall"])
    assert "stopped early: decided" in capsys.readouterr().out
    # Scored again, the part is judged as what it is.
    assert main(["rescore", "part"]) == 0
    assert "new cases" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--memeval-no-gate",), "without gates (--memeval-no-gate) there is nothing to decide"),
        (("--memeval-shard", "1/2"), "one part of a run does not see what the others measure*(--memeval-shard)"),
        (
            ("--memeval-prompt-version", "v001", "--memeval-prompt-version", "v002"),
            "variants are compared over the same cases*(--memeval-prompt-version)",
        ),
        (("--memeval-cache", "batch"), "a run that only writes its requests to a file measures nothing*"),
        (("--memeval-stop-most-wrong", "-1"), None),
    ],
)
def test_what_cannot_go_with_it_is_refused(project: Project, options: tuple[str, ...], words: str | None) -> None:
    project.cases(good_cases(2))
    result = project.run(STOP, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    wanted = f"*--memeval-stop-when-decided: {words}" if words else "*--memeval-stop-most-wrong: -1 is less than 0"
    result.stderr.fnmatch_lines([wanted])


@MODES
def test_the_ini_turns_it_on(project: Project, mode: tuple[str, ...]) -> None:
    project.write("pytest.ini", "[pytest]\nmemeval_stop_when_decided = true\nmemeval_seed = 5\n")
    project.cases(slow_cases(40), gates=[RECALL])
    assert project.run(*mode).ret == 0
    assert project.report()["partial"] == "decided"
    assert project.report()["stopping"]["seed"] == 5


@MODES
def test_tests_in_python_that_count_for_a_set_keep_it_going(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(30), gates=[RECALL])
    project.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
        def test_own(memeval_l1):
            assert memeval_l1.error is None
        """,
    )
    project.run(*mode, STOP, "cases", "test_own.py")
    report = project.report()
    assert report["partial"] is None
    assert scope(report)["gates"][0]["reason_id"] == "by_hand"
