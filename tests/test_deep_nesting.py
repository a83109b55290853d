"""Files of users that are nested without end: a sentence that names the file, never a traceback."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.cases.distractors import load_distractors
from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.cases.skeleton import read_conversations
from pytest_memeval.cli.main import main
from pytest_memeval.datasets.errata import load_errata
from pytest_memeval.datasets.locomo import load_locomo
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.engine.adapters.http import _answer
from pytest_memeval.engine.predictions import load_predictions
from pytest_memeval.engine.protocol import StageError
from pytest_memeval.judge.questions import read_questions
from pytest_memeval.kinds import kind_of
from pytest_memeval.llm.export import read_jsonl
from pytest_memeval.llm.proxy_calls import decoded
from pytest_memeval.rag.contexts import SavedContexts
from pytest_memeval.report.calls import read_calls
from pytest_memeval.report.journal import _end_last_line
from pytest_memeval.report.reader import ReportError, load_report
from pytest_memeval.tuning.document import load_tuning

SENTENCE = "nested more than 100 levels deep"
DEEP = {
    "mappings": '{"a":' * 3000 + "1" + "}" * 3000,
    "lists": "[" * 100_000,
    "closed": "[" * 5000 + "]" * 5000,
    "row": '{"query": "q", "context": ["c"], "extra": ' + "[" * 3000 + "]" * 3000 + "}",
    "few": '{"content": ' + "[" * 150 + "]" * 150 + "}",
}
DEPTHS = pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)


def conversations(path: Path) -> object:
    return read_conversations(path.read_text(encoding="utf-8"), path)


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "case file": ("x.json", load_case_set),
    "distractors": ("x.jsonl", load_distractors),
    "conversations": ("x.json", conversations),
    "predictions": ("x.jsonl", load_predictions),
    "errata": ("x.json", load_errata),
    "data set": ("x.json", load_locomo),
    "questions": ("x.jsonl", lambda path: read_questions(path, "auto")),
    "recorded answers": ("x.jsonl", read_jsonl),
    "contexts": ("x.jsonl", SavedContexts),
}


@DEPTHS
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_says_so(tmp_path: Path, reader: str, text: str) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    try:
        problems = read(path).problems
    except DocumentError as error:
        problems = error.problems
    assert [str(one).partition(" ")[2] for one in problems if SENTENCE in str(one)], problems
    assert all(str(one).startswith(f"{path}:1") for one in problems if SENTENCE in str(one))


@DEPTHS
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_the_kind_of_such_a_file_can_be_asked(tmp_path: Path, text: str, suffix: str) -> None:
    path = tmp_path / f"deep.memeval{suffix}"
    path.write_text(text, encoding="utf-8")
    kind = kind_of(path)
    assert kind is None or kind.name == "rag"


@DEPTHS
def test_commands(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep.memeval.jsonl"
    path.write_text(text, encoding="utf-8")
    for words in (["validate", str(path)], ["new-case", str(path)]):
        assert main(words) in (1, 2)
        said = "".join(capsys.readouterr())
        assert f"{path}:1" in said
        assert SENTENCE in said


@pytest.mark.parametrize("load", [load_report, load_tuning])
@pytest.mark.parametrize("text", [DEEP["lists"], DEEP["mappings"], DEEP["closed"]])
def test_reports(tmp_path: Path, load: Callable[[Path], object], text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReportError, match=r"report\.json"):
        load(path)


@pytest.mark.parametrize("text", [DEEP["lists"], DEEP["mappings"], DEEP["closed"]])
def test_what_servers_and_runs_leave(tmp_path: Path, text: str) -> None:
    calls, journal = tmp_path / "calls.jsonl.gz", tmp_path / "journal.jsonl"
    calls.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ReportError, match="cannot be read as model calls"):
        read_calls(calls)
    journal.write_text('{"node_id": "a"}\n' + DEEP["lists"], encoding="utf-8")
    _end_last_line(journal)
    assert journal.read_text(encoding="utf-8") == '{"node_id": "a"}\n'
    with pytest.raises(StageError, match="the answer is no JSON"):
        _answer(200, DEEP["lists"].encode(), "extract")
    assert decoded(DEEP["lists"]) == DEEP["lists"]


def test_such_a_file_does_not_keep_others_from_running(pytester: pytest.Pytester) -> None:
    case = "cases:\n  - case_id: one\n    conversation: I like tea.\n    expected_l1: {memories: []}\n"
    (pytester.path / "good.memeval.yaml").write_text(case, encoding="utf-8")
    (pytester.path / "deep.memeval.jsonl").write_text(DEEP["mappings"], encoding="utf-8")
    result = pytester.runpytest_subprocess("-p", "no:randomly", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*deep.memeval.jsonl:1:*{SENTENCE}*"])
    result.stdout.no_fnmatch_line("*RecursionError*")
    pytester.runpytest_subprocess("-p", "no:randomly", "good.memeval.yaml").assert_outcomes(passed=1)
