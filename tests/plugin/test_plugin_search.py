"""Search cases: a corpus per case set, the reference engine and others, embedders, figures, predictions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ChatServer
from plugin_project import MODES, case, stable

if TYPE_CHECKING:
    from plugin_project import Project

TEXTS = {
    "cat": ["用户最近养了一只猫", "likes strong tea"],
    "code": ["writes C++ and Rust", "calls getUserId in user_store.py", "the pre-edit hook runs at 10:30"],
    "food": ["I don't eat meat", "不喜欢甜的奶茶"],
}
QUERIES: dict[str, Any] = {
    "cat": [{"query": "猫", "relevant": ["0"]}, {"query": "茶", "relevant": ["food#1", "1"], "grades": [2, 1]}],
    "code": {"C++": [0], "get_user_id": [1], "10:30": [2], "pre-edit": ["2"]},
    "food": {"don't": [0], "奶茶": ["1"], "nothing fits": []},
}


def search_cases(**keys: Any) -> list[dict[str, Any]]:
    return [
        case(name, "x: y", truth=[("identity", text) for text in texts], expected_search_results=QUERIES[name], **keys)
        for name, texts in TEXTS.items()
    ]


@pytest.fixture
def searching(project: Project) -> Project:
    """A project with search cases and without an engine of its own."""
    project.write("conftest.py", "")
    project.cases(search_cases(), gates=["P0 search.ndcg@7 >= 0.8", "P1 search.mrr >= 0.5"])
    return project


STAGE = ("--memeval-stages", "search", "--memeval-llm", "embedded")


def test_queries_are_asked_of_the_whole_sets_memories(searching: Project) -> None:
    result = searching.run(*STAGE)
    assert result.ret == 0
    result.assert_outcomes(passed=3)
    report = searching.report()
    section = report["search"]
    assert section["ndcg@7"] >= 0.8
    assert section["hit@1"] == 1
    assert (section["queries"], section["excluded_queries"]) == (9, 1)
    assert section["n"]["mrr"] == {"units": 8, "cases": 3, "clusters": 3}
    assert section["setup"]["documents"] == 7
    assert section["setup"]["embedder"] == "lexical-1024"
    assert [gate["status"] for gate in report["gates"]] == ["passed", "passed"]
    # With seven memories a cut-off of ten tells nothing, and the figures say so.
    notes = "\n".join(report["notes"])
    assert "1 search queries have no relevant memory" in notes
    assert "the cut-off 5 is close to the corpus of 7 memories" in notes
    [entry] = [entry for entry in report["per_case"] if entry["case_id"] == "cat"]
    found = {row["query"]: row for row in entry["search"]["details"]["queries"]}
    assert found["茶"]["relevant"] == ["food#1", "cat#1"]
    assert found["猫"]["ids"][0] == "cat#0"
    assert entry["outputs"]["search"]["猫"][0]["id"] == "cat#0"


def test_serial_and_two_workers_give_the_same_report(searching: Project) -> None:
    searching.run(*STAGE)
    serial = stable(searching.report())
    searching.run(*STAGE, "-n", "2")
    assert stable(searching.report()) == serial


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_private_texts_stay_out_of_reports(searching: Project, policy: str) -> None:
    searching.run(*STAGE, "--memeval-report-text", policy)
    text = (searching.path / "out" / "report.json").read_text(encoding="utf-8")
    for query in ("奶茶", "get_user_id", "nothing fits"):
        assert query not in text
    assert searching.report()["search"]["hit@1"] == 1
    assert "ndcg@10" in text


ENGINE = """
import pytest


