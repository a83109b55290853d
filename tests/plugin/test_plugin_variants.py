"""Several set-ups in one run: an item a variant, a report each, the candidate's gates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chat_project import answer_to, prompt_stage, simple_case
from plugin_project import MODES, case, good_cases, stable

from pytest_memeval.cli.main import main

if TYPE_CHECKING:
    import chat_server as fake
    from chat_project import ChatProject
    from plugin_project import Project

BOTH = ("--memeval-prompt-version", "v001", "--memeval-prompt-version", "v002")
#: Two engines in one module: the second gets one label in three wrong, and finds what is marked to break it.
ENGINES = """
from line_engine import LineEngine


class Worse(LineEngine):
    name = "worse"

    def extract(self, conversation, ctx):
        memories = super().extract(conversation, ctx)
        if ctx.case_id.endswith(("3", "6", "9")):
            for memory in memories:
                memory["dimensions"] = ["skills"]
        if any("breaks the worse one" in message.content for message in conversation):
            raise RuntimeError("worse broke here")
        return memories
"""
ENGINE_OPTIONS = (
    *("--memeval-variant", "good=engine:line_engine:LineEngine"),
    *("--memeval-variant", "worse=engine:two_engines:Worse"),
)


@pytest.fixture
def engines(project: Project) -> Project:
    """A project whose engines are named on the command line, not by a fixture."""
    (project.path / "conftest.py").write_text("")
    project.write("two_engines.py", ENGINES)
    project.pytester.syspathinsert()
    return project


def own_reports(project: Project, *names: str) -> dict[str, dict[str, Any]]:
    return {name: project.report(f"out/{name}") for name in names}


@MODES
def test_an_item_of_every_case_per_version(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(3))
    result = project.run(*mode, *BOTH)
    assert result.ret == 0
    result.assert_outcomes(passed=6)
    reports = own_reports(project, "v001", "v002")
    for name, report in reports.items():
        assert [entry["node_id"] for entry in report["per_case"]] == [
            f"cases/v001.yaml::eval-00{n}[{name}]" for n in (1, 2, 3)
        ]
        assert {entry["variant"] for entry in report["per_case"]} == {name}
        assert {entry["case_id"] for entry in report["per_case"]} == {"eval-001", "eval-002", "eval-003"}
        assert set(report["prompt_versions"].values()) == {name}
        assert report["variant"] == {"name": name, "candidate": name == "v002", "of": ["v001", "v002"]}
        assert report["partial"] is None
    compared = json.loads((project.path / "out/compare-v001-v002.json").read_text(encoding="utf-8"))
    assert compared["compared"] == 3
    assert [prompt["version_b"] for prompt in compared["prompts"]] == ["v002"] * 3
    assert sorted(project.journal()) == sorted(
        entry["node_id"] for report in reports.values() for entry in report["per_case"]
    )
    result.stdout.fnmatch_lines(["v001: 3 scored*l1 F1 1.000", "v002: 3 scored*", "v002 against v001:"])


@MODES
def test_each_variant_has_its_own_engine(engines: Project, mode: tuple[str, ...]) -> None:
    engines.cases(good_cases(9))
    result = engines.run(*mode, *ENGINE_OPTIONS, fresh=True)
    assert result.ret == 0, result.stdout.str()
    reports = own_reports(engines, "good", "worse")
    assert [report["engine"]["name"] for report in reports.values()] == ["lines", "worse"]
    assert reports["good"]["l1"]["dimension_micro_f1"] == 1
    assert reports["worse"]["l1"]["dimension_micro_f1"] == pytest.approx(2 / 3)
    result.stdout.fnmatch_lines(["*l1.dimension_micro_f1 = -0.333*(worse < good)*"])


def test_serial_and_distributed_runs_are_equal(engines: Project) -> None:
    engines.cases(good_cases(6))
    engines.run(*ENGINE_OPTIONS, "--memeval-output", "serial")
    engines.run(*ENGINE_OPTIONS, "-n", "2", "--memeval-output", "two")
    for name in ("good", "worse"):
        first, second = (stable(engines.report(f"{folder}/{name}")) for folder in ("serial", "two"))
        assert first == second


def test_only_the_candidates_gates_count(engines: Project) -> None:
    engines.cases(good_cases(9), gates=["P0 l1.dimension_micro_f1 >= 0.9"])
    assert engines.run(*ENGINE_OPTIONS).ret == 1
    assert engines.report("out/worse")["summary"]["passed_p0"] is False
    result = engines.run(*ENGINE_OPTIONS[2:], *ENGINE_OPTIONS[:2])
    assert result.ret == 0
    assert engines.report("out/worse")["summary"]["passed_p0"] is False
    assert "its gates decide nothing, those of good do" in engines.report("out/worse")["notes"][0]


def test_an_error_of_any_variant_fails_the_run(engines: Project) -> None:
    engines.cases([*good_cases(2), case("eval-010", "identity: breaks the worse one")])
    result = engines.run(*ENGINE_OPTIONS[2:], *ENGINE_OPTIONS[:2])
    assert result.ret == 1
    result.assert_outcomes(passed=5, errors=1)
    assert engines.report("out/worse")["counts"]["errored"] == 1
    assert engines.report("out/good")["counts"]["errored"] == 0


def test_selection_by_variant_and_by_case(project: Project) -> None:
    project.cases(good_cases(4))
    result = project.run(*BOTH, "-k", "[v002]")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["v001: none of its cases was selected", "v002: 4 scored*"])
    assert not (project.path / "out/v001").exists()
    # Without brackets the file's name, v001.yaml, would do too.
    result = project.run(*BOTH, "-k", "[v001]", "--memeval-output", "first")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["no case of the candidate v002 was selected: no gates decide"])
    result = project.run(*BOTH, "cases/v001.yaml::eval-003")
    result.assert_outcomes(passed=2)
    result = project.run(*BOTH, "cases/v001.yaml::eval-003[v001]")
    result.assert_outcomes(passed=1)


def test_limit_and_sample_keep_the_variants_of_a_case_together(project: Project) -> None:
    project.cases(good_cases(9))
    for options, count in ((("--memeval-limit", "2"), 2), (("--memeval-sample", "3"), 3)):
        project.run(*BOTH, *options)
        ids = [
            {entry["case_id"] for entry in report["per_case"]}
            for report in own_reports(project, "v001", "v002").values()
        ]
        assert ids[0] == ids[1]
        assert len(ids[0]) == count


def test_last_failed_runs_the_failed_variant(engines: Project) -> None:
    engines.cases([*good_cases(2), case("eval-010", "identity: breaks the worse one")])
    engines.run(*ENGINE_OPTIONS)
    result = engines.run(*ENGINE_OPTIONS, "--lf", "--memeval-output", "again")
    result.assert_outcomes(errors=1)
    assert [entry["node_id"] for entry in engines.report("again/worse")["per_case"]] == [
        "cases/v001.yaml::eval-010[worse]"
    ]


@MODES
def test_a_run_that_goes_on_takes_each_variant_from_its_own(engines: Project, mode: tuple[str, ...]) -> None:
    engines.cases(good_cases(4))
    engines.run(*ENGINE_OPTIONS, "-k", "eval-001 or eval-002")
    result = engines.run(
        *mode, *ENGINE_OPTIONS, "--memeval-resume", "out", "--memeval-output", "more", fresh=bool(mode)
    )
    assert result.ret == 0
    for name in ("good", "worse"):
        resumed = engines.report(f"more/{name}")["environment"]["resumed"]
        assert (resumed["cases"], resumed["run_again"]["absent"]) == (2, 2)
    assert engines.report("more/worse")["l1"]["dimension_micro_f1"] == pytest.approx(3 / 4)
    changed = (*ENGINE_OPTIONS[:2], "--memeval-variant", "worse=engine:line_engine:LineEngine,prompts:v001")
    engines.run(*changed, "--memeval-resume", "more", "--memeval-output", "third")
    assert engines.report("third/good")["environment"]["resumed"]["cases"] == 4
    other = engines.report("third/worse")["environment"]["resumed"]
    assert (other["cases"], other["run_again"]["changed"]) == (0, 4)
    assert set(other["changed"]) >= {"prompts", "engine"}


def test_shards_keep_a_case_whole_and_merge_by_variant(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.cases(good_cases(6))
    for part in (1, 2):
        project.run(*BOTH, "--memeval-shard", f"{part}/2", "--memeval-output", f"part{part}")
        first, second = (
            {entry["case_id"] for entry in project.report(f"part{part}/{name}")["per_case"]}
            for name in ("v001", "v002")
        )
        assert first == second
    project.run(*BOTH, "--memeval-output", "whole")
    monkeypatch.chdir(project.path)
    assert main(["merge", "--output", "merged", "part1/v002", "part2/v002"]) == 0
    assert stable(project.report("merged")) == stable(project.report("whole/v002"))
    assert main(["merge", "--output", "wrong", "part1/v001", "part2/v002"]) == 2
    assert "variant differs" in capsys.readouterr().err


def test_predictions_of_all_variants_are_saved_and_scored(engines: Project) -> None:
    engines.cases(good_cases(3))
    engines.run(*ENGINE_OPTIONS, "--memeval-save-predictions", "rows.jsonl")
    rows = [json.loads(line) for line in (engines.path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted((row["case_id"], row["variant"]) for row in rows) == [
        (f"eval-00{n}", name) for n in (1, 2, 3) for name in ("good", "worse")
    ]
    before = own_reports(engines, "good", "worse")
    result = engines.run("--memeval-predictions", "rows.jsonl", *ENGINE_OPTIONS, "--memeval-output", "scored")
    assert result.ret == 0
    for name, report in before.items():
        again = engines.report(f"scored/{name}")
        assert again["engine"]["name"] == "predictions"
        assert again["l1"] == report["l1"]
        assert not [note for note in again["notes"] if "belong to no case" in note]


def test_hand_written_tests_have_the_candidates_setup(engines: Project) -> None:
    engines.cases(good_cases(1))
    engines.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
        def test_it(memeval_engine, memeval_l1):
            assert memeval_engine.name == "worse"
        """,
    )
    result = engines.run(*ENGINE_OPTIONS)
    assert result.ret == 0
    result.assert_outcomes(passed=3)
    assert [entry["node_id"] for entry in engines.report("out/worse")["per_case"]] == [
        "cases/v001.yaml::eval-001[worse]",
        "test_own.py::test_it",
    ]
    assert len(engines.report("out/good")["per_case"]) == 1


