"""Scoring a stored run again: with the same options it gives the same report, with others only what they change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy  # noqa: F401  # cannot be loaded twice in a process
import pytest

from pytest_memeval.cli.main import main
from pytest_memeval.report.build import VARYING_CASE_KEYS, VARYING_KEYS

CASES = Path(__file__).parents[1] / "cases"


def stable(report: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in report.items() if key not in VARYING_KEYS}
    kept["summary"] = {key: value for key, value in report["summary"].items() if key != "duration_seconds"}
    kept["per_case"] = [
        {key: value for key, value in entry.items() if key not in VARYING_CASE_KEYS} for entry in report["per_case"]
    ]
    return kept


def load(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return data


def entry(case_id: str, *facts: str, **keys: Any) -> dict[str, Any]:
    return {
        "case_id": case_id,
        "conversation": [{"role": "user", "content": text} for text in facts],
        "expected_l1": {"memories": [{"content": text, "dimensions": ["identity"]} for text in facts]},
        **keys,
    }


class Run:
    """A project with a small engine, a finished run of it in ``out``, and its case file."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.out = self.path / "out"
        self.file = self.path / "cases" / "v001.yaml"
        self.entries = [entry("a", "lives in the town of Graz"), entry("b", "works as a nurse", "plays the cello well")]
        self.meta: dict[str, Any] = {"gates": []}
        pytester.makeconftest(
            """
            import pytest

            class Engine:
                name = "echo"

                def extract(self, conversation, ctx):
                    if conversation[0].content == "raise":
                        raise ValueError("no")
                    return [{"id": str(at), "content": one.content, "dimensions": ["identity", "odd"]}
                            for at, one in enumerate(conversation)]

            @pytest.fixture
            def memeval_engine():
                return Engine()
            """
        )

    def write(self) -> None:
        self.file.parent.mkdir(exist_ok=True)
        rows = ",\n".join(json.dumps(one) for one in self.entries)
        self.file.write_text(f"meta: {json.dumps(self.meta)}\ncases: [\n{rows}\n]\n", encoding="utf-8")

    def run(self, *args: str) -> dict[str, Any]:
        self.write()
        self.pytest("--memeval-output", "out", *args)
        return load(self.out)

    def pytest(self, *args: str) -> None:
        # What is not looked at is not loaded: hypothesis alone takes longer than a whole run of a small project.
        unused = (f"-pno:{name}" for name in ("randomly", "hypothesispytest", "anyio"))
        self.pytester.runpytest_inprocess(*unused, *args)

    def again(self, *args: str, status: int = 0) -> dict[str, Any]:
        self.write()
        assert main(["rescore", str(self.out), *args]) == status
        return load(self.out / "rescored")


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "user-cache"))
    monkeypatch.chdir(pytester.path)
    return Run(pytester)


def only(report: dict[str, Any], case_id: str) -> dict[str, Any]:
    [found] = [one for one in report["per_case"] if one["case_id"] == case_id]
    return dict(found)


@pytest.mark.parametrize("stages", ["all", "l15", "l2", "inject"])
@pytest.mark.parametrize("stage_input", ["chained", "truth"])
def test_the_same_options_give_the_same_report(run: Run, stages: str, stage_input: str) -> None:
    (run.path / "conftest.py").write_text("", encoding="utf-8")
    run.file.parent.mkdir()
    shutil.copy(CASES / "v001_sample.yaml", run.file)
    options = ("--memeval-stages", stages, "--memeval-stage-input", stage_input)
    run.pytest("--memeval-output", "out", *options)
    first = load(run.out)
    assert main(["rescore", str(run.out)]) == 0
    again = load(run.out / "rescored")
    assert stable(again) == stable(first)
    assert again["run_id"] == f"{first['run_id']}-rescored"
    names = {path.name for path in (run.out / "rescored").iterdir()}
    assert names >= {"report.json", "report.md", "per_case.csv", "calls.jsonl.gz"}
    assert (run.out / "rescored" / "calls.jsonl.gz").read_bytes() == (run.out / "calls.jsonl.gz").read_bytes()


