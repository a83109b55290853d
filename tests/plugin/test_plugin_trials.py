"""Every case several times inside its item: averages, spread, pass rates, one errored trial."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from chat_project import answer_to, full_case, prompt_stage, simple_case
from plugin_project import MODES, case, good_cases, stable

from pytest_memeval.cli.main import main

if TYPE_CHECKING:
    import chat_server as fake
    from chat_project import ChatProject
    from plugin_project import Project

#: What it gives depends on the case and the trial alone: every third pair of them is wrong, "trial N breaks" fails.
UNSTEADY = """
import asyncio


class Unsteady:
    name = "unsteady"
    version = "1"
    running = most = 0

    async def extract(self, conversation, ctx):
        cls = type(self)
        cls.running += 1
        cls.most = max(cls.most, cls.running)
        await asyncio.sleep(0.02)
        cls.running -= 1
        text = conversation[0].content
        if f"trial {ctx.trial} breaks" in text:
            raise RuntimeError("broke here")
        ctx.record("note", text=f"this was trial {ctx.trial}")
        ctx.databases.memory.execute("create table seen (trial int)")  # a second trial would find it
        dimensions, _, content = text.partition(": ")
        wrong = (int(ctx.case_id[-3:]) + ctx.trial) % 3 == 0
        return [{"id": "m0", "content": content, "dimensions": ["skills" if wrong else dimensions], "priority": 80}]


def most():
    return Unsteady.most
