from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from report_samples import SET, errored_case, full_case, run_info, set_info

from pytest_memeval.cli.main import main
from pytest_memeval.report.build import build_report
from pytest_memeval.report.calls import calls_of
from pytest_memeval.report.write import write_reports


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    results = [
        *(full_case(n) for n in range(4)),
        errored_case(5, line=7),
        full_case(6, missed_expectations=("l1.memory_recall > 1: 50% of it\nmissed",), has_expectations=True),
    ]
    folder = tmp_path / "run"
    write_reports(folder, build_report(run_info(), [set_info()], results), calls_of(results))
    return folder


def test_summary_and_funnel(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run)]) == 0
    said = capsys.readouterr().out
    assert "6 cases: 5 scored, 1 errored" in said
    assert "The way of the labelled memories" in said
    assert "10 labelled memories of 5 case(s)" in said


def test_one_case_by_id_and_by_node_id(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run / "report.json"), "--case", "eval-001"]) == 0
    by_id = capsys.readouterr().out
    assert main(["show", str(run), "--case", f"{SET}::eval-001"]) == 0
    assert capsys.readouterr().out == by_id
    assert "The way of each labelled memory" in by_id
    assert "secret memory 1" in by_id
    assert "l1.dimension_micro_f1" in by_id


def test_an_unknown_case_names_the_nearest(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--case", "eval-0055"]) == 2
    assert "did you mean 'eval-005'?" in capsys.readouterr().err


def test_failed_cases(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--failed"]) == 0
    said = capsys.readouterr().out
    assert f"{SET}::eval-005  errored  {SET}:7" in said
    assert "[l1] unusable_answer: the answer is no JSON" in said
    assert "eval-006" in said
    assert "eval-001" not in said


def test_annotations_name_file_and_line_and_hold_one_line_each(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--annotate", "github"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"::error file={SET},line=7,title=eval-005::[l1] unusable_answer")
    assert lines[1].endswith("l1.memory_recall > 1: 50%25 of it%0Amissed")
    assert len(lines) == 2


def test_a_page_beside_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--html", "pages/out.html", "--lang", "zh"]) == 0
    assert capsys.readouterr().out.strip() == str(Path("pages/out.html"))
    page = Path("pages/out.html").read_text(encoding="utf-8")
    assert '<html lang="zh">' in page
    assert "secret prompt 1" in page


def test_a_run_without_failures_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    report["per_case"] = report["per_case"][:3]
    (run / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert main(["show", str(run), "--failed"]) == 0
    assert "No case errored" in capsys.readouterr().out


def test_what_a_conversation_holds_does_not_steer_the_terminal(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    report["per_case"][0]["input"] = {"conversation": [{"id": "msg_1", "role": "user", "content": "\x1b[2Jgone"}]}
    (run / "report.json").write_text(json.dumps(report), encoding="utf-8")
    for colour in (False, True):
        monkeypatch.setattr("pytest_memeval.cli.compare.wants_colour", lambda colour=colour: colour)
        main(["show", str(run), "--case", "eval-000"])
        said = capsys.readouterr().out
        assert "\x1b[2J" not in said
        assert "\\x1b[2Jgone" in said
        assert ("\x1b[" in said) is colour


# -- what a tuning run found


@pytest.fixture
def tuned(run: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    words = ("archery", "baking", "climbing", "diving", "fencing", "hockey")
    cases = "".join(
        f"  - case_id: case-{n}\n    conversation: hello\n    expected_l1:\n      memories:\n"
        f"        - {{content: '{word} is the hobby of person {n}', dimensions: [identity]}}\n"
        f"    expected_search_results: {{'{word}': [0]}}\n"
        for n, word in enumerate(words)
    )
    Path("set.yaml").write_text(f"cases:\n{cases}", encoding="utf-8")
    assert main(["tune", "set.yaml", "--grid", "rrf_k=10,60", "--output", "tuned"]) == 0
    capsys.readouterr()
    return Path("tuned")


@pytest.mark.parametrize("name", ["", "tuning.json"])
def test_a_tuning_document_is_shown_by_itself(tuned: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tuned / name)]) == 0
    said = capsys.readouterr().out
    assert "6 memories, 6 queries" in said
    assert "rrf_k" in said
    assert main(["show", str(tuned / name), "--html", "tuned.html", "--lang", "zh"]) == 0
    assert Path("tuned.html").read_text(encoding="utf-8").startswith('<!doctype html>\n<html lang="zh">')


@pytest.mark.parametrize("option", [("--case", "x"), ("--failed",), ("--annotate", "github"), ("--tuning", "tuned")])
def test_a_tuning_document_has_no_cases(
    tuned: Path, option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(tuned), *option]) == 2
    assert f"tuned is a tuning document, which {option[0]} does not go with" in capsys.readouterr().err


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_run_is_shown_with_a_tuning_document(
    run: Path, tuned: Path, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(run), "--tuning", str(tuned), "--html", "with.html", "--lang", lang]) == 0
    page = Path("with.html").read_text(encoding="utf-8")
    shown, waiting = page.split("<template", 1)
    document = json.loads((tuned / "tuning.json").read_text(encoding="utf-8"))
    for half in (shown, waiting):
        assert "set.yaml" in half
        for score in document["rrf"]["param_sensitivity"]["rrf_k"]["at_best"]:
            assert f"{score:.4f}" in half
        assert half.count("<svg") == 1
    assert ("Sensitivity" in shown, "Sensitivity" in waiting) == (lang == "en", lang == "zh")
    capsys.readouterr()
    assert main(["show", str(run), "--tuning", str(tuned), "--lang", lang]) == 0
    said = capsys.readouterr().out
    assert "rrf_k" in said
    assert "eval" in said or ("5 scored" in said) is (lang == "en")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda document: "{", "is not valid JSON"),
        (lambda document: "[]", "is no tuning document"),
        (lambda document: json.dumps({**document, "kind": "other"}), "is no tuning document"),
        (lambda document: json.dumps({**document, "schema_version": "2.0"}), "schema version 2.0"),
        (lambda document: json.dumps({key: document[key] for key in document if key != "rrf"}), "'rrf' is missing"),
        (lambda document: json.dumps({**document, "rrf": []}), "is damaged"),
        (lambda document: json.dumps({**document, "rrf": {**document["rrf"], "param_sensitivity": 3}}), "is damaged"),
    ],
)
def test_a_tuning_document_that_cannot_be_used(
    run: Path, tuned: Path, change: Callable[[Any], str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tuned / "tuning.json"
    file.write_text(change(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")
    assert main(["show", str(run), "--tuning", str(file), "--html", "out.html"]) == 2
    assert words in capsys.readouterr().err
    assert not Path("out.html").exists()
    assert main(["show", str(run), "--tuning", "nowhere.json"]) == 2
    assert "no tuning document at nowhere.json" in capsys.readouterr().err


def test_runs_that_cannot_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "latest"]) == 2
    assert "no run" in capsys.readouterr().err
    assert main(["show", "nowhere"]) == 2
    assert "no report" in capsys.readouterr().err
