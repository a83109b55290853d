"""Cases that could not be measured: whose error it is, what it leaves, how it is said."""

from __future__ import annotations

import json
import time
import unicodedata
from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case, good_cases

from pytest_memeval.cli.main import main

if TYPE_CHECKING:
    from plugin_project import Project

#: An engine that goes wrong in conflict resolution where a memory says so.
STAGED = """
import pytest
from line_engine import LineEngine


class StagedEngine(LineEngine):
    def load(self, memories, scenes, ctx):
        pass

    def resolve(self, memories, ctx):
        if any("break" in memory.content for memory in memories):
            raise LookupError("resolution broke")
        return [{"memory_index": n, "action": "store"} for n, _ in enumerate(memories)]

    def aggregate(self, memories, ctx):
        return [{"id": "s", "title": "all", "memory_ids": [memory.id for memory in memories]}]


@pytest.fixture(scope="session")
def memeval_engine():
    return StagedEngine()
"""


#: One override, so that pytest itself sets the items up.
FIXTURE = """

@pytest.fixture
def memeval_db(memeval_db):
    return memeval_db
"""


@MODES
def test_every_kind_of_error_in_one_run(project: Project, mode: tuple[str, ...]) -> None:
    entries = [
        *good_cases(2),
        case("exception", "raise", truth=[]),
        case("output", "bad", truth=[]),
        case("slow", "sleep", truth=[], timeout=0.2),
    ]
    project.cases(entries)
    started = time.monotonic()
    result = project.run(*mode)
    assert time.monotonic() - started < 20
    result.assert_outcomes(passed=2, errors=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    errors = {entry["case_id"]: entry["error"] for entry in project.report()["per_case"] if entry["error"]}
    assert {name: (error["stage"], error["kind"]) for name, error in errors.items()} == {
        "exception": ("l1", "engine_exception"),
        "output": ("l1", "bad_output"),
        "slow": ("l1", "timeout"),
    }
    text = result.stdout.str()
    # Each message starts with the place of its case, and no stack trace comes with it.
    for fragment in (
        "\ncases/v001.yaml:5: [l1] engine_exception: RuntimeError: engine broke here (line_engine.py:",
        "\ncases/v001.yaml:6: [l1] bad_output: expected a list of memory objects, got str",
        "\ncases/v001.yaml:7: [l1] timeout: the case's time limit of 0.2 s is over",
    ):
        assert fragment in text
    assert "Traceback" not in text
    assert "raise RuntimeError" not in text
    result.stdout.fnmatch_lines(["*errors by stage: l1:*"])
    assert project.report()["l1"]["stage_counts"]["l1"]["errored"] == 3


def test_the_option_gives_a_limit_to_cases_without_one(project: Project) -> None:
    project.cases([case("a", "sleep", truth=[]), case("b", "nap", truth=[], timeout=30)])
    started = time.monotonic()
    result = project.run("--memeval-timeout", "0.1")
    assert time.monotonic() - started < 20
    result.assert_outcomes(passed=1, errors=1)
    assert project.outcomes() == {"a": "errored", "b": "scored"}


@MODES
def test_an_error_keeps_the_figures_of_the_stages_before(project: Project, mode: tuple[str, ...]) -> None:
    resolution = {"expected_l15": {"actions": [{"new_memory_index": 0, "action": "store"}]}}
    scenes = {"expected_l2": {"scenes": [{"label": "all", "memories": [0]}]}}
    entries = [
        case("good", "identity: the first") | resolution | scenes,
        case("breaks", "identity: this will break") | resolution | scenes,
    ]
    project.write("conftest.py", STAGED)
    project.cases(
        entries, gates=["P0 l1.memory_recall >= 1", "P0 l15.action_accuracy >= 1", "P0 l2.scene_grouping_f1 >= 0"]
    )
    result = project.run(*mode)
    result.assert_outcomes(passed=1, errors=1)
    report = project.report()
    broken = next(entry for entry in report["per_case"] if entry["case_id"] == "breaks")
    assert broken["outcome"] == "errored"
    assert {stage: broken["stages"][stage] for stage in ("l1", "l15", "l2")} == {
        "l1": "scored",
        "l15": "errored",
        "l2": "void",
    }
    assert broken["l1_f1"] == 1.0
    assert [error["stage"] for error in broken["errors"]] == ["l15"]
    # Each section has its own counts: both cases count for l1, one of two for what came after.
    assert [report["l1"]["stage_counts"]["l1"][word] for word in ("scored", "errored")] == [2, 0]
    assert [report["l15"]["stage_counts"]["l15"][word] for word in ("scored", "errored")] == [1, 1]
    assert [report["l2"]["stage_counts"]["l2"][word] for word in ("scored", "errored")] == [1, 1]
    statuses = {gate["metric"]: gate["status"] for gate in report["gates"]}
    assert statuses["l1.memory_recall"] == "passed"
    assert statuses["l15.action_accuracy"] == "unmeasured"
    assert statuses["l2.scene_grouping_f1"] == "unmeasured"


@MODES
def test_a_fixture_that_fails_is_an_error_of_each_of_its_cases(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    project.write("conftest.py", "")
    result = project.run("--memeval-engine", "http://127.0.0.1:9", *mode)
    result.assert_outcomes(errors=2)
    text = result.stdout.str()
    for line in (3, 4):
        assert f"\ncases/v001.yaml:{line}: [setup] --memeval-engine: http://127.0.0.1:9: cannot be reached" in text
    report = project.report()
    assert report["counts"]["errored"] == 2
    # The records do not repeat the place, which the entry has already.
    assert {entry["error"]["message"].partition(":")[0] for entry in report["per_case"]} == {"--memeval-engine"}


def test_an_exception_in_the_projects_own_fixture(project: Project) -> None:
    project.cases(good_cases(1), gates=["P0 l1.memory_recall >= 1"])
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(scope="session")
        def memeval_engine():
            raise ConnectionError("no route to the memory service")
        """,
    )
    result = project.run()
    result.assert_outcomes(errors=1)
    (entry,) = project.report()["per_case"]
    assert entry["error"]["kind"] == "fixture_error"
    assert "no route to the memory service" in entry["error"]["message"]
    assert project.report()["gates"][0]["status"] == "unmeasured"


def test_a_skip_in_a_fixture_is_a_skip(project: Project) -> None:
    project.cases(good_cases(2), gates=["P0 l1.memory_recall >= 1"])
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\n@pytest.fixture\ndef memeval_l1(memeval_l1, memeval_case):\n"
            "    if memeval_case.case_id == 'eval-001':\n        pytest.skip('not today')\n    return memeval_l1\n"
        )
    result = project.run()
    result.assert_outcomes(passed=1, skipped=1)
    report = project.report()
    assert report["counts"] == {"scored": 1, "errored": 0, "skipped": 1, "not_run": 0, "total": 2}
    assert result.ret == 0


#: An engine whose method leaves out one case.
SKIPPING = """
import pytest
from line_engine import LineEngine


class Skipping(LineEngine):
    concurrent = True

    {word}def extract(self, conversation, ctx):
        if ctx.case_id == "eval-001":
            pytest.skip("not today")
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Skipping()
"""


@MODES
@pytest.mark.parametrize("ahead", ["1", "4"])
@pytest.mark.parametrize("word", ["", "async "], ids=["plain", "async"])
@pytest.mark.parametrize("own", ["", FIXTURE], ids=["direct", "by fixtures"])
def test_an_engine_cannot_take_a_case_out_of_the_figures(
    project: Project, mode: tuple[str, ...], ahead: str, word: str, own: str
) -> None:
    project.cases(good_cases(3), gates=["P0 l1.memory_recall >= 1"])
    project.write("conftest.py", SKIPPING.replace("{word}", word) + own)
    result = project.run(*mode, "--memeval-concurrency", ahead)
    result.assert_outcomes(passed=2, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = project.report()
    assert report["counts"] == {"scored": 2, "errored": 1, "skipped": 0, "not_run": 0, "total": 3}
    (error,) = (entry["error"] for entry in report["per_case"] if entry["error"])
    assert (error["stage"], error["kind"]) == ("l1", "engine_exception")
    assert error["message"].startswith("the engine skipped: not today (conftest.py:11 in extract)")
    assert report["gates"][0]["status"] == "unmeasured"


@MODES
@pytest.mark.parametrize("word", ["", "async "], ids=["plain", "async"])
def test_nor_can_a_metric_of_the_projects_own(project: Project, mode: tuple[str, ...], word: str) -> None:
    project.cases(good_cases(2))
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            f"\n\nfrom pytest_memeval import metric\n\n\n@metric\n{word}def length(case, outputs):\n"
            "    if case.case_id == 'eval-001':\n        pytest.skip('not today')\n    return 1\n"
        )
    project.run(*mode).assert_outcomes(passed=1, errors=1)
    (error,) = (entry["error"] for entry in project.report()["per_case"] if entry["error"])
    assert (error["stage"], error["kind"]) == ("metrics.length", "metric_exception")
    assert error["message"].startswith("the metric skipped: not today")


def test_f35_files_made_to_do_harm_are_refused_quickly(project: Project) -> None:
    bomb = "\n".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12))
    project.write("cases/bomb.yaml", f"meta:\n  l0: &l0 [a, b]\n{bomb}\ncases: []\n")
    project.write("cases/deep.yaml", "cases:\n" + "[" * 10_000 + "]" * 10_000 + "\n")
    with (project.path / "cases" / "large.yaml").open("wb") as file:
        file.write(b"cases:\n")
        file.truncate(100 * 2**20)
    project.cases(good_cases(1))
    started = time.process_time()  # its own work: a busy machine takes longer
    result = project.run()
    assert time.process_time() - started < 20
    assert result.ret == pytest.ExitCode.INTERRUPTED
    text = result.stdout.str()
    assert "INTERNALERROR" not in text
    assert "Traceback" not in text
    for name in ("bomb", "deep", "large"):
        assert f"cases/{name}.yaml" in text


@MODES
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "by fixtures"])
def test_an_engine_without_any_stage_is_an_error_of_every_case(
    project: Project, mode: tuple[str, ...], direct: bool
) -> None:
    project.write(
        "conftest.py",
        f"""
        import pytest


        class Misspelt:
            name = "mine"

            def extrct(self, conversation, ctx):
                return []


        @pytest.fixture(scope="session")
        def memeval_engine():
            return Misspelt()


        @pytest.fixture(autouse={not direct})
        def looks_at_the_case(memeval_case):
            pass
        """,
    )
    project.cases(good_cases(2))
    result = project.run(*mode)
    result.assert_outcomes(errors=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["cases/v001.yaml:3: [[]setup] engine mine supports none*; did you mean 'extract'?"])
    report = project.report()
    assert (report["counts"]["scored"], report["counts"]["errored"]) == (0, 2)
    assert {entry["error"]["kind"] for entry in report["per_case"]} == {"no_stage"}


# -- what a terminal must not be steered by

CONTROLS = "\x1b[31mred\x00\x9b2J\r\x08\x7f\ttab"
SHOWN = r"\x1b[31mred\x00\x9b2J\x0d\x08\x7f" + "\ttab"


def controls_in(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) == "Cc" and char not in "\n\t"}


@MODES
def test_what_an_engine_says_does_not_steer_the_terminal(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    engine = f"class Engine:\n    def extract(self, conversation, ctx):\n        raise RuntimeError({CONTROLS!r})\n"
    project.write("rude_engine.py", engine)
    project.write("conftest.py", "")
    result = project.run("--memeval-engine", "rude_engine:Engine", "-v", "-rA", *mode)
    result.assert_outcomes(errors=2)
    said = "\n".join([*result.outlines, *result.errlines])
    assert SHOWN in said
    assert not controls_in(said)
    # The record has it as it was.
    assert CONTROLS in project.report()["per_case"][0]["errors"][0]["message"]


@pytest.mark.parametrize("name", ["bad.memeval.yaml", "bad.memeval.jsonl"])
def test_an_id_with_controls_does_not_steer_the_terminal(
    project: Project, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("conftest.py", "")
    rag = {"case_id": "\x1b[31mred\x00", "query": "q", "context": ["c"], "response": "r", "ground_truth": 5}
    text = json.dumps(rag)
    if name.endswith("yaml"):
        conversation = "\n    conversation: hi\n    expected_l1: {memories: [{content: x, dimensions: [nowhere]}]}\n"
        text = f"cases:\n  - case_id: {json.dumps(rag['case_id'])}{conversation}"
    (project.path / name).write_text(text, encoding="utf-8")
    result = project.run(name)
    said = "\n".join([*result.outlines, *result.errlines])
    capsys.readouterr()
    assert main(["validate", str(project.path / name)]) == 1
    for shown in (said, "".join(capsys.readouterr())):
        assert r"\x1b[31mred\x00" in shown
        assert "contains a control character" in shown
        assert not controls_in(shown)
