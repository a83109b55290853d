"""The check of engines: every shipped one passes, and each broken one fails where it is broken."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from engine_checks import check, failed, harness

from pytest_memeval.cli.main import main
from pytest_memeval.conformance.finding import Finding
from pytest_memeval.extensions import SHIPPED, build_engine, shipped_problem
from pytest_memeval.harness import Harness
from pytest_memeval.options import OPTIONS
from pytest_memeval.values import Hit, Memory

__all__ = ["harness"]  # a fixture


class Sound:
    """A small engine with every stage, whose store is kept apart for each ``ctx.folder``."""

    name = "sound"
    version = "1"
    protocol = "1.0"

    def __init__(self) -> None:
        self.stores: dict[Any, dict[str, Memory]] = {}

    def store(self, ctx: Any) -> dict[str, Memory]:
        return self.stores.setdefault(ctx.folder, {})

    def load(self, memories: Any, scenes: Any, ctx: Any) -> None:
        self.store(ctx).update({str(memory.id): memory for memory in memories})

    def extract(self, conversation: Any, ctx: Any) -> Any:
        return [
            {"id": f"new-{number}", "content": message.content, "dimensions": ["identity"]}
            for number, message in enumerate(conversation)
            if message.content.strip()
        ]

    def resolve(self, memories: Any, ctx: Any) -> Any:
        self.store(ctx).update({str(memory.id): memory for memory in memories})
        return [
            {"memory_index": index, "action": "store", "result_id": memory.id} for index, memory in enumerate(memories)
        ]

    def aggregate(self, memories: Any, ctx: Any) -> Any:
        return [{"id": "s1", "title": "All", "memory_ids": [str(memory.id) for memory in memories]}]

    def query_template(self, mode: str, ctx: Any) -> Any:
        section = ctx.templates.modes[mode].sections[0]
        return [{"id": section.id, "title": section.title, "memory_ids": list(self.store(ctx))}]

    def inject(self, mode: str, conversation: Any, ctx: Any) -> Any:
        text = "\n".join(memory.content for memory in self.store(ctx).values())
        return [{"title": "Known", "memory_ids": list(self.store(ctx)), "present": True, "text": text}]

    def search(self, query: str, params: Any, ctx: Any) -> Any:
        return [Hit(key, 1.0, memory.content) for key, memory in self.store(ctx).items()]

    # -- questions

    def reset(self, ctx: Any) -> None:
        self.stores.pop(ctx.folder, None)

    def ingest(self, message: Any, ctx: Any) -> None:
        self.store(ctx)[message.id] = message

    def retrieve(self, query: str, ctx: Any) -> Any:
        return [Hit(key, 1.0, one.content, (key,)) for key, one in self.store(ctx).items()]


def test_a_sound_engine_passes_everywhere(harness: Harness) -> None:
    findings = check(Sound, harness)
    assert failed(findings) == []
    assert {finding.status for item, finding in findings.items() if item != "errors"} == {"ok"}
    assert findings["errors"].status == "not checked"
    assert findings["qa"].status == findings["qa isolation"].status == "ok"


@pytest.mark.parametrize("name", [name for name in SHIPPED if shipped_problem(name) is None])
def test_every_shipped_engine_that_needs_nothing_passes(name: str, harness: Harness) -> None:
    if getattr(build_engine(name, "test", harness), "needs", None):
        pytest.skip("needs a system of its own; its own tests check it")
    assert failed(check(lambda: build_engine(name, "test", harness), harness)) == []


def test_a_prompt_that_the_offline_model_does_not_know_asks_for_another_model(harness: Harness) -> None:
    class OwnPrompt(Sound):
        async def extract(self, conversation: Any, ctx: Any) -> Any:
            await ctx.llm.complete([{"role": "user", "content": "List the facts."}], stage="l1_extraction")
            raise AssertionError

    finding = check(OwnPrompt, harness)["l1"]
    assert finding.status == "failed"
    assert finding.text.endswith("; name a model with --llm, --model and --base-url")


METHODS = {"l1": "extract", "l15": "resolve", "l2": "aggregate", "template": "query_template"} | {
    name: name for name in ("inject", "search")
}


def engine_with(stages: tuple[str, ...], called: set[str], *, load: bool = True, raising: str = "") -> type:
    """An engine with the methods of these stages alone, each of which is noted when it is called."""

    def noting(name: str) -> Any:
        def method(self: Any, *arguments: Any) -> Any:
            called.add(name)
            if name == raising:
                raise RuntimeError(f"{name} broke")
            return getattr(Sound, name)(self, *arguments)

        return method

    names = [*(METHODS[stage] for stage in stages), *(["load"] if load else [])]
    kept = {name: getattr(Sound, name) for name in ("__init__", "store", "reset")}
    return type("Part", (), {"name": "part", "version": "1", **kept, **{name: noting(name) for name in names}})


SETS = [stages for count in range(1, 7) for stages in itertools.combinations(METHODS, count)]


@pytest.mark.parametrize("load", [True, False], ids=["load", "no load"])
@pytest.mark.parametrize("stages", SETS, ids="+".join)
def test_each_stage_of_an_engine_is_checked_or_it_is_said_truly_why_not(
    stages: tuple[str, ...], load: bool, harness: Harness
) -> None:
    called: set[str] = set()
    findings = check(engine_with(stages, called, load=load), harness)
    for stage in stages:
        by_labels = stage in ("l15", "l2", "template") and "l1" not in stages
        needs_load = stage in ("inject", "search") or (by_labels and stage != "l15")
        if needs_load and not load:
            assert findings[stage] == Finding(stage, "not checked", "there is no load to fill its store")
            assert METHODS[stage] not in called
        else:
            assert findings[stage].status == "ok", findings[stage]
            assert findings[stage].text.endswith("of labelled memories, without extract") == by_labels
            assert METHODS[stage] in called
    # Of an engine that was asked nothing nobody can say that it keeps to anything.
    assert failed(findings) == ([] if called - {"load"} else ["outputs"])


@pytest.mark.parametrize("stages", SETS, ids="+".join)
def test_whatever_method_raises_the_check_fails(stages: tuple[str, ...], harness: Harness) -> None:
    for stage in stages:
        called: set[str] = set()
        findings = check(engine_with(stages, called, raising=METHODS[stage]), harness)
        assert failed(findings)[0] == stage
        assert f"{METHODS[stage]} broke" in findings[stage].text
        for other in stages:
            if findings[other].status == "not checked":
                assert findings[other].text == f"{stage} failed"
    # Nor is a failure that comes anyway one of the model's.
    assert findings["errors"].status == "not checked"


# -- broken in one place each --------------------------------------------------------------------------------------


class Nameless(Sound):
    name = ""


class FromTheFuture(Sound):
    protocol = "2.0"


class Misspelt:
    name = "misspelt"

    def extrct(self, conversation: Any, ctx: Any) -> Any:
        return []


class WrongType(Sound):
    def extract(self, conversation: Any, ctx: Any) -> Any:
        return "two memories"


class TwinIds(Sound):
    def extract(self, conversation: Any, ctx: Any) -> Any:
        return [{**one, "id": "m"} for one in super().extract(conversation, ctx)]


class InventedSource(Sound):
    def extract(self, conversation: Any, ctx: Any) -> Any:
        return [{**one, "source_message_ids": ["msg_99"]} for one in super().extract(conversation, ctx)]


class InventedTarget(Sound):
    def resolve(self, memories: Any, ctx: Any) -> Any:
        return [{"memory_index": 0, "action": "update", "target_ids": ["nobody"], "result_id": "nobody"}]


class UnknownAction(Sound):
    def resolve(self, memories: Any, ctx: Any) -> Any:
        return [{"memory_index": 7, "action": "keep"}]


class InventedPlace(Sound):
    def query_template(self, mode: str, ctx: Any) -> Any:
        return [{**one, "memory_ids": ["nowhere"]} for one in super().query_template(mode, ctx)]


class OneStore(Sound):
    """Keeps all cases' memories together: their folders have the same names."""

    def store(self, ctx: Any) -> dict[str, Memory]:
        return self.stores.setdefault(ctx.folder.name, {})


