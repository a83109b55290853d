"""Outputs recorded elsewhere: the file, the engine that serves it, the rows written from a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.engine.predictions import KEPT_FACTS, PredictionsEngine, load_predictions, prediction_rows
from pytest_memeval.engine.protocol import StageError, supported_stages
from pytest_memeval.engine.row_choice import SetsOfIds
from pytest_memeval.llm.protocol import ChatModelError
from pytest_memeval.results import CallRecord, CaseResult
from pytest_memeval.values import Memory

SCHEMA = Path(__file__).parents[2] / "pytest_memeval" / "data" / "schemas" / "predictions.schema.json"
ROW: dict[str, Any] = {
    "case_id": "eval-001",
    "l1": [{"content": "likes tea", "dimensions": ["habits"], "created_at": "2026-01-01T00:00:00Z"}],
    "l15": [{"memory_index": 0, "action": "store"}],
    "l2": [{"id": "s1", "title": "Tea", "memory_ids": ["m1"], "change": "created"}],
    "template": {"daily": [{"title": "📅 日常生活", "memory_ids": ["m1"]}]},
    "inject": {"pipeline": [{"title": "t", "memory_ids": [], "present": False, "text": ""}], "labelled": []},
    "facts": [{"kind": "dropped_label", "stage": "l1", "label": "x", "memory_index": 0}],
}


class Context:
    """As much of a stage's context as this engine looks at."""

    def __init__(self, case_id: str = "eval-001", case_set: str = "/p/cases/v001.yaml") -> None:
        self.case_id = case_id
        self.case_set = case_set
        self.facts: list[dict[str, Any]] = []

    def record(self, kind: str, **fields: Any) -> None:
        self.facts.append({"kind": kind, **fields})


def context(case_id: str = "eval-001", case_set: str = "/p/cases/v001.yaml") -> Any:
    return Context(case_id, case_set)


def write(tmp_path: Path, *rows: Mapping[str, Any] | str) -> Path:
    file = tmp_path / "outputs.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_every_stage_is_served(tmp_path: Path) -> None:
    engine = PredictionsEngine(write(tmp_path, ROW))
    ctx = context()
    assert supported_stages(engine) == ("l1", "l15", "l2", "template", "inject")
    [one] = engine.extract([], ctx)
    assert (one.id, one.content, one.dimensions) == (None, "likes tea", ("habits",))
    assert ctx.facts == [{"kind": "dropped_label", "label": "x", "memory_index": 0}]
    assert engine.resolve([], ctx)[0].action == "store"
    assert engine.aggregate([], ctx)[0].title == "Tea"
    assert engine.query_template("daily", ctx)[0].title == "📅 日常生活"
    assert set(engine.inject_recorded(ctx)) == {"pipeline", "labelled"}
    # What was noted is noted once, with its stage.
    assert len(ctx.facts) == 1


def test_the_stages_are_those_that_any_row_has(tmp_path: Path) -> None:
    file = write(tmp_path, {"case_id": "a", "l1": []}, {"case_id": "b", "template": {}})
    engine = PredictionsEngine(file)
    assert supported_stages(engine) == ("l1", "template")
    assert engine.extract([], context("a")) == []
    with pytest.raises(StageError, match=r"outputs\.jsonl has no l1 for b") as caught:
        engine.extract([], context("b"))
    assert caught.value.kind == "no_prediction"


def test_a_missing_row_or_mode_names_the_nearest(tmp_path: Path) -> None:
    engine = PredictionsEngine(write(tmp_path, ROW))
    with pytest.raises(StageError, match="no row for eval-01; did you mean 'eval-001'"):
        engine.extract([], context("eval-01"))
    with pytest.raises(StageError, match="no mode 'dayly' for eval-001; did you mean 'daily'"):
        engine.query_template("dayly", context())


