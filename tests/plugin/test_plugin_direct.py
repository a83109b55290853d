"""Items that make the values of the plugin's fixtures themselves give what fixtures would, and heed every override."""

from __future__ import annotations

from typing import Any

import pytest
from plugin_project import Project, good_cases

ALIKE = ("l1", "gates", "case_sets")


def figures(report: dict[str, Any]) -> dict[str, Any]:
    return {key: report[key] for key in ALIKE}


def _say(project: Project, text: str) -> None:
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8") + text, encoding="utf-8")


#: Records in every setup whether pytest made the plugin's fixture or the item did.
WATCH = """

@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    with open("made.txt", "a", encoding="utf-8") as file:
        print(fixturedef.argname, file=file)
    return (yield)
"""


def made(project: Project) -> list[str]:
    path = project.path / "made.txt"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def test_without_overrides_only_shared_fixtures_are_made(project: Project) -> None:
    project.cases(good_cases(3))
    _say(project, WATCH)
    project.run("cases/v001.yaml").assert_outcomes(passed=3)
    assert "memeval_engine" in made(project)
    assert not {"memeval_case", "memeval_run", "memeval_l1", "memeval_measured", "memeval_db"} & set(made(project))


def test_both_ways_give_the_same_report(project: Project) -> None:
    project.cases([*good_cases(3), {**good_cases(4)[3], "expect": {"l1.dimension_micro_f1": "> 1"}}])
    direct = project.run("cases/v001.yaml")
    direct.assert_outcomes(passed=3, failed=1)
    first = figures(project.report())
    _say(
        project,
        """

@pytest.fixture
def memeval_db(memeval_db):
    return memeval_db
""",
    )
    _say(project, WATCH)
    by_fixtures = project.run("cases/v001.yaml")
    by_fixtures.assert_outcomes(passed=3, failed=1)
    assert made(project).count("memeval_l1") == 4
    assert figures(project.report()) == first


@pytest.mark.parametrize("scope", ["function", "session"])
@pytest.mark.parametrize("name", ["registry", "templates", "prompts"])
def test_an_overridden_asset_reaches_the_engine(project: Project, name: str, scope: str) -> None:
    project.cases(good_cases(2))
    load = {
        "registry": "from pytest_memeval.assets.registry import load_registry; own = load_registry(None)",
        "templates": "from pytest_memeval.assets.registry import load_registry\n"
        "from pytest_memeval.assets.templates import load_templates; own = load_templates(None, load_registry(None))",
        "prompts": "from pytest_memeval.assets.prompts import load_prompts; own = load_prompts(None).resolve(None)",
    }[name]
    _say(
        project,
        f"""
{load}


class Asking(LineEngine):
    def extract(self, conversation, ctx):
        assert ctx.{name} is own
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Asking()


@pytest.fixture(scope="{scope}")
def memeval_{name}():
    return own
""",
    )
    project.run("cases/v001.yaml").assert_outcomes(passed=2)


def test_an_overridden_stage_is_scored(project: Project) -> None:
    project.cases(good_cases(2))
    _say(
        project,
        """

@pytest.fixture
def memeval_l1():
    return []
""",
    )
    project.run("cases/v001.yaml").assert_outcomes(passed=2)
    assert project.report()["l1"]["memory_recall"] == 0.0


@pytest.mark.parametrize("asked", ["static", "dynamic"])
def test_an_automatic_fixture_may_ask_for_a_stage(project: Project, asked: str) -> None:
    project.cases(good_cases(2))
    argument = "memeval_l1" if asked == "static" else "request"
    value = "memeval_l1" if asked == "static" else 'request.getfixturevalue("memeval_l1")'
    _say(
        project,
        f"""

class Counting(LineEngine):
    calls = 0

    def extract(self, conversation, ctx):
        type(self).calls += 1
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Counting()


@pytest.fixture(autouse=True)
def looks({argument}):
    assert len({value}.output) == 1


def pytest_sessionfinish():
    assert Counting.calls == 2  # once a case
""",
    )
    result = project.run("cases/v001.yaml")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK


def test_the_projects_fixtures_come_before_the_engine_is_called(project: Project) -> None:
    project.cases(good_cases(1))
    _say(
        project,
        """

class Asking(LineEngine):
    ready = False

    def extract(self, conversation, ctx):
        assert Asking.ready
        return super().extract(conversation, ctx)


@pytest.fixture
def memeval_engine():
    return Asking()


@pytest.fixture(autouse=True)
def _prepare():
    Asking.ready = True
    yield
    Asking.ready = False
""",
    )
    project.run("cases/v001.yaml").assert_outcomes(passed=1)


def test_hooks_find_the_values_in_the_item(project: Project) -> None:
    project.cases(good_cases(1))
    _say(
        project,
        """

def pytest_runtest_call(item):
    assert item.funcargs["memeval_case"].case_id == "eval-001"
    assert item.funcargs["memeval_l1"].metrics is not None
    assert "memeval_l1" in item.fixturenames
""",
    )
    project.run("cases/v001.yaml").assert_outcomes(passed=1)


def test_setup_show_shows_every_fixture(project: Project) -> None:
    project.cases(good_cases(1))
    result = project.run("cases/v001.yaml", "--setup-show")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*SETUP*memeval_l1*"])


def test_what_an_engine_does_to_its_objects_later_changes_no_record(project: Project) -> None:
    project.write(
        "line_engine.py",
        """
        class LineEngine:
            name = "keeper"
            seen = []

            def extract(self, conversation, ctx):
                self.seen.append(ctx.case_id)
                ctx.record("seen", so_far=self.seen)
                return [{"content": conversation[0].content, "dimensions": ["identity"], "extra": {"seen": self.seen}}]
        """,
    )
    project.cases(good_cases(3))
    project.run("cases/v001.yaml").assert_outcomes(passed=3)
    entries = project.report()["per_case"]
    so_far = [[fact["so_far"] for fact in entry["facts"] if fact["kind"] == "seen"] for entry in entries]
    assert so_far == [[["eval-001"]], [["eval-001", "eval-002"]], [["eval-001", "eval-002", "eval-003"]]]
    assert [entry["outputs"]["l1"][0]["extra"]["seen"] for entry in entries] == [found[0] for found in so_far]


@pytest.mark.parametrize("workers", [0, 2])
def test_items_are_left_alone_where_nothing_can_be_prepared(project: Project, workers: int) -> None:
    project.cases(good_cases(6))
    _say(
        project,
        """

@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    hooks = item.config.pluginmanager.hook.pytest_runtest_protocol.get_hookimpls()
    with open("watched.txt", "a", encoding="utf-8") as file:
        print(sum("prefetch" in hook.plugin_name for hook in hooks), file=file)
""",
    )
    project.run("cases/v001.yaml", *(("-n", "2") if workers else ())).assert_outcomes(passed=6)
    watched = (project.path / "watched.txt").read_text(encoding="utf-8").split()
    assert watched == ["0"] * 6