class Counting(Sound):
    """Calls its memories by how many it has ever made, and says so in their contents."""

    def __init__(self) -> None:
        super().__init__()
        self.count = itertools.count()

    def extract(self, conversation: Any, ctx: Any) -> Any:
        return [
            {**one, "content": f"{next(self.count)}: {one['content']}"} for one in super().extract(conversation, ctx)
        ]


class Dicing(Sound):
    def extract(self, conversation: Any, ctx: Any) -> Any:
        return [{**one, "priority": random.random() * 100} for one in super().extract(conversation, ctx)]


class Careless(Sound):
    """Says that cases may overlap, and keeps the one at hand in itself."""

    concurrent = True

    async def extract(self, conversation: Any, ctx: Any) -> Any:
        self.at_hand = conversation
        await asyncio.sleep(0.05)
        return super().extract(self.at_hand, ctx)


class Picky(Sound):
    def extract(self, conversation: Any, ctx: Any) -> Any:
        first = conversation[0]
        return super().extract([first, *conversation[1:]], ctx)


class Swallowing(Sound):
    """Takes a model that cannot be reached for one that has nothing to say."""

    async def extract(self, conversation: Any, ctx: Any) -> Any:
        try:
            await ctx.llm.complete([{"role": "user", "content": "hello"}], stage="l1_extraction")
        except Exception:
            return []
        return super().extract(conversation, ctx)


