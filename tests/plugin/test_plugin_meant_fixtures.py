"""Fixtures, and what should be one, that were meant to replace one of the plugin's, which would be used in silence."""

from __future__ import annotations

import pytest
from plugin_project import MODES, Project, good_cases


def conftest_with(name: str, more: str = "") -> str:
    return (
        "import pytest\nfrom line_engine import LineEngine\n\n\n"
        f'@pytest.fixture(scope="session")\ndef {name}():\n    return LineEngine()\n{more}'
    )


USER = """

@pytest.fixture(scope="session")
def memeval_engine(memeval_my_engine):
    return memeval_my_engine
"""


@MODES
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("memeval_engin", "memeval_engine"),
        ("memeval_enigne", "memeval_engine"),
        ("memeval_Engine", "memeval_engine"),
        ("memevl_engine", "memeval_engine"),
        ("memeval_rag_pipelne", "memeval_rag_pipeline"),
        ("memeval_evaluator", "memeval_evaluators"),
    ],
)
def test_a_misspelt_fixture_is_told_once(project: Project, name: str, meant: str, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(3))
    project.write("conftest.py", conftest_with(name))
    result = project.run(*mode)
    said = [line for line in result.outlines if f"the fixture {name} replaces none of memeval's" in line]
    assert len(said) == 1
    assert said[0].endswith(f"and nothing uses it; did you mean {meant!r}?")
    assert "PytestConfigWarning" in said[0]
    result.stdout.fnmatch_lines(["*conftest.py:5"])


@pytest.mark.parametrize(
    "text",
    [
        conftest_with("memeval_engine"),
        conftest_with("memeval_helper"),
        conftest_with("other_engine"),
        conftest_with(
            "memeval_my_engine", "\n\n@pytest.fixture\ndef memeval_engine(memeval_my_engine):\n    return 1\n"
        ),
        conftest_with("memeval_engin").replace('scope="session"', 'scope="session", autouse=True'),
    ],
    ids=["right", "own", "without prefix", "used by a fixture", "used by all"],
)
def test_names_that_are_no_misspelling(project: Project, text: str) -> None:
    project.cases(good_cases(1))
    project.write("conftest.py", text)
    result = project.run()
    result.stdout.fnmatch_lines(["1 case: *"])
    result.stdout.no_fnmatch_line("*replaces none of memeval's*")


@MODES
def test_a_misspelling_in_a_run_without_cases_is_nobodys_business(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", conftest_with("memeval_engin"))
    project.write("test_plain.py", "def test_plain():\n    pass\n")
    result = project.run(*mode)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*replaces none of memeval's*")


def test_where_warnings_are_errors_a_misspelling_is_one_sentence(project: Project) -> None:
    project.cases(good_cases(1))
    project.write("conftest.py", conftest_with("memeval_engin"))
    result = project.run("-W", "error")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *conftest.py:5: the fixture memeval_engin replaces*"])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


# -- no fixture at all

HEAD = "import pytest\nfrom line_engine import LineEngine\n\n\n"
REMEDY = "write a function memeval_engine with @pytest.fixture that returns it"
ENGINE_CLASS = "class {}(LineEngine):\n    pass\n"


def plain(name: str, more: str = "") -> str:
    return f"{HEAD}def {name}():\n    return LineEngine()\n{more}"


@MODES
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (plain("memeval_engine"), "memeval_engine is a function and no fixture, so *; add @pytest.fixture"),
        (plain("memeval_llm"), "memeval_llm is a function and no fixture, so *; add @pytest.fixture"),
        (
            f"{HEAD}async def memeval_engine():\n    return LineEngine()\n",
            "memeval_engine is a function and no fixture, so *; add @pytest.fixture",
        ),
        (
            HEAD + ENGINE_CLASS.format("memeval_engine"),
            f"memeval_engine is a class and no fixture, so it replaces nothing of memeval's; {REMEDY}",
        ),
        (
            f"{HEAD}memeval_engine = LineEngine()\n",
            f"memeval_engine is an object of type LineEngine and no fixture, so it replaces *; {REMEDY}",
        ),
        (
            plain("memeval_engin"),
            "memeval_engin is a function and no fixture, and nothing uses it; did you mean 'memeval_engine'? Then call"
            " it so, and add @pytest.fixture",
        ),
        (plain("memevl_engine"), "memevl_engine is a function and no fixture, and *did you mean 'memeval_engine'?*"),
        (
            HEAD + ENGINE_CLASS.format("memeval_Engine"),
            f"memeval_Engine is a class and no fixture, and * 'memeval_engine'? Then {REMEDY}",
        ),
        # whoever calls it is no fixture, either
        (
            plain("memeval_engine", "\n\ndef other():\n    return memeval_engine()\n"),
            "memeval_engine is a function and no fixture, so *",
        ),
    ],
)
def test_what_is_called_as_a_fixture_and_is_none_is_told_once(
    project: Project, mode: tuple[str, ...], text: str, said: str
) -> None:
    project.cases(good_cases(3))
    project.write("conftest.py", text)
    result = project.run(*mode)
    result.stdout.fnmatch_lines(["*conftest.py:5", f"*conftest.py:5: PytestConfigWarning: {said}"])
    assert result.stdout.str().count("PytestConfigWarning") == 1