"""


@pytest.fixture
def unsteady(project: Project) -> Project:
    project.write("unsteady_engine.py", UNSTEADY)
    project.write(
        "conftest.py",
        """
        import pytest
        from unsteady_engine import Unsteady

        @pytest.fixture(scope="session")
        def memeval_engine():
            return Unsteady()

        def pytest_unconfigure():
            with open("most.txt", "w") as file:
                file.write(str(Unsteady.most))
        """,
    )
    return project


def entry(project: Project, case_id: str = "eval-001") -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in project.report()["per_case"] if one["case_id"] == case_id)
    return found


@MODES
def test_counts_are_averaged_within_a_case(unsteady: Project, mode: tuple[str, ...]) -> None:
    unsteady.cases([case(f"eval-{n:03}", f"identity: number {n} is here") for n in range(1, 8)])
    result = unsteady.run(*mode, "--memeval-trials", "3")
    assert result.ret == 0, result.stdout.str()
    result.assert_outcomes(passed=7)
    report = unsteady.report()
    # One trial in three is wrong: (2 TP + 1 FP + 1 FN) / 3 a case.
    assert report["l1"]["dimension_micro_f1"] == pytest.approx(2 / 3)
    assert report["l1"]["n"]["dimension_micro_f1"]["cases"] == 7
    one = entry(unsteady)
    assert one["l1"]["ratios"]["dimension_micro_f1"] == [pytest.approx(4 / 3), 2.0]
    assert [trial["ratios"]["l1"]["dimension_micro_f1"] for trial in one["trials"]] == [[2, 2], [2, 2], [0, 2]]
    assert one["spread"]["l1.dimension_micro_f1"] == {
        "trials": 3, "mean": pytest.approx(2 / 3), "sd": pytest.approx(3**-0.5), "low": 0.0, "high": 1.0,
    }  # fmt: skip
    split = report["trials"]["variance"]["l1.dimension_micro_f1"]
    assert (split["between"], split["share_within"], split["advice"]) == (0.0, 1.0, "trials")
    result.stdout.fnmatch_lines(["3 trials of each of 7 case(s), 0 of them errored in at least one"])
    text = (unsteady.path / "out/report.md").read_text(encoding="utf-8")
    assert "## Trials" in text
    assert "100% of the variance comes from trials" in text


def test_trials_run_side_by_side_within_the_limit(unsteady: Project) -> None:
    unsteady.cases([case(f"eval-{n:03}", f"identity: number {n} is here") for n in range(1, 7)])
    for trials, most in ((3, 4), (5, 2), (3, 1)):
        assert unsteady.run("--memeval-trials", str(trials), "--memeval-concurrency", str(most)).ret == 0
        assert int((unsteady.path / "most.txt").read_text()) == most
    assert unsteady.run("--memeval-trials", "4", "--memeval-limit", "1").ret == 0
    assert int((unsteady.path / "most.txt").read_text()) == 4


def test_serial_distributed_and_in_turn_are_equal(unsteady: Project) -> None:
    unsteady.cases([case(f"eval-{n:03}", f"identity: number {n} is here") for n in range(1, 5)])
    reports = []
    for options in ((), ("-n", "2"), ("--memeval-concurrency", "1")):
        unsteady.run("--memeval-trials", "2", *options)
        reports.append(stable(unsteady.report()))
    assert reports[0] == reports[1] == reports[2]


def test_one_errored_trial_makes_the_case_errored(unsteady: Project) -> None:
    unsteady.cases([*good_cases(2), case("eval-004", "identity: trial 1 breaks")])
    result = unsteady.run("--memeval-trials", "3")
    assert result.ret == 1
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["cases/v001.yaml:5: [[]l1] engine_exception: trial 2 of 3: RuntimeError: broke here*"])
    one = entry(unsteady, "eval-004")
    assert (one["outcome"], one["stages"]["l1"]) == ("errored", "errored")
    assert [trial["outcome"] for trial in one["trials"]] == ["scored", "errored", "scored"]
    assert one["trials"][2]["ratios"]["l1"]["memory_recall"] == [1, 1]
    report = unsteady.report()
    assert report["l1"]["n"]["memory_recall"]["cases"] == 2
    assert (report["trials"]["cases"], report["trials"]["errored_cases"]) == (3, 1)


def test_pass_rates_of_cases_with_thresholds(unsteady: Project) -> None:
    """Cases 1 and 2 pass in two trials of three each; the average of 2/3 misses one threshold and meets the other."""
    unsteady.cases(
        [
            case("eval-001", "identity: number 1 is here", expect={"l1.dimension_micro_f1": ">= 0.9"}),
            case("eval-002", "identity: number 2 is here", expect={"l1.dimension_micro_f1": ">= 0.5"}),
            case("eval-004", "identity: number 4 is here"),
        ]
    )
    result = unsteady.run("--memeval-trials", "3")
    result.assert_outcomes(passed=2, failed=1)
    expect = unsteady.report()["trials"]["expect"]
    assert expect["cases"] == 2
    assert expect["pass_hat"] == {"1": pytest.approx(2 / 3), "2": pytest.approx(1 / 3), "3": 0.0}
    assert expect["pass_at"] == {"1": pytest.approx(2 / 3), "2": 1.0, "3": 1.0}
    assert [trial["passed"] for trial in entry(unsteady)["trials"]] == [True, True, False]
    assert [trial["passed"] for trial in entry(unsteady, "eval-004")["trials"]] == [None] * 3
    result.stdout.fnmatch_lines(["*pass^3 0.000 (all trials), pass@3 1.000 (any), one trial 0.667"])


def test_engines_that_allow_no_two_run_one_trial_after_the_other(project: Project) -> None:
    project.cases([case("eval-001", "nap: x", truth=[("identity", "x")])])
    started = time.monotonic()
    project.run("--memeval-trials", "3")
    assert time.monotonic() - started > 3 * 0.15
    assert len(entry(project)["trials"]) == 3


@MODES
def test_a_run_goes_on_with_all_trials(unsteady: Project, mode: tuple[str, ...]) -> None:
    unsteady.cases([case(f"eval-{n:03}", f"identity: number {n} is here") for n in range(1, 5)])
    unsteady.run("--memeval-trials", "3", "--memeval-output", "whole")
    unsteady.run("--memeval-trials", "3", "--memeval-limit", "2", "--memeval-output", "part")
    unsteady.run(*mode, "--memeval-trials", "3", "--memeval-resume", "part")
    assert unsteady.report()["environment"]["resumed"]["cases"] == 2
    assert stable(unsteady.report()) == stable(unsteady.report("whole"))
    unsteady.run("--memeval-trials", "2", "--memeval-resume", "whole", "--memeval-output", "two")
    assert unsteady.report("two")["environment"]["resumed"]["changed"] == ["options"]


def test_rescoring_scores_every_trial(
    unsteady: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [case(f"eval-{n:03}", f"identity: number {n} is here", expect={"l1.memory_recall": ">= 1"}) for n in (1, 2)]
    unsteady.cases([*texts, case("eval-004", "identity: trial 1 breaks")])
    unsteady.run("--memeval-trials", "3")
    before = unsteady.report()
    monkeypatch.chdir(unsteady.path)
    main(["rescore", "out", "--output", "again"])
    again = unsteady.report("again")
    for key in ("l1", "trials", "counts"):
        assert again[key] == before[key]
    assert again["per_case"][0]["trials"] == before["per_case"][0]["trials"]
    for labelled in texts:
        labelled["expected_l1"]["memories"][0]["dimensions"] = ["skills"]
    unsteady.cases([*texts, case("eval-004", "identity: trial 1 breaks")])
    main(["rescore", "out", "--output", "other"])
    assert unsteady.report("other")["l1"]["dimension_micro_f1"] == pytest.approx(1 / 3)


def test_texts_of_trials_follow_the_policy(unsteady: Project) -> None:
    unsteady.cases([case("eval-001", "identity: my secret is out")])
    unsteady.run("--memeval-trials", "2", "--memeval-report-text", "none")
    for name in ("report.json", "journal.jsonl"):
        assert "secret" not in (unsteady.path / "out" / name).read_text(encoding="utf-8")
    assert len(entry(unsteady)["trials"]) == 2


def test_every_trial_asks_the_model_for_itself(chat: ChatProject) -> None:
    """Each trial has its own entry in the cache, and a plan counts them all."""
    asked: list[str] = []

    def answer(request: fake.Request) -> str:
        asked.append(request.prompt)
        right = answer_to(request.prompt, prompt_stage(request))
        return right if len(asked) % 2 else right.replace("identity", "skills")

    chat.server.script = answer
    chat.cases([simple_case(1)])
    plan = chat.chat("--memeval-trials", "4", "--memeval-plan")
    plan.stdout.fnmatch_lines(["1 case: 4 model calls*4 to be asked"])
    assert chat.chat("--memeval-trials", "4").ret == 0
    assert len(asked) == 4
    first = chat.report()
    assert first["l1"]["dimension_micro_f1"] == pytest.approx(0.5)
    assert first["usage"]["calls"] == 4
    assert chat.chat("--memeval-trials", "4", "--memeval-cache", "replay").ret == 0
    assert chat.report()["l1"] == first["l1"]
    assert chat.chat("--memeval-trials", "5", "--memeval-cache", "replay").ret == 1
    assert "trial 5 of 5" in chat.report()["per_case"][0]["error"]["message"]
    assert len(asked) == 4


def test_scenes_that_differ_between_trials(chat: ChatProject) -> None:
    """Two memories in one scene in every other trial: no two trials of different kind agree."""
    scenes = 0

    def answer(request: fake.Request) -> str:
        nonlocal scenes
        stage = prompt_stage(request)
        if stage != "l2_scene":
            return answer_to(request.prompt, stage)
        scenes += 1
        groups = [[0, 1]] if scenes % 2 else [[0], [1]]
        return json.dumps(
            [{"action": "create", "scene_ids": [], "title": f"S{n}", "memory_indexes": g} for n, g in enumerate(groups)]
        )

    chat.server.script = answer
    two = full_case(1)
    second = case("x", "identity: number 2 is called bbbbb")
    two["conversation"].append({"id": "msg_2", "role": "user", "content": "identity: number 2 is called bbbbb"})
    two["expected_l1"]["memories"] += second["expected_l1"]["memories"]
    two["expected_l2"] = {"scenes": [{"label": "People", "memories": [0, 1]}]}
    chat.cases([two])
    assert chat.chat("--memeval-trials", "3", "--memeval-concurrency", "1").ret == 0
    # Trials 1 and 3 agree; trial 2 groups nothing: F1 1, 0, 0.
    assert chat.report()["l2"]["scene_stability"] == pytest.approx(1 / 3)


def test_recorded_answers_have_the_first_trial_only(chat: ChatProject) -> None:
    chat.cases([simple_case(1)])
    chat.chat()
    chat.memeval("cache", "export", "answers.jsonl", "--cache-dir", str(chat.cache))
    recorded = ("--memeval-llm", "recorded", "--memeval-recorded", "answers.jsonl")
    assert chat.run(*recorded).ret == 0
    result = chat.run(*recorded, "--memeval-trials", "2")
    assert result.ret == 1
    assert "(trial 1)" in chat.report()["per_case"][0]["error"]["message"]
    assert chat.report()["per_case"][0]["trials"][0]["outcome"] == "scored"


def test_metrics_of_the_project_are_averaged_too(unsteady: Project) -> None:
    unsteady.write(
        "conftest.py",
        """
        import pytest
        from pytest_memeval import metric
        from unsteady_engine import Unsteady

        @metric(name="skilled")
        def skilled(case, outputs):
            return float(outputs.l1[0].dimensions == ("skills",) or list(outputs.l1[0].dimensions) == ["skills"])

        @pytest.fixture(scope="session")
        def memeval_engine():
            return Unsteady()
        """,
    )
    unsteady.cases([case(f"eval-{n:03}", f"identity: number {n} is here") for n in range(1, 5)])
    # A metric that is registered in this process would be every later test's.
    assert unsteady.run("--memeval-trials", "3", fresh=True).ret == 0
    assert unsteady.report()["metrics"]["skilled"] == pytest.approx(1 / 3)
    assert [trial["ratios"]["metrics"]["skilled"][0] for trial in entry(unsteady)["trials"]] == [0, 0, 1]


def test_tests_in_python_measure_once_and_the_report_says_so(unsteady: Project) -> None:
    unsteady.cases(good_cases(1))
    unsteady.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
        def test_it(memeval_l1):
            assert memeval_l1.output
        """,
    )
    assert unsteady.run("--memeval-trials", "2").ret == 0
    assert any(note.startswith("1 case(s) were measured once") for note in unsteady.report()["notes"])


def test_trials_of_variants(unsteady: Project) -> None:
    unsteady.cases(good_cases(5))
    both = ("--memeval-prompt-version", "v001", "--memeval-prompt-version", "v002")
    assert unsteady.run(*both, "--memeval-trials", "2").ret == 0
    for name in ("v001", "v002"):
        report = unsteady.report(f"out/{name}")
        assert report["trials"]["count"] == 2
        assert report["l1"]["memory_recall"] == 1


@pytest.mark.parametrize("given", ["0", "-1", "two"])
def test_bad_numbers_of_trials(project: Project, given: str) -> None:
    project.cases(good_cases(1))
    result = project.run("--memeval-trials", given)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --memeval-trials: *"])
