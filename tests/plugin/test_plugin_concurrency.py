"""Cases prepared ahead of their items: faster, and otherwise as if they had run one by one."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from interrupted_runs import POSIX_ONLY, Run
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

#: An asynchronous engine that waits, notes when it worked, prints and logs.
ENGINE = """
import asyncio
import json
import logging
import os
import pathlib
import threading
import time

WAIT = float(os.environ.get("ENGINE_WAIT", "0.2"))
LOG = pathlib.Path(os.environ["ENGINE_LOG"])


def note(**what):
    with open(LOG, "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\\n")


class WaitingEngine:
    name = "waiting"
    version = "1"

    async def extract(self, conversation, ctx):
        note(case=ctx.case_id, at="start", time=time.time())
        text = conversation[0].content
        print("printed by", ctx.case_id)
        logging.getLogger("engine").warning("logged by %s", ctx.case_id)
        try:
            await asyncio.sleep(30 if text == "hang" else WAIT)
        except asyncio.CancelledError:
            note(case=ctx.case_id, at="cancelled", time=time.time())
            raise
        if text == "raise":
            raise RuntimeError("engine broke here")
        note(case=ctx.case_id, at="end", time=time.time())
        dimensions, _, content = text.partition(": ")
        return [{"content": content, "dimensions": dimensions.split("+"), "memory_type": "persona", "priority": 80,
                 "time_velocity": "static"}]


class BlockingEngine(WaitingEngine):
    name = "blocking"
    concurrent = True

    def extract(self, conversation, ctx):
        note(case=ctx.case_id, at="start", time=time.time())
        time.sleep(WAIT)
        note(case=ctx.case_id, at="end", time=time.time())
        return []
"""

CONFTEST = """
import pytest
from waiting_engine import WaitingEngine, BlockingEngine


@pytest.fixture(scope="session")
def memeval_engine():
    return {engine}()