class SwallowingLater(Sound):
    async def resolve(self, memories: Any, ctx: Any) -> Any:
        try:
            await ctx.llm.complete([{"role": "user", "content": "hello"}], stage="mine")
        except Exception:
            return []
        return super().resolve(memories, ctx)


class SwallowingAndBroken(Swallowing):
    """What fails anyway is no answer to the model's failure."""

    def resolve(self, memories: Any, ctx: Any) -> Any:
        raise RuntimeError("always")


class InventedTargetAlone:
    """Has no extract: it is asked about labelled memories."""

    name, version, load = "alone", "1", Sound.load
    __init__, store = Sound.__init__, Sound.store

    def resolve(self, memories: Any, ctx: Any) -> Any:
        return [{"memory_index": 0, "action": "skip", "target_ids": ["nobody"]}]


class Endless(Sound):
    def extract(self, conversation: Any, ctx: Any) -> Any:
        time.sleep(3)
        return []


class Textless(Sound):
    def retrieve(self, query: str, ctx: Any) -> Any:
        return 7


class Remembering(Sound):
    """Right in the pipeline; what it reads for questions it never forgets."""

    everything: dict[str, Any] = {}  # noqa: RUF012  # that is the fault

    def ingest(self, message: Any, ctx: Any) -> None:
        self.everything[message.content] = message

    def retrieve(self, query: str, ctx: Any) -> Any:
        return [Hit(one.id, 1.0, one.content, (one.id,)) for one in self.everything.values()]


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


class CancelsItself(Sound):
    async def extract(self, conversation: Any, ctx: Any) -> Any:
        await cancels_itself()


class CancelsItselfAsked(Sound):
    async def retrieve(self, query: str, ctx: Any) -> Any:
        await cancels_itself()


@pytest.mark.parametrize(
    ("engine", "items", "words"),
    [
        (CancelsItself, ["l1"], "CancelledError (tests/conformance/test_conformance.py"),
        (CancelsItselfAsked, ["qa"], "CancelledError"),
        (Nameless, ["name"], "no attribute name"),
        (FromTheFuture, ["protocol"], "engine protocol 2.0"),
        (Misspelt, ["stages"], "extract"),
        (WrongType, ["l1"], "bad_output"),
        (TwinIds, ["l1"], "same id"),
        (InventedSource, ["l1"], "'msg_99'"),
        (InventedTarget, ["l15"], "'nobody'"),
        (UnknownAction, ["l15"], "keep"),
        (InventedPlace, ["template"], "'nowhere'"),
        (OneStore, ["isolation"], "only the other case says"),
        (Counting, ["reset"], "keeps what the first left"),
        (Dicing, ["determinism"], "differ in l1"),
        (Careless, ["concurrency"], "say concurrent = False"),
        (Picky, ["odd input"], "IndexError"),
        (Swallowing, ["errors"], "for l1_extraction"),
        (SwallowingLater, ["errors"], "for mine"),
        (SwallowingAndBroken, ["l15"], "always"),
        (InventedTargetAlone, ["l15"], "'nobody'"),
        (Textless, ["qa"], "a list of hits or a text"),
        (Remembering, ["qa isolation"], "only the other one says"),
    ],
)
def test_a_broken_engine_fails_in_the_right_place(engine: Any, items: list[str], words: str, harness: Harness) -> None:
    findings = check(engine, harness)
    assert failed(findings) == items, findings
    assert words in findings[items[0]].text


def test_an_endless_stage_is_told_after_the_time_given(harness: Harness) -> None:
    findings = check(Endless, harness, patience=0.2)
    assert failed(findings)[0] == "l1"
    assert "timeout" in findings["l1"].text
    assert findings["isolation"].status == "not checked"


class Locking:
    """Holds a lock of threads while it awaits: the second of two cases keeps the first from going on."""

    name, version = "locking", "1"

    def __init__(self) -> None:
        self.lock = threading.Lock()

    async def extract(self, conversation: Any, ctx: Any) -> Any:
        with self.lock:
            await asyncio.sleep(0.02)
        return Sound.extract(self, conversation, ctx)  # type: ignore[arg-type]  # it asks nothing of the object


class AskingWithoutEnd(Sound):
    async def retrieve(self, query: str, ctx: Any) -> Any:
        await asyncio.sleep(60)


