"""One case's stages: order, failures, time limits, stores, and what is recorded of them."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from run_bench import DIMENSIONS, TEXTS, ListEngine, Without, finished, full_case, memory, open_run, truth

from pytest_memeval.case_clock import DEFAULT_CLOCK, case_clock
from pytest_memeval.case_record import case_result, untouched_result
from pytest_memeval.cases.models import EvalCase, L2GroundTruth
from pytest_memeval.engine.protocol import StageError, UnusableAnswer
from pytest_memeval.engine.reference.engine import ReferenceEngine
from pytest_memeval.llm.embedded import EmbeddedChatModel
from pytest_memeval.llm.protocol import (
    ChatModelError,
    ChatReply,
    ModelEmpty,
    ModelQuota,
    ModelTruncated,
    ModelUnavailable,
    NotRecorded,
    Usage,
)
from pytest_memeval.metrics.thresholds import parse_threshold
from pytest_memeval.results import CaseError, CaseResult, StageResult
from pytest_memeval.runner import IDLE
from pytest_memeval.settings.case import RunSettings
from pytest_memeval.values import Decision, Memory, Message, Scene

STAGES = ("l1", "l15", "l2", "template", "inject")


def l1_case(**fields: Any) -> EvalCase:
    return EvalCase(
        **{
            "case_id": "eval-001",
            "conversation": tuple(Message(f"msg_{n}", "user", text) for n, text in enumerate(TEXTS, 1)),
            "expected_l1": truth(*TEXTS),
            **fields,
        }
    )


def only_error(result: CaseResult) -> CaseError:
    [error] = result.errors
    return error


# -- a whole case ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chained", [True, False])
def test_an_engine_that_is_right_is_right_everywhere(chained: bool) -> None:
    engine = ListEngine()
    result = finished(full_case(), engine, chained=chained)
    assert result.outcome == "scored"
    assert {stage: result.stages[stage] for stage in STAGES} == dict.fromkeys(STAGES, "scored")
    for path in ("l1.strict_match_rate", "l15.decision_accuracy", "l2.section_hit_rate", "l2.scene_grouping_f1"):
        section, name = path.split(".")
        assert result.sections[section].values()[name] == 1, path
    inject = result.sections["inject"].values()
    assert inject["inject_hit_rate"] == inject["reference_coverage"] == 1
    assert inject.get("pipeline_coverage") == (1 if chained else None)
    assert (result.errors, result.missed_expectations) == ((), ())
    assert [fact["kind"] for fact in result.facts] == ["inject_setup"]


def test_stages_run_once_in_order_and_stores_are_filled_once() -> None:
    engine = ListEngine()
    with open_run(full_case(), engine) as run:
        run.result("template")
        run.result("l1")
        run.run_all()
        run.run_all()
    # The main store is filled before extraction, that of the injection before it.
    assert [method for method, _ in engine.log] == [
        *("load", "extract", "resolve", "query_template", "aggregate"),
        *("load", "inject", "inject"),
    ]
    (first, _), (labelled, scenes) = (args for method, args in engine.log if method == "load")
    assert [one.id for one in first] == ["m1"]
    assert [one.id for one in labelled] == ["eval-001#0", "eval-001#1", "eval-001#2"]
    assert scenes == []


def test_with_labelled_input_each_stage_stands_alone() -> None:
    engine = ListEngine()
    finished(full_case(), engine, chained=False)
    loads = [[one.id for one in args[0]] for method, args in engine.log if method == "load"]
    labelled = ["eval-001#0", "eval-001#1", "eval-001#2"]
    # Extraction and conflict resolution start from what was stored, sections and scenes from the labels as well.
    assert loads == [["m1"], ["m1"], ["m1", *labelled], ["m1", *labelled], labelled]
    [given] = [args[0] for method, args in engine.log if method == "resolve"]
    assert [one.id for one in given] == labelled
    [given] = [args[0] for method, args in engine.log if method == "aggregate"]
    assert [one.content for one in given] == list(TEXTS)


def test_with_labelled_input_a_failed_stage_voids_no_other() -> None:
    result = finished(full_case(), ListEngine({"extract": ValueError("no")}), chained=False)
    assert result.stages["l1"] == "errored"
    assert {result.stages[stage] for stage in STAGES[1:]} == {"scored"}


def test_every_kind_of_engine_method_may_be_async() -> None:
    class Async(ListEngine):
        async def extract(self, conversation: list[Message], ctx: Any) -> Any:
            await asyncio.sleep(0)
            return ListEngine.extract(self, conversation, ctx)

        def resolve(self, memories: list[Memory], ctx: Any) -> Any:
            async def later() -> Any:
                return ListEngine.resolve(self, memories, ctx)

            return later()

    result = finished(full_case(), Async())
    assert result.outcome == "scored"
    assert result.sections["l15"].values()["decision_accuracy"] == 1


def test_a_plain_method_may_run_a_loop_and_ask_the_model() -> None:
    class Sync:
        name = "sync"

        def extract(self, conversation: list[Message], ctx: Any) -> Any:
            asyncio.run(asyncio.sleep(0))
            reply = ctx.llm.complete_sync([{"role": "user", "content": "hi"}], stage="l1_extraction")
            return [{"content": reply.text}]

    class Echo:
        name = "echo"

        async def complete(self, messages: Any, **keywords: Any) -> ChatReply:
            return ChatReply(messages[0]["content"], "stop", Usage(3, 2), "echo-1", 0.5)

    result = finished(l1_case(), Sync(), Echo())
    assert result.outputs["l1"][0]["content"] == "hi"
    [call] = result.calls
    assert (call.provider, call.model, call.stage, call.input_tokens, call.latency) == (
        "echo",
        "echo-1",
        "l1_extraction",
        3,
        0.5,
    )
    assert call.id == "eval-001/l1/0"


# -- failures --------------------------------------------------------------------------------------------------------

AFTER = {
    "extract": {"l1": "errored", "l15": "void", "l2": "void", "template": "void", "inject": "scored"},
    "resolve": {"l1": "scored", "l15": "errored", "l2": "void", "template": "void", "inject": "scored"},
    "aggregate": {"l1": "scored", "l15": "scored", "l2": "errored", "template": "scored", "inject": "scored"},
    "query_template": {"l1": "scored", "l15": "scored", "l2": "scored", "template": "errored", "inject": "scored"},
    "inject": {"l1": "scored", "l15": "scored", "l2": "scored", "template": "scored", "inject": "errored"},
}


@pytest.mark.parametrize("method", AFTER)
def test_a_failed_stage_voids_itself_and_what_builds_on_it(method: str) -> None:
    result = finished(full_case(), ListEngine({method: ValueError("no")}))
    assert {stage: result.stages[stage] for stage in STAGES} == AFTER[method]
    assert result.outcome == "errored"
    assert only_error(result).kind == "engine_exception"
    assert set(result.sections) >= {"l1"} - ({"l1"} if method == "extract" else set())
    if method in ("extract", "resolve"):
        # Injection starts from the labels; its figures on the pipeline's own memories are missing, and that is said.
        values = result.sections["inject"].values()
        assert values["reference_coverage"] == 1
        assert "pipeline_coverage" not in values
        assert any("not measured on the pipeline's memories" in fact.get("text", "") for fact in result.facts)


def test_a_stage_that_only_had_to_run_says_so_when_it_fails() -> None:
    result = finished(full_case(), ListEngine({"extract": ValueError("no")}), stages=frozenset({"template"}))
    assert result.stages["l1"] == "ran_errored"
    assert result.stages["template"] == "void"
    assert result.stages["inject"] == "unselected"
    assert [error.stage for error in result.errors] == ["l1"]


def test_an_exception_is_told_with_the_place_in_the_users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import json\n\n\nclass Engine:\n    def extract(self, conversation, ctx):\n        return json.loads('{')\n"
    )
    file = tmp_path / "their_engine.py"
    file.write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), names)
    error = only_error(finished(l1_case(), names["Engine"]()))
    assert error.message.startswith("JSONDecodeError: Expecting property name")
    assert error.message.endswith("(their_engine.py:6 in extract)")


def test_f33_no_key_of_an_exception_reaches_the_record() -> None:
    secret = "sk-abcdefghijklmnop1234"
    result = finished(l1_case(), ListEngine({"extract": RuntimeError(f"401 for key {secret}")}))
    assert secret not in repr(result.to_json())
    assert "401 for key" in only_error(result).message


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("gone"),
        ModelTruncated("cut"),
        ModelQuota("none left"),
        ModelEmpty("nothing"),
        NotRecorded("no"),
    ],
    ids=lambda error: error.kind,
)
def test_the_kind_of_a_model_failure_is_kept(error: ChatModelError) -> None:
    class Failing:
        name = "failing"

        async def complete(self, messages: Any, **keywords: Any) -> ChatReply:
            raise error

    result = finished(full_case(), ReferenceEngine(), Failing())
    found = result.errors[0]
    assert (found.stage, found.kind) == ("l1", error.kind)
    assert str(error) in found.message
    assert result.calls[0].error == f"{error.kind}: {error}"
    assert result.stages["inject"] == "scored"


def test_a_failed_call_keeps_what_it_cost() -> None:
    class Failing:
        name = "failing"

        async def complete(self, messages: Any, **keywords: Any) -> ChatReply:
            raise ModelTruncated("cut", attempts=2, usage=Usage(100, 50), latency=1.5, model="m-1")

    [call] = finished(l1_case(), ReferenceEngine(), Failing()).calls
    assert (call.input_tokens, call.output_tokens, call.attempts, call.latency, call.model) == (100, 50, 2, 1.5, "m-1")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (StageError("not today", kind="closed"), "closed", "not today"),
        (UnusableAnswer("prose"), "unusable_answer", "prose"),
        (SystemExit(3), "engine_exception", "SystemExit: 3"),
        (asyncio.CancelledError(), "engine_exception", "CancelledError"),
        (StopIteration(), "engine_exception", "StopIteration"),
        (pytest.fail.Exception("their own check"), "engine_exception", "their own check"),
        (pytest.exit.Exception("bye", returncode=0), "engine_exception", "Exit: bye"),
        (
            ExceptionGroup("tasks", [ModelUnavailable("gone"), ValueError("x")]),
            "model_unavailable",
            "gone (and 1 more)",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.parametrize("kind_of_method", ["plain", "async"])
def test_whatever_an_engine_raises_is_its_stages_error(
    error: BaseException, kind: str, words: str, kind_of_method: str
) -> None:
    class Plain:
        name = "raising"

        def extract(self, conversation: Any, ctx: Any) -> Any:
            raise error

    class Async:
        name = "raising"

        async def extract(self, conversation: Any, ctx: Any) -> Any:
            raise error

    found = only_error(finished(l1_case(), Plain() if kind_of_method == "plain" else Async()))
    assert (found.stage, found.kind) == ("l1", kind)
    assert words in found.message


def test_an_interrupt_is_let_through() -> None:
    with open_run(l1_case(), ListEngine({"extract": KeyboardInterrupt()})) as run, pytest.raises(KeyboardInterrupt):
        run.result("l1")


@pytest.mark.parametrize(
    ("method", "output", "sentence"),
    [
        ("extract", "likes tea", "expected a list of memory objects, got str"),
        ("extract", ["likes tea"], "memory 0: expected Memory or a mapping, got str"),
        ("extract", [{"text": "x"}], "unknown key 'text'"),
        ("resolve", [{"memory_index": 0, "acton": "store"}], "did you mean 'action'"),
        ("aggregate", [{"id": "s"}], "'title' is missing"),
        ("query_template", [{"name": "x"}], "mode daily: section 0: unknown key 'name'"),
        ("inject", None, None),
        ("inject", [{"titel": "x"}], "did you mean 'title'"),
    ],
)
def test_a_bad_output_is_told_in_a_sentence(method: str, output: Any, sentence: str | None) -> None:
    answers: dict[str, Any] = {method: lambda *args: output}
    if sentence is None:
        # The list engine takes None for "do it right": the real method has to give nothing.
        class Silent(ListEngine):
            def inject(self, mode: str, conversation: Any, ctx: Any) -> Any:
                return None

        error = only_error(finished(full_case(), Silent()))
        assert "got None" in error.message
    else:
        error = only_error(finished(full_case(), ListEngine(answers)))
        assert sentence in error.message
    assert error.kind == "bad_output"


def test_f29_decisions_about_memories_that_do_not_exist_do_not_crash() -> None:
    answers = {"resolve": lambda *_: [Decision(99, "store"), Decision(-1, "merge", ("m1",)), Decision(0, "store")]}
    result = finished(full_case(), ListEngine(answers))
    assert result.outcome == "scored"
    assert result.sections["l15"].counts["bad_decisions"] == 2
    assert result.sections["l15"].values()["action_recall.store"] == 0.5


def test_a_store_that_cannot_be_filled_fails_every_stage_that_reads_it() -> None:
    class Choosy(ListEngine):
        def load(self, memories: list[Memory], scenes: list[Scene], ctx: Any) -> None:
            if any(str(one.id).startswith("eval-001#") for one in memories) and scenes:
                raise ValueError("too many")
            ListEngine.load(self, memories, scenes, ctx)

    result = finished(full_case(), Choosy(), chained=False)
    assert {stage: result.stages[stage] for stage in STAGES} == {
        "l1": "scored",
        "l15": "scored",
        "l2": "errored",
        "template": "errored",
        "inject": "scored",
    }
    broken = finished(full_case(), ListEngine({"load": ValueError("no")}))
    assert {stage: broken.stages[stage] for stage in STAGES} == {
        "l1": "errored",
        "l15": "void",
        "l2": "void",
        "template": "void",
        "inject": "errored",
    }


# -- time limits -----------------------------------------------------------------------------------------------------


def test_f27_a_plain_method_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    late: list[str] = []

    class Slow:
        name = "slow"

        def extract(self, conversation: Any, ctx: Any) -> Any:
            release.wait(20)
            ctx.record("note", text="far too late")
            late.append("done")
            return []

    before = time.perf_counter()
    result = finished(l1_case(timeout=0.2), Slow())
    assert time.perf_counter() - before < 3
    error = only_error(result)
    assert (error.stage, error.kind, error.message) == ("l1", "timeout", "the case's time limit of 0.2 s is over")
    release.set()
    for _ in range(100):
        if late:
            break
        time.sleep(0.02)
    assert late
    assert result.facts == ()


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    cancelled = threading.Event()

    class Slow(ListEngine):
        async def resolve(self, memories: list[Memory], ctx: Any) -> Any:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.set()
                raise

    result = finished(full_case(), Slow(), timeout=0.2)
    assert cancelled.is_set()
    assert {stage: result.stages[stage] for stage in STAGES} == {
        "l1": "scored",
        "l15": "errored",
        "l2": "void",
        "template": "void",
        # The limit is the whole case's.
        "inject": "errored",
    }
    assert {error.kind for error in result.errors} == {"timeout"}


def test_a_coroutine_that_blocks_without_awaiting_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_memeval.loops.GRACE", 0.1)

    release, over = threading.Event(), threading.Event()

    class Blocking(ListEngine):
        async def extract(self, conversation: Any, ctx: Any) -> Any:
            release.wait(20)
            over.set()
            return []

    with open_run(full_case(), Blocking(), timeout=0.2) as run:
        run.run_all()
        assert not over.is_set()
        first = case_result(run, node_id="n", set_path="s")
        release.set()
        assert over.wait(5)
        time.sleep(0.1)
        assert case_result(run, node_id="n", set_path="s") == first
    assert (first.stages["l1"], first.stages["l15"], first.stages["inject"]) == ("errored", "void", "errored")
    assert first.outputs == {}


def test_a_pause_between_stages_is_no_time_of_the_case_and_nothing_goes_on_meanwhile() -> None:
    go_on, pauses, stages = threading.Event(), threading.Semaphore(0), list[str]()

    class Telling(ListEngine):
        def extract(self, conversation: Any, ctx: Any) -> Any:
            stages.append("l1")
            return super().extract(conversation, ctx)

        def resolve(self, memories: list[Memory], ctx: Any) -> Any:
            stages.append("l15")
            return super().resolve(memories, ctx)

    async def pause() -> None:
        pauses.release()
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    with open_run(full_case(), Telling(), timeout=3) as run:
        run.go_ahead()
        work = asyncio.run_coroutine_threadsafe(run.work_ahead(pause), run._loop.loop())
        assert pauses.acquire(timeout=20)
        # The item asks for what is there, and waits for what is not.
        assert run.result("l1").error is None
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(run.result, "l15")
            time.sleep(4.5)
            assert not waiting.done()
            assert stages == ["l1"]
            go_on.set()
            assert waiting.result(20).error is None
        work.result(20)
        assert case_result(run, node_id="n", set_path="s").outcome == "scored"
        assert run.seconds < 3
    assert stages == ["l1", "l15"]


def test_a_case_within_its_limit_is_scored() -> None:
    assert finished(full_case(timeout=30), ListEngine()).outcome == "scored"


# -- labels ----------------------------------------------------------------------------------------------------------


def test_every_engines_labels_are_brought_into_the_registrys_spelling() -> None:
    given = [
        {"id": "a", "content": TEXTS[0], "dimensions": ["Identity", "no such thing"], "memory_type": "PERSONA"},
        {"id": "b", "content": TEXTS[1], "dimensions": ["Habbits"]},
    ]
    result = finished(l1_case(), ListEngine({"extract": lambda *_: given}))
    assert [one["dimensions"] for one in result.outputs["l1"]] == [["identity"], ["habits"]]
    assert result.outputs["l1"][0]["memory_type"] == "persona"
    kinds = [(fact["kind"], fact["label"], fact["memory_index"]) for fact in result.facts]
    assert kinds == [("dropped_label", "no such thing", 0), ("fuzzy_label", "Habbits", 1)]
    assert result.sections["l1"].counts["dropped_labels"] == 1


def test_an_engines_own_normalisation_runs_first() -> None:
    class Own(ListEngine):
        def normalize(self, memories: list[Memory], ctx: Any) -> Any:
            return [Memory(one.id, one.content, ("Job",)) for one in memories]

    result = finished(l1_case(), Own())
    assert {tuple(one["dimensions"]) for one in result.outputs["l1"]} <= {(), ("identity",), ("skills",)}
    bad = only_error(finished(l1_case(), type("Bad", (Own,), {"normalize": lambda *_: "x"})()))
    assert (bad.stage, bad.kind) == ("l1", "bad_output")


# -- engines that lack something -------------------------------------------------------------------------------------


def test_without_conflict_resolution_the_memories_are_stored_as_they_are() -> None:
    result = finished(full_case(), Without(ListEngine(), "resolve"))
    assert result.stages["l15"] == "unsupported"
    assert result.sections["l2"].values()["section_hit_rate"] == 1
    assert result.outcome == "scored"


def test_without_load_conflict_resolution_still_stores_the_new_memories() -> None:
    result = finished(full_case(), Without(ListEngine(), "load"))
    assert {stage: result.stages[stage] for stage in STAGES} == {
        "l1": "scored",
        "l15": "unsupported",
        "l2": "scored",
        "template": "scored",
        "inject": "unsupported",
    }
    assert "l15" not in result.sections
    assert result.sections["l2"].values()["section_hit_rate"] == 1


def test_without_extraction_only_injection_is_measured_in_a_chain() -> None:
    result = finished(full_case(), Without(ListEngine(), "extract"))
    assert {stage: result.stages[stage] for stage in STAGES} == {
        **dict.fromkeys(STAGES, "unsupported"),
        "inject": "scored",
    }
    assert "pipeline_coverage" not in result.sections["inject"].values()
    alone = finished(full_case(), Without(ListEngine(), "extract"), chained=False)
    assert alone.stages["l15"] == alone.stages["template"] == "scored"


def test_an_engine_without_ids_is_noted() -> None:
    class Nameless(ListEngine):
        def extract(self, conversation: list[Message], ctx: Any) -> Any:
            return [Memory(None, one.content, (DIMENSIONS[at % 3],)) for at, one in enumerate(conversation)]

        def resolve(self, memories: list[Memory], ctx: Any) -> Any:
            self.kept = [one.content for one in memories]
            return [Decision(at, "store") for at in range(len(memories))]

        def query_template(self, mode: str, ctx: Any) -> Any:
            return [
                {"title": "basic_info", "memory_ids": self.kept[:1]},
                {"title": "daily_life", "memory_ids": self.kept[1:2]},
            ]

    result = finished(full_case(), Nameless())
    assert result.sections["l2"].values()["section_hit_rate"] == 1
    notes = [fact["text"] for fact in result.facts if fact["stage"] == "template"]
    assert notes == ["template: memories without a known id were found by content"]


# -- what a stage is given -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "given"),
    [
        (Decision(1, "update", ("m1",), "new text"), ("m1", "new text")),
        (Decision(1, "merge", ("m1",), "both", "m9"), ("m9", "both")),
        (Decision(1, "skip", ("m1",)), ("m1", "drinks coffee every morning")),
        (Decision(1, "store"), ("n1", TEXTS[1])),
        (Decision(1, "update", ("zz",), "new text"), ("n1", TEXTS[1])),
        (None, ("n1", TEXTS[1])),
    ],
)
def test_aggregation_is_given_memories_as_they_live(decision: Decision | None, given: tuple[str, str]) -> None:
    engine = ListEngine({"resolve": lambda *_: [] if decision is None else [decision]})
    finished(full_case(), engine)
    [(memories,)] = [args for method, args in engine.log if method == "aggregate"]
    assert (memories[1].id, memories[1].content) == given
    assert [one.id for one in memories] == ["n0", given[0], "n2"]


def test_two_memories_that_became_one_are_given_once() -> None:
    both = [Decision(at, "merge", ("m1",), "all", "m9") for at in (0, 1)]
    engine = ListEngine({"resolve": lambda *_: both})
    finished(full_case(), engine)
    [(memories,)] = [args for method, args in engine.log if method == "aggregate"]
    assert [one.id for one in memories] == ["m9", "n2"]


@pytest.mark.parametrize(
    ("now", "times", "clock"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC), (None,), datetime(2030, 1, 1, tzinfo=UTC)),
        (None, (None, None), DEFAULT_CLOCK),
        (
            None,
            (datetime(2026, 5, 1, 10, tzinfo=UTC), None, datetime(2026, 4, 1, tzinfo=UTC)),
            datetime(2026, 5, 1, 10, 1, tzinfo=UTC),
        ),
    ],
)
def test_the_cases_clock(now: Any, times: Any, clock: datetime) -> None:
    case = l1_case(now=now, conversation=tuple(Message(str(at), "user", "x", time=one) for at, one in enumerate(times)))
    assert case_clock(case) == clock


# -- stores ----------------------------------------------------------------------------------------------------------


def test_the_stores_of_a_case_share_nothing(tmp_path: Path) -> None:
    seen: dict[str, tuple[int, Path]] = {}

    class Looking(ListEngine):
        def extract(self, conversation: list[Message], ctx: Any) -> Any:
            seen["extract"] = (id(ctx.memory_db), ctx.folder)
            (ctx.folder / "store.txt").write_text("pipeline", encoding="utf-8")
            return ListEngine.extract(self, conversation, ctx)

        def inject(self, mode: str, conversation: list[Message], ctx: Any) -> Any:
            seen.setdefault("labelled", (id(ctx.memory_db), ctx.folder))
            seen["pipeline"] = (id(ctx.memory_db), ctx.folder)
            return ListEngine.inject(self, mode, conversation, ctx)

    finished(full_case(), Looking(), get_folder=lambda: tmp_path)
    assert seen["extract"] == seen["pipeline"]
    assert seen["labelled"][0] != seen["pipeline"][0]
    assert seen["labelled"][1] != seen["pipeline"][1]
    assert list(seen["labelled"][1].iterdir()) == []


def test_f28_equal_ids_in_two_files_do_not_meet() -> None:
    sets: list[str] = []

    class Looking(ListEngine):
        def extract(self, conversation: list[Message], ctx: Any) -> Any:
            sets.append(ctx.case_set)
            assert self._rows(ctx) == []
            self._store(ctx).execute("INSERT INTO m VALUES ('x', 'y', 'z')")
            return ListEngine.extract(self, conversation, ctx)

    engine = Looking()
    for path in (Path("/a.yaml"), Path("/b.yaml")):
        assert finished(l1_case(path=path), engine).outcome == "scored"
    assert sets == ["/a.yaml", "/b.yaml"]


def test_f28_every_database_is_closed() -> None:
    kept: list[sqlite3.Connection] = []

    class Keeping(ListEngine):
        def _store(self, ctx: Any) -> Any:
            kept.extend((ctx.memory_db, ctx.wiki_db))
            return ListEngine._store(self, ctx)

    for chained in (True, False):
        finished(full_case(), Keeping(), chained=chained)
    gc.collect()
    assert kept
    for connection in kept:
        with pytest.raises(sqlite3.ProgrammingError):
            connection.execute("SELECT 1")


def test_databases_can_be_kept(tmp_path: Path) -> None:
    with open_run(full_case(), ListEngine()) as run:
        run.run_all()
        run.keep_databases(tmp_path)
    connection = sqlite3.connect(tmp_path / "memory.db")
    assert connection.execute("SELECT count(*) FROM m").fetchone() == (3,)
    connection.close()


def test_a_run_without_folders_says_so() -> None:
    class Needs:
        name = "needs"

        def extract(self, conversation: Any, ctx: Any) -> Any:
            return [str(ctx.folder)]

    assert "no folder of its own" in only_error(finished(l1_case(), Needs())).message


# -- results from elsewhere ------------------------------------------------------------------------------------------


def test_a_provided_result_is_scored_and_feeds_later_stages() -> None:
    engine = ListEngine()
    with open_run(full_case(), engine) as run:
        given = StageResult(output=[{"id": "z", "content": TEXTS[0], "dimensions": ["Identity", "nonsense"]}])
        run.provide("l1", given)
        run.provide("l1", given)
        run.run_all()
        result = case_result(run, node_id="n", set_path="s")
    assert "extract" not in [method for method, _ in engine.log]
    assert result.outputs["l1"][0]["dimensions"] == ["identity"]
    assert result.sections["l1"].values()["memory_recall"] == pytest.approx(1 / 3)
    assert [fact["kind"] for fact in result.facts] == ["dropped_label", "inject_setup"]
    [(memories,)] = [args for method, args in engine.log if method == "resolve"]
    assert [one.id for one in memories] == ["z"]


def test_a_bare_output_may_be_provided_and_a_bad_one_is_an_error() -> None:
    with open_run(full_case(), ListEngine()) as run:
        run.provide("l1", [memory("z", TEXTS[0])])
        run.provide("template", [])
        assert run.results["l1"].metrics is not None
        assert [(error.stage, error.kind) for error in run.errors] == [("template", "bad_output")]
        run.provide("l2", StageResult(error=CaseError("l2", "mine", "did not work")))
        assert run.results["l2"].error is not None
        run.provide("inject", IDLE)
        assert "inject" not in run.results


def test_a_stage_without_labels_can_be_asked_for() -> None:
    with open_run(EvalCase("x", conversation=full_case().conversation), ListEngine()) as run:
        assert run.result("template") == IDLE
        run.demand("template")
        output = run.result("template").output
        assert set(output) == {"daily", "coding", "work", "full"}
        assert [one.id for one in run.result("l1").output] == ["n0", "n1", "n2"]
        result = case_result(run, node_id="n", set_path="s")
    assert (result.stages["l1"], result.stages["template"], result.stages["l2"]) == ("ran", "ran", "no_truth")
    assert (result.outcome, result.sections) == ("scored", {})


def test_a_stage_that_cannot_be_had_is_refused() -> None:
    with open_run(l1_case(), Without(ListEngine(), "aggregate")) as run:
        with pytest.raises(StageError, match="lists does not support stage l2"):
            run.demand("l2")
        with pytest.raises(StageError, match="no mode to inject"):
            run.demand("inject")


def test_stages_that_nobody_asked_for_are_not_counted_as_failures() -> None:
    with open_run(full_case(expect=(parse_threshold("l1.memory_recall", ">= 0.5"),)), ListEngine()) as run:
        run.result("l1")
        result = case_result(run, node_id="n", set_path="s")
    assert (result.outcome, result.stages["l1"], result.stages["l15"]) == ("scored", "scored", "unselected")
    assert set(result.sections) == {"l1"}
    with open_run(full_case(), ListEngine()) as run:
        run.result("l1")
        cut = case_result(run, node_id="n", set_path="s", extra_errors=(CaseError("setup", "fixture_error", "x"),))
    assert (cut.outcome, cut.stages["l15"]) == ("errored", "void")


# -- the record ------------------------------------------------------------------------------------------------------


def test_expectations_decide_when_everything_was_measured() -> None:
    own = parse_threshold("l1.memory_recall", "> 1")
    case = full_case(expect=(own,))
    result = finished(case, ListEngine())
    assert result.missed_expectations == ("l1.memory_recall is 1.000, expected > 1",)
    assert result.has_expectations
    broken = finished(case, ListEngine({"inject": ValueError("no")}))
    assert (broken.outcome, broken.missed_expectations) == ("errored", ())
    default = parse_threshold("l1.strict_match_rate", "> 1")
    assert len(finished(full_case(), ListEngine(), expect=(default,)).missed_expectations) == 1


def test_a_record_survives_json() -> None:
    for engine in (ListEngine(), ListEngine({"resolve": ValueError("no")}), ReferenceEngine()):
        result = finished(full_case(), engine)
        assert CaseResult.from_json(result.to_json()) == result


def test_equal_runs_give_equal_records() -> None:
    def once() -> dict[str, Any]:
        data: dict[str, Any] = finished(full_case(), ReferenceEngine(), EmbeddedChatModel()).to_json()
        data.pop("duration_seconds")
        data.pop("timings")
        for call in data["calls"]:
            call.pop("latency")
        return data

    assert once() == once()


def test_a_case_of_which_nothing_ran() -> None:
    settings = RunSettings(stages=frozenset({"l1", "l2"}))
    result = untouched_result(
        full_case(), node_id="n", set_path="s", settings=settings, errors=(CaseError("a", "b", "c"),)
    )
    assert (result.outcome, result.stages["l1"], result.stages["inject"]) == ("errored", "void", "unselected")
    skipped = untouched_result(full_case(), node_id="n", set_path="s", settings=settings, skipped=True)
    assert (skipped.outcome, skipped.stages["l1"], skipped.stages["search"]) == ("skipped", "skipped", "no_truth")


def test_a_skipped_case_has_no_figures() -> None:
    with open_run(full_case(), ListEngine()) as run:
        run.result("l1")
        result = case_result(run, node_id="n", set_path="s", skipped=True)
    assert (result.outcome, result.sections) == ("skipped", {})
    assert {result.stages[stage] for stage in STAGES} == {"skipped"}


def test_modes_without_labels_are_not_queried() -> None:
    engine = ListEngine()
    case = full_case(expected_l2=L2GroundTruth((), (), {"daily": {0: "basic_info"}, "work": {}}))
    finished(case, engine)
    assert [args[0] for method, args in engine.log if method == "query_template"] == ["daily"]


def test_the_runner_knows_nothing_of_pytest() -> None:
    import subprocess

    code = "import sys, pytest_memeval.runner; sys.exit('pytest' in sys.modules or '_pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_a_case_skipped_for_want_of_anything_to_score_says_why_of_each_stage() -> None:
    with open_run(full_case(), ListEngine(), stages=frozenset({"search"})) as run:
        assert run.why_idle == "nothing of this case was selected: it has labels for l1, l15, l2, template, inject"
        result = case_result(run, node_id="n", set_path="s", skipped=True)
    assert result.outcome == "skipped"
    assert set(result.stages.values()) == {"unselected", "no_truth"}