"""


class Waiting:
    """The project with the waiting engine, and what the engine noted."""

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = project
        self.log = project.path / "engine.log"
        monkeypatch.setenv("ENGINE_LOG", str(self.log))
        monkeypatch.setenv("ENGINE_WAIT", "0.2")
        project.pytester.makepyfile(waiting_engine=ENGINE)
        self.engine("WaitingEngine")

    def engine(self, name: str, more: str = "") -> None:
        self.project.write("conftest.py", CONFTEST.format(engine=name) + more)

    def run(self, *args: str) -> tuple[pytest.RunResult, float]:
        self.log.write_text("", encoding="utf-8")
        started = time.perf_counter()
        return self.project.run(*args, fresh=True), time.perf_counter() - started

    def notes(self, at: str) -> list[str]:
        import json

        rows = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [row["case"] for row in rows if row["at"] == at]

    def in_flight(self) -> int:
        """The most cases that were under way at once."""
        import json

        rows = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
        now = most = 0
        rows = [row for row in rows if not row["at"].startswith("saw ")]
        for row in sorted(rows, key=lambda row: row["time"]):
            now += 1 if row["at"] == "start" else -1
            most = max(most, now)
        return most


@pytest.fixture
def waiting(project: Project, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(project, monkeypatch)


@pytest.mark.parametrize("engine", ["WaitingEngine", "BlockingEngine"])
@pytest.mark.parametrize("limit", [1, 4])
def test_no_more_cases_than_asked_for_are_in_flight(waiting: Waiting, engine: str, limit: int) -> None:
    waiting.engine(engine)
    waiting.project.cases(good_cases(12))
    result, _ = waiting.run("--memeval-concurrency", str(limit))
    result.assert_outcomes(passed=12)
    assert waiting.in_flight() == limit
    assert sorted(waiting.notes("end")) == sorted(entry["case_id"] for entry in waiting.project.report()["per_case"])


def test_plain_methods_overlap_only_where_the_engine_says_so(waiting: Waiting) -> None:
    waiting.engine("BlockingEngine", "\ndel BlockingEngine.concurrent\n")
    waiting.project.cases(good_cases(4))
    waiting.run()[0].assert_outcomes(passed=4)
    assert waiting.in_flight() == 1


def test_an_engine_that_is_not_concurrent_runs_one_case_at_a_time(waiting: Waiting) -> None:
    waiting.engine("WaitingEngine", "\nWaitingEngine.concurrent = False\n")
    waiting.project.cases(good_cases(4))
    waiting.run()[0].assert_outcomes(passed=4)
    assert waiting.in_flight() == 1


@MODES
def test_reports_do_not_depend_on_how_many_were_in_flight(waiting: Waiting, mode: tuple[str, ...]) -> None:
    from pytest_memeval.report.build import VARYING_CASE_KEYS, VARYING_KEYS

    waiting.project.cases([*good_cases(7), case("bad", "raise", truth=[("identity", "x")])])

    def report(limit: int) -> dict[str, Any]:
        waiting.run("--memeval-concurrency", str(limit), *mode)[0].assert_outcomes(passed=7, errors=1)
        found = waiting.project.report()
        found["summary"].pop("duration_seconds")
        for entry in found["per_case"]:
            for key in VARYING_CASE_KEYS:
                entry.pop(key, None)
        return {key: value for key, value in found.items() if key not in VARYING_KEYS}

    assert report(1) == report(8)


def test_what_a_case_prints_and_logs_is_shown_with_its_own_item(waiting: Waiting) -> None:
    waiting.project.cases([case(f"c{n}", "raise", truth=[("identity", "x")]) for n in range(5)])
    result, _ = waiting.run()
    result.assert_outcomes(errors=5)
    blocks = re.split(r"_{3,} ERROR at setup of (c\d) _{3,}", result.stdout.str())
    shown = dict(zip(blocks[1::2], blocks[2::2], strict=True))
    assert sorted(shown) == [f"c{n}" for n in range(5)]
    for name, text in shown.items():
        text = text.partition("=== memeval ===")[0]
        assert re.findall(r"printed by (c\d)", text) == [name]
        assert set(re.findall(r"logged by (c\d)", text)) == {name}


def test_durations_are_the_cases_own_work(waiting: Waiting) -> None:
    waiting.project.cases(good_cases(8))
    waiting.run("--junitxml", "junit.xml")[0].assert_outcomes(passed=8)
    tests = ElementTree.parse(waiting.project.path / "junit.xml").iter("testcase")
    assert all(0.15 < float(test.attrib["time"]) < 1.5 for test in tests)
    entries = waiting.project.report()["per_case"]
    assert all(entry["duration_seconds"] > 0.15 for entry in entries)
    assert sum(entry["timings"]["stages"]["waited"] for entry in entries) < sum(
        entry["duration_seconds"] for entry in entries
    )


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_a_stop_starts_nothing_more(waiting: Waiting, option: str) -> None:
    waiting.project.cases([case("bad", "raise", truth=[("identity", "x")]), *good_cases(30)])
    result, _ = waiting.run(option, "--memeval-concurrency", "4")
    assert result.ret == 1
    # With -x the window is no deeper than the limit; what was under way is cancelled, not finished.
    assert len(waiting.notes("start")) <= 6
    assert waiting.project.report()["counts"]["not_run"] == 30


def test_an_interrupt_cancels_what_is_under_way(waiting: Waiting) -> None:
    waiting.project.cases([case(f"c{n}", "hang", truth=[("identity", "x")]) for n in range(12)])
    with Run(waiting.project) as run:
        run.wait_for(lambda: waiting.log.exists() and len(waiting.notes("start")) >= 8)
        run.interrupt()
        run.ends()
    assert sorted(waiting.notes("cancelled")) == sorted(waiting.notes("start"))


def test_a_selected_few_are_all_that_runs(waiting: Waiting) -> None:
    waiting.project.cases(good_cases(9))
    waiting.run("-k", "eval-002 or eval-007")[0].assert_outcomes(passed=2, deselected=7)
    assert sorted(set(waiting.notes("start"))) == ["eval-002", "eval-007"]


def test_a_rerun_starts_afresh(waiting: Waiting) -> None:
    waiting.project.cases([*good_cases(2), case("bad", "raise", truth=[("identity", "x")])])
    waiting.run("--reruns", "1")[0].stdout.fnmatch_lines(["*2 passed, 1 error, 1 rerun*"])
    assert waiting.notes("start").count("bad") == 2
    assert waiting.notes("start").count("eval-001") == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("@pytest.fixture\ndef memeval_db():\n    from pytest_memeval.engine.databases import OpenDatabases\n"
         "    yield OpenDatabases()\n", "memeval_db is overridden"),
        ("@pytest.fixture(autouse=True)\ndef seed(): pass\n", "fixture seed of the project"),
        ("@pytest.fixture\ndef memeval_llm(): return None\n", "memeval_llm is not one for the whole session"),
    ],
)  # fmt: skip
def test_cases_with_fixtures_of_the_project_run_in_their_turn(waiting: Waiting, more: str, why: str) -> None:
    waiting.engine("WaitingEngine", more)
    waiting.project.cases(good_cases(3))
    result, _ = waiting.run("-v")
    result.assert_outcomes(passed=3)
    assert waiting.in_flight() == 1
    assert result.stdout.str().count(f"(in its turn: {why})") == 3


#: A fixture made for each item, as a plugin has it that is installed, or lies anywhere else on the path.
PLUGIN = """
import pytest