class Words:
    name = "words"

    def __init__(self):
        self.loads = []

    def load(self, memories, scenes, ctx):
        self.loads.append([memory.id for memory in memories])
        assert len(self.loads) == 1, "loaded twice"
        assert all(memory.created_at is not None for memory in memories)
        (ctx.folder / "index").write_text("\\n".join(memory.content for memory in memories), encoding="utf-8")
        self.place = ctx.case_id

    def search(self, query, params, ctx):
        assert ctx.case_id == self.place
        assert params["top_k"] == 3
        lines = (ctx.folder / "index").read_text(encoding="utf-8").splitlines()
        ranked = sorted(lines, key=lambda line: -len(set(line) & set(query)))
        return [{"id": f"own-{n}", "score": -n, "content": line} for n, line in enumerate(ranked[:3])]

    def describe_search(self, ctx):
        return {"method": "shared characters"}


@pytest.fixture(scope="session")
def memeval_engine():
    return Words()
"""


def test_an_engine_of_the_projects_own(searching: Project) -> None:
    searching.write("conftest.py", ENGINE)
    searching.write("cases/more.jsonl", '{"content": "never asked for"}\n\n"nor this"\n')
    searching.cases(search_cases(), gates=[], distractors="more.jsonl")
    result = searching.run("--memeval-search-params", "top_k=3", "--memeval-llm", "embedded")
    result.assert_outcomes(passed=3)
    report = searching.report()
    assert report["search"]["recall@3"] > 0.5
    assert report["search"]["setup"]["documents"] == 9
    assert report["search"]["setup"]["method"] == "shared characters"
    assert any("figures at 10 see only the 3 hits" in note for note in report["notes"])
    facts = [fact["text"] for entry in report["per_case"] for fact in entry["facts"] if fact["kind"] == "note"]
    assert facts == ["search: hits without a known id were found by content"] * 3


def test_hits_that_are_no_memory_are_told(searching: Project) -> None:
    searching.write("conftest.py", ENGINE.replace(', "content": line', ""))
    searching.run("--memeval-search-params", "top_k=3", "--memeval-llm", "embedded", "--memeval-no-gate")
    report = searching.report()
    assert report["search"]["mrr"] == 0
    assert any(note.startswith("27 hits are no memory of the corpus") for note in report["notes"])


def test_a_load_that_fails_is_tried_again_by_the_next_case(searching: Project) -> None:
    flaky = ENGINE.replace(
        'assert len(self.loads) == 1, "loaded twice"',
        'if len(self.loads) == 1:\n            raise RuntimeError("no disk")',
    )
    searching.write("conftest.py", flaky)
    result = searching.run("--memeval-search-params", "top_k=3", "--memeval-llm", "embedded", "--memeval-no-gate")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*[[]search[]] engine_exception:*no disk*"])
    assert searching.report()["search"]["counts"]["errored"] == 1


def test_an_engine_without_load_is_not_measured(searching: Project) -> None:
    searching.write("conftest.py", ENGINE.replace("def load(", "def fill("))
    result = searching.run("--memeval-stages", "rrf", "--memeval-llm", "embedded", "--memeval-no-gate")
    result.assert_outcomes(skipped=3)
    assert searching.report()["search"]["counts"]["unsupported"] == 3


def test_bm25_with_constants_of_ones_own(searching: Project) -> None:
    pytest.importorskip("bm25s")
    searching.run(*STAGE, "--memeval-search-params", "bm25_k1=0.9, bm25_b=0.4, bm25_weight=1")
    report = searching.report()
    assert report["search"]["setup"]["bm25_k1"] == 0.9
    assert report["search"]["setup"]["vectors"] is None
    assert report["search"]["hit@1"] == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--memeval-search-params", "bm25_weight=1.5"), "bm25_weight must be between 0 and 1, not 1.5"),
        (("--memeval-search-params", "top_k=0"), "top_k must be between 1"),
        (("--memeval-search-params", "topk=3"), "unknown search parameter 'topk'; did you mean 'top_k'?"),
        (("--memeval-search-params", "top_k"), "'top_k' is not of the form name=number"),
        (("--memeval-embedder", "lexica"), "unknown embedder 'lexica'*did you mean 'lexical'?"),
        (("--memeval-embedder", "openai"), "openai needs the name of a model: set --memeval-embedding-model"),
    ],
)
def test_options_that_cannot_be(searching: Project, options: tuple[str, ...], text: str) -> None:
    result = searching.run(*options)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*{options[0]}: *{text}*"])


def test_distractors_that_cannot_be_read(searching: Project) -> None:
    searching.write("cases/more.jsonl", '{"content": "fine"}\n{"contents": "x"}\n{"id": "a#1", "content": "x"}\n')
    searching.cases(search_cases(), distractors="more.jsonl")
    result = searching.run(*STAGE)
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*more.jsonl:2: unknown key 'contents'; did you mean 'content'?*"])
    result.stdout.fnmatch_lines(["*more.jsonl:3: id 'a#1' holds a '#'*"])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MEMEVAL_API_KEY", "k")
    with ChatServer() as running:
        yield running


def test_an_embedding_server_is_asked_once_and_must_keep_its_dimension(searching: Project, server: ChatServer) -> None:
    options = (*STAGE, "--memeval-no-gate", "--memeval-embedder", "openai", "--memeval-embedding-model", "small")
    place = ("--memeval-embedding-base-url", server.base_url)
    searching.run(*options, *place).assert_outcomes(passed=3)
    asked = server.count
    assert asked > 0
    assert searching.report()["search"]["setup"]["embedder"] == "openai/small"
    searching.run(*options, *place, "--memeval-cache", "replay").assert_outcomes(passed=3)
    assert server.count == asked
    # A new memory has to be embedded, and the model behind the name is another by now.
    server.dimension += 1
    changed = search_cases()
    changed[0]["expected_l1"]["memories"][0]["content"] += "！"
    searching.cases(changed)
    result = searching.run(*options, *place)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*small on *gave vectors of * dimensions, where one model has one*"])


EMBEDDING = ("--memeval-no-gate", "--memeval-embedder", "openai", "--memeval-embedding-model", "text-embedding-3-small")


@MODES
def test_what_embeddings_cost_is_told(searching: Project, server: ChatServer, mode: tuple[str, ...]) -> None:
    place = ("--memeval-embedding-base-url", server.base_url)
    result = searching.run(*STAGE, *EMBEDDING, *place, *mode)
    asked = searching.report()["timings"]["embeddings"]
    # Two processes want the corpus, and it is asked for once.
    texts = {text for request in server.requests for text in request.body["input"]}
    assert asked["texts"] == len(texts) == 7 + 9
    assert asked["requests"] == server.count
    tokens = sum(len(text.split()) for text in texts)
    assert (asked["input_tokens"], asked["unknown_tokens"]) == (tokens, 0)
    assert asked["spent_usd"] == pytest.approx(tokens * 0.02 / 1e6)
    result.stdout.fnmatch_lines([f"16 texts embedded by {server.count} requests, {tokens} tokens; *"])
    first = stable(searching.report())
    searching.run(*STAGE, *EMBEDDING, *place)
    assert "embeddings" not in searching.report()["timings"]
    assert stable(searching.report()) == first


def test_embeddings_count_towards_the_budget(searching: Project, server: ChatServer) -> None:
    searching.write("prices.yaml", "models:\n  text-embedding-3-small: {input: 1000, output: 0}\n")
    options = (*STAGE, *EMBEDDING, "--memeval-embedding-base-url", server.base_url, "--memeval-prices", "prices.yaml")
    result = searching.run(*options, "--memeval-max-cost", "0.01", "--memeval-concurrency", "1")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    report = searching.report()
    assert report["counts"]["scored"] == 1
    assert report["timings"]["embeddings"]["spent_usd"] > 0.01
    assert any("Stopped at the budget" in note for note in report["notes"])
    result = searching.run(*options, "--memeval-max-cost", "1", "--memeval-embedding-model", "mine")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the price of model 'mine' is not known*"])


def test_a_plan_counts_embeddings_and_sends_none(searching: Project, server: ChatServer) -> None:
    options = (*STAGE, *EMBEDDING, "--memeval-embedding-base-url", server.base_url)
    result = searching.run(*options, "--memeval-plan")
    assert server.count == 0
    result.stdout.fnmatch_lines(["embeddings: 0 texts in the cache, 16 to be asked for, about * tokens; *$0.0000 *"])
    searching.run(*options, "-k", "cat")
    result = searching.run(*options, "--memeval-plan", "--memeval-lang", "zh")
    result.stdout.fnmatch_lines(["嵌入：缓存中已有 9 条文本，待请求 7 条*"])
    plain = searching.run(*STAGE, "--memeval-plan")
    plain.stdout.no_fnmatch_line("embeddings:*")


def test_requests_for_embeddings_keep_to_the_rate_limit(searching: Project, server: ChatServer) -> None:
    # The corpus is the minute's one request, so that every query waits until its case's time is over.
    limited = ("--memeval-embedding-base-url", server.base_url, "--memeval-rpm", "1", "--memeval-timeout", "3")
    searching.run(*STAGE, *EMBEDDING, *limited).assert_outcomes(errors=3)
    assert server.count == 1


@MODES
def test_saved_hits_are_scored_and_rescored_alike(searching: Project, mode: tuple[str, ...]) -> None:
    from pytest_memeval.cli.main import main

    searching.run(*STAGE, "--memeval-save-predictions", "saved.jsonl", *mode)
    first = searching.report()["search"]
    rows = [json.loads(line) for line in (searching.path / "saved.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["case_id"] for row in rows} == set(TEXTS)
    searching.run("--memeval-predictions", "saved.jsonl", "--memeval-stages", "search", *mode).assert_outcomes(passed=3)
    again = searching.report()["search"]
    figures = [name for name in first if "@" in name or name in ("mrr", "map")]
    assert {name: again[name] for name in figures} == {name: first[name] for name in figures}
    if mode:
        return
    assert main(["rescore", "out", "--gate", "P0 search.recall@2 >= 0.5"]) == 0
    rescored = json.loads((searching.path / "out" / "rescored" / "report.json").read_text(encoding="utf-8"))["search"]
    assert {name: rescored[name] for name in figures} == {name: first[name] for name in figures}
    assert rescored["recall@2"] > 0.5


def test_a_query_without_recorded_hits_is_an_error(searching: Project) -> None:
    hits = {"猫": ["cat#0", "code#1"]}
    searching.write("found.jsonl", json.dumps({"case_id": "cat", "search": hits}) + "\n")
    result = searching.run("--memeval-predictions", "found.jsonl", "--memeval-stages", "search", "-k", "cat")
    result.assert_outcomes(errors=1, deselected=2)
    result.stdout.fnmatch_lines(["*no_prediction: found.jsonl has no hits of query '茶' for cat*"])


def test_other_parameters_or_another_corpus_are_no_case_to_go_on_with(searching: Project) -> None:
    def taken(*options: str) -> int:
        searching.run(*STAGE, "--memeval-resume", "out", "--memeval-output", "again", *options)
        report = searching.report("again")
        return sum(entry["timings"]["stages"]["search"] == first[entry["case_id"]] for entry in report["per_case"])

    searching.run(*STAGE)
    first = {entry["case_id"]: entry["timings"]["stages"]["search"] for entry in searching.report()["per_case"]}
    assert taken() == 3
    assert taken("--memeval-search-params", "rrf_k=10") == 0
    searching.write("cases/more.txt", "one more memory\n")
    searching.cases(search_cases(), distractors="more.txt")
    assert taken() == 0


def test_a_test_of_ones_own_reads_the_hits(searching: Project) -> None:
    searching.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.memeval(case="cases/v001.yaml::code")
        def test_hits(memeval_search):
            assert memeval_search.output["C++"][0].id == "code#0"
            assert memeval_search.metrics.values()["hit@1"] == 1
        """,
    )
    searching.run("test_own.py", "--memeval-llm", "embedded").assert_outcomes(passed=1)