def test_errored_and_skipped_cases_stay_what_they_were(run: Run) -> None:
    run.entries += [entry("c", "raise"), entry("d", "is skipped", tags=["slow"])]
    first = run.run()
    assert (first["counts"]["errored"], first["counts"]["skipped"]) == (1, 1)
    assert stable(run.again(status=1)) == stable(first)


def test_a_case_that_had_nothing_to_score_is_measured_once_it_has_labels(run: Run) -> None:
    labels = run.entries[0].pop("expected_l1")
    run.entries[0]["expected_l2"] = {"scene_labels": ["Home"]}
    first = run.run()
    assert only(first, run.entries[0]["case_id"])["outcome"] == "skipped"
    assert stable(run.again()) == stable(first)
    run.entries[0]["expected_l1"] = labels
    found = only(run.again(status=1), run.entries[0]["case_id"])
    assert (found["outcome"], found["error"]["kind"]) == ("errored", "not_recorded")


def test_another_matcher_threshold_or_rule_changes_the_figures(run: Run) -> None:
    run.entries[0]["expected_l1"]["memories"][0]["content"] = "lives in Graz"
    first = run.run()
    assert first["l1"]["memory_recall"] == 1
    strict = run.again("--match-threshold", "0.95")
    assert strict["l1"]["memory_recall"] == pytest.approx(2 / 3)
    assert strict["matcher"]["threshold"] == 0.95
    other = run.again("--matcher", "levenshtein")
    assert other["matcher"]["similarity"] == "levenshtein"
    counted = run.again("--unknown-label", "fp")
    assert (first["l1"]["total_fp"], counted["l1"]["total_fp"]) == (0, 3)