@pytest.fixture(autouse=True)
def tenant(monkeypatch, request):
    monkeypatch.setenv("TENANT", request.node.name)
"""
#: Each case says whose environment it saw.
LOOKS = """
import os
from waiting_engine import note

class LookingEngine(WaitingEngine):
    async def extract(self, conversation, ctx):
        note(case=ctx.case_id, at="saw " + os.environ.get("TENANT", "nothing"), time=0)
        return await super().extract(conversation, ctx)

@pytest.fixture(scope="session")
def memeval_engine():
    return LookingEngine()
"""


@MODES
def test_a_plugins_fixtures_count_wherever_it_lies(
    waiting: Waiting, mode: tuple[str, ...], tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "tenant_plugin.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(elsewhere), os.environ.get("PYTHONPATH", "")]))
    waiting.engine("WaitingEngine", 'pytest_plugins = ["tenant_plugin"]\n' + LOOKS)
    waiting.project.cases(good_cases(4))
    result, _ = waiting.run("-v", *mode)
    result.assert_outcomes(passed=4)
    for entry in good_cases(4):
        assert waiting.notes(f"saw {entry['case_id']}") == [entry["case_id"]]
    assert result.stdout.str().count("(in its turn: fixture tenant of tenant_plugin)") == 4


ADDED = """
@pytest.fixture
def tenant(monkeypatch, request):
    monkeypatch.setenv("TENANT", request.node.name)

