"""A project's fixture that gives nothing of the kind is one sentence a case, whichever fixture it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

NEEDED = {
    "memeval_case": "an EvalCase is needed",
    "memeval_prompts": "a PromptSet is needed",
    "memeval_registry": "a Registry is needed",
    "memeval_templates": "a Templates object is needed",
    "memeval_db": "something with the databases memory and wiki is needed",
    "memeval_run": "what memeval_run itself gives is needed",
    "memeval_measured": "what memeval_measured itself gives is needed",
    "memeval_llm": "a chat model with a method complete is needed",
}
KINDS = {
    "None": "None",
    "{}": "a value of type dict",
    "'text'": "a value of type str",
    "object()": "a value of type object",
}


def overridden(project: Project, name: str, value: str, scope: str = "function") -> None:
    project.write(
        "conftest.py",
        f"""
        import pytest
        from line_engine import LineEngine

        @pytest.fixture(scope="session")
        def memeval_engine():
            return LineEngine()

        @pytest.fixture(scope="{scope}")
        def {name}():
            return {value}
        """,
    )


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in NEEDED for value in KINDS if (name, value) != ("memeval_llm", "None")]
)
def test_a_value_of_another_kind_is_a_sentence_a_case(project: Project, name: str, value: str) -> None:
    overridden(project, name, value)
    project.cases(good_cases(2))
    result = project.run()
    result.assert_outcomes(errors=2)
    assert result.ret == 1
    sentence = f"the project's fixture {name} gives {KINDS[value]}, where {NEEDED[name]}"
    text = result.stdout.str()
    told = text.partition("= short test summary info =")[0]
    assert told.count(sentence) == 2
    assert "Traceback" not in text
    assert "AttributeError" not in text
    assert project.outcomes() == {"eval-001": "errored", "eval-002": "errored"}
    for entry in project.report()["per_case"]:
        assert [(error["kind"], error["message"]) for error in entry["errors"]] == [("fixture_error", sentence)]


@MODES
@pytest.mark.parametrize("name", ["memeval_run", "memeval_registry"])
def test_it_is_the_same_in_two_processes_and_for_hand_written_tests(
    project: Project, name: str, mode: tuple[str, ...]
) -> None:
    overridden(project, name, "None")
    project.cases(good_cases(1))
    project.write(
        "test_mine.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001")
        def test_it(memeval_l1):
            pass
        """,
    )
    result = project.run(*mode)
    result.assert_outcomes(errors=2)
    text = result.stdout.str()
    assert text.count(f"the project's fixture {name} gives None, where {NEEDED[name]}") >= 2
    assert "AttributeError" not in text


def test_an_engine_may_need_no_model(project: Project) -> None:
    overridden(project, "memeval_llm", "None", "session")
    project.cases(good_cases(2))
    project.run().assert_outcomes(passed=2)


def test_a_value_of_the_kind_is_taken(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import dataclasses
        import pytest
        from line_engine import LineEngine

        @pytest.fixture(scope="session")
        def memeval_engine():
            return LineEngine()

        class Databases:
            def __init__(self, inner):
                self._inner = inner

            def __getattr__(self, name):
                return getattr(self._inner, name)

        @pytest.fixture
        def memeval_db(memeval_db):
            return Databases(memeval_db)

        @pytest.fixture
        def memeval_case(memeval_case):
            return dataclasses.replace(memeval_case)

        @pytest.fixture
        def memeval_run(memeval_run):
            return memeval_run

        @pytest.fixture
        def memeval_measured(memeval_measured):
            return memeval_measured

        @pytest.fixture
        def memeval_llm():
            class Model:
                name = "mine"

                async def complete(self, messages, **asked):
                    raise AssertionError

            return Model()
        """,
    )
    project.cases(good_cases(2))
    for trials in ("1", "2"):
        project.run("--memeval-trials", trials).assert_outcomes(passed=2)


PARAMETRISED = {
    "memeval_engine": "name each engine with --memeval-variant NAME=engine:MODULE:ATTRIBUTE, which compares them",
    "memeval_llm": "name each chat model with --memeval-variant NAME=llm:...,model:..., which compares them",
    "memeval_l1": "leave them out, or ask for it in tests in Python, which are run for each",
    "own": "leave them out, or ask for it in tests in Python, which are run for each",
}


@MODES
@pytest.mark.parametrize("name", PARAMETRISED)
def test_a_fixture_with_parameters_is_a_sentence_a_case(project: Project, name: str, mode: tuple[str, ...]) -> None:
    project.write(
        "conftest.py",
        f"""
        import pytest
        from line_engine import LineEngine

        @pytest.fixture({"scope='session', " if name in ("memeval_engine", "memeval_llm") else ""}
            params=["a", "b"], autouse={name == "own"})
        def {name}(request):
            return LineEngine() if "{name}" == "memeval_engine" else request.param
        """,
    )
    project.cases(good_cases(2))
    project.write(
        "cases/qa.yaml",
        """
        kind: qa
        cases:
          - case_id: q
            conversation: [{role: user, content: I live in Oslo}]
            questions: [{id: q1, question: Where do I live?, answer: Oslo}]
        """,
    )
    project.pytester.makepyfile(f"def test_it({name}):\n    pass\n")
    asks = ("-k", "eval-001 or eval-002 or test_it") if name == "memeval_l1" else ()
    result = project.run(*mode, *asks, "--memeval-no-gate", fresh=True)
    text = result.stdout.str()
    sentence = (
        f"the fixture {name} (conftest.py:5) has parameters, and a case of a file is run once: {PARAMETRISED[name]}"
    )
    for line in (3, 4):
        assert f"cases/v001.yaml:{line}: [setup] {sentence}" in text
    # What is asked for without one of ours stands in the way of a case of any kind.
    assert name != "own" or f"cases/qa.yaml:6: [setup] {sentence}" in text
    assert "no parameter defined" not in text
