"""Beside other plugins, other tests and other projects' habits."""

from __future__ import annotations

import html
import os
import sys
from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

OWN_OPTIONS = """

def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true", help="theirs")
    parser.addoption("--run-integration", action="store_true", help="theirs")
"""
#: Their way to close their own slow tests.
OWN_SKIPS = """

def pytest_collection_modifyitems(config, items):
    for item in items:
        if "slow" in item.keywords and not config.getoption("--run-slow"):
            item.add_marker(pytest.mark.skip(reason="theirs"))
"""


def add_to_conftest(project: Project, text: str) -> None:
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(text)


# -- without a plugin, with a plugin -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "blocked",
    ["xdist", "html", "rerunfailures", "cacheprovider", "junitxml", "terminal", "metadata", "capture", "logging"],
)
def test_f13_a_plugin_that_is_not_there(project: Project, blocked: str) -> None:
    project.cases(good_cases(2), gates=["P0 l1.memory_recall >= 1"])
    names = (f"no:{blocked}",)
    if blocked == "metadata":
        names = ("no:metadata", "no:html")  # which needs it
    elif blocked == "xdist":
        names = ("no:xdist", "no:xdist.looponfail")
    result = project.run(*(part for name in names for part in ("-p", name)))
    assert result.ret == 0
    assert project.report()["counts"]["scored"] == 2


