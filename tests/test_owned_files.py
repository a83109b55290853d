"""What the commands write replaces files of ours, and no other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "compare"))
from compare_samples import counts_case, report_of

from pytest_memeval.cli.main import main
from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache
from pytest_memeval.owned_files import KINDS, is_replaceable
from pytest_memeval.report.write import write_reports
from pytest_memeval.tuning.document import FILES as TUNING_FILES

FOREIGN = (
    "my own words\n",
    "<!doctype html><html><body>mine</body></html>",
    "# Notes\n",
    '{"name": "web"}',
    "[" * 100_000,
)
WORDS = {
    "show": ("show", "a", "--html", "page.html"),
    "compare html": ("compare", "a", "b", "--output", "page.html"),
    "compare markdown": ("compare", "a", "b", "--output", "page.md"),
    "compare json": ("compare", "a", "b", "--output", "page.json"),
    "compare text": ("compare", "a", "b", "--output", "page.txt"),
    "history": ("history", "--html", "page.html"),
    "tune corpus": ("tune", "set.yaml", "--export-corpus", "page.jsonl"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_reports(tmp_path / "a", report_of([counts_case(number, 4, 0, 1) for number in range(1, 4)]))
    write_reports(tmp_path / "b", report_of([counts_case(number, 2, 1, 2) for number in range(1, 4)]))
    memory = {"content": "the hobby is archery", "dimensions": ["identity"]}
    case = {"case_id": "c", "conversation": "hello", "expected_l1": {"memories": [memory]}}
    case["expected_search_results"] = {"archery": [0]}
    (tmp_path / "set.yaml").write_text(json.dumps({"cases": [case]}), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_commands_replace_their_own_files_and_no_others(
    here: Path, words: tuple[str, ...], lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = here / words[-1]
    given = (*words, "--lang", lang)
    for text in FOREIGN:
        target.write_text(text, encoding="utf-8")
        assert main(given) == 2
        said = capsys.readouterr().err
        assert f"{words[-2]}: {words[-1]} is no file of an earlier run and would be replaced" in said
        assert len(said.splitlines()) == 1
        assert target.read_text(encoding="utf-8") == text
    target.write_text("", encoding="utf-8")
    for _ in range(2):  # empty, then its own
        assert main(given) == 0
        assert target.read_text(encoding="utf-8").strip()
    # What it wrote is still nobody else's kind of file.
    others = [kind for kind in KINDS if is_replaceable(target, kind)]
    assert len(others) == 1


@pytest.mark.parametrize("name", TUNING_FILES)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_tune_replaces_its_own_folder_and_no_other_file(
    here: Path, name: str, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("tune", "set.yaml", "--output", "out", "--lang", lang)
    target = here / "out" / name
    target.parent.mkdir()
    for text in FOREIGN:
        target.write_text(text, encoding="utf-8")
        assert main(given) == 2
        said = capsys.readouterr()
        assert f"--output: out/{name} is no file of an earlier run and would be replaced" in said.err
        assert len(said.err.splitlines()) == 1
        assert said.out == "", "nothing is measured first"
        assert target.read_text(encoding="utf-8") == text
        assert list(target.parent.iterdir()) == [target]
    target.unlink()
    (here / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    for _ in range(2):  # new, then its own
        assert main(given) == 0
    assert (here / "out" / "mine.txt").read_text(encoding="utf-8") == "mine"
    assert [kind for kind in KINDS if is_replaceable(target, kind)] == [TUNING_FILES[name]]


def test_an_export_of_the_cache_replaces_an_export_and_no_other_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with AnswerCache(here / CACHE_FILE_NAME) as cache:
        cache.put_vectors("server", "e", {"x": [1.0, 2.0]})
    given = ("cache", "export", "answers.jsonl", "--cache-dir", ".")
    target = here / "answers.jsonl"
    for text in FOREIGN:
        target.write_text(text, encoding="utf-8")
        assert main(given) == 2
        assert "FILE: answers.jsonl is no file of an earlier run" in capsys.readouterr().err
        assert target.read_text(encoding="utf-8") == text
    target.unlink()
    for _ in range(2):
        assert main(given) == 0
    assert [kind for kind in KINDS if is_replaceable(target, kind)] == ["answers"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_or_cannot_be_read(tmp_path: Path, kind: str) -> None:
    assert is_replaceable(tmp_path / "absent", kind)
    assert not is_replaceable(tmp_path, kind)
    assert is_replaceable(Path("/dev/null"), kind)
    (tmp_path / "binary").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert not is_replaceable(tmp_path / "binary", kind)
