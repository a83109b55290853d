"""Texts that pytest-xdist's channel cannot carry: several processes go on, and say what one would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

CONFTEST = """
import logging
import warnings
import pytest
from line_engine import LineEngine
from pytest_memeval.engine.protocol import UnusableAnswer


class Odd(Warning):
    def __str__(self):
        return "odd \\udc01 warning"


class HalfEngine(LineEngine):
    def extract(self, conversation, ctx):
        if ctx.case_id == "raises":
            raise RuntimeError("böse \\ud800 half")
        if ctx.case_id == "unusable":
            raise UnusableAnswer("the model said: \\ud83d and stopped")
        if ctx.case_id == "logs":
            logging.getLogger("engine").warning("logged \\udfff half")
            raise RuntimeError("after the log")
        if ctx.case_id == "warns":
            warnings.warn("warned \\udc00 half")
            warnings.warn(Odd())
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return HalfEngine()


@pytest.fixture
def memeval_registry(request, memeval_registry):
    if request.node.name == "fixture":
        raise LookupError("no registry \\ud801 here")
    return memeval_registry


@pytest.fixture(autouse=True)
def noted(request, record_property):
    record_property("least", -5_000_000_000)
    record_property("half", "\\ud802")
    record_property("object", object())
"""
BAD = ("raises", "unusable", "logs", "fixture")


@MODES
def test_half_of_a_pair_is_an_escape_wherever_it_is_said(project: Project, mode: tuple[str, ...]) -> None:
    project.pytester.makeconftest(CONFTEST)
    names = (*BAD, "warns")
    project.cases([*good_cases(2), *(case(name, f"identity: it is {name}") for name in names)])
    result = project.run("cases", "-rA", *mode, fresh=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert "INTERNALERROR" not in text + result.stderr.str()
    result.assert_outcomes(passed=3, errors=4, warnings=2)
    assert "[l1] engine_exception: RuntimeError: böse \\ud800 half" in text
    assert "[l1] unusable_answer: the model said: \\ud83d and stopped" in text
    assert re.search(r"WARNING +engine:\S+ logged \\udfff half", text)
    assert "LookupError: no registry \\ud801 here" in text
    assert project.outcomes() == {
        **dict.fromkeys(("eval-001", "eval-002", "warns"), "scored"),
        **dict.fromkeys(BAD, "errored"),
    }
    # The record has what was said as it was.
    (error,) = next(entry["errors"] for entry in project.report()["per_case"] if entry["case_id"] == "raises")
    assert "böse \ud800 half" in error["message"]


@MODES
def test_half_of_a_pair_in_a_test_in_python_is_an_escape(project: Project, mode: tuple[str, ...]) -> None:
    project.pytester.makeconftest(CONFTEST)
    project.cases([case("raises", "identity: it raises")])
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::raises")
        def test_l1(memeval_l1):
            pass

        @pytest.mark.memeval(case="cases/v001.yaml::raises")
        def test_own_words(memeval_case):
            assert memeval_case.case_id == "other \\ud803"

        def test_after():
            pass
        """
    )
    result = project.run(*mode, "-k", "test_", fresh=True)
    text = result.stdout.str()
    assert "INTERNALERROR" not in text + result.stderr.str()
    result.assert_outcomes(passed=1, failed=1, errors=1)
    assert "engine_exception: RuntimeError: böse \\ud800 half" in text
