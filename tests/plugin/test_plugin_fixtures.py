"""The public fixtures: overridden at every level, and used by hand-written tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from plugin_project import MODES, case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

HAND_WRITTEN = """
import pytest
from pytest_memeval.cases.models import EvalCase, GtMemory, L1GroundTruth
from pytest_memeval.values import Message

IN_CODE = EvalCase(
    "in-code",
    conversation=(Message("msg_1", "user", "identity: from code"),),
    expected_l1=L1GroundTruth((GtMemory("from code", ("identity",)),)),
)


@pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=GATE)
def test_by_name(memeval_l1, memeval_case):
    assert memeval_case.case_id == "eval-001"
    assert [memory.dimensions for memory in memeval_l1.output] == [("identity",)]
    assert memeval_l1.metrics.values()["strict_match_rate"] == 1
    assert memeval_l1.error is None and memeval_l1.seconds >= 0


@pytest.mark.memeval(case=IN_CODE, gate=GATE)
def test_in_code(memeval_l1):
    assert memeval_l1.metrics.values()["memory_recall"] == 1
"""


def gated(value: bool) -> str:
    return HAND_WRITTEN.replace("GATE", str(value))


@MODES
def test_hand_written_tests_enter_the_figures_only_when_asked(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    project.write("test_mine.py", gated(False))
    project.run(*mode).assert_outcomes(passed=4)
    report = project.report()
    assert report["counts"]["total"] == 2
    assert set(report["case_sets"]) == {"cases/v001.yaml"}
    project.write("test_mine.py", gated(True))
    result = project.run(*mode)
    result.assert_outcomes(passed=4)
    report = project.report()
    assert {entry["node_id"] for entry in report["per_case"]} == {
        "cases/v001.yaml::eval-001",
        "cases/v001.yaml::eval-002",
        "test_mine.py::test_by_name",
        "test_mine.py::test_in_code",
    }
    assert report["counts"]["scored"] == 4
    assert report["case_sets"]["cases/v001.yaml"]["counts"]["scored"] == 3
    assert report["case_sets"]["test_mine.py"]["counts"]["scored"] == 1
    assert report["l1"]["total_tp"] == 4


@MODES
def test_gated_tests_alone_are_gated(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(1))
    project.write("test_mine.py", gated(True))
    result = project.run("test_mine.py", "--memeval-gate", "P0 l1.strict_match_rate > 1", *mode)
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    assert project.report()["summary"]["p0_status"] == {"P0 l1.strict_match_rate > 1": "missed"}
    plain = project.write("test_mine.py", gated(False))
    assert project.run(plain.name, "--memeval-gate", "P0 l1.strict_match_rate > 1", *mode).ret == 0


OVERRIDES = """
import pytest
from line_engine import LineEngine


class Fixed(LineEngine):
    name = {name!r}

    def extract(self, conversation, ctx):
        return [{{"content": {name!r}, "dimensions": ["identity"]}}]


@pytest.fixture(scope={scope!r})
def memeval_engine():
    return Fixed()
"""


@pytest.mark.parametrize("scope", ["session", "package", "module", "class", "function"])
def test_the_engine_can_be_overridden_at_every_level_and_scope(project: Project, scope: str) -> None:
    project.write("conftest.py", OVERRIDES.format(name="root", scope=scope))
    project.cases([case("a", "x: y", truth=[("identity", "root")])], name="cases/v001.yaml")
    project.cases([case("a", "x: y", truth=[("identity", "deeper")])], name="cases/deep/v001.yaml")
    project.write("cases/deep/conftest.py", OVERRIDES.format(name="deeper", scope=scope))
    project.write(
        "test_module.py",
        OVERRIDES.format(name="module", scope=scope)
        + """
@pytest.mark.memeval(case="cases/v001.yaml::a")
def test_it(memeval_l1, memeval_engine):
    assert memeval_engine.name == memeval_l1.output[0].content == "module"


class TestClass:
    @pytest.fixture
    def memeval_engine(self, memeval_engine):
        memeval_engine.name = "class"
        return memeval_engine

    @pytest.mark.memeval(case="cases/v001.yaml::a")
    def test_it(self, memeval_l1, memeval_engine):
        assert memeval_engine.name == "class"