def test_f13_without_terminal_or_html_in_two_processes(project: Project) -> None:
    project.cases([*good_cases(2), case("dead", "die", truth=[])])
    result = project.run("-p", "no:terminal", "-p", "no:html", "-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert project.report()["counts"] == {"scored": 2, "errored": 1, "skipped": 0, "not_run": 0, "total": 3}


@MODES
def test_a_plain_html_report(project: Project, mode: tuple[str, ...]) -> None:
    project.cases([*good_cases(2), case("a\\b <i>", "raise", truth=[])])
    result = project.run("--html", "x.html", "--self-contained-html", *mode)
    result.assert_outcomes(passed=2, errors=1)
    page = html.unescape((project.path / "x.html").read_text(encoding="utf-8"))
    # One row a case: the data of all of them is one JSON text. The page puts ids into its table as markup.
    for name in ("eval-001", "eval-002", "a\\\\b &lt;i&gt;"):
        assert page.count(f'"testId": "cases/v001.yaml::{name}') == 1, name


def test_without_the_plugin_there_are_no_cases(project: Project) -> None:
    project.cases(good_cases(2))
    project.write("conftest.py", "")
    project.write("test_one.py", "def test_one(): pass\n")
    result = project.pytester.runpytest_inprocess("-p", "no:memeval", "-p", "no:randomly")
    result.assert_outcomes(passed=1)
    assert result.ret == 0


# -- projects that use none of it ----------------------------------------------------------------------------------


@MODES
def test_a_project_without_cases_notices_nothing(project: Project, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", "")
    project.write("docs/settings.yaml", "a: 1\n")
    project.write("test_one.py", "def test_good(): pass\ndef test_bad(): assert False\n")
    run = project.pytester.runpytest_inprocess
    result = run("-pno:randomly", "-pno:hypothesispytest", *mode)
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 1
    assert "= memeval =" not in result.stdout.str()
    assert not (project.path / ".memeval").exists()
    assert run("-pno:randomly", "-pno:hypothesispytest", "-k", "good", *mode).ret == 0


@MODES
def test_ordinary_tests_beside_cases(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(3), gates=["P0 l1.memory_recall >= 1"])
    project.write("test_one.py", "def test_good(): pass\ndef test_bad(): assert False\n")
    result = project.run(*mode)
    result.assert_outcomes(passed=4, failed=1)
    assert result.ret == 1
    report = project.report()
    # Their failure is theirs: the gates stand, and no case is missing.
    assert report["summary"]["passed_p0"] is True
    assert report["counts"] == {"scored": 3, "errored": 0, "skipped": 0, "not_run": 0, "total": 3}
    assert report["partial"] is None


def test_a_start_that_meets_no_case_imports_next_to_nothing(project: Project) -> None:
    project.write("conftest.py", "")
    project.write(
        "test_one.py",
        """
        import sys

        def test_imports():
            loaded = {name for name in sys.modules if name.startswith("pytest_memeval")} - {"pytest_memeval"}
            own = (
                "lazy_names", "plugin", "options", "session", "case_files", "fixtures", "hooks", "hooks.controller",
                "nodes", "nodes.keys", "nodes.cases", "nodes.runs", "nodes.search",
            )
            assert loaded <= {f"pytest_memeval.{name}" for name in own}
            assert not {"yaml", "rapidfuzz", "openai", "numpy", "nltk", "sqlite3"} & set(sys.modules)
        """,
    )
    result = project.pytester.runpytest_subprocess("-pno:randomly", "-pno:hypothesispytest", "-pno:cov", "-pno:anyio")
    result.assert_outcomes(passed=1)


# -- slow and integration ------------------------------------------------------------------------------------------


@MODES
def test_tagged_cases_are_closed_until_opened(project: Project, mode: tuple[str, ...]) -> None:
    first, second, third = good_cases(3)
    project.cases([first | {"tags": ["slow"]}, second | {"tags": ["integration"]}, third])
    project.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.slow
        def test_marked_by_somebody_else(): pass
        """,
    )
    # Tests of the project that bear the same mark are not the plugin's to skip.
    project.run("--strict-markers", *mode).assert_outcomes(passed=2, skipped=2)
    counts = project.report()["counts"]
    assert (counts["scored"], counts["skipped"]) == (1, 2)
    project.run("--run-slow", *mode).assert_outcomes(passed=3, skipped=1)
    project.run("--run-slow", "--run-integration", *mode).assert_outcomes(passed=4)


@pytest.mark.parametrize(
    ("where", "mode"),
    [("root", ()), ("folder", ()), ("addopts", ()), ("root", ("-n", "2")), ("folder", ("-n", "2"))],
    ids=["root", "folder", "addopts", "root-n2", "folder-n2"],
)
def test_a_project_that_has_these_options_itself(project: Project, where: str, mode: tuple[str, ...]) -> None:
    first, second = good_cases(2)
    project.cases([first | {"tags": ["slow"]}, second], name="tests/cases/v001.yaml")
    slow = "import pytest\n\n@pytest.mark.slow\ndef test_slow(): pass\n\ndef test_other(): pass\n"
    project.write("tests/test_own.py", slow)
    if where == "folder":
        # Seen only when the folder is an argument, as pytest has it for any option in a deeper conftest.
        project.write("tests/conftest.py", "import pytest\n" + OWN_OPTIONS + OWN_SKIPS)
    else:
        add_to_conftest(project, OWN_OPTIONS + OWN_SKIPS)
    project.write(
        "pytest.ini",
        "[pytest]\nmemeval_files = tests/cases/*.yaml\n" + ("addopts = --run-slow\n" if where == "addopts" else ""),
    )
    if where == "addopts":
        project.run("tests").assert_outcomes(passed=4)
        return
    project.run("tests", *mode).assert_outcomes(passed=2, skipped=2)
    project.run("tests", "--run-slow", *mode).assert_outcomes(passed=4)


def test_help_shows_the_shared_options_once(project: Project) -> None:
    add_to_conftest(project, OWN_OPTIONS)
    result = project.pytester.runpytest_inprocess("--help", "-p", "no:randomly")
    assert result.ret == 0
    assert result.stdout.str().count("--run-slow") == 1
    assert "--memeval-gate" in result.stdout.str()
    project.write("conftest.py", "")
    alone = project.pytester.runpytest_inprocess("--help", "-p", "no:randomly")
    assert alone.stdout.str().count("--run-slow") == 1


# -- strictness ------------------------------------------------------------------------------------------------


@MODES
def test_strict_markers_and_strict_config(project: Project, mode: tuple[str, ...]) -> None:
    entries = good_cases(2)
    entries[0] |= {"tags": ["cats.and-dogs", "v1+2"], "difficulty": "hard", "source": "real"}
    project.cases(entries)
    project.write(
        "pytest.ini",
        "[pytest]\nmemeval_lang = zh\nmemeval_keep_db = false\nmemeval_limit = 5\nfilterwarnings = error\n",
    )
    result = project.run("--strict-markers", "--strict-config", *mode)
    result.assert_outcomes(passed=2)
    assert result.ret == 0


# -- text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
def test_f21_no_encoding_is_left_to_chance(
    project: Project, mode: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [
        case("猫-🐈", "identity: 我养了一只猫 🐈"),
        case("missed 🚀", "identity: é", expect={"l1.memory_recall": "> 1"}),
        case("broken", "raise", truth=[("identity", "x")]),
    ]
    project.cases(entries, gates=["P0 l1.memory_recall >= 1"])
    # The workers take these from the environment.
    for name, value in {
        "PYTHONWARNDEFAULTENCODING": "1",
        "PYTHONWARNINGS": "error::EncodingWarning",
        "PYTHONIOENCODING": "ascii",
    }.items():
        monkeypatch.setenv(name, value)
    result = project.run("--memeval-lang", "zh", "-v", "-p", "no:html", "-p", "no:cov", *mode, fresh=True)
    result.assert_outcomes(passed=1, failed=1, errors=1)
    text = result.stdout.str()
    assert "EncodingWarning" not in text + result.stderr.str()
    assert text.isascii()
    # What the console cannot show is shown as escapes, with signs of our own in their ASCII likeness.
    assert "\\u9000\\u51fa\\u72b6\\u6001 1" in text
    report = project.report()
    assert [entry["case_id"] for entry in report["per_case"]] == sorted(entry["case_id"] for entry in entries)
    assert "我养了一只猫 🐈" in (project.path / "out" / "report.json").read_text(encoding="utf-8")
    assert "记忆评测报告" in (project.path / "out" / "report.md").read_text(encoding="utf-8")


def test_an_odd_case_id_can_be_selected(project: Project) -> None:
    ids = ["a/b c", "back\\slash", "[x]", "猫 🐈"]
    project.cases([case(name, "identity: x") for name in ids])
    for name in ids:
        project.run(f"cases/v001.yaml::{name}").assert_outcomes(passed=1)
    assert sys.getdefaultencoding() == "utf-8"


# -- isolation -------------------------------------------------------------------------------------------------


@MODES
def test_f28_cases_share_nothing(project: Project, mode: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = project.path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    project.write(
        "conftest.py",
        """
        import pytest

        class Engine:
            name = "store"

            def extract(self, conversation, ctx):
                for database in (ctx.memory_db, ctx.wiki_db):
                    database.execute("CREATE TABLE seen (id)")  # fails where somebody did so before
                    database.execute("INSERT INTO seen VALUES (?)", (ctx.case_id,))
                (ctx.folder / "mine").touch(exist_ok=False)
                return [{"content": str(ctx.folder), "dimensions": ["identity"]}]

        @pytest.fixture(scope="session")
        def memeval_engine():
            return Engine()
        """,
    )
    for name in ("a", "b"):
        project.cases([case(f"c{n}", "x", truth=[("identity", "x")]) for n in range(4)], name=f"cases/{name}.yaml")
    project.run(*mode, fresh=True).assert_outcomes(passed=8)
    folders = {entry["outputs"]["l1"][0]["content"] for entry in project.report()["per_case"]}
    assert len(folders) == 8
    assert not any(os.path.exists(folder) for folder in folders)
    assert not list(scratch.glob("memeval-*"))


def test_pytest_does_not_compile_the_plugin_anew(project: Project) -> None:
    """It rewrites the asserts of a plugin's modules: seconds, at each start where it cannot keep what it made."""
    project.cases(good_cases(1))
    add_to_conftest(
        project,
        "\n\ndef pytest_sessionfinish(session):\n"
        "    import sys\n"
        "    hook = session.config.pluginmanager.rewrite_hook\n"
        "    own = [name for name in sys.modules if name.partition('.')[0] == 'pytest_memeval']\n"
        # What is loaded before the plugin's first hook is called has been seen to already.
        "    names = ('lazy_names', 'plugin', 'options', 'session', 'case_files')\n"
        "    first = {'pytest_memeval', *(f'pytest_memeval.{name}' for name in names)}\n"
        "    print()\n"
        "    print(len(own) > 50, {name for name in own if sys.modules[name].__loader__ is hook} - first)\n"
        "    print(sys.modules['conftest'].__loader__ is hook)\n",
    )
    lines = project.run("-s", fresh=True).stdout.lines
    assert "True set()" in lines
    assert "True" in lines  # a project's own modules are as they ever were
