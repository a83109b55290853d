"""Files of RAG samples: columns, problems, ids, generators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.kinds import KindSet, kind_of, set_info
from pytest_memeval.rag import EvalSample, load_rag_dataset
from pytest_memeval.rag.loading import load_rag_set


def load(folder: Path, text: str, name: str = "x.yaml") -> KindSet:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_rag_set(path)


def rows(folder: Path, *given: dict[str, Any], name: str = "x.memeval.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in given), encoding="utf-8")
    return path


FULL = """\
kind: rag
meta:
  version: r1
  total_cases: 3
  gates: ["P0 rag.answer_f1 >= 0.5"]
cases:
  - case_id: paris
    query: Where is the tower?
    contexts:
      - In Paris.
      - {text: "330", score: 0.2}
    response: 010
    ground_truth: no
    reference_contexts: [In Paris.]
    group: guide
    difficulty: hard
    source: real
    tags: [night]
    timeout: 2.5
    expect: {rag.answer_f1: ">= 0.1"}
    extra: {asked_by: me}
  - question: second
    answer: yes
"""


def test_a_yaml_file_as_written(tmp_path: Path) -> None:
    loaded = load(tmp_path, FULL)
    assert loaded.problems == ()
    assert "total_cases is 3" in loaded.warnings[0].message
    cases: Any = loaded.cases
    first, second = cases
    assert (first.case_id, first.line, first.cluster) == ("paris", 7, "guide")
    assert (first.difficulty, first.source, first.tags, first.timeout) == ("hard", "real", ("night",), 2.5)
    sample: EvalSample = first.sample
    # Text stays as it is written, whatever YAML would make of it.
    assert (sample.context, sample.response, sample.ground_truth) == (("In Paris.", "330"), "010", "no")
    assert sample.meta == {"asked_by": "me", "group": "guide"}
    assert (second.case_id, second.sample.response) == ("row-2", "yes")
    info = set_info(loaded, "x.yaml")
    assert (info.kind, info.gates) == ("rag", (("P0 rag.answer_f1 >= 0.5", "file"),))
    assert (info.cases, info.truth_counts) == (2, {"rag": 2})


@pytest.mark.parametrize(
    "row",
    [
        {"query": "q", "contexts": ["c"], "response": "a", "ground_truth": "t"},
        {"user_input": "q", "retrieved_contexts": ["c"], "response": "a", "reference": "t"},
        {"question": "q", "contexts": ["c"], "answer": "a", "ground_truths": ["t"]},
        {"input": "q", "retrieval_context": ["c"], "actual_output": "a", "expected_output": "t"},
        {"question": "q", "documents": [{"page_content": "c", "metadata": {}}], "answer": "a", "target": "t"},
        {"question": "q", "context": "c", "answer": "a", "reference_answer": "t"},
    ],
)
def test_columns_of_other_tools_are_recognised(tmp_path: Path, row: dict[str, Any]) -> None:
    path = rows(tmp_path, {**row, "model_name": "m", "latency": 0.5})
    kind = kind_of(path)
    assert kind is not None
    assert kind.name == "rag"
    case: Any = kind.load(path, None).cases[0]
    sample = case.sample
    assert (sample.query, sample.context, sample.response, sample.ground_truth) == ("q", ("c",), "a", "t")
    assert sample.meta == {"model_name": "m", "latency": 0.5}
    assert load_rag_dataset(path).samples[0].query == "q"
    assert load_rag_dataset(path).name == "x"
    as_json = tmp_path / "x.json"
    for whole in ([row], {"samples": [row]}, {"kind": "rag", "cases": [row]}):
        as_json.write_text(json.dumps(whole), encoding="utf-8")
        assert getattr(kind_of(as_json), "name", None) == "rag", whole
        assert len(kind.load(as_json, None).cases) == 1


@pytest.mark.parametrize(
    "row",
    [
        {"case_id": "eval-001", "conversation": "hi", "expected_l1": {"memories": []}},
        {"question": "q", "answer": "a"},
        {"sample_id": "conv-1", "qa": [], "conversation": {}},
        {"question_id": "1", "question": "q", "answer": "a", "haystack_sessions": []},
    ],
)
def test_other_rows_are_left_to_others(tmp_path: Path, row: dict[str, Any]) -> None:
    assert getattr(kind_of(rows(tmp_path, row)), "name", None) != "rag"


def test_a_head_line_says_the_kind_and_the_meta(tmp_path: Path) -> None:
    path = rows(tmp_path, {"kind": "rag", "meta": {"version": "2", "gates": []}}, {"question": "q", "answer": "a"})
    kind = kind_of(path)
    assert kind is not None
    loaded = kind.load(path, None)
    assert (loaded.problems, loaded.version, loaded.gates, len(loaded.cases)) == ((), "2", (), 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: rag\ncases: [{query: q, contxts: [c]}]\n", "2:20: [row-1] unknown key 'contxts' in a sample; did you"),
        ("kind: rag\ncases: [{contexts: [c]}]\n", "a sample needs a query"),
        ("kind: rag\ncases: [{query: q, contexts: 5, context: x}]\n", "'context' gives 'contexts' a second time"),
        ("kind: rag\ncases: [{query: q, contexts: {a: b}}]\n", "'contexts' has to be a list of texts, not a mapping"),
        ("kind: rag\ncases: [{query: q, contexts: [{a: b}]}]\n", "a passage of 'contexts' is text, or an object"),
        ("kind: rag\ncases: [{query: [q]}]\n", "'query' is text, not a list"),
        ("kind: rag\ncases: [{query: q, case_id: a}, {query: q, id: a}]\n", "duplicate case_id 'a': lines 2 and 2"),
        ("kind: rag\ncases: [{query: q, case_id: 'a::b'}]\n", "contains '::'"),
        ("kind: rag\ncases: [{query: q, tags: [skip]}]\n", "reserved marker name"),
        ("kind: rag\ncases: [just text]\n", "a sample has to be a mapping, not 'just text'"),
        ("kind: rag\ncases: {a: b}\n", "'cases' has to be a list, not a mapping"),
        ("kind: rag\nsamples: []\n", "unknown key 'samples' in the file"),
        ("kind: rag\n", "the file has no samples"),
        ("kind: rag\nmeta: {gates: [P0 l1.memory_recall >= 0.5]}\ncases: [{query: q}]\n", "have no section 'l1'"),
        ("kind: rag\nmeta: {gates: [P0 rag.x = 0.5]}\ncases: [{query: q}]\n", "2:16: gate:"),
        ("kind: rag\ncases: [{query: q, expect: {rag.f1: high}}]\n", "expect: 'high' is not a threshold"),
        ("kind: rag\ngenerate: no_such_module:make\n", "'no_such_module:make' cannot be imported"),
    ],
)
def test_file_errors_name_place_and_value(tmp_path: Path, text: str, said: str) -> None:
    problems = [str(problem) for problem in load(tmp_path, text).problems]
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{query: ' '}", "the query is blank"),
        ("{query: q, difficulty: hrad}", "unknown difficulty 'hrad'; did you mean 'hard'?"),
        ("{query: q, timeout: soon}", "timeout must be a number of seconds above 0"),
        ("{query: q, timeout: 1e300}", "timeout must be a number of seconds above 0 and at most 1000000"),
        ("{query: q, ground_truths: [a, b]}", "2 ground truths are given"),
        ("{query: q, contexts: [a, null]}", "a passage of 'contexts' is null"),
    ],
)
def test_case_errors_are_the_cases(tmp_path: Path, row: str, said: str) -> None:
    loaded = load(tmp_path, f"kind: rag\ncases: [{row}, {{query: good}}]\n")
    assert loaded.problems == ()
    assert [said in str(problem) for problem in loaded.cases[0].problems] == [True]
    assert loaded.cases[1].problems == ()


def test_a_misspelt_column_of_a_data_set_is_told_an_unknown_one_kept(tmp_path: Path) -> None:
    loaded = load_rag_set(rows(tmp_path, {"query": "q", "contexts": ["c"], "respons": "a"}))
    assert "unknown key 'respons' in a sample; did you mean 'response'?" in str(loaded.problems[0])


def test_bad_lines_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"query": "a", "contexts": []}\n{broken\n{"query": "b", "contexts": 1}\n', encoding="utf-8")
    loaded = load_rag_set(path)
    assert len(loaded.problems) == 1
    assert loaded.problems[0].line == 2
    with pytest.raises(DocumentError):
        load_rag_dataset(path)


def test_a_generator_makes_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_samples.py").write_text(
        "from pytest_memeval.rag import EvalDataset, EvalSample\n"
        "class Twenty:\n"
        "    async def generate(self):\n"
        "        return EvalDataset([EvalSample(f'q{n}', id=f's{n}', meta={'group': n % 2}) for n in range(20)])\n"
        "def same():\n    return [EvalSample('q', id='a'), EvalSample('q', id='a')]\n"
        "def texts():\n    return ['q']\n"
        "def fails():\n    raise RuntimeError('no network')\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    loaded = load(tmp_path, "kind: rag\ngenerate: made_samples:Twenty\n")
    assert loaded.problems == ()
    assert [case.case_id for case in loaded.cases] == [f"s{n}" for n in range(20)]
    assert (loaded.cases[1].cluster, loaded.cases[1].line) == ("1", 2)
    assert len({case.content_hash for case in loaded.cases}) == 20
    for name, said in (
        ("same", "generated 2 samples with the id 'a'"),
        ("texts", "a generator gives EvalSample objects, not str"),
        ("fails", "no network"),
    ):
        problems = load(tmp_path, f"kind: rag\ngenerate: made_samples:{name}\n").problems
        assert said in str(problems[0])


def test_the_docs_name_every_column() -> None:
    from pytest_memeval.rag.rows import COLUMNS

    page = (Path(__file__).parents[2] / "docs" / "how-to" / "rag.md").read_text(encoding="utf-8")
    table = page[page.index("## Columns") :]
    for field, names in COLUMNS.items():
        row = next(line for line in table.splitlines() if line.startswith(f"| `{field}` |"))
        assert all(f"`{name}`" in row for name in names), field
