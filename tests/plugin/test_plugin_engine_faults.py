"""An engine that cannot be asked for anything is one sentence a case, and no traceback, whoever gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

FAULTY = """
import sys
import pytest
from line_engine import LineEngine


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class NoStages(LineEngine):
    def supported_stages(self):
        return None


class TextStages(LineEngine):
    def supported_stages(self):
        return "l1"


class BrokenStages(LineEngine):
    def supported_stages(self):
        raise RuntimeError("no config \\x1b[31m")


class LateStages(LineEngine):
    async def supported_stages(self):
        return ["l1"]


class NoName(LineEngine):
    @property
    def name(self):
        raise RuntimeError("not connected")


class NoVersion(LineEngine):
    @property
    def version(self):
        raise Silent


class LeavingVersion(LineEngine):
    @property
    def version(self):
        sys.exit(0)


class SkippingConcurrent(LineEngine):
    @property
    def concurrent(self):
        pytest.skip("not today")


class BrokenProxy(LineEngine):
    def __getattr__(self, word):
        raise KeyError(word)


class Newer(LineEngine):
    protocol = "99.0"
"""

SILENT = "(its text cannot be had: __str__ raised RuntimeError)"
SENTENCES = {
    "NoStages": "its supported_stages() gives None, and not a list of stages such as ['l1', 'l2']",
    "TextStages": "its supported_stages() gives a str, and not a list",
    "BrokenStages": "its supported_stages() failed: RuntimeError: no config \\x1b[31m (faulty.py:",
    "LateStages": "its supported_stages() gives a coroutine, and not a list",
    "NoName": "its name cannot be read: RuntimeError: not connected (faulty.py:",
    "NoVersion": f"its version cannot be read: Silent: {SILENT} (faulty.py:",
    "LeavingVersion": "its version cannot be read: SystemExit: 0 (faulty.py:",
    "SkippingConcurrent": "its concurrent cannot be read: Skipped: not today (faulty.py:",
    "BrokenProxy": "cannot be read: KeyError: ",
    "Newer": "was written for engine protocol 99.0",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_faulty_engine_of_a_fixture_is_a_sentence_a_case(project: Project, name: str) -> None:
    project.write("faulty.py", FAULTY)
    project.write(
        "conftest.py",
        f"""
        import pytest, faulty

        @pytest.fixture(scope="session")
        def memeval_engine():
            return faulty.{name}()
        """,
    )
    project.cases(good_cases(2))
    result = project.run()
    result.assert_outcomes(errors=2)
    text = result.stdout.str()
    assert text.count(SENTENCES[name]) >= 2
    assert "Traceback" not in text
    assert "engine_faults.py" not in text
    assert "\x1b[31m" not in text
    for entry in project.report()["per_case"]:
        assert [error["kind"] for error in entry["errors"]] == ["fixture_error"]
        assert entry["errors"][0]["message"].startswith("engine ")


@MODES
def test_so_it_is_for_questions_and_in_two_processes(project: Project, mode: tuple[str, ...]) -> None:
    project.write("faulty.py", FAULTY)
    project.write(
        "conftest.py",
        """
        import pytest, faulty

        @pytest.fixture(scope="session")
        def memeval_engine():
            return faulty.NoName()
        """,
    )
    project.cases(good_cases(1))
    project.write(
        "cases/q.yaml",
        """
        kind: qa
        cases:
          - case_id: q
            conversation: [{role: user, content: I live in Oslo}]
            questions: [{id: q1, question: Where do I live?, answer: Oslo}]
        """,
    )
    result = project.run("--memeval-memory", "engine", *mode)
    result.assert_outcomes(errors=2)
    assert result.stdout.str().count("its name cannot be read: RuntimeError: not connected (faulty.py:") >= 2


SILENT_STAGE = """
import pytest
from line_engine import LineEngine


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class SilentStage(LineEngine):
    def extract(self, conversation, ctx):
        raise Silent


@pytest.fixture(scope="session")
def memeval_engine():
    return SilentStage()
"""


@MODES
def test_an_exception_without_words_is_an_error_of_its_stage(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", SILENT_STAGE)
    project.cases([case("a", "identity: x")])
    project.run(*mode).assert_outcomes(errors=1)
    (error,) = project.report()["per_case"][0]["errors"]
    assert error["kind"] == "engine_exception"
    assert error["message"].startswith(f"Silent: {SILENT} (conftest.py:")