@pytest.fixture
def {name}({asks}): pass
"""


@pytest.mark.parametrize(
    "hook",
    [
        "def pytest_collection_modifyitems(items):\n    for item in items: item.fixturenames.insert(0, 'tenant')\n",
        "def pytest_itemcollected(item): item.fixturenames.append('tenant')\n",
        "def pytest_itemcollected(item): item.fixturenames = ['tenant', *item.fixturenames]\n",
        "def pytest_itemcollected(item): item.fixturenames.append('other')\n",
    ],
    ids=["inserted", "appended", "replaced", "asked_for"],
)
def test_fixtures_that_a_hook_adds_count(waiting: Waiting, hook: str) -> None:
    waiting.engine("WaitingEngine", LOOKS + ADDED.format(name="other", asks="tenant") + hook)
    waiting.project.cases(good_cases(4))
    result, _ = waiting.run("-v")
    result.assert_outcomes(passed=4)
    for entry in good_cases(4):
        assert waiting.notes(f"saw {entry['case_id']}") == [entry["case_id"]]
    assert result.stdout.str().count("(in its turn: fixture ") == 4


def test_a_fixture_that_one_item_alone_is_given_keeps_the_others_from_nothing(waiting: Waiting) -> None:
    hook = "def pytest_itemcollected(item):\n    if item.name == 'eval-003':\n        item.fixturenames = ['tenant']\n"
    waiting.engine("WaitingEngine", ADDED.format(name="other", asks="") + hook.replace(
        "['tenant']", "['tenant', *item.fixturenames]"))  # fmt: skip
    waiting.project.cases(good_cases(6))
    result, _ = waiting.run("-v", "--memeval-concurrency", "4")
    result.assert_outcomes(passed=6)
    assert waiting.in_flight() >= 3
    assert result.stdout.str().count("(in its turn: fixture tenant of the project)") == 1


def test_fixtures_of_pytests_own_keep_no_case_back(waiting: Waiting) -> None:
    added = ["monkeypatch", "tmp_path", "caplog", "metadata", "worker_id"]
    waiting.engine("WaitingEngine", f"\ndef pytest_itemcollected(item): item.fixturenames += {added}\n")
    waiting.project.cases(good_cases(6))
    result, _ = waiting.run("-v", "--memeval-concurrency", "4")
    result.assert_outcomes(passed=6)
    assert waiting.in_flight() == 4
    assert "in its turn" not in result.stdout.str()


def test_a_fixture_of_the_session_is_made_before_a_case_that_has_it_runs(waiting: Waiting) -> None:
    waiting.engine("WaitingEngine", LOOKS)
    waiting.project.write(
        "cases/later/conftest.py",
        """
        import os
        import pytest

        @pytest.fixture(scope="session", autouse=True)
        def later():
            os.environ["TENANT"] = "the later one"
        """,
    )
    # The last of the first set is under way when there is room for those of the second.
    first, second = good_cases(9)[:5], good_cases(9)[5:]
    waiting.project.cases(first, name="cases/a.yaml")
    waiting.project.cases(second, name="cases/later/b.yaml")
    result, _ = waiting.run("cases/a.yaml", "cases/later/b.yaml", "--memeval-concurrency", "4")
    result.assert_outcomes(passed=9)
    assert sorted(waiting.notes("saw nothing")) == [entry["case_id"] for entry in first]
    assert sorted(waiting.notes("saw the later one")) == [entry["case_id"] for entry in second]
    # From the first of them on they are prepared as any others.
    noted = [line for line in waiting.log.read_text(encoding="utf-8").splitlines() if '"saw ' not in line]
    own = [line for line in noted if any(f'"{entry["case_id"]}"' in line for entry in second)]
    assert ['"start"' in line for line in own[:2]] == [True, True]


@MODES
def test_a_case_that_goes_wrong_in_its_turn_says_why_it_was_in_it(waiting: Waiting, mode: tuple[str, ...]) -> None:
    waiting.engine("WaitingEngine", "@pytest.fixture(autouse=True)\ndef seed(): pass\n")
    bad = case("bad", "raise", truth=[("identity", "x")])
    missed = case("missed", "identity: y", expect={"l1.memory_recall": "> 1"})
    waiting.project.cases([bad, missed])
    result, _ = waiting.run("-v", *mode)
    result.assert_outcomes(errors=1, failed=1)
    shown = re.findall(r"(ERROR|FAILED) \(in its turn: fixture seed of the project\)", result.stdout.str())
    assert sorted(shown) == ["ERROR", "FAILED"]
    assert "in its turn" not in waiting.run(*mode)[0].stdout.str()


def test_a_case_that_is_skipped_is_not_prepared(waiting: Waiting) -> None:
    waiting.project.cases([*good_cases(2), case("late", "identity: late", tags=["slow"])])
    waiting.run()[0].assert_outcomes(passed=2, skipped=1)
    assert "late" not in waiting.notes("start")


def test_time_limits_hold_for_prepared_cases(waiting: Waiting) -> None:
    waiting.project.cases(
        [*good_cases(2), case("slow", "hang", truth=[("identity", "x")], timeout=1), *good_cases(4)[2:]]
    )
    result, seconds = waiting.run()
    result.assert_outcomes(passed=4, errors=1)
    assert seconds < 20
    result.stdout.fnmatch_lines(["*slow*timeout*"])


def test_under_a_debugger_and_with_setup_show_nothing_runs_ahead(waiting: Waiting) -> None:
    waiting.project.cases(good_cases(3))
    waiting.run("--pdb")[0].assert_outcomes(passed=3)
    assert waiting.in_flight() == 1
    waiting.run("--setup-show")[0].assert_outcomes(passed=3)
    assert waiting.in_flight() == 1


def test_ordinary_tests_between_case_files_are_undisturbed(waiting: Waiting) -> None:
    waiting.project.cases(good_cases(3), name="cases/a.yaml")
    waiting.project.cases(good_cases(3), name="cases/z.yaml")
    waiting.project.write(
        "cases/test_middle.py",
        """
        def test_output(capsys):
            print("mine")
            assert capsys.readouterr().out == "mine\\n"

        def test_log(caplog):
            assert caplog.records == []
        """,
    )
    waiting.run()[0].assert_outcomes(passed=8)


def test_blocking_stages_left_behind_at_a_time_limit_are_counted(waiting: Waiting, monkeypatch: Any) -> None:
    monkeypatch.setenv("ENGINE_WAIT", "3")
    waiting.engine("BlockingEngine")
    waiting.project.cases(good_cases(3))
    waiting.run("--memeval-timeout", "0.3", "--memeval-lang", "zh")[0].assert_outcomes(errors=3)
    report = waiting.project.report()
    assert report["environment"]["stages_left_behind"] == 3
    assert any("3 个" in note for note in report["notes"])


@POSIX_ONLY
def test_blocking_stages_left_behind_by_an_interrupt_are_counted(waiting: Waiting, monkeypatch: Any) -> None:
    monkeypatch.setenv("ENGINE_WAIT", "30")
    waiting.engine("BlockingEngine")
    waiting.project.cases(good_cases(9))
    with Run(waiting.project, "--memeval-concurrency", "4") as run:
        run.wait_for(lambda: waiting.log.exists() and len(waiting.notes("start")) >= 4)
        run.interrupt()
        text = run.ends(within=25)  # no thread is waited for
    # Nothing was finished, so that there is no report: the summary says it.
    assert "9 selected case(s) left no result." in text
    # None has begun since. The first item runs its case itself, where the interrupt reaches it.
    assert len(waiting.notes("start")) == 4
    assert "by a time limit or an interrupt: 3, left behind in their threads." in text


def test_nothing_is_left_behind_in_a_run_that_ends_of_itself(waiting: Waiting) -> None:
    waiting.engine("BlockingEngine")
    waiting.project.cases(good_cases(3))
    waiting.run()
    assert "stages_left_behind" not in waiting.project.report()["environment"]


@pytest.mark.parametrize("mode", [(), ("-n", "1")], ids=["serial", "n1"])
@pytest.mark.parametrize("way", ["to_thread", "run_in_executor"])
def test_cases_do_not_wait_for_each_others_threads(project: Project, mode: tuple[str, ...], way: str) -> None:
    # asyncio's own pool has 32 threads at most, and few where there are few processors.
    call = "asyncio.to_thread(meet)" if way == "to_thread" else "asyncio.get_running_loop().run_in_executor(None, meet)"
    project.write(
        "conftest.py",
        f"""
        import asyncio
        import threading

        import pytest

        here = threading.Semaphore(0)
        all_here = threading.Event()

        def meet():
            here.release()
            if here._value >= 36:
                all_here.set()
            return all_here.wait(60)

        class Engine:
            name = "meeting"
            version = "1"

            async def extract(self, conversation, ctx):
                if not await {call}:
                    raise RuntimeError("waited for the others in vain")
                return []

        @pytest.fixture(scope="session")
        def memeval_engine():
            return Engine()
        """,
    )
    project.cases([case(f"c{number}", "identity: x") for number in range(40)])
    project.run("--memeval-concurrency", "40", *mode).assert_outcomes(passed=40)
    assert {entry["outcome"] for entry in project.report()["per_case"]} == {"scored"}