class AskingInTheWay(Sound):
    async def retrieve(self, query: str, ctx: Any) -> Any:
        time.sleep(20)


class ImpatientItself(Sound):
    def retrieve(self, query: str, ctx: Any) -> Any:
        raise TimeoutError("the index was too slow")


@pytest.mark.parametrize(
    ("engine", "item", "words"),
    [
        (Locking, "concurrency", "two cases at once do not come back within 4 s, and hold the event loop"),
        (AskingWithoutEnd, "qa", "no answer within 2 s"),
        (AskingInTheWay, "qa", "no answer within 2 s: it holds the event loop"),
        (ImpatientItself, "qa", "TimeoutError: the index was too slow"),
    ],
)
def test_what_does_not_come_back_is_told_where_it_hangs(engine: Any, item: str, words: str, harness: Harness) -> None:
    findings = check(engine, harness, patience=2)
    assert failed(findings) == [item], findings
    assert words in findings[item].text
    assert engine is not Locking or findings["odd input"].status == "not checked"


def test_with_one_object_state_and_chance_are_told_together(harness: Harness) -> None:
    counting = Counting()
    findings = check(lambda: counting, harness, fresh=False)
    assert failed(findings) == ["determinism"]
    assert "or by what the first run left" in findings["determinism"].text


def test_no_folder_is_left(harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    check(Sound, harness)
    assert list(tmp_path.glob("memeval-doctor-*")) == []


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    return tmp_path


def test_doctor_says_what_is_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for word in ("pytest ", "rapidfuzz", "[search]", "engine reference", "engine sgme", "everything needed is there"):
        assert word in shown


def test_doctor_checks_an_engine_of_the_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "src").mkdir()
    (project / "pytest.ini").write_text("[pytest]\npythonpath = src\n", encoding="utf-8")
    source = (
        "class E:\n    name = 'e'\n    version = '1'\n    def extract(self, conversation, ctx):\n        return {}\n"
    )
    (project / "src" / "doctored.py").write_text(source.format("7"), encoding="utf-8")
    assert main(["doctor", "--engine", "doctored:E"]) == 1
    shown = capsys.readouterr().out
    assert "FAILED  l1" in shown
    assert shown.endswith("failed: l1\n")
    assert main(["doctor", "--engine", "doctored:E", "--json"]) == 1
    assert {"item": "name", "status": "ok", "text": "e 1"} in json.loads(capsys.readouterr().out)


def test_doctor_tells_of_an_engine_that_is_not_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--engine", "refrence"]) == 2
    assert "did you mean 'reference'" in capsys.readouterr().err
    assert main(["doctor", "--engine", "no_such_module:E"]) == 2
    assert "cannot be imported" in capsys.readouterr().err


def test_the_options_of_the_check_are_those_of_a_run() -> None:
    assert {"engine", "llm", "model", "base-url"} <= {option.name for option in OPTIONS}


def test_every_extra_that_it_names_exists() -> None:
    import tomllib

    from pytest_memeval.conformance.installed import CORE, EXTRAS

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(EXTRAS) <= set(project["optional-dependencies"])
    assert {text.partition(">")[0] for text in project["dependencies"]} == set(CORE)


def test_a_misspelt_method_beside_right_ones_is_named(harness: Harness) -> None:
    class Off:
        name, version = "off", "1"

        def extract(self, conversation: Any, ctx: Any) -> Any:
            return []

        def serach(self, query: Any, params: Any, ctx: Any) -> Any:
            return []

        def search_all(self) -> None: ...

        def resolver(self) -> None: ...

    finding = check(Off, harness)["stages"]
    assert finding.status == "failed"
    assert finding.text.startswith("supports l1; not l15, l2, ")
    assert finding.text.endswith("; it has 'serach'; did you mean 'search'?")


def test_what_could_not_be_checked_stands_in_the_last_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "class E:\n    name, version = 'e', '1'\n    def search(self, query, params, ctx):\n        return []\n"
    extract = "    def extract(self, conversation, ctx):\n        return []\n"
    (project / "partly_checked.py").write_text(source + extract, encoding="utf-8")
    (project / "never_checked.py").write_text(source, encoding="utf-8")
    assert main(["doctor", "--engine", "partly_checked:E"]) == 0
    assert capsys.readouterr().out.endswith("the engine keeps to the protocol; not checked: search\n")
    assert main(["doctor", "--engine", "never_checked:E"]) == 1
    shown = capsys.readouterr().out
    assert "nothing of it can be measured: there is no load to fill its store" in shown
    assert shown.endswith("failed: outputs\n")