""",
    )
    project.run().assert_outcomes(passed=4)
    report = project.report()
    assert report["l1"]["strict_match_rate"] == 1


def test_the_model_can_be_overridden_and_asked_from_plain_code(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest
        from pytest_memeval.llm.protocol import ChatReply

        class Mine:
            name = "mine"

            async def complete(self, messages, *, stage, **keywords):
                return ChatReply('[{"content": "' + stage + '", "dimensions": ["identity"]}]', "stop", model="mine-1")

        class Engine:
            name = "asks"

            def extract(self, conversation, ctx):
                text = ctx.llm.complete_sync([{"role": "user", "content": "?"}], stage="l1_extraction").text
                import json
                return json.loads(text)

        @pytest.fixture(scope="module")
        def memeval_llm():
            return Mine()

        @pytest.fixture
        def memeval_engine():
            return Engine()
        """,
    )
    project.cases([case("a", "x: y", truth=[("identity", "l1_extraction")])])
    project.run().assert_outcomes(passed=1)
    report = project.report()
    assert report["model"]["provider"] == "mine"
    assert report["per_case"][0]["calls"][0]["model"] == "mine-1"
    assert report["l1"]["strict_match_rate"] == 1


def test_the_offline_model_answers_plain_code(project: Project) -> None:
    project.write("conftest.py", "")
    project.write(
        "test_model.py",
        """
        import pytest
        from pytest_memeval.llm.embedded import EmbeddedUnsupported

        def test_it(memeval_llm, memeval_judge):
            assert memeval_llm.name == "embedded"
            with pytest.raises(EmbeddedUnsupported):
                memeval_llm.complete_sync([{"role": "user", "content": "hi"}], stage="chat")
            assert memeval_judge is None
        """,
    )
    project.run().assert_outcomes(passed=1)


def test_extraction_can_be_overridden_and_later_stages_take_it(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest
        from pytest_memeval.engine.reference.engine import ReferenceEngine
        from pytest_memeval.results import StageResult

        @pytest.fixture
        def memeval_engine():
            return ReferenceEngine()

        @pytest.fixture
        def memeval_l1(memeval_case):
            return [
                {"id": f"mine-{at}", "content": label.content, "dimensions": [*label.dimensions, "nonsense"]}
                for at, label in enumerate(memeval_case.expected_l1.memories)
            ]
        """,
    )
    entry = case("a", "x: y", truth=[("identity", "works as a nurse")])
    entry["expected_l2"] = {"template_section": {"daily": {"0": "basic_info"}}}
    project.cases([entry])
    project.write(
        "test_mine.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::a")
        def test_it(memeval_template, memeval_l15):
            assert memeval_l15.output[0].result_id == "mine-0"
            assert "mine-0" in {i for section in memeval_template.output["daily"] for i in section.memory_ids}
        """,
    )
    result = project.run()
    result.assert_outcomes(passed=2)
    report = project.report()
    assert report["l1"]["strict_match_rate"] == report["l2"]["section_hit_rate"] == 1
    assert report["l1"]["dropped_labels"] == 1
    assert report["per_case"][0]["calls"] == []


def test_the_cases_databases_can_be_overridden(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest
        from pytest_memeval.engine.databases import OpenDatabases

        class Engine:
            name = "db"

            def extract(self, conversation, ctx):
                ctx.memory_db.execute("CREATE TABLE seen (x)")
                return [{"content": message.content, "dimensions": ["identity"]} for message in conversation]

        @pytest.fixture
        def memeval_engine():
            return Engine()

        @pytest.fixture
        def memeval_db(tmp_path):
            with OpenDatabases(tmp_path / "mine") as databases:
                yield databases
                assert (tmp_path / "mine" / "memory.db").exists()
        """,
    )
    # Equal ids in two files, and twice the same table: each case has its own.
    for name in ("cases/a.yaml", "cases/b.yaml"):
        project.cases([case("a", "a text", truth=[("identity", "a text")])], name=name)
    project.run().assert_outcomes(passed=2)


def test_registry_templates_and_prompts_are_at_hand(project: Project) -> None:
    project.cases(good_cases(1))
    project.write(
        "test_assets.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001")
        def test_it(memeval_registry, memeval_templates, memeval_prompts, memeval_db, memeval_case):
            assert "identity" in memeval_registry.ids
            assert set(memeval_templates.modes) == {"daily", "coding", "work", "full"}
            assert memeval_prompts.versions["l1_extraction"].startswith("v")
            assert memeval_db.memory is memeval_db.memory
        """,
    )
    project.run("test_assets.py").assert_outcomes(passed=1)


