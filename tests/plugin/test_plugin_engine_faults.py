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
#: What is left in the place of an engine by forgotten parentheses.
CLASS = "engine LineEngine is a class, and its extract needs an object of it: give LineEngine()"


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


@MODES
@pytest.mark.parametrize("gives", ["LineEngine", "Still"])
def test_a_class_is_an_engine_where_its_methods_need_no_object(
    project: Project, mode: tuple[str, ...], gives: str
) -> None:
    project.write(
        "conftest.py",
        f"""
        import pytest
        from line_engine import LineEngine

        class Still:
            name = "still"
            version = "1"

            @staticmethod
            def extract(conversation, ctx):
                return LineEngine().extract(conversation, ctx)

        @pytest.fixture(scope="session")
        def memeval_engine():
            return {gives}
        """,
    )
    project.cases(good_cases(2))
    result = project.run(*mode)
    if gives == "Still":
        result.assert_outcomes(passed=2)
    else:
        result.assert_outcomes(errors=2)
        assert result.stdout.str().count(CLASS) >= 2


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


DEAD = """
import sys
from line_engine import LineEngine


class Raises(LineEngine):
    def __init__(self):
        raise RuntimeError("no key \\x1b[31m")


class Leaves(LineEngine):
    def __init__(self):
        sys.exit(0)


class Needs(LineEngine):
    def __init__(self, key):
        self.key = key


class Faulty(LineEngine):
    def supported_stages(self):
        return None


def factory():
    raise TypeError("inside")


class Model:
    def __init__(self):
        raise RuntimeError("no weights")

    def complete(self, messages, *, stage):
        return "[]"
"""

DEAD_SENTENCES = {
    ("engine", "Raises"): "'dead:Raises' cannot be made: RuntimeError: no key \\x1b[31m (dead.py:8 in __init__)",
    ("engine", "Leaves"): "'dead:Leaves' cannot be made: SystemExit: 0 (dead.py:13 in __init__)",
    ("engine", "Needs"): "'dead:Needs' cannot be called without arguments: ",
    ("engine", "Faulty"): "engine Faulty: its supported_stages() gives None",
    ("engine", "factory"): "'dead:factory' cannot be made: TypeError: inside (dead.py:27 in factory)",
    ("llm", "Model"): "'dead:Model' cannot be made: RuntimeError: no weights (dead.py:32 in __init__)",
}


def dead_project(project: Project) -> None:
    project.write("dead.py", DEAD)
    project.write("conftest.py", "")
    project.cases(good_cases(5))


@pytest.mark.parametrize(("option", "name"), DEAD_SENTENCES)
@pytest.mark.parametrize("by", ["option", "ini"])
def test_a_part_that_cannot_be_made_ends_the_run_at_its_first_case(
    project: Project, option: str, name: str, by: str
) -> None:
    dead_project(project)
    arguments = [f"--memeval-{option}", f"dead:{name}"]
    if by == "ini":
        arguments = []
        project.write("pytest.ini", f"[pytest]\nmemeval_{option} = dead:{name}\n")
    result = project.run(*arguments)
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    sentence = DEAD_SENTENCES[option, name]
    assert f"Exit: {'--' if by == 'option' else ''}memeval{'-' if by == 'option' else '_'}{option}: {sentence}" in text
    assert "\x1b[31m" not in text
    assert "extensions.py" not in text
    assert "passed" not in text
    # Nothing was measured, so there is nothing to report.
    assert not (project.path / "out").exists()


@MODES
def test_it_ends_at_its_first_case_in_two_processes_too(project: Project, mode: tuple[str, ...]) -> None:
    dead_project(project)
    result = project.run("--memeval-engine", "dead:Raises", *mode)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Exit: --memeval-engine: 'dead:Raises' cannot be made: RuntimeError: no key" in result.stdout.str()
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    assert not (project.path / "out").exists()


@MODES
def test_what_was_measured_before_is_reported(project: Project, mode: tuple[str, ...]) -> None:
    dead_project(project)
    project.write(
        "cases/alone/conftest.py",
        """
        import pytest
        from line_engine import LineEngine

        @pytest.fixture(scope="session")
        def memeval_engine():
            return LineEngine()
        """,
    )
    project.cases(good_cases(2), name="cases/alone/v001.yaml")
    (project.path / "cases" / "v001.yaml").rename(project.path / "cases" / "z001.yaml")
    result = project.run("--memeval-engine", "dead:Raises", "--dist", "loadfile", *mode)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    if not mode:
        assert project.report()["counts"]["scored"] == 2