def test_f28_the_set_tells_equal_ids_apart(tmp_path: Path) -> None:
    rows = [{"case_id": "x", "set": path, "l1": [{"content": path}]} for path in ("cases/a.yaml", "b.yaml")]
    engine = PredictionsEngine(write(tmp_path, *rows, {"case_id": "y", "l1": [{"content": "any"}]}))

    def content(case_id: str, case_set: str) -> str:
        return engine.extract([], context(case_id, case_set))[0].content

    assert content("x", "/p/cases/a.yaml") == "cases/a.yaml"
    assert content("x", "/p/cases/b.yaml") == "b.yaml"
    assert content("y", "/p/anything.yaml") == "any"
    with pytest.raises(StageError, match=r"of other case sets: b\.yaml, cases/a\.yaml"):
        content("x", "/p/other/a.yaml")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "not JSON"),
        ("[]", "expected a JSON object, got list"),
        ("{}", "case_id is missing"),
        ('{"case_id": ""}', "case_id is missing"),
        ('{"case_id": "a", "l1": [], "l1": []}', "duplicate key 'l1'"),
        ('{"case_id": "a", "tmplate": {}}', "unknown key 'tmplate'; did you mean 'template'"),
        ('{"case_id": "a", "l1": "x"}', "l1: expected a list of memory objects, got str"),
        ('{"case_id": "a", "l1": [{"contnet": "x"}]}', "did you mean 'content'"),
        ('{"case_id": "a", "template": {"daily": [{}]}}', "template: mode daily: section 0"),
        ('{"case_id": "a", "set": 3}', "set must be text, got int"),
        ('{"case_id": "a", "facts": [{"kind": "x"}]}', "facts must be a list of objects with a kind and a stage"),
        ("[" * 100_000, "nested more than 100 levels deep"),
    ],
)
def test_bad_lines_come_together_with_their_numbers(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load_predictions(write(tmp_path, ROW, "", line, {"case_id": "z", "oops": 1}))
    text = str(caught.value)
    assert [problem.line for problem in caught.value.problems] == [3, 4]
    assert sentence in text
    assert "outputs.jsonl:3" in text


def test_the_same_case_twice_is_an_error_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"outputs\.jsonl:2.*already on line 1"):
        load_predictions(write(tmp_path, ROW, ROW))


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="holds no predictions"):
        load_predictions(write(tmp_path, ""))
    with pytest.raises(DocumentError, match="cannot be read"):
        load_predictions(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"case_id": "\xe9"}')
    with pytest.raises(DocumentError, match="not UTF-8"):
        load_predictions(tmp_path / "latin.jsonl")


def test_f34_a_byte_order_mark_and_crlf_are_no_matter(tmp_path: Path) -> None:
    file = tmp_path / "outputs.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n")
    assert load_predictions(file)[0]["case_id"] == "eval-001"


def result(**fields: Any) -> CaseResult:
    values: dict[str, Any] = {"node_id": "s.yaml::a", "set": "s.yaml", "case_id": "a", "outcome": "scored"}
    return CaseResult(**{**values, **fields})


def test_rows_hold_outputs_facts_and_model() -> None:
    facts = ({"kind": "dropped_label", "stage": "l1"}, {"kind": "model_call", "stage": "l1"}, {"kind": "note"})
    calls = (CallRecord("1", "l1_extraction", provider="openai", model="m-1"),)
    [row] = prediction_rows([result(outputs={"l1": [], "l2": []}, facts=facts, calls=calls)])
    assert row == {
        "case_id": "a",
        "set": "s.yaml",
        "l1": [],
        "l2": [],
        "facts": [{"kind": "dropped_label", "stage": "l1"}],
        "model": "openai/m-1",
    }
    assert "model_call" not in KEPT_FACTS


def test_a_case_has_one_row_whatever_tests_use_it() -> None:
    own = result(outputs={"l1": [1]})
    other = result(node_id="test_x.py::test", outputs={"l1": [2]})
    for order in ([own, other], [other, own]):
        assert [row["l1"] for row in prediction_rows(order)] == [[1]]
    assert prediction_rows([result(outcome="skipped")]) == []
    assert prediction_rows([result(outcome="errored")]) == [{"case_id": "a", "set": "s.yaml"}]


def test_no_model_is_asked(tmp_path: Path) -> None:
    model = PredictionsEngine(write(tmp_path, {**ROW, "model": "openai/m-1"})).no_model()
    assert model.name == "openai/m-1"
    with pytest.raises(ChatModelError, match="no model is asked"):
        model.complete_sync([], stage="l1_extraction")
    assert PredictionsEngine(write(tmp_path, ROW)).no_model().name == "none"


def test_rows_meet_the_published_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    block = {"title": "t", "memory_ids": [], "present": True, "text": ""}
    bare = {"case_id": "a", "inject": [block], "l1": None}
    odd = {"case_id": "a", "l1": [{"content": "x", "priority": word} for word in ("NaN", "Infinity", "-Infinity")]}
    for row in (ROW, bare, odd, {"case_id": "a", "set": None, "model": "m", "extra": 1}):
        validator.validate(row)
        assert load_predictions(write(tmp_path, row))
    wrongs: list[dict[str, Any]] = [
        *({}, {"case_id": "a", "l9": []}, {"case_id": "a", "l1": [{}]}, {"case_id": "a", "template": []}),
        *({"case_id": "a", "inject": [{k: v for k, v in block.items() if k != key}]} for key in block),
        *({"case_id": "a", "inject": [{**block, key: None}]} for key in block),
        {"case_id": "a", "l1": [{"content": "x", "dimensions": None}]},
        {"case_id": "a", "l1": [{"content": "x", "priority": "nan"}]},
        {"case_id": "a", "l2": [{"id": "s", "title": "t", "memory_ids": None}]},
        {"case_id": "a", "template": {"daily": [{"id": "s", "memory_ids": None}]}},
    ]
    for wrong in wrongs:
        assert list(validator.iter_errors(wrong))
        with pytest.raises(DocumentError):
            load_predictions(write(tmp_path, wrong))


