"""``memeval compare`` from files: formats, exit statuses, one sentence for what cannot be used."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "compare"))
from compare_samples import cases, counts_case, report_of

from pytest_memeval.cli.main import main
from pytest_memeval.report.write import write_latest, write_reports


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    good = [counts_case(number, 4, 0, 1) for number in range(1, 13)]
    bad = [counts_case(number, 2, 1 + number % 2, 2) for number in range(1, 13)]
    write_reports(tmp_path / "a", report_of(good))
    write_reports(tmp_path / "b", report_of(bad))
    return tmp_path


def test_files_folders_latest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_latest(here, here / "b")
    assert main(["compare", "a/report.json", "latest"]) == 0
    shown = capsys.readouterr().out
    assert "l1.dimension_micro_f1" in shown
    assert "clear: worse" in shown
    assert main(["compare", "a", "a"]) == 0
    assert "Nothing changed: 12 cases compared, all equal." in capsys.readouterr().out


def test_output_files_by_their_ending(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["c.html", "c.md", "c.json", "c.txt"]
    assert main(["compare", "a", "b", "--lang", "zh", *(word for name in names for word in ("--output", name))]) == 0
    assert (here / "c.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (here / "c.md").read_text(encoding="utf-8").startswith("# 两次运行的对比")
    assert json.loads((here / "c.json").read_text(encoding="utf-8"))["compared"] == 12
    assert (here / "c.txt").read_text(encoding="utf-8").rstrip() == capsys.readouterr().out.rstrip()


def test_fail_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", "--fail-on", "l1.dimension_micro_f1 < -0.02"]) == 1
    assert "holds: exit status 1" in capsys.readouterr().err
    assert main(["compare", "b", "a", "--fail-on", "l1.dimension_micro_f1 < -0.02"]) == 0
    assert "does not hold" in capsys.readouterr().out
    # A report that lacks a metric is a report; that its difference cannot be told is not passed over.
    assert main(["compare", "a", "b", "--fail-on", "search.ndcg@10 < 0"]) == 1
    assert "cannot be told" in capsys.readouterr().err
    assert main(["compare", "a", "b", "--format", "json", "--fail-on", "vanished > 0"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["fail_on"] == [{"condition": "vanished > 0", "value": 0, "interval": None, "holds": False}]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a", "nowhere"], "There is no report at"),
        (["latest", "a"], "There is no run in .memeval/runs"),
        (["a", "empty"], "holds no report.json"),
        (["a", "broken.json"], "is not valid JSON"),
        (["a", "foreign.json"], "is no memeval report: it lacks 'schema_version'"),
        (["a", "list.json"], "holds a JSON list, not a report"),
        (["a", "newer.json"], "newer than the 1.x"),
        (["a", "damaged.json"], "is damaged"),
        (["a", "binary.json"], "is not UTF-8 text"),
        (["a", "b", "--fail-on", "l1.dimension_micro_f9 < 0"], "did you mean 'l1.dimension_micro_f1'"),
        (["a", "b", "--output", "c.pdf"], "--output: c.pdf ends with none of"),
        (["a", "b", "--prompts", "nowhere"], "prompts folder does not exist"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_and_status_2(
    here: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty").mkdir()
    good: dict[str, Any] = json.loads((here / "a" / "report.json").read_text(encoding="utf-8"))
    damaged = {**good, "per_case": [*good["per_case"], {"node_id": "x"}]}
    files: dict[str, Any] = {
        "foreign": {"name": "p"},
        "list": [],
        "newer": {**good, "schema_version": "2.0"},
        "damaged": damaged,
    }
    for name, data in files.items():
        (here / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    (here / "broken.json").write_text('{"schema_version": ', encoding="utf-8")
    (here / "binary.json").write_bytes(b"\xff\xfe\x00")
    assert main(["compare", *words]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert shown.out == ""


def test_partial_runs_are_marked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_reports(here / "part", report_of(cases(4), partial="aborted", not_run=(("cases/v001.yaml", "x::y"),)))
    assert main(["compare", "part", "a"]) == 0
    assert "A is a partial run (aborted)." in capsys.readouterr().out


def test_an_ascii_console_degrades(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    for kind in ("terminal", "json"):
        written = io.BytesIO()
        out = io.TextIOWrapper(written, encoding="ascii")
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["compare", "a", "b", "--format", kind]) == 0
        out.flush()
        assert written.getvalue()


@pytest.mark.parametrize("colour", [False, True])
def test_what_reports_hold_does_not_steer_the_terminal(
    here: Path, colour: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "b" / "report.json"
    report = json.loads(file.read_text(encoding="utf-8").replace("eval-001", "eval-\\u001b[2J\\u0000"))
    report["engine"] = {**report["engine"], "name": "rude\x1b[2J"}
    file.write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.setattr("pytest_memeval.cli.compare.wants_colour", lambda: colour)
    assert main(["compare", "a", "b", "--output", "c.txt"]) == 0
    shown = capsys.readouterr().out
    assert ("\x1b[" in shown) is colour
    for said in (shown, (here / "c.txt").read_text(encoding="utf-8")):
        assert "\x1b[2J" not in said
        assert "\x00" not in said
        assert "\\x1b[2J" in said