def test_a_stage_without_labels_runs_for_a_test_that_asks_for_it(project: Project) -> None:
    project.write(
        "test_asked_stages.py",
        """
        import pytest
        from pytest_memeval.cases.models import EvalCase
        from pytest_memeval.values import Message

        CASE = EvalCase("c", conversation=(Message("msg_1", "user", "I work as a nurse in Graz."),))

        @pytest.fixture(scope="module")
        def memeval_engine():
            from pytest_memeval.engine.reference.engine import ReferenceEngine
            return ReferenceEngine()

        @pytest.mark.memeval(case=CASE)
        def test_all(memeval_l1, memeval_l15, memeval_l2, memeval_template):
            assert memeval_l1.output and memeval_l1.metrics is None and memeval_l1.calls
            assert memeval_l15.output[0].action == "store"
            assert set(memeval_template.output) == {"daily", "coding", "work", "full"}
            assert memeval_l2.output

        @pytest.mark.memeval(case=CASE)
        def test_inject(memeval_inject):
            pass
        """,
    )
    result = project.run("test_asked_stages.py")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*inject* unsupported: the case names no mode to inject*"])


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ('case="cases/v001.yaml::eval-01"', "cases/v001.yaml has no case 'eval-01'; did you mean 'eval-001'?"),
        ('case="cases/v01.yaml::eval-001"', "there is no file 'cases/v01.yaml' in *; did you mean 'cases/v001.yaml'?"),
        ('case="cases/v001.yaml"', "case 'cases/v001.yaml' is not of the form file::case_id"),
        ("case={}", "case must be 'file::case_id' or an EvalCase, not dict"),
        ('cases="cases/v001.yaml::eval-001"', "@pytest.mark.memeval has no 'cases'; did you mean 'case'?"),
        ('"cases/v001.yaml::eval-001"', "@pytest.mark.memeval takes keywords only*"),
        ("", "name the case with @pytest.mark.memeval(case=*"),
        ('case="line_engine.py::x"', "*line_engine.py*"),
    ],
)
@pytest.mark.parametrize("gate", ["", ", gate=True"])
def test_a_wrong_name_is_one_sentence(project: Project, marker: str, sentence: str, gate: str) -> None:
    project.cases(good_cases(1))
    arguments = f"{marker}{gate}".lstrip(", ")
    project.write(
        "test_mine.py",
        f"""
        import pytest

        @pytest.mark.memeval({arguments})
        def test_it(memeval_l1):
            pass
        """,
    )
    result = project.run("test_mine.py")
    result.assert_outcomes(errors=1)
    assert result.ret == 1
    text = result.stdout.str()
    assert "Traceback" not in text
    assert "_named_case" not in text
    result.stdout.fnmatch_lines([f"*{sentence.replace('[', '[[]')}"])


def test_an_unsupported_stage_and_a_failed_one_are_one_sentence(project: Project) -> None:
    project.cases([case("a", "raise", truth=[("identity", "x")])])
    project.write(
        "test_mine.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::a")
        def test_l2(memeval_l2):
            pass

        @pytest.mark.memeval(case="cases/v001.yaml::a", gate=True)
        def test_l1(memeval_l1):
            pass
        """,
    )
    result = project.run("test_mine.py")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*engine_exception: RuntimeError: engine broke here (line_engine.py:* in extract)*"])
    [entry] = project.report()["per_case"]
    assert [(error["stage"], error["kind"]) for error in entry["errors"]] == [("l1", "engine_exception")]


GATED_AGAIN = """
import pytest


@pytest.mark.parametrize("secret", ["a", "b", "c"])
@pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
def test_no_secret(secret, memeval_l1):
    assert secret not in memeval_l1.output[0].id


@pytest.mark.memeval(case="cases/v001.yaml::eval-002")
def test_counts_for_nothing(memeval_l1):
    assert memeval_l1.error is None