@pytest.mark.parametrize(
    "wrong", [("--matcher", "indell"), ("--match-threshold", "7"), ("--gate", "P0 l1.nothing > 1")]
)
def test_a_wrong_option_is_one_sentence(run: Run, wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    run.run()
    capsys.readouterr()
    assert main(["rescore", str(run.out), *wrong]) == 2
    text = capsys.readouterr().err
    assert text.startswith(wrong[0])
    assert "Traceback" not in text


def test_a_corrected_label_changes_that_case_alone(run: Run) -> None:
    run.entries[0]["expected_l1"]["memories"][0]["dimensions"] = ["habits"]
    first = run.run()
    assert first["l1"]["strict_match_rate"] == 0.5
    run.entries[0]["expected_l1"]["memories"][0]["dimensions"] = ["identity"]
    again = run.again()
    assert again["l1"]["strict_match_rate"] == 1
    assert only(stable(again), "b") == only(stable(first), "b")
    assert any("1 case(s) were changed since the run" in note for note in again["notes"])


def test_gates_can_change(run: Run) -> None:
    run.run("--memeval-gate", "P0 l1.memory_recall >= 0.5", "--memeval-gate", "P0 l1.strict_match_rate >= 0.5")
    again = run.again("--gate", "P0 l1.memory_recall > 1", status=1)
    # The run's other gates stay.
    assert {gate["metric"]: gate["status"] for gate in again["gates"]} == {
        "l1.memory_recall": "missed",
        "l1.strict_match_rate": "passed",
    }
    run.meta = {"gates": ["P0 l1.memory_precision > 1"]}
    assert "l1.memory_precision" in {gate["metric"] for gate in run.again(status=1)["gates"]}


def test_gates_of_the_ini_are_kept_and_a_run_without_any_gets_those_named(run: Run) -> None:
    run.meta = {}
    run.pytester.makeini("[pytest]\nmemeval_gate =\n    P0 l1.memory_recall >= 0.5\n")
    first = run.run("--memeval-no-gate")
    assert first["gates"] == []
    again = run.again("--gate", "P0 l1.strict_match_rate >= 0.5")
    assert {gate["metric"] for gate in again["gates"]} == {"l1.memory_recall", "l1.strict_match_rate"}


def test_a_removed_case_is_left_out_and_an_added_one_is_told(run: Run) -> None:
    run.run()
    removed = run.entries.pop(0)
    again = run.again(status=1)
    assert [one["case_id"] for one in again["per_case"]] == ["b"]
    assert (again["counts"]["not_run"], again["not_run"]) == (1, [["cases/v001.yaml", "cases/v001.yaml::a"]])
    assert any("1 case(s) of the run are no longer in their files" in note for note in again["notes"])
    run.entries = [removed, *run.entries, entry("new", "is new here")]
    again = run.again()
    assert again["partial"] == "selected"
    assert any("1 case(s) of the files were not part of the run" in note for note in again["notes"])


@pytest.mark.parametrize("change", ["renamed", "removed", "filtered"])
def test_a_run_is_no_better_for_the_cases_that_its_file_lost(
    run: Run, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = "l1.memory_recall{difficulty=hard}" if change == "filtered" else "l1.memory_recall"
    run.meta = {"gates": [f"P0 {gate} >= 0.9", "P1 l1.memory_recall >= 0.1"]}
    run.entries.append(entry("bad", "is said", difficulty="hard"))
    run.entries[-1]["expected_l1"]["memories"] = [{"content": "sings in a choir", "dimensions": ["identity"]}]
    other = run.file.with_name("v002.yaml")
    other.parent.mkdir()
    other.write_text(f"meta: {{gates: [P0 l1.memory_recall >= 0.9]}}\ncases: {json.dumps([entry('x', 'is tall')])}\n")
    assert run.run()["summary"]["passed_p0"] is False
    if change == "renamed":
        run.entries[-1]["case_id"] = "bad-2"
    else:
        run.entries.pop()
    again = run.again(status=1)
    assert (again["summary"]["passed_p0"], again["counts"]["not_run"]) == (False, 1)
    statuses = {(one["scope"], one["level"]): one["status"] for one in again["gates"]}
    assert statuses == {
        ("cases/v001.yaml", "P0"): "unmeasured",
        ("cases/v001.yaml", "P1"): "passed",
        ("cases/v002.yaml", "P0"): "passed",
    }
    sentence = (
        "1 case(s) that the run measured are in this file no more, cases/v001.yaml::bad for one: give them their ids"
        " back, or run again."
    )
    assert again["gates"][0]["reason"] == sentence
    assert sentence in capsys.readouterr().out
    assert not any("left no result" in note for note in again["notes"])
    # Nor is it for being scored twice.
    assert main(["rescore", str(run.out / "rescored"), "--output", "twice"]) == 1
    assert load(run.path / "twice")["gates"][0]["reason"] == sentence
    # With the case back in its place the run is what it was.
    run.entries[-1 if change == "renamed" else 2 :] = [{**entry("bad", "is said", difficulty="hard")}]
    run.again()


def test_a_stage_labelled_since_cannot_be_told_from_the_record(run: Run) -> None:
    run.run()
    run.entries[0]["expected_l2"] = {"template_section": {"daily": {"0": "basic_info"}}}
    # The engine has no sections at all.
    again = run.again()
    assert only(again, "a")["stages"]["template"] == "unsupported"
    (run.path / "conftest.py").write_text("", encoding="utf-8")
    run.run()
    run.entries[0]["expected_l2"]["template_section"]["work"] = {"0": "📦 项目进展"}
    run.entries[1]["expected_l15"] = {"actions": [{"new_memory_index": 0, "action": "store"}]}
    again = run.again(status=1)
    first, second = only(again, "a"), only(again, "b")
    assert (first["error"]["stage"], first["error"]["kind"]) == ("template", "not_recorded")
    assert "mode work" in first["error"]["message"]
    assert (second["error"]["stage"], second["error"]["kind"]) == ("l15", "not_recorded")
    assert second["stages"]["l1"] == "scored"


def test_labels_taken_away_take_their_error_along(run: Run) -> None:
    run.entries = [entry("a", "raise")]
    run.run()
    del run.entries[0]["expected_l1"]
    run.entries[0]["expected_l15"] = {"actions": [{"new_memory_index": 0, "action": "store"}]}
    run.entries[0]["expected_l1"] = {"memories": [{"content": "x", "dimensions": ["identity"]}]}
    assert only(run.again(status=1), "a")["stages"]["l1"] == "errored"
    del run.entries[0]["expected_l15"]
    run.entries[0]["expected_inject"] = {
        "mode": "daily",
        "subsequent_conversation": "[msg#1] user: hi",
        "referenced_memory_indices": [],
    }
    found = only(run.again(status=1), "a")
    assert found["stages"]["l1"] == "errored"


def test_an_invalid_label_is_an_error_of_its_case(run: Run) -> None:
    run.run()
    run.entries[1]["expected_l1"]["memories"][0]["dimensions"] = ["identiti"]
    again = run.again(status=1)
    broken = only(again, "b")
    assert (broken["outcome"], broken["error"]["kind"]) == ("errored", "invalid_case")
    assert "identiti" in broken["error"]["message"]
    assert only(again, "a")["outcome"] == "scored"


def test_the_runs_own_default_thresholds_hold(run: Run) -> None:
    run.pytester.makeini("[pytest]\nmemeval_expect =\n    l1.memory_recall > 1\n")
    first = run.run()
    assert first["summary"]["missed_own_thresholds"] == 2
    again = run.again()
    assert only(again, "a")["missed_expectations"] == only(first, "a")["missed_expectations"]
    assert again["summary"]["missed_own_thresholds"] == 2


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_a_run_without_texts_cannot_be_scored_again(run: Run, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    run.run("-o", f"memeval_report_text={policy}")
    capsys.readouterr()
    assert main(["rescore", str(run.out)]) == 2
    text = capsys.readouterr().err
    assert f"The run kept no texts (memeval_report_text = {policy})" in text
    assert len(text.splitlines()) == 1


def test_cases_built_in_code_are_left_out_and_told(run: Run) -> None:
    run.pytester.makepyfile(
        test_code="""
        import pytest
        from pytest_memeval.cases.models import EvalCase, L1GroundTruth
        from pytest_memeval.values import Message

        CASE = EvalCase("c", conversation=(Message("m", "user", "x"),), expected_l1=L1GroundTruth(()))

        @pytest.mark.memeval(case=CASE, gate=True)
        def test_it(memeval_l1):
            pass
        """
    )
    run.run()
    again = run.again()
    assert [one["case_id"] for one in again["per_case"]] == ["a", "b"]
    assert any("built in the code of a test" in note for note in again["notes"])


def test_the_newest_run_is_found_by_its_word(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescore", "latest"]) == 2
    assert "There is no run" in capsys.readouterr().err
    run.write()
    run.pytest()
    assert main(["rescore", "latest", "--output", "new"]) == 0
    assert load(run.path / "new")["counts"]["scored"] == 2


def test_moved_case_files_are_named_by_root(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    first = run.run()
    shutil.move(str(run.path / "cases"), str(run.path / "moved" / "cases"))
    capsys.readouterr()
    assert main(["rescore", str(run.out)]) == 2
    assert "name its folder with --root" in capsys.readouterr().err
    assert main(["rescore", str(run.out), "--root", str(run.path / "moved")]) == 0
    assert stable(load(run.out / "rescored")) == stable(first)


def test_damaged_outputs_and_files_are_one_sentence(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.run()
    report = load(run.out)
    report["per_case"][0]["outputs"]["l1"] = "x"
    (run.out / "report.json").write_text(json.dumps(report), encoding="utf-8")
    capsys.readouterr()
    assert main(["rescore", str(run.out)]) == 2
    assert "The outputs of cases/v001.yaml::a cannot be read: l1: expected a list" in capsys.readouterr().err
    assert main(["rescore", str(run.path / "nowhere")]) == 2
    assert "There is no report" in capsys.readouterr().err
    run.file.write_text("cases: [", encoding="utf-8")
    assert main(["rescore", str(run.out)]) == 2
    assert "v001.yaml" in capsys.readouterr().err


def test_files_of_another_checkout_are_named(
    run: Run,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run.run()
    capsys.readouterr()
    assert main(["rescore", str(run.out)]) == 0
    assert capsys.readouterr().err == ""
    copy = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(run.path, copy)
    monkeypatch.chdir(copy)
    assert main(["rescore", "out"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"labels are read from {run.file}",
        "warning: this folder holds another cases/v001.yaml, which is not used; --root . uses it",
    ]
    assert main(["rescore", "out", "--root", "."]) == 0
    assert capsys.readouterr().err == ""
