"""What is shown of an exception in a project's fixture: the same for a case as for a test in Python."""

from __future__ import annotations

import json

import pytest
from plugin_project import MODES, Project, good_cases

HEAD = """
import pytest
from line_engine import LineEngine

def deeper():
    raise RuntimeError("no db")

"""
SESSION = '@pytest.fixture(scope="session")\n'
ENGINE = SESSION + "def memeval_engine():\n    return LineEngine()\n"
#: What raises, and where.
CONFTESTS = {
    "engine": SESSION + "def memeval_engine():\n    deeper()\n",
    "generator": SESSION + "def memeval_engine():\n    deeper()\n    yield\n",
    "function scope": "@pytest.fixture\ndef memeval_engine():\n    deeper()\n",
    "llm": SESSION + f"def memeval_llm():\n    deeper()\n\n{ENGINE}",
    "asked for": SESSION + f"def db():\n    deeper()\n\n{SESSION}def memeval_engine(db):\n    return db\n",
    "asked for late": SESSION
    + f"def db():\n    deeper()\n\n{SESSION}def memeval_engine(request):\n    return request.getfixturevalue('db')\n",
    "autouse": f"@pytest.fixture(autouse=True)\ndef own():\n    deeper()\n\n{ENGINE}",
    "beside ours": f"@pytest.fixture\ndef memeval_db():\n    deeper()\n\n{ENGINE}",
    "a stage": f"@pytest.fixture\ndef memeval_l1():\n    deeper()\n\n{ENGINE}",
    "at the end": SESSION + "def memeval_engine():\n    yield LineEngine()\n    deeper()\n",
}
#: Where frames of the way to a fixture lie.
FOREIGN = ("pytest_memeval/", "_pytest/", "pluggy/", "site-packages")


def shown(result: pytest.RunResult) -> str:
    """The text of the errors, without their heads."""
    text = result.stdout.str()
    return text[text.index("= ERRORS =") : text.index("= memeval =")]


@MODES
@pytest.mark.parametrize("name", CONFTESTS)
def test_a_fixture_that_raises_shows_its_own_frames(project: Project, mode: tuple[str, ...], name: str) -> None:
    project.cases(good_cases(3))
    project.write("conftest.py", HEAD + CONFTESTS[name])
    text = shown(project.run(*mode))
    assert not [line for line in text.splitlines() if any(part in line for part in FOREIGN)]
    assert "E       RuntimeError: no db" in text
    assert "conftest.py:6: RuntimeError" in text
    assert "hidden" not in text
    # Head, place, message: nothing as long as the way of a fixture through pytest.
    assert len(text.splitlines()) <= 3 * 25


@MODES
def test_a_test_in_python_shows_the_same(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(1))
    project.write("test_mine.py", "def test_mine(memeval_engine):\n    pass\n")
    project.write("conftest.py", HEAD + CONFTESTS["engine"])
    parts = shown(project.run(*mode)).split("ERROR at setup of")[1:]
    first, second = (part.partition("\n")[2] for part in parts)
    # Lines between errors, and under xdist one that names the process.
    between = ("[gw", "___", "===")
    body = [[line for line in one.splitlines() if line and not line.startswith(between)] for one in (first, second)]
    assert body[0] == body[1]


@pytest.mark.parametrize("style", ["--full-trace", "--tb=native"])
def test_who_wants_all_of_it_has_all_of_it(project: Project, style: str) -> None:
    project.cases(good_cases(1))
    project.write("conftest.py", HEAD + CONFTESTS["engine"])
    text = shown(project.run(style))
    assert "_pytest/fixtures.py" in text
    assert "pytest_memeval/items.py" in text


@pytest.mark.parametrize("style", ["short", "line", "no"])
def test_short_styles_are_short(project: Project, style: str) -> None:
    project.cases(good_cases(1))
    project.write("conftest.py", HEAD + CONFTESTS["engine"])
    text = project.run(f"--tb={style}").stdout.str()
    assert "pytest_memeval/" not in text
    assert ("no db" in text) is True


