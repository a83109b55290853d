"""Options and their ini twins: what is accepted, what is refused, and how the refusal helps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from plugin_project import good_cases

from pytest_memeval.options import OPTIONS, Option

if TYPE_CHECKING:
    from plugin_project import Project

USAGE_ERROR = pytest.ExitCode.USAGE_ERROR

#: Option, value, what the message has to hold.
REFUSED = [
    ("engine", "refrence", "reference"),
    ("matcher", "indell", "indel"),
    ("stages", "l1,l3", "unknown stage 'l3'; known: l1, l15, l2"),
    ("stages", "", "no stage is named"),
    ("stage-input", "thruth", "truth"),
    ("lang", "cn", "known: en, zh"),
    ("llm", "embeded", "embedded"),
    ("cache", "reply", "replay"),
    ("unknown-label", "fpp", "fp"),
    ("report-text", "ful", "full"),
    ("on-invalid-case", "skipp", "skip"),
    ("prompt-version", "v999", "v001, v002"),
    ("prompt-version", "l1=v999", "v001, v002"),
    ("prompt-version", "l7=v001", "l7"),
    ("gate", "P0 l1.dimension_micro_fl >= 0.7", "did you mean 'l1.dimension_micro_f1'"),
    ("gate", "P3 l1.memory_recall >= 0.7", "P0, P1, P2"),
    ("gate", "P0 l1.memory_recall", "a gate is"),
    ("gate", "P0 l1.memory_recall >= much", "is not a number"),
    ("limit", "0", "less than 1"),
    ("limit", "many", "is not a whole number"),
    ("sample", "-1", "less than 1"),
    ("timeout", "0", "above 0"),
    ("timeout", "inf", "above 0"),
    ("trials", "0", "less than 1"),
    ("trials", "1001", "1001 is more than 1000"),
    ("trials", "9" * 20, f"{'9' * 20} is more than 1000"),
    ("trials", "9" * 400, f"{'9' * 60}… is more than 1000"),
    ("trials", "9" * 5000, "is not a whole number"),
    ("timeout", "1e10", "1e+10 is more than 1000000 seconds"),
    ("timeout", "1e308", "1e+308 is more than 1000000 seconds"),
    ("request-timeout", "1e10", "1e+10 is more than 1000000 seconds"),
    ("progress", "1e10", "1e+10 is more than 1000000 seconds"),
    ("match-threshold", "nan", "between 0 and 1"),
    ("max-error-rate", "2", "between 0 and 1"),
    ("predictions", "nowhere.jsonl", "does not exist"),
    ("registry", "nowhere.yaml", "does not exist"),
    ("output", "cases/v001.yaml", "is a file"),
]


def complaint(result: pytest.RunResult) -> str:
    """What was said; refusals go to the standard error."""
    assert result.ret == USAGE_ERROR, result.stdout.str()
    text = result.stderr.str()
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    return text


@pytest.mark.parametrize(("name", "value", "hint"), REFUSED)
def test_a_bad_value_ends_the_run_before_it_starts(project: Project, name: str, value: str, hint: str) -> None:
    project.cases(good_cases(1))
    text = complaint(project.run(f"--memeval-{name}={value}"))
    assert hint in text
    assert f"--memeval-{name}" in text
    assert len(text.strip().splitlines()) == 1
    assert not (project.path / "out").exists()


@pytest.mark.parametrize(("name", "value", "hint"), [row for row in REFUSED if row[1]])
def test_the_same_from_the_ini(project: Project, name: str, value: str, hint: str) -> None:
    project.cases(good_cases(1))
    key = "memeval_" + name.replace("-", "_")
    project.write("pytest.ini", f"[pytest]\n{key} = {value}\n")
    text = complaint(project.pytester.runpytest_inprocess("-pno:randomly", "-pno:hypothesispytest"))
    assert hint in text
    assert key in text


#: What stands in a file that an option names by mistake.
FOREIGN = {
    "broken": b"{[",
    "binary": b"\xff\xfe\x00\x9f",
    "other": b"models: {m: {input: cheap}}\n",
    "list": b"- 1\n",
    "text": b"just a note",
}


@pytest.mark.parametrize("content", [*FOREIGN, "folder"])
@pytest.mark.parametrize("name", ["prices", "registry", "templates", "prompts", "predictions", "baseline"])
def test_a_file_of_another_kind_ends_the_run_before_it_starts(project: Project, name: str, content: str) -> None:
    project.cases(good_cases(1))
    if content == "folder":
        (project.path / "given").mkdir()
    else:
        (project.path / "given").write_bytes(FOREIGN[content])
    text = complaint(project.run(f"--memeval-{name}=given"))
    assert "given" in text
    assert not (project.path / "out").exists()


def test_in_two_processes_it_is_the_same(project: Project) -> None:
    project.cases(good_cases(1))
    assert "indel" in complaint(project.run("--memeval-matcher", "indell", "-n", "2"))


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("memeval_expect = l1.memory_recal >= 0.5", "l1.memory_recall"),
        ("memeval_expect = l1.memory_recall", "threshold"),
        ("memeval_keep_db = maybe", "memeval_keep_db"),
        ("memeval_no_gate = 2", "memeval_no_gate"),
        ("memeval_gate =\n    P0 l1.memory_recall >= 0.1\n    P0 l9.x > 1", "l9"),
    ],
)
def test_ini_values_that_cannot_be_read(project: Project, line: str, hint: str) -> None:
    project.cases(good_cases(1))
    project.write("pytest.ini", f"[pytest]\n{line}\n")
    assert hint in complaint(project.run())


def test_a_version_that_only_the_case_files_own_prompts_have(project: Project) -> None:
    project.cases(good_cases(1), prompts="nowhere")
    result = project.run("--memeval-prompt-version", "v999")
    # It is the file that is wrong here, so it is an error of its collection.
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "nowhere" in result.stdout.str()


def test_default_thresholds_of_the_project(project: Project) -> None:
    entries = good_cases(2)
    entries[1]["expected_l1"]["memories"].append({"content": "QQQQ 77777", "dimensions": ["skills"]})
    project.cases(entries)
    project.write(
        "pytest.ini", "[pytest]\nmemeval_expect =\n    l1.memory_recall >= 0.9\n    l15.action_accuracy >= 1\n"
    )
    result = project.run()
    # A default binds only cases that have labels for it.
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["cases/v001.yaml:4: ?expect? l1.memory_recall is 0.5*, expected >= 0.9"])


def test_the_command_line_comes_before_the_ini(project: Project) -> None:
    project.cases(good_cases(4))
    project.write("pytest.ini", "[pytest]\nmemeval_limit = 1\nmemeval_lang = zh\n")
    project.run().assert_outcomes(passed=1, deselected=3)
    result = project.run("--memeval-limit", "2", "--memeval-lang", "en")
    result.assert_outcomes(passed=2, deselected=2)
    assert "2 cases: 2 scored" in result.stdout.str()
    options = project.report()["config"]["options"]
    assert (options["limit"], options["lang"]) == (2, "en")


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.flag], ids=lambda option: option.name)
def test_every_option_has_its_ini_twin_and_a_help_text(option: Option) -> None:
    assert option.ini
    assert option.help


def test_options_are_recorded_as_json(project: Project) -> None:
    project.cases(good_cases(1))
    project.run("--memeval-gate", "P1 l1.memory_recall >= 0.5", "--memeval-cache-dir", "c")
    options = project.report()["config"]["options"]
    assert options["gate_cli"] == ["P1 l1.memory_recall >= 0.5"]
    assert options["cache_dir"] == str(project.path / "c")
    json.dumps(options)


@pytest.mark.parametrize("option", ["--memeval-resume", "--memeval-output", "--memeval-baseline"])
@pytest.mark.parametrize("strict", [False, True], ids=["warned", "refused"])
def test_a_path_that_moves_the_root_is_told_of(project: Project, option: str, strict: bool) -> None:
    """Cases have other node ids then, and nothing of an earlier run is known by them."""
    inner = project.path / "inner"
    project.cases(good_cases(2))
    inner.mkdir()
    for name in ("cases", "conftest.py", "line_engine.py"):
        if (project.path / name).exists():
            (project.path / name).rename(inner / name)
    for ini in ("pytest.ini", "tox.ini", "pyproject.toml"):
        (project.path / ini).unlink(missing_ok=True)

    def run(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "cases", "-p", "no:randomly", *options]
        path = os.pathsep.join(filter(None, [str(project.path), str(inner), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            command, cwd=inner, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120
        )
        return done.returncode, done.stdout + done.stderr

    earlier = project.path / "earlier"
    assert run(f"--memeval-output={earlier}")[0] == 0
    value = earlier / "report.json" if option == "--memeval-baseline" else earlier
    status, text = run(option, str(value), *(("-W", "error::pytest.PytestConfigWarning") if strict else ()))
    assert f"{option} {value}: after a blank pytest takes the path" in text
    # The pattern cases/**/*.yaml begins at the root, too.
    assert status == (pytest.ExitCode.USAGE_ERROR if strict else pytest.ExitCode.NO_TESTS_COLLECTED)
    if not strict:
        status, text = run(f"{option}={value}")
        assert status == 0
        assert "after a blank" not in text


@pytest.mark.parametrize("named", [[], ["cases"], ["cases/v001.yaml"]])
def test_a_path_beside_the_cases_moves_nothing(project: Project, named: list[str]) -> None:
    for ini in ("pytest.ini", "tox.ini", "pyproject.toml"):
        (project.path / ini).unlink(missing_ok=True)
    project.cases(good_cases(2))
    for _ in range(2):  # the second time the folder is there
        result = project.run(*named, "--memeval-output", "out", "-W", "error::pytest.PytestConfigWarning")
        result.assert_outcomes(passed=2)
