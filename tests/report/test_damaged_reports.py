"""Whatever a report's file holds, commands that read it end with a sentence and status 2, never with a traceback."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "compare"))
from compare_samples import cases, report_of
from report_samples import SET

from pytest_memeval.cli.main import main
from pytest_memeval.compare.baseline import load_baseline
from pytest_memeval.options import SettingsError
from pytest_memeval.report.reader import ReportError, check_report
from pytest_memeval.report.write import write_reports
from pytest_memeval.resume.run import StoredRun

#: Of each type that JSON has; which of them is wrong depends on the key.
VALUES: tuple[Any, ...] = (None, "x", 3, [1], {"a": 1})
ABSENT = object()
LABELS = {"memories": [{"content": "hello", "dimensions": ["identity"]}]}


@pytest.fixture(scope="module")
def good() -> dict[str, Any]:
    shard = {
        "index": 1,
        "count": 1,
        "selected": {SET: {f"{SET}::eval-001": 1}},
        "files": {},
        "chosen": False,
        "metas": [],
        "crashed": 0,
        "notes": [],
    }
    return report_of(cases(1), shard=shard, config={"options": {"gate_cli": None, "gate_ini": None}})


@pytest.fixture
def here(tmp_path: Path, good: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_reports(tmp_path / "good", good)
    file = tmp_path / SET
    file.parent.mkdir()
    case = {"case_id": "eval-001", "conversation": "[msg#1] user: hello", "expected_l1": LABELS}
    file.write_text(json.dumps({"cases": [case]}), encoding="utf-8")
    return tmp_path


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("compare", "good", "bad.json", "--format", "markdown"),
    ("rescore", "bad.json", "--root", ".", "--output", "again"),
    ("show", "bad.json"),
    ("show", "bad.json", "--html", "page.html"),
    ("power", "bad.json", "good"),
    ("merge", "bad.json", "--output", "whole"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_value_of_a_key_gives_a_traceback(
    here: Path, good: dict[str, Any], command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    failed = []
    # All of them read a report in the same way: what comes after differs.
    values = VALUES if command[0] == "compare" else VALUES[::2]
    for key in good:
        for value in (*values, ABSENT):
            bad = {name: one for name, one in good.items() if name != key or value is not ABSENT}
            if value is not ABSENT:
                bad[key] = value
            (here / "bad.json").write_text(json.dumps(bad), encoding="utf-8")
            try:
                status = main(command)
            except Exception as error:
                failed.append(f"{key} = {'(absent)' if value is ABSENT else value!r}: {type(error).__name__} {error}")
                continue
            said = capsys.readouterr().err
            if status == 2 and len(said.strip().splitlines()) != 1:
                failed.append(f"{key} = {value!r}: {said}")
    assert not failed, "\n".join(failed)


def test_a_wrong_type_is_named(good: dict[str, Any]) -> None:
    for key, value, sentence in (
        ("case_sets", [], "case_sets must be an object, not list"),
        ("model", None, "model must be an object, not null"),
        ("judge", 3, "judge must be an object or null, not number 3"),
        ("stages", {"selected": []}, "stages.supported is missing"),
        ("gates", [1], "gates[0] must be an object, not number 1"),
        ("schema_version", None, "schema_version null, which is not of the form"),
        ("schema_version", 1.7, "schema_version 1.7, which is not of the form"),
        ("schema_version", "0.1", "schema version 0.1, which no version of memeval writes"),
    ):
        with pytest.raises(ReportError) as found:
            check_report({**good, key: value}, "r.json")
        assert sentence in str(found.value)
    with pytest.raises(ReportError, match="holds a JSON null, not a report"):
        check_report(None)
    assert check_report({**good, "judge": None, "schema_version": "1.99"})


def test_a_baseline_and_a_journal_that_are_damaged(here: Path, good: dict[str, Any]) -> None:
    for key in good:
        for value in VALUES:
            (here / "bad.json").write_text(json.dumps({**good, key: value}), encoding="utf-8")
            with contextlib.suppress(ReportError):
                assert load_baseline(here / "bad.json").records is not None
    lines = [json.dumps(value) for value in (*VALUES, *({"node_id": one, "outcome": "scored"} for one in VALUES))]
    (here / "journal.jsonl").write_text("\n".join(lines), encoding="utf-8")
    stored = StoredRun(here / "journal.jsonl")
    assert (len(stored), stored.unreadable) == (1, 9)
    (here / "journal.jsonl").write_text('{"node_id": "a", "outcome": "scored", "report_text": "hash"}')
    with pytest.raises(SettingsError, match="kept no texts"):
        StoredRun(here / "journal.jsonl")


def test_a_part_named_twice_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "good", "good/report.json", "--output", "whole"]) == main(["merge", "good", "--output", "w2"])
    said = capsys.readouterr().err.splitlines()
    assert said == ["good/report.json was named before (as good): the repeat is ignored"]


def test_merge_and_rescore_leave_foreign_files_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "per_case.csv").write_text("my table", encoding="utf-8")
    for words in (["merge", "good"], ["rescore", "good", "--root", "."]):
        assert main([*words, "--output", "mine"]) == 2
        assert "per_case.csv is no file of an earlier run" in capsys.readouterr().err
    assert [file.name for file in (here / "mine").iterdir()] == ["per_case.csv"]
