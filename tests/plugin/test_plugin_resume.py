"""Going on with a run that ended early: what is finished is not run again, and the report is as if nothing happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chat_project import full_case, simple_case
from plugin_project import MODES, case, good_cases, stable

from pytest_memeval.assets.prompts import copy_prompts

if TYPE_CHECKING:
    from chat_project import ChatProject
    from plugin_project import Project

#: An engine that notes in a file which case it was asked about.
ENGINE = """
import asyncio
import os
import pathlib


class CountingEngine:
    name = "counting"
    version = "1"

    async def extract(self, conversation, ctx):
        with open("asked.txt", "a", encoding="utf-8") as file:
            file.write(ctx.case_id + "\\n")
        text = conversation[0].content
        if text == "raise" and not pathlib.Path("mended").exists():
            raise RuntimeError("engine broke here")
        await asyncio.sleep(float(os.environ.get("ENGINE_WAIT", "0.01")))
        ctx.record("seen", characters=len(text))
        dimensions, _, content = text.rpartition(": ")
        return [{"id": "m0", "content": content, "dimensions": (dimensions or "identity").split("+"),
                 "memory_type": "persona", "priority": 80, "time_velocity": "static"}]
"""
CONFTEST = """
import pytest
from counting_engine import CountingEngine


@pytest.fixture(scope="session")
def memeval_engine():
    return CountingEngine()
"""


SLOW_IN_TWO = pytest.mark.parametrize(
    "mode", [pytest.param((), id="serial"), pytest.param(("-n", "2"), marks=pytest.mark.slow, id="n2")]
)


@pytest.fixture
def counting(project: Project) -> Project:
    project.write("counting_engine.py", ENGINE)
    project.write("conftest.py", CONFTEST)
    return project


def asked(project: Project) -> list[str]:
    """The cases that the engine was asked about since the last look, sorted."""
    path = project.path / "asked.txt"
    found = path.read_text(encoding="utf-8").split() if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(found)


def missing(case_id: str) -> dict[str, Any]:
    """A case whose own threshold the engine misses."""
    return case(case_id, "identity: x", truth=[("skills", "quite another")], expect={"l1.memory_recall": ">= 0.5"})


def ids(*numbers: int) -> list[str]:
    return [f"eval-{number:03}" for number in numbers]


def assert_asked_once(project: Project, folder: str, *cases: str) -> None:
    """Each case was asked of the engine, and none twice but those that the report says two workers had begun."""
    found = asked(project)
    assert sorted(set(found)) == sorted(cases)
    assert len(found) - len(cases) <= project.report(folder)["environment"].get("prepared_in_vain", 0)


@pytest.mark.parametrize(("concurrency", "mode"), [("1", ()), ("8", ()), ("8", ("-n", "2"))])
def test_finished_cases_are_taken_and_errored_ones_run_again(
    counting: Project, concurrency: str, mode: tuple[str, ...]
) -> None:
    """The journal of an ended run: what was scored is not asked again, and the report is that of a whole run."""
    options = ("--memeval-concurrency", concurrency, *mode)
    broken = case("eval-099", "raise", truth=[("identity", "raise")])
    counting.cases([*good_cases(6), broken, missing("eval-100")])
    counting.run(*options, "--memeval-output", "first").assert_outcomes(passed=6, errors=1, failed=1)
    assert_asked_once(counting, "first", *ids(*range(1, 7)), "eval-099", "eval-100")
    (counting.path / "mended").touch()

    result = counting.run(*options, "--memeval-resume", "first")
    result.assert_outcomes(passed=7, failed=1)
    assert asked(counting) == ["eval-099"]
    result.stdout.fnmatch_lines(
        ["7 of 8 case(s) taken from run first, 1 run anew (0 changed, 1 errored there, 0 not in it)"]
    )
    resumed = counting.report()
    assert resumed["environment"]["resumed"]["cases"] == 7
    assert sorted(counting.journal()) == sorted(entry["node_id"] for entry in resumed["per_case"])

    counting.run(*options, "--memeval-output", "whole").assert_outcomes(passed=7, failed=1)
    assert stable(resumed) == stable(counting.report("whole"))
    assert_asked_once(counting, "whole", *ids(*range(1, 7)), "eval-099", "eval-100")

    counting.run(*options, "--memeval-resume", "out").assert_outcomes(passed=7, failed=1)
    assert asked(counting) == []  # the resumed run's journal is complete by itself
    assert stable(counting.report()) == stable(resumed)


@MODES
def test_a_quiet_run_says_how_many_cases_were_taken(counting: Project, mode: tuple[str, ...]) -> None:
    counting.cases(good_cases(3))
    counting.run("--memeval-output", "first").assert_outcomes(passed=3)
    counting.cases(good_cases(4))
    result = counting.run(*mode, "-q", "--memeval-resume", "first")
    result.assert_outcomes(passed=4)
    said = "3 of 4 case(s) taken from run first, 1 run anew (0 changed, 0 errored there, 1 not in it)"
    assert result.outlines.count(said) == 1
    assert not [line for line in result.outlines if line.startswith("4 cases:")]


@SLOW_IN_TWO
def test_kill_at_any_moment(counting: Project, mode: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed twice, once in the first and once in the resumed run, and gone on with each time."""
    monkeypatch.setenv("ENGINE_WAIT", "0.1")
    counting.cases(good_cases(40))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "--memeval-concurrency", "2", *mode]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(counting.path), *filter(None, sys.path)])}
    total = 0
    for more in ((), ("--memeval-resume", "latest")):
        process = subprocess.Popen(
            [*command, *more], cwd=counting.path, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
        )
        wait_for(lambda done=total + 5: len(journalled(counting)) >= done)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        total = len(journalled(counting))
    newest = newest_journal(counting)
    newest.write_bytes(newest.read_bytes() + b'{"node_id": "cases/v001.yaml::eval-040", "outc')
    known = {Path(node_id).name.partition("::")[2] for node_id in journalled(counting)}
    asked(counting)
    counting.run(*mode, "--memeval-resume", "latest").assert_outcomes(passed=40)
    assert set(asked(counting)) == set(ids(*range(1, 41))) - known
    assert counting.report()["environment"]["resumed"]["cases"] == len(known) >= 10
    assert counting.report()["environment"]["resumed"]["unreadable_lines"] == 1
    counting.run(*mode, "--memeval-output", "whole").assert_outcomes(passed=40)
    assert stable(counting.report()) == stable(counting.report("whole"))