"""


@MODES
def test_cases_that_count_more_than_once_are_named(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    project.write("test_again.py", GATED_AGAIN)
    note = "1 case(s) count more than once, since tests with gate=True are counted beside a case's own item and beside"
    result = project.run(*mode)
    assert result.ret == 0
    assert f"{note} each other: cases/v001.yaml::eval-001 (4 times)" in " ".join(result.stdout.str().split())
    assert [each for each in project.report()["notes"] if note in each]
    assert project.report()["l1"]["counts"]["scored"] == 5
    assert note not in project.run("cases", *mode).stdout.str()


@MODES
@pytest.mark.parametrize("value", ["'no'", "1", "None"])
def test_gate_is_true_or_false(project: Project, mode: tuple[str, ...], value: str) -> None:
    project.cases(good_cases(1))
    project.write(
        "test_mine.py",
        f"""
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate={value})
        def test_it(memeval_l1):
            pass
        """,
    )
    result = project.run("test_mine.py", *mode)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*test_mine.py::test_it: gate must be True or False, got {value}*"])


def test_an_engine_cannot_take_a_case_out_of_the_figures(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        class Engine:
            name = "skips"

            def extract(self, conversation, ctx):
                if "skip" in conversation[0].content:
                    pytest.skip("no GPU here")
                if "fail" in conversation[0].content:
                    pytest.fail("a check of the engine's own")
                return []

        @pytest.fixture(scope="session")
        def memeval_engine():
            return Engine()
        """,
    )
    project.cases([case("a", "skip", truth=[]), case("b", "fail", truth=[]), case("c", "fine", truth=[])])
    result = project.run("-rs")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*the engine skipped: no GPU here*"])
    assert project.outcomes() == {"a": "errored", "b": "errored", "c": "scored"}


def test_an_engine_or_model_that_cannot_be_had_is_one_sentence(project: Project) -> None:
    project.write("conftest.py", "")
    project.cases(good_cases(1))
    result = project.run("--memeval-engine", "line_engine:LineEngin")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert "--memeval-engine: 'line_engine:LineEngin' cannot be imported" in text
    assert "build_engine" not in text
    assert project.run("--memeval-engine", "line_engine:LineEngine").ret == 0


def test_hand_written_tests_report_their_own_failures(project: Project) -> None:
    project.cases(good_cases(1))
    project.write(
        "test_mine.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
        def test_it(memeval_l1):
            assert memeval_l1.output == []
        """,
    )
    result = project.run("test_mine.py")
    result.assert_outcomes(failed=1)
    assert json.dumps(project.report()["per_case"][0]["outcome"]) == '"scored"'


@pytest.mark.parametrize("mode", [(), ("-n", "2"), ("--memeval-trials", "2")], ids=["serial", "n2", "trials"])
@pytest.mark.parametrize("stage", ["l1", "l15", "l2", "template", "inject", "search"])
def test_what_a_stage_fixture_gives_instead_of_an_output_is_bad_output(
    project: Project, stage: str, mode: tuple[str, ...]
) -> None:
    project.write(
        "conftest.py",
        f"""
        import pytest
        from pytest_memeval.engine.reference.engine import ReferenceEngine
        from pytest_memeval.results import StageResult

        GIVEN = {{"none": None, "number": 5, "text": "x", "result": StageResult(output=None), "list": [None]}}

        @pytest.fixture(scope="session")
        def memeval_engine():
            return ReferenceEngine()

        @pytest.fixture
        def memeval_{stage}(memeval_{stage}, memeval_case):
            return GIVEN.get(memeval_case.case_id, memeval_{stage})
        """,
    )
    labels = {
        "expected_l15": {"actions": [{"new_memory_index": 0, "candidate_ids": [], "action": "store"}]},
        "expected_l2": {
            "scenes": [{"label": "P", "memories": [0]}],
            "template_section": {"daily": {"0": "basic_info"}},
        },
        "expected_inject": {
            "mode": "daily",
            "subsequent_conversation": [{"role": "user", "content": "Who am I?"}],
            "referenced_memory_indices": [0],
        },
        "expected_search_results": [{"query": "nurse", "relevant": [0]}],
    }
    bad = ("none", "number", "text", "result", "list")
    project.cases(
        [
            case(name, f"I work as a nurse {name}", truth=[("identity", f"works as a nurse {name}")], **labels)
            for name in (*bad, "good")
        ]
    )
    project.run(*mode).assert_outcomes(passed=1, errors=5)
    entries = {entry["case_id"]: entry for entry in project.report()["per_case"]}
    assert entries["good"]["outcome"] == "scored"
    for name in bad:
        assert entries[name]["outcome"] == "errored"
        errors = [(error["stage"], error["kind"]) for error in entries[name]["errors"]]
        assert set(errors) == {(stage, "bad_output")}, name
        assert entries[name]["stages"][stage] == "errored", name