@MODES
def test_a_question_shows_the_same(project: Project, mode: tuple[str, ...]) -> None:
    entry = {"case_id": "q", "conversation": "hello", "questions": [{"id": "1", "question": "who?", "answer": "me"}]}
    project.write("cases/q.yaml", json.dumps({"kind": "qa", "meta": {"gates": []}, "cases": [entry]}))
    project.write("conftest.py", HEAD + CONFTESTS["engine"])
    text = shown(project.run(*mode))
    assert "conftest.py:6: RuntimeError" in text
    assert not [line for line in text.splitlines() if any(part in line for part in FOREIGN)]


# -- where it was

WANDERER = """
import os
import shutil

class LineEngine:
    name, version = "wanderer", "1"

    def extract(self, conversation, ctx):
        os.makedirs("gone", exist_ok=True)
        os.chdir({to})
        {after}
        raise RuntimeError("lost")
"""


@MODES
@pytest.mark.parametrize(
    ("to", "after"),
    [('"/"', "pass"), ('"gone"', "pass"), ('"gone"', 'shutil.rmtree("../gone")'), ("ctx.folder", "pass")],
    ids=["root", "deeper", "removed", "store"],
)
def test_places_are_told_from_where_the_run_was_started(
    project: Project, mode: tuple[str, ...], to: str, after: str
) -> None:
    project.write("line_engine.py", WANDERER.format(to=to, after=after))
    project.cases(good_cases(1))
    result = project.run(*mode, fresh=True)
    result.assert_outcomes(errors=1)
    said = "[l1] engine_exception: RuntimeError: lost (line_engine.py:12 in extract)"
    assert f"cases/v001.yaml:3: {said}" in result.stdout.str()
    (entry,) = project.report()["per_case"]
    assert entry["errors"][0]["message"] == said.partition("engine_exception: ")[2]


# -- asynchronous ones

ASYNC = {
    "engine": SESSION + "async def memeval_engine():\n    return LineEngine()\n",
    "generator": SESSION + "async def memeval_engine():\n    yield LineEngine()\n",
    "llm": f"{SESSION}async def memeval_llm():\n    return 1\n\n{ENGINE}",
    "asked for": f"{SESSION}async def db():\n    return 1\n\n{SESSION}def memeval_engine(db):\n    return db\n",
    "module": "@pytest.fixture(scope='module')\nasync def memeval_engine():\n    return LineEngine()\n",
    "function": "@pytest.fixture\nasync def memeval_engine():\n    return LineEngine()\n",
}


@MODES
@pytest.mark.parametrize("name", ASYNC)
def test_an_asynchronous_fixture_that_nobody_makes_is_a_sentence_for_each_case(
    project: Project, mode: tuple[str, ...], name: str
) -> None:
    project.cases(good_cases(4))
    project.write("test_mine.py", "def test_mine(memeval_engine, memeval_llm):\n    pass\n")
    project.write("conftest.py", HEAD + ASYNC[name])
    result = project.run(*mode)
    result.assert_outcomes(errors=5)
    fixture = {"llm": "memeval_llm", "asked for": "db"}.get(name, "memeval_engine")
    lines = [line for line in result.outlines if line.partition(" ")[0] in ("'test_mine'", "''", "'cases/v001.yaml'")]
    lines += [line for line in result.outlines if line.startswith("'eval-")]
    names = ["test_mine", *(f"eval-{number:03}" for number in range(1, 5))]
    assert sorted(lines) == sorted(
        f"{name!r} requested an async fixture {fixture!r}, with no plugin or hook that handled it. This is an error, as"
        " pytest does not natively support it."
        for name in names
    )
    text = shown(result)
    assert "AssertionError" not in text
    assert "hidden" not in text
    assert not [line for line in text.splitlines() if any(part in line for part in FOREIGN)]
