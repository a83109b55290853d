"""What a project's own code does to end the process, or to have no words, wherever a command or a run calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_memeval
from pytest_memeval.options import SettingsError
from pytest_memeval.own_code import named, own_errors, text_of

PARTS = """
import sys

class Base:
    name, version = "base", "1"

    def extract(self, conversation, ctx):
        return [{"content": message.content, "dimensions": ["identity"]} for message in conversation]

class Init(Base):
    def __init__(self):
        sys.exit(0)

class Stages(Base):
    def supported_stages(self):
        sys.exit(0)

class Name(Base):
    @property
    def name(self):
        sys.exit(0)

class Release(Base):
    def release(self, ctx):
        sys.exit(0)

class AsyncRelease(Base):
    async def release(self, ctx):
        sys.exit(0)

def factory():
    sys.exit(0)

def match(predicted, truth):
    sys.exit(0)

def broken_match(predicted, truth):
    raise RuntimeError("no model")

def bad_match(predicted, truth):
    return [("x", 1)]

def complete(messages, *, stage):
    sys.exit(0)

def judge(question, truth, prediction, mode):
    sys.exit(0)

def evaluate(sample):
    sys.exit(0)

class Search:
    def load(self, memories):
        sys.exit(0)

    def search(self, query, params):
        sys.exit(0)