def newest_journal(project: Project) -> Path:
    return max((project.path / ".memeval" / "runs").glob("*/journal.jsonl"))


def journalled(project: Project) -> set[str]:
    try:
        text = newest_journal(project).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return set()
    return {json.loads(line)["node_id"] for line in text.splitlines(keepends=True) if line.endswith("\n")}


def wait_for(ready: Any) -> None:
    limit = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_what_changed_is_run_again(counting: Project) -> None:
    """Each thing that outputs depend on; and what they do not depend on is scored anew."""
    cases = good_cases(3)
    counting.cases(cases)
    counting.run("--memeval-output", "first").assert_outcomes(passed=3)
    asked(counting)

    def again(*options: str) -> tuple[list[str], list[str]]:
        counting.run("--memeval-resume", "first", *options)
        return asked(counting), counting.report()["environment"]["resumed"]["changed"]

    assert again("--memeval-matcher", "difflib", "--memeval-gate", "P0 l1.memory_recall >= 0.5") == ([], [])
    assert "difflib" in counting.report()["matcher"].values()
    assert counting.report()["gates"][0]["status"] == "passed"
    assert again("--memeval-stage-input", "truth") == (ids(1, 2, 3), ["options"])
    assert again("--memeval-max-tokens", "50") == (ids(1, 2, 3), ["model"])
    changed = [cases[0], good_cases(4)[3], {**cases[2], "notes": "looked at again"}]
    counting.cases(changed)
    assert again() == (ids(3, 4), ["case"])
    counting.cases(cases)
    engine = (counting.path / "counting_engine.py").read_text(encoding="utf-8")
    counting.write("counting_engine.py", engine.replace('version = "1"', 'version = "2"'))
    assert again() == (ids(1, 2, 3), ["engine"])
    counting.write("counting_engine.py", engine)
    copy_prompts(counting.path / "prompts")
    assert again("--memeval-prompts", "prompts") == ([], [])
    text = counting.path / "prompts" / "l1_extraction.txt"
    text.write_text(text.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    assert again("--memeval-prompts", "prompts", "--memeval-prompt-version", "l1=@working") == (
        ids(1, 2, 3),
        ["prompts"],
    )


def test_an_engine_without_version_is_known_by_its_source(counting: Project) -> None:
    engine = ENGINE.replace('    version = "1"\n', "")
    counting.write("counting_engine.py", engine)
    counting.cases(good_cases(2))
    counting.run("--memeval-output", "first", fresh=True).assert_outcomes(passed=2)
    asked(counting)
    counting.run("--memeval-resume", "first", fresh=True).assert_outcomes(passed=2)
    assert asked(counting) == []
    counting.write("counting_engine.py", engine + "# other\n")
    counting.run("--memeval-resume", "first", fresh=True).assert_outcomes(passed=2)
    assert asked(counting) == ids(1, 2)


def test_an_engine_that_nobody_can_tell_is_refused(counting: Project) -> None:
    counting.write(
        "conftest.py",
        """
        import pytest

        MADE = {"__name__": "nowhere"}
        exec("class Engine:\\n    name = 'made'\\n    def extract(self, conversation, ctx): return []", MADE)


        @pytest.fixture(scope="session")
        def memeval_engine():
            return MADE["Engine"]()
        """,
    )
    counting.cases(good_cases(2))
    counting.run("--memeval-output", "first").assert_outcomes(passed=2)
    result = counting.run("--memeval-resume", "first")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*engine made has no version and its source files cannot be found*version = '1'*"])


def test_runs_that_cannot_be_gone_on_with(counting: Project) -> None:
    """One sentence each, before anything runs."""
    counting.cases(good_cases(2))
    counting.run("--memeval-output", "hashed", "--memeval-report-text", "hash").assert_outcomes(passed=2)
    (counting.path / "empty").mkdir()
    asked(counting)
    for named, said in (
        ("nowhere", "*--memeval-resume: there is no run at *nowhere; a run that ended before its first case had *"),
        ("empty", "*--memeval-resume: *empty holds no journal.jsonl*; a run that ended before its first case had *"),
        ("cases/v001.yaml", "*--memeval-resume: *cases/v001.yaml is no journal, and no file beside one; name a run's*"),
        (
            "latest",
            "*--memeval-resume latest: there is no run with a journal in *; a run that ended before its first case*",
        ),
        ("hashed", "*kept no texts (memeval_report_text = hash)*"),
    ):
        result = counting.run("--memeval-resume", named)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([said])
    assert asked(counting) == []


@MODES
def test_what_is_no_journal_is_not_gone_on_with(counting: Project, mode: tuple[str, ...]) -> None:
    counting.cases(good_cases(2))
    rows = '{"case_id": "a", "conversation": "hi"}\n'
    for name, text, said in (
        (
            "rows.jsonl",
            rows,
            "*--memeval-resume: *rows.jsonl is not the journal of a run, no line of it is the record of*",
        ),
        ("none.jsonl", "", "*--memeval-resume: *none.jsonl is not the journal of a run, it is empty; name a run's *"),
    ):
        counting.write(name, text)
        result = counting.run("--memeval-resume", name, *mode)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([said])
    assert asked(counting) == []
    # What a killed run leaves is one, whatever is in it.
    for text in ("", '{"node_id": "cases/v0'):
        counting.write("killed/journal.jsonl", text)
        counting.run("--memeval-resume", "killed", *mode).assert_outcomes(passed=2)


def test_a_projects_own_stage_fixture_is_run_again(counting: Project) -> None:
    counting.write(
        "conftest.py",
        CONFTEST
        + """

@pytest.fixture
def memeval_l1(memeval_l1):
    return memeval_l1
""",
    )
    counting.cases(good_cases(2))
    counting.run("--memeval-output", "first").assert_outcomes(passed=2)
    asked(counting)
    counting.run("--memeval-resume", "first").assert_outcomes(passed=2)
    assert asked(counting) == ids(1, 2)
    assert counting.report()["environment"]["resumed"]["changed"] == ["fixtures of the project"]


@MODES
def test_nobody_can_tell_what_changed_since_a_run_with_such_a_fixture(counting: Project, mode: tuple[str, ...]) -> None:
    fixture = "\n\n@pytest.fixture\ndef memeval_db(memeval_db):\n    return memeval_db\n"
    counting.write("conftest.py", CONFTEST + fixture)
    counting.cases(good_cases(2))
    counting.run("--memeval-output", "first", *mode).assert_outcomes(passed=2)
    counting.write("conftest.py", CONFTEST)
    result = counting.run("--memeval-resume", "first", *mode)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*2 changed*what changed: parts that cannot be recognised"])


@MODES
def test_a_flaky_case_is_run_by_its_second_attempt(counting: Project, mode: tuple[str, ...]) -> None:
    counting.cases([missing("eval-001")])
    counting.run("--memeval-output", "first").assert_outcomes(failed=1)
    asked(counting)
    result = counting.run("--memeval-resume", "first", "--reruns", "1", *mode)
    assert asked(counting) == ids(1)
    said = "1 run anew (0 changed, 0 errored there, 0 not in it, 1 in it, but not to be taken)"
    result.stdout.fnmatch_lines([f"0 of 1 case(s) taken from run first, {said}"])


@MODES
def test_cases_whose_databases_lack_are_in_the_run_all_the_same(counting: Project, mode: tuple[str, ...]) -> None:
    counting.cases(good_cases(2))
    counting.run("--memeval-output", "first").assert_outcomes(passed=2)
    result = counting.run("--memeval-resume", "first", "--memeval-keep-db", *mode)
    said = "2 run anew (0 changed, 0 errored there, 0 not in it, 2 in it, but not to be taken)"
    result.stdout.fnmatch_lines([f"0 of 2 case(s) taken from run first, {said}"])
    assert counting.report()["environment"]["resumed"]["run_again"] == {
        "changed": 0,
        "errored": 0,
        "absent": 0,
        "unusable": 2,
    }


@SLOW_IN_TWO
def test_a_model_is_not_asked_again_and_nothing_is_spent(chat: ChatProject, mode: tuple[str, ...]) -> None:
    """The reference engine over three stages, with the cache off: not one request for what is finished."""
    chat.cases([full_case(1), simple_case(2), full_case(3)])
    chat.chat("--memeval-cache", "off", "--memeval-output", "first", "--memeval-keep-db", *mode)
    count = chat.server.count
    assert count == 7
    chat.cases([full_case(1), simple_case(2), full_case(3), simple_case(4)])
    options = ("--memeval-cache", "off", "--memeval-keep-db", "--memeval-resume", "first", *mode)
    chat.chat(*options, "--memeval-max-cost", "0.5").assert_outcomes(passed=4)
    assert chat.server.count == count + 1
    assert len(list((chat.path / "out" / "databases").iterdir())) == 4
    resumed = chat.report()
    chat.chat("--memeval-cache", "off", "--memeval-output", "whole", *mode).assert_outcomes(passed=4)
    assert stable(resumed) == stable(chat.report("whole"))
    assert len(chat.calls()) == 8


def test_a_plan_counts_no_call_for_what_is_taken(chat: ChatProject) -> None:
    chat.cases([full_case(1), simple_case(2)])
    options = ("--memeval-cache", "off")
    chat.chat(*options, "--memeval-output", "first").assert_outcomes(passed=2)
    chat.chat(*options, "--memeval-plan").stdout.fnmatch_lines(["*2 cases: * to be asked"])
    chat.cases([full_case(1), simple_case(2), simple_case(3)])
    result = chat.chat(*options, "--memeval-plan", "--memeval-resume", "first")
    result.stdout.fnmatch_lines(["*3 cases: 1 model calls, 0 need no request (recorded or offline), 1 to be asked"])