@MODES
def test_one_that_a_conftest_imports_or_a_plugin_module_has_is_told(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    project.write("ours.py", plain("memeval_engine"))
    project.write("conftest.py", "import sys\nfrom ours import memeval_engine\n")
    result = project.run(*mode)
    result.stdout.fnmatch_lines(["*conftest.py:2: PytestConfigWarning: memeval_engine is a function and no fixture*"])
    project.write("conftest.py", "pytest_plugins = ['ours']\n")
    result = project.run(*mode)
    result.stdout.fnmatch_lines(["*ours.py:5: PytestConfigWarning: memeval_engine is a function and no fixture*"])


@pytest.mark.parametrize(
    "text",
    [
        "from pytest_memeval.fixtures import memeval_engine\n",
        "from pytest_memeval.engine.reference.engine import ReferenceEngine as memeval_engine\n",
        plain(
            "memeval_engine", '\n\n@pytest.fixture(name="memeval_engine")\ndef other():\n    return memeval_engine()\n'
        ),
        plain("memeval_engin", "\n\ndef other():\n    return [memeval_engin() for _ in range(2)]\n"),
        plain("memeval_engin", "\n\nclass Other:\n    @property\n    def one(self):\n        return memeval_engin()\n"),
        plain("memeval_helper"),
        plain("make_engine"),
        HEAD + ENGINE_CLASS.format("MemevalEngine"),
        "from line_engine import LineEngine as memeval_engin\n",
        "MEMEVAL_ENGINE = 'x'\nmemeval_engines = ['x']\n",
        "from unittest.mock import MagicMock, call\nanything = MagicMock()\n",
    ],
    ids=[
        *("ours", "our class", "fixture beside", "used", "used in a class", "helper", "other name", "class name"),
        *("imported", "data", "mocks"),
    ],
)
def test_what_is_called_otherwise_or_replaced_is_left_alone(project: Project, text: str) -> None:
    project.cases(good_cases(1))
    project.write("conftest.py", text)
    result = project.run()
    result.stdout.fnmatch_lines(["1 case: *"])
    result.stdout.no_fnmatch_line("*no fixture*")


def test_one_that_an_option_names_is_no_fixture(project: Project) -> None:
    project.cases(good_cases(1))
    project.write("ours.py", plain("memeval_engine"))
    project.write("conftest.py", "pytest_plugins = ['ours']\n")
    result = project.run("--memeval-engine", "ours:memeval_engine")
    result.stdout.no_fnmatch_line("*no fixture*")
    assert project.report()["engine"]["name"] == "lines"


@MODES
def test_a_forgotten_fixture_in_a_run_without_cases_is_nobodys_business(
    project: Project, mode: tuple[str, ...]
) -> None:
    project.write("conftest.py", plain("memeval_engine"))
    project.write("test_plain.py", "def test_plain():\n    pass\n")
    result = project.run(*mode)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*no fixture*")


def test_where_warnings_are_errors_a_forgotten_fixture_is_one_sentence(project: Project) -> None:
    project.cases(good_cases(1))
    project.write("conftest.py", plain("memeval_engine"))
    result = project.run("-W", "error")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *conftest.py:5: memeval_engine is a function and no fixture*"])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