def test_the_schema_has_every_field(tmp_path: Path) -> None:
    from dataclasses import fields

    from pytest_memeval.engine.predictions import ROW_KEYS
    from pytest_memeval.values import Block, Decision, Hit, Scene, Section

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(ROW_KEYS)
    for name, cls in {
        "memory": Memory,
        "decision": Decision,
        "scene": Scene,
        "section": Section,
        "block": Block,
        "hit": Hit,
    }.items():
        known = set(schema["$defs"][name]["properties"]) - {"memory_id"}
        assert known == {field.name for field in fields(cls)}


def test_rows_of_several_variants_are_of_no_run_without_any(tmp_path: Path) -> None:
    a, b = {**ROW, "variant": "a"}, {**ROW, "variant": "b"}
    for file_rows in ([a, b], [b, a], [a, {**b, "case_id": "other"}]):
        with pytest.raises(DocumentError, match="holds rows of the variants a, b, and this run has no variants"):
            PredictionsEngine(write(tmp_path, *file_rows))
    for file_rows in ([a, ROW], [ROW, a]):
        with pytest.raises(DocumentError, match="two rows for eval-001, one of the variant a and one that names none"):
            PredictionsEngine(write(tmp_path, *file_rows))
    assert PredictionsEngine(write(tmp_path, a, {**ROW, "case_id": "other"})).stages
    assert PredictionsEngine(write(tmp_path, a, b), variant="a").stages


def test_the_row_that_names_the_most_of_a_path_is_taken_in_any_order(tmp_path: Path) -> None:
    found = [{"case_id": "x", "set": path, "l1": [{"content": path}]} for path in ("a.yaml", "new/a.yaml")]
    for order in (found, found[::-1]):
        engine = PredictionsEngine(write(tmp_path, *order))
        [one] = engine.extract([], context("x", "/p/new/a.yaml"))
        [other] = engine.extract([], context("x", "/p/old/a.yaml"))
        assert (one.content, other.content) == ("new/a.yaml", "a.yaml")
    with pytest.raises(DocumentError, match="already on line 1"):
        load_predictions(write(tmp_path, found[0], {**found[0], "set": "./a.yaml"}))


@dataclass
class Named:
    case_id: str


@dataclass
class Cases:
    path: Path
    cases: tuple[Named, ...]


def test_a_row_of_several_sets_is_none_of_theirs(tmp_path: Path) -> None:
    sets = {f"{name}/c.yaml": Cases(Path(f"/p/{name}/c.yaml"), (Named("x"), Named(name))) for name in "ab"}

    def engine(*given: Mapping[str, Any]) -> PredictionsEngine:
        found = PredictionsEngine(write(tmp_path, *({"case_id": "x", "l1": [], **row} for row in given)))
        found.sets = SetsOfIds(sets)
        return found

    for row in ({}, {"set": "c.yaml"}):
        for name in "ab":
            with pytest.raises(
                StageError, match=r"one row for x of several case files, a/c\.yaml, b/c\.yaml:"
            ) as found:
                engine(row).extract([], context("x", f"/p/{name}/c.yaml"))
            assert found.value.kind == "no_prediction"
    # One that is left for one set alone is that set's, and an id of one set needs none.
    both = engine({"set": "a/c.yaml"}, {})
    assert both.extract([], context("x", "/p/a/c.yaml")) == both.extract([], context("x", "/p/b/c.yaml")) == []
    assert engine({"case_id": "a"}).extract([], context("a", "/p/a/c.yaml")) == []
    # A set that is collected later counts, too.
    late = engine({"case_id": "b"})
    assert late.extract([], context("b", "/p/b/c.yaml")) == []
    sets["later.yaml"] = Cases(Path("/p/later.yaml"), (Named("b"),))
    with pytest.raises(StageError, match=r"b/c\.yaml, later\.yaml"):
        late.extract([], context("b", "/p/b/c.yaml"))
    for at in range(4):
        sets[f"more-{at}.yaml"] = Cases(Path(f"/p/more-{at}.yaml"), (Named("b"),))
    with pytest.raises(StageError, match=r"b/c\.yaml, later\.yaml, more-0\.yaml and 3 more: give"):
        late.extract([], context("b", "/p/b/c.yaml"))