"""

CASES = """
meta: {gates: []}
cases:
  - case_id: a
    conversation: [{role: user, content: I am a nurse}]
    expected_l1: {memories: [{content: I am a nurse, dimensions: [identity]}]}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    for module in ("leaving", "own_parts_here"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    (tmp_path / "own_parts_here.py").write_text(PARTS, encoding="utf-8")
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.yaml").write_text(CASES, encoding="utf-8")
    return tmp_path


def memeval(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_memeval", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def main_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    from pytest_memeval.cli.main import main

    status = main(arguments)
    told = capsys.readouterr()
    return status, told.err + told.out


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("option", ["engine", "llm", "matcher", "judge", "evaluator"])
def test_a_module_that_ends_the_process_is_refused_by_doctor(
    here: Path, capsys: pytest.CaptureFixture[str], option: str, json: list[str]
) -> None:
    status, text = main_of(["doctor", f"--{option}", "leaving:x", *json], capsys)
    assert status == 2
    assert "'leaving:x' cannot be imported: SystemExit: 0 (leaving.py:2 in <module>)\n" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("name", ["Init", "Stages", "Name", "factory"])
def test_an_engine_that_ends_the_process_is_refused_by_doctor(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    status, text = main_of(["doctor", "--engine", f"own_parts_here:{name}"], capsys)
    assert (status, len(text.splitlines())) == (2, 1)
    assert "SystemExit: 0 (own_parts_here.py:" in text


@pytest.mark.parametrize(
    ("option", "name"), [("llm", "complete"), ("matcher", "match"), ("judge", "judge"), ("evaluator", "evaluate")]
)
def test_a_part_that_ends_the_process_fails_its_check(
    here: Path, capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    status, text = main_of(["doctor", f"--{option}", f"own_parts_here:{name}"], capsys)
    assert status == 1
    assert "FAILED" in text
    assert "SystemExit: 0" in text


@pytest.mark.parametrize("name", ["Release", "AsyncRelease"])
def test_a_release_that_ends_the_process_is_no_part_of_a_check(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main_of(["doctor", "--engine", f"own_parts_here:{name}"], capsys)[0] == 0


def test_other_commands_refuse_it_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest_memeval.run("cases", engine="own_parts_here:Base", output="out")
    (here / "answers.jsonl").write_text('{"question": "Where?", "ground_truth": "Oslo"}\n', encoding="utf-8")
    for arguments, words in (
        (["rescore", "out", "--matcher", "leaving:x"], "--matcher: 'leaving:x' cannot be imported: SystemExit: 0"),
        (["rescore", "out", "--matcher", "own_parts_here:match"], "'own_parts_here:match' failed: SystemExit: 0"),
        (["rescore", "out", "--matcher", "own_parts_here:broken_match"], "RuntimeError: no model (own_parts_here.py:"),
        (["rescore", "out", "--matcher", "own_parts_here:bad_match"], "'own_parts_here:bad_match' failed"),
        (["tune", "cases/a.yaml", "--search", "leaving:x"], "--search leaving:x: cannot import leaving: SystemExit: 0"),
        (["tune", "cases/a.yaml", "--search", "own_parts_here:Search"], "load() failed with SystemExit: 0"),
        (["judge-check", "answers.jsonl", "--judge", "leaving:x"], "cannot be imported: SystemExit: 0"),
    ):
        status, text = main_of(arguments, capsys)
        assert (status, words in text, "Traceback" in text) == (2, True, False), (arguments, text)


def test_a_command_never_takes_the_status_of_code_that_it_called(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for status in ("0", "None", "7", "'text'"):
        (here / "leaving.py").write_text(f"import sys\nsys.exit({status})\n", encoding="utf-8")
        done = memeval("doctor", "--engine", "leaving:x")
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1


def test_what_no_command_expects_is_told_and_is_status_2(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def leave(*_: object, **__: object) -> None:
        sys.exit(0)

    monkeypatch.setattr("pytest_memeval.cases.loader.load_case_set", leave)
    status, text = main_of(["validate", "cases/a.yaml"], capsys)
    assert status == 2
    assert text.startswith("memeval validate: code that it called ended the process: SystemExit: 0 (")


@pytest.mark.parametrize("name", ["Init", "Stages", "Name", "factory"])
def test_a_run_refuses_an_engine_that_ends_the_process(here: Path, name: str) -> None:
    import own_parts_here  # type: ignore[import-not-found]  # written by the fixture

    with pytest.raises(SettingsError, match=r"SystemExit: 0 \(own_parts_here.py:"):
        pytest_memeval.run("cases", engine=f"own_parts_here:{name}", output="out")
    if name != "factory":
        with pytest.raises(SettingsError, match=r"SystemExit: 0 \(own_parts_here.py:"):
            pytest_memeval.run("cases", engine=getattr(own_parts_here, name), output="out")


@pytest.mark.parametrize("name", ["Release", "AsyncRelease"])
def test_a_run_outlives_a_release_that_ends_the_process(here: Path, name: str) -> None:
    assert pytest_memeval.run("cases", engine=f"own_parts_here:{name}", output="out").passed


def test_the_words_of_an_exception_without_any() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert named(Silent()) == "Silent: (its text cannot be had: __str__ raised RuntimeError)"
    assert (text_of(ValueError("x")), named(ValueError())) == ("x", "ValueError")


def test_an_interrupt_is_no_failure_of_anybody() -> None:
    assert not issubclass(KeyboardInterrupt, own_errors())
    assert not issubclass(GeneratorExit, own_errors())
    assert issubclass(SystemExit, own_errors())
    assert issubclass(pytest.fail.Exception, own_errors())


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["-m", "pytest_memeval", "doctor", "--engine", "wanderer:E"], 1),
        (
            [
                "-c",
                "import pytest_memeval, wanderer\n"
                "report = pytest_memeval.run('cases.yaml', engine=wanderer.E)\n"
                "print(report.case('a')['errors'][0]['message'])",
            ],
            0,
        ),
    ],
    ids=["doctor", "run"],
)
def test_an_engine_that_changes_the_folder_is_still_found(tmp_path: Path, command: list[str], status: int) -> None:
    (tmp_path / "wanderer.py").write_text(
        "import os\n\nclass E:\n    name, version = 'e', '1'\n\n    def extract(self, conversation, ctx):\n"
        "        os.chdir('/')\n        raise RuntimeError('lost')\n",
        encoding="utf-8",
    )
    (tmp_path / "cases.yaml").write_text(
        "cases: [{case_id: a, conversation: hi, expected_l1: {memories: []}}]\n", encoding="utf-8"
    )
    root = str(Path(pytest_memeval.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env={"PYTHONPATH": root, "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "RuntimeError: lost (wanderer.py:8 in extract)" in done.stdout