def test_fixtures_give_the_variants_own(engines: Project) -> None:
    """Also to a fixture of the project that asks for them."""
    engines.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(scope="session")
        def seen(memeval_engine, memeval_llm):
            return memeval_engine.name, memeval_llm.name

        @pytest.fixture(autouse=True)
        def told(request, seen, memeval_prompts):
            version = memeval_prompts.versions["l1_extraction"]
            with open("seen.txt", "a") as file:
                print(request.node.name, *seen, version, file=file)
        """,
    )
    engines.cases(good_cases(2))
    result = engines.run(
        *("--memeval-variant", "old=engine:line_engine:LineEngine,prompts:l1=v001,l2=v002"),
        *("--memeval-variant", "new=engine:two_engines:Worse,prompts:v002"),
    )
    assert result.ret == 0, result.stdout.str()
    seen = (engines.path / "seen.txt").read_text().split("\n")
    assert sorted(filter(None, seen)) == [
        "eval-001[new] worse embedded v002",
        "eval-001[old] lines embedded v001",
        "eval-002[new] worse embedded v002",
        "eval-002[old] lines embedded v001",
    ]


def test_an_engine_fixture_of_the_project_cannot_be_two(project: Project) -> None:
    project.write("two_engines.py", ENGINES)
    project.cases(good_cases(1))
    project.pytester.syspathinsert()
    result = project.run(*ENGINE_OPTIONS)
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*the variants differ in the engine, but a fixture memeval_engine of the project*"])
    assert project.run(*BOTH).ret == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--memeval-variant", "a=engin:x:y", "--memeval-variant", "b="), "unknown key 'engin'*did you mean 'engine'?"),
        (
            ("--memeval-variant", "a=engine:refrence", "--memeval-variant", "b="),
            "*unknown engine 'refrence'*'reference'?",
        ),
        (("--memeval-variant", "a/b=prompts:v001", "--memeval-variant", "b="), "'a/b' is no name of a variant*"),
        (("--memeval-variant", "a=prompts:v001"), "'a' is the only variant*"),
        (("--memeval-variant", "prompts:v001"), "'prompts:v001' is not of the form NAME=key:value*"),
        (("--memeval-variant", "a=prompts:v009", "--memeval-variant", "b="), "*prompt version 'v009' does not exist*"),
        (("--memeval-variant", "a=", "--memeval-variant", "A=prompts:v001"), "two variants have the name 'a'"),
        (("--memeval-variant", "a=prompts:v001", "--memeval-variant", "b=prompts:v001"), "*are the same set-up"),
        (("--memeval-variant", "a=model:", "--memeval-variant", "b="), "key 'model' in 'a=model:' has no value"),
        (("--memeval-variant", "a=v001", "--memeval-variant", "b="), "'v001' in 'a=v001' has no key*"),
        (("--memeval-variant", "a=engine:x,engine:y"), "key 'engine' is twice*"),
        ((*BOTH[:2], *BOTH[:2]), "two variants have the name 'v001'"),
        ((*BOTH, "--memeval-variant", "a="), "several prompt versions are variants already*"),
    ],
)
def test_bad_variants_end_the_run_at_its_start(project: Project, options: tuple[str, ...], said: str) -> None:
    project.cases(good_cases(1))
    result = project.run(*options)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: *{said}"])


def test_a_worker_that_dies_leaves_the_variants_record(engines: Project) -> None:
    engines.cases([*good_cases(2), case("eval-009", "die", truth=[("identity", "x")])])
    engines.run("-n", "2", *ENGINE_OPTIONS, "--memeval-concurrency", "1", fresh=True)
    for name in ("good", "worse"):
        entry = next(one for one in engines.report(f"out/{name}")["per_case"] if one["case_id"] == "eval-009")
        assert (entry["variant"], entry["error"]["kind"]) == (name, "worker_crashed")


def test_models_of_variants_are_asked_and_priced_apart(chat: ChatProject) -> None:
    """The second model is worse; both have their own prices, plan and cache entries."""
    asked: list[str] = []

    def answer(request: fake.Request) -> str:
        model = request.body["model"]
        asked.append(model)
        right = answer_to(request.prompt, prompt_stage(request))
        return right if model == "gpt-4o-mini" else right.replace("identity", "skills")

    chat.server.script = answer
    chat.cases([simple_case(n) for n in range(1, 5)])
    variants = ("--memeval-variant", "mini=model:gpt-4o-mini", "--memeval-variant", "large=model:gpt-4o")
    plan = chat.chat(*variants, "--memeval-plan")
    plan.stdout.fnmatch_lines(["[[]mini]", "*model gpt-4o-mini)", "[[]large]", "*model gpt-4o)"])
    assert not asked
    result = chat.chat(*variants)
    assert result.ret == 0, result.stdout.str()
    assert sorted(asked) == ["gpt-4o"] * 4 + ["gpt-4o-mini"] * 4
    reports = own_reports(chat, "mini", "large")
    assert [report["model"]["name"] for report in reports.values()] == ["gpt-4o-mini", "gpt-4o"]
    assert [report["l1"]["dimension_micro_f1"] for report in reports.values()] == [1, 0]
    assert reports["large"]["usage"]["cost_usd"] > reports["mini"]["usage"]["cost_usd"] > 0
    assert chat.chat(*variants, "--memeval-cache", "replay", "-n", "2").ret == 0
    assert len(asked) == 8


def test_variants_from_the_ini(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nmemeval_prompt_version =\n    v001\n    l1=v002,l2=v001\n")
    project.cases(good_cases(1))
    assert project.run().ret == 0
    report = project.report("out/l1=v002+l2=v001")
    assert report["prompt_versions"] == {"l1_extraction": "v002", "l1_conflict": "v002", "l2_scene": "v001"}
    result = project.run("--memeval-prompt-version", "v002", "--memeval-output", "single")
    assert result.ret == 0
    assert project.report("single")["variant"] is None
    assert Path(project.path, "single", "report.json").exists()
