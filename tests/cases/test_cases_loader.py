from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases_sample import FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_memeval.assets.registry import Dimension, Registry, load_registry
from pytest_memeval.assets.templates import SectionQuery, SectionSpec, Template, Templates, load_templates
from pytest_memeval.cases.loader import load_case_set, load_cases, validate_case
from pytest_memeval.cases.models import (
    CaseSet,
    EvalCase,
    GtConflictAction,
    GtScene,
    L1GroundTruth,
    L2GroundTruth,
    SearchQuery,
)
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.values import Memory, Message, Scene

ROOT = str(Path(__file__).parents[2])


def load(folder: Path, text: str, name: str = "v001.yaml", **options: Any) -> CaseSet:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return load_case_set(path, **options)


def file_problems(folder: Path, text: str, name: str = "v001.yaml") -> list[str]:
    case_set = load(folder, text, name)
    assert all(problem.path == folder / name for problem in case_set.problems)
    return [f"{problem.line}: {problem.message}" for problem in case_set.problems]


def case_problems(folder: Path, text: str, name: str = "v001.yaml") -> list[str]:
    case_set = load(folder, text, name)
    assert case_set.problems == ()
    (case,) = (case for case in case_set.cases if case.problems)
    assert all(problem.case_id == case.case_id for problem in case.problems)
    return [f"{problem.line}: {problem.message}" for problem in case.problems]


# -- what is read


def test_every_field(tmp_path: Path) -> None:
    case_set = load(tmp_path, FULL)
    assert case_set.problems == ()
    assert case_set.warnings == ()
    meta = case_set.meta
    assert (meta.version, meta.created_at, meta.total_cases, meta.timezone) == (
        "v001",
        "2026-08-06",
        2,
        "Asia/Shanghai",
    )
    assert [str(gate) for gate in meta.gates or ()] == ["P0 l1.dimension_micro_f1 >= 0.75", "P1 search.ndcg@10 > 0.1"]
    assert meta.extra == {"owner": {"team": 7}}
    first, second = case_set.cases
    assert first.problems == second.problems == ()
    assert (first.case_id, first.source, first.difficulty, first.tags) == (
        "eval-001",
        "synthetic",
        "easy",
        ("slow", "zh"),
    )
    assert (first.timeout, first.now, first.line) == (2.5, datetime(2026, 1, 1, 10, 1, tzinfo=UTC), 12)
    assert first.conversation == (
        Message("msg_1", "user", "我叫张明，在深圳做后端开发", None, datetime(2026, 1, 1, 10, tzinfo=UTC)),
        Message("msg_2", "user", "I moved to Berlin"),
    )
    assert first.existing_memories == (
        Memory(
            "m1",
            "住在深圳",
            ("identity",),
            "persona",
            80,
            "static",
            ("msg_0",),
            datetime(2025, 1, 1, tzinfo=UTC),
            {"k": 10},
        ),
    )
    assert first.existing_scenes == (Scene("s1", "生活", ("m1",)),)
    assert first.expected_l1 is not None
    labelled, moved = first.expected_l1.memories
    assert labelled.dimensions == ("identity", "skills")
    assert labelled.extra == {"why": {"deep": [1, "no", 3.1]}}
    assert (labelled.line, moved.line, moved.memory_type, moved.priority) == (28, 35, None, None)
    assert first.expected_l15 is not None
    assert first.expected_l15.actions == (
        GtConflictAction(0, "store", line=38),
        GtConflictAction(1, "update", ("m1",), "住在柏林", "moved", 39),
    )
    assert first.expected_l2 == L2GroundTruth(
        ("个人信息",), (GtScene("个人信息", (0, 1)),), {"daily": {0: "basic_info", 1: "basic_info"}}
    )
    assert first.expected_inject is not None
    assert (first.expected_inject.mode, first.expected_inject.referenced_memory_indices) == ("coding", (1,))
    assert first.expected_inject.subsequent_conversation == (Message("msg_9", "user", "which language?"),)
    assert first.expected_search is not None
    assert first.expected_search.queries == (
        SearchQuery("where does he live", ("eval-001#1", "eval-002#0"), (2.0, 0.5)),
    )
    assert [str(threshold) for threshold in first.expect] == ["l1.dimension_micro_f1 >= 0.6", "l1.priority_mae <= 10"]
    assert isinstance(first.annotations["b"], L1GroundTruth)
    assert first.extra == {"ticket": 12, "flag": "no"}
    assert first.notes == "3.10"
    assert second.expected_search is not None
    assert second.expected_search.queries == (SearchQuery("when", ("eval-002#0",)),)


def test_f03_text_stays_as_written(tmp_path: Path) -> None:
    for value in ("no", "12:30", "010", "2024-05-01", "3.10", "0x1F", "true", "1e5", "~x"):
        case_set = load(
            tmp_path,
            f"""\
            cases:
              - case_id: {value}
                conversation: {value}
                expected_l1: {{memories: [{{content: {value}, dimensions: [identity]}}]}}
                notes: {value}
            """,
        )
        (case,) = case_set.cases
        assert case_set.problems == case.problems == ()
        assert case.expected_l1 is not None
        assert {case.case_id, case.conversation[0].content, case.expected_l1.memories[0].content, case.notes} == {value}


def test_defaults(tmp_path: Path) -> None:
    (case,) = load_cases(write(tmp_path, "cases: [{case_id: a, conversation: hi, expected_l1: {memories: []}}]"))
    assert (case.source, case.difficulty, case.tags, case.expect, case.now) == (
        "unspecified",
        "unspecified",
        (),
        (),
        None,
    )
    assert case.expected_l1 == L1GroundTruth(())
    for truth in (case.expected_l15, case.expected_l2, case.expected_inject, case.expected_search):
        assert truth is None


def write(folder: Path, text: str, name: str = "x.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def without_places(case: EvalCase) -> tuple[Any, ...]:
    return (case.case_id, case.conversation, case.expected_l2, case.expected_search, case.extra, case.content_hash)


def test_json_and_jsonl_hold_the_same_cases(tmp_path: Path) -> None:
    expected = load(tmp_path, FULL)
    texts = yaml.load(FULL, yaml.BaseLoader)
    # JSON numbers where YAML had unquoted ones matter to the hash only
    plain = json.loads(json.dumps(texts))
    lines = [json.dumps({"meta": plain["meta"]}), *(json.dumps(case) for case in plain["cases"])]
    variants = [
        load(tmp_path, json.dumps(plain), "a.json"),
        load(tmp_path, "\n".join(lines) + "\n", "a.memeval.jsonl"),
        load(tmp_path, json.dumps(plain["cases"], indent=1), "b.json"),
    ]
    for variant in variants:
        assert variant.problems == ()
        assert [case.problems for case in variant.cases] == [(), ()]
        assert [case.case_id for case in variant.cases] == ["eval-001", "eval-002"]
        assert [case.expected_search for case in variant.cases] == [case.expected_search for case in expected.cases]
        assert [case.expected_l2 for case in variant.cases] == [case.expected_l2 for case in expected.cases]
    assert variants[0].meta.gates == variants[1].meta.gates == expected.meta.gates
    assert variants[2].meta.gates is None
    assert [case.line for case in variants[1].cases] == [2, 3]
    assert variants[0].cases[0].content_hash == variants[1].cases[0].content_hash


def test_content_hash_is_that_of_what_is_written(tmp_path: Path) -> None:
    text = "cases: [{case_id: a, notes: n, conversation: hi, expected_l1: {memories: []}}]"
    other = '{"cases": [{"expected_l1": {"memories": []}, "conversation": "hi", "case_id": "a", "notes": "n"}]}'
    (first,), (second,) = load_cases(write(tmp_path, text)), load_cases(write(tmp_path, other, "x.json"))
    assert first.content_hash == second.content_hash
    (changed,) = load_cases(write(tmp_path, text.replace("notes: n", "notes: m")))
    assert changed.content_hash != first.content_hash


def test_gates_may_be_none(tmp_path: Path) -> None:
    case = "cases: [{case_id: a, conversation: hi, expected_l1: {memories: []}}]\n"
    assert load(tmp_path, case).meta.gates is None
    assert load(tmp_path, case + "meta: {gates: []}\n").meta.gates == ()


# -- file errors


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("    expcted_l1: {}", "unknown key 'expcted_l1' in a case; did you mean 'expected_l1'?"),
        ("    expect: {l1.dimension_micro_f2: '>= 1'}", "did you mean 'l1.dimension_micro_f1'?"),
        ("    expect: {l1.dimension_micro_f1: 0.6}", "'0.6' is not a threshold"),
        ("    expect: {l1.dimension_micro_f1: '>= high'}", "'high' in '>= high' is not a number"),
        ("    tags: [timeout]", "tag 'timeout' is a reserved marker name"),
        ("    tags: [hard]", "tag 'hard' is reserved: it is a difficulty or source"),
        ("    tags: [two words]", "tag 'two words' cannot stand in a -m expression"),
        ("    tags: [not]", "tag 'not' is an operator"),
        ("    tags: slow", "a list is needed here, not 'slow'"),
        ("    notes: [1]", "text is needed here, not a list"),
        ("    existing_scenes: [{scene_id: s}]", "an existing scene needs 'title'"),
        ("    existing_memories: [{memory_id: a, content: b, memoryid: c}]", "did you mean 'memory_id'?"),
        ("    annotations: {b: {memory: []}}", "did you mean 'memories'?"),
    ],
)
def test_f05_file_errors_in_a_case(tmp_path: Path, line: str, said: str) -> None:
    text = f"cases:\n  - case_id: a\n    conversation: hi\n    expected_l1: {{memories: []}}\n{line}\n"
    case_set = load(tmp_path, text)
    assert said in case_set.problems[-1].message
    assert {(problem.line, problem.case_id) for problem in case_set.problems} == {(5, "a")}
    assert case_set.cases[0].problems == ()


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ("gates: [P0 l1.dimension_f1 >= 1]", "unknown metric 'l1.dimension_f1'; did you mean"),
        ("gates: [l1.dimension_micro_f1 >= 1]", "a gate starts with its level"),
        ("gates: [P0 l1.dimension_micro_f1 >= x]", "'x' in '>= x' is not a number"),
        (
            "gates: [P0 l1.per_dimension_f1.famly >= 1]",
            "unknown dimension 'famly' in 'l1.per_dimension_f1.famly'; did you mean",
        ),
        ("timezone: Asia/Shangai", "unknown time zone 'Asia/Shangai'; did you mean 'Asia/Shanghai'?"),
        ("timezone: ../etc", "unknown time zone '../etc'"),
        ("registry: none.yaml", "registry: 'none.yaml' does not exist"),
        ("templates: none", "templates: 'none' does not exist"),
        ("prompts: v001.yaml", "prompts: 'v001.yaml' is not a folder"),
        ("registry: .", "registry: '.' is not a file"),
        ("total_cases: many", "'many' is not a whole number"),
    ],
)
def test_file_errors_in_meta(tmp_path: Path, meta: str, said: str) -> None:
    text = f"meta:\n  {meta}\ncases: [{{case_id: a, conversation: hi, expected_l1: {{memories: []}}}}]\n"
    (problem,) = file_problems(tmp_path, text)
    assert problem.startswith("2: ")
    assert said in problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cases: []\n", "1: the file has no cases"),
        ("meta: {}\n", "1: the file needs 'cases'"),
        ("cases: {a: 1}\n", "1: 'cases' has to be a list, not a mapping"),
        ("cases: [1]\n", "1: a case has to be a mapping, not '1'"),
        ("just text\n", "1: the file has to be a mapping, not 'just text'"),
        ("kind: dstill\ncases: []\n", "1: unknown kind 'dstill'; did you mean 'distill'?"),
        ("kind: qa\nquestions: []\n", "1: kind 'qa' cannot be run by this version"),
        ("dataset: locomo\n", "1: 'dataset' files cannot be run by this version"),
        ("cases:\n- {conversation: a, expected_l1: {memories: []}}\n", "2: a case needs 'case_id'"),
        ("cases:\n- {case_id: ' ', conversation: a, expected_l1: {memories: []}}\n", "2: the case_id is empty"),
        ("cases: [{case_id: 'a::b', conversation: a, expected_l1: {memories: []}}]\n", "contains '::'"),
        ('cases: [{case_id: "a\\tb", conversation: a, expected_l1: {memories: []}}]\n', "contains a control character"),
        ("cases: [{case_id: a, conversation: [{roel: user, content: a}], expected_l1: {memories: []}}]", "'role'"),
        (
            "cases: [{case_id: a, conversation: {x: y}, expected_l1: {memories: []}}]",
            "a conversation is text or a list",
        ),
        ("a: !vault 1\n", "1: the YAML tag '!vault' is not supported here"),
        ("cases: []\n---\ncases: []\n", "several YAML documents"),
    ],
)
def test_file_errors(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = file_problems(tmp_path, text)
    assert said in problem


@pytest.mark.parametrize(
    "truth", ["", "expected_l15: {actions: []}", "expected_l2: {}", "expected_search_results: {}", "expected_l1: ~"]
)
def test_f05_a_case_with_nothing_to_check(tmp_path: Path, truth: str) -> None:
    (problem,) = file_problems(tmp_path, f"cases:\n  - case_id: a\n    conversation: hi\n    {truth}\n")
    assert problem.startswith("2: the case has nothing to check: it needs one of expected_l1, expected_l15")


@pytest.mark.parametrize("written", ["", "    conversation: ''\n", "    conversation: []\n", "    conversation:\n"])
def test_f05_a_case_without_input(tmp_path: Path, written: str) -> None:
    (problem,) = file_problems(tmp_path, f"cases:\n  - case_id: a\n{written}    expected_l1: {{memories: []}}\n")
    assert problem == "2: the case has no input: it needs a 'conversation'"


def test_f16_the_same_id_twice(tmp_path: Path) -> None:
    case = "  - case_id: a\n    conversation: hi\n    expected_l1: {memories: []}\n"
    assert file_problems(tmp_path, f"cases:\n{case}{case}") == ["5: duplicate case_id 'a': lines 2 and 5"]
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        assert load(folder, f"cases:\n{case}").problems == ()


def test_f15_duplicate_keys_beside_other_problems(tmp_path: Path) -> None:
    text = """\
    meta: {gates: [P9]}
    cases:
      - case_id: a
        conversation: hi
        conversation: ho
        expected_l1: {memories: []}
        difficulty: esay
      - case_id: b
        tags: [skip]
        expected_l1: {memories: [{dimensions: [identity]}]}
        conversation: "[msg#1] no colon"
    """
    assert [problem.split(";")[0] for problem in file_problems(tmp_path, text)] == [
        "1: gate: 'P9': a gate starts with its level (P0, P1, P2), not with 'P9'",
        "5: duplicate key 'conversation' in one mapping: lines 4 and 5",
        "9: tag 'skip' is a reserved marker name",
        "10: a labelled memory needs 'content'",
    ]


def test_f15_merges_make_cases(tmp_path: Path) -> None:
    text = """\
    cases:
      - &base
        case_id: a
        tags: [zh]
        conversation: hi
        expected_l1: {memories: []}
      - <<: *base
        case_id: b
    """
    case_set = load(tmp_path, text)
    assert case_set.problems == ()
    assert [(case.case_id, case.tags) for case in case_set.cases] == [("a", ("zh",)), ("b", ("zh",))]


def test_unreadable_files_are_problems_too(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes("cases: 用户\n".encode("gb18030"))
    (problem,) = load_case_set(path).problems
    assert "gb18030" in problem.message
    with pytest.raises(DocumentError, match="no such file"):
        load_cases(tmp_path / "none.yaml")


def test_bad_jsonl_lines_are_all_named(tmp_path: Path) -> None:
    case = '{"case_id": "%s", "conversation": "x", "expected_l1": {"memories": []}}\n'
    text = case % "a" + "{bad}\n" + case % "a" + "[]\n"
    assert [problem.partition(":")[0] for problem in file_problems(tmp_path, text, "x.memeval.jsonl")] == [
        "2",
        "3",
        "4",
    ]
    assert file_problems(tmp_path, "", "y.memeval.jsonl") == ["1: the file has no cases"]


# -- case errors

CASE = """\
cases:
  - case_id: a
    conversation: hi
    existing_memories: [{memory_id: m1, content: x}]
    expected_l1: {memories: [{content: y, dimensions: [identity]}]}
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("difficulty: esay", "unknown difficulty 'esay'; did you mean 'easy'?"),
        ("source: reel", "unknown source 'reel'; did you mean 'real'?"),
        ("timeout: 0", "'0' must be more than 0"),
        ("timeout: soon", "'soon' is not a number"),
        ("timeout: 1e300", "'1e300' must be at most 1000000"),
        ("timeout: 1000001", "'1000001' must be at most 1000000"),
        ("timeout: 1e999", "'1e999' is too large a number"),
        ("now: 9999-12-31T23:59:59-10:00", "years go from 0002 to 9998"),
        ("now: 0001-01-01T00:00:00+10:00", "years go from 0002 to 9998"),
        ("now: tomorrow", "now: 'tomorrow' is not an ISO time"),
        ("annotations: {b: {memories: [{content: x, dimensions: [identty]}]}}", "did you mean 'identity'?"),
        ("annotations: {b: {memories: [{content: x}]}}", "needs at least one dimension"),
        ("annotations: {b: {memories: [{content: x, dimensions: []}]}}", "needs at least one dimension"),
        (
            "annotations: {b: {memories: [{content: x, dimensions: [identity, family, social, values]}]}}",
            "4 dimensions, the registry allows 3",
        ),
        (
            "annotations: {b: {memories: [{content: x, dimensions: [identity], memory_type: persna}]}}",
            "unknown memory_type 'persna'; did you mean 'persona'?",
        ),
        (
            "annotations: {b: {memories: [{content: x, dimensions: [identity], time_velocity: sttic}]}}",
            "unknown time_velocity 'sttic'; did you mean 'static'?",
        ),
        (
            "annotations: {b: {memories: [{content: x, dimensions: [identity], priority: 101}]}}",
            "priority 101 is outside 0 to 100",
        ),
        ("expected_l15: {actions: [{new_memory_index: 1, action: store}]}", "out of range: expected_l1 has 1 (0 to 0)"),
        ("expected_l15: {actions: [{new_memory_index: -1, action: store}]}", "'-1' is not a whole number from 0"),
        ("expected_l15: {actions: [{new_memory_index: 0, action: skp}]}", "unknown action 'skp'; did you mean 'skip'?"),
        (
            "expected_l15: {actions: [{new_memory_index: 0, action: update, candidate_ids: [m2]}]}",
            "no existing memory 'm2'; known: m1",
        ),
        (
            "expected_l15: {actions: [{new_memory_index: 0, action: store}, {new_memory_index: 0, action: skip}]}",
            "a second action for memory 0",
        ),
        ("expected_l2: {scenes: [{label: x, memories: [3]}]}", "memory index 3 is out of range"),
        ("expected_l2: {template_section: {dialy: {'0': x}}}", "no template for mode 'dialy'; did you mean 'daily'?"),
        ("expected_l2: {template_section: {daily: {'0': basic_inf}}}", "did you mean 'basic_info'?"),
        ("expected_l2: {template_section: {daily: {x: basic_info}}}", "'x' is not the index of a labelled memory"),
        ("expected_l2: {template_section: {daily: {'1': basic_info}}}", "memory index 1 is out of range"),
        ("expected_inject: {mode: codin}", "no template for mode 'codin'; did you mean 'coding'?"),
        ("expected_inject: {mode: coding, referenced_memory_indices: [1]}", "memory index 1 is out of range"),
        ("expected_inject: {mode: coding, subsequent_conversation: '[msg#1] x'}", "needs a colon"),
        ("expected_search_results: {q: [1]}", "memory index 1 is out of range"),
        ("expected_search_results: {q: ['a#1']}", "memory index 1 is out of range"),
        ("expected_search_results: {q: ['b#0']}", "no case 'b' in this file"),
        ("expected_search_results: {q: [first]}", "'first' is neither the index"),
        ("expected_search_results: {q: [0, 'a#0']}", "a memory stands twice"),
        ("expected_search_results: {' ': [0]}", "the query is empty"),
        ("expected_search_results: [{query: q, relevant: [0], grades: [1, 2]}]", "2 grades for 1 relevant memories"),
        ("existing_scenes: [{scene_id: s, title: t, memory_ids: [m9]}]", "no existing memory 'm9'"),
    ],
)
def test_case_errors(tmp_path: Path, line: str, said: str) -> None:
    (problem,) = case_problems(tmp_path, f"{CASE}    {line}\n")
    assert problem.startswith("6: ")
    assert said in problem


#: Written as numbers, and too long for a float, for a conversion to a whole number, or for a message.
HUGE = {
    "400 digits": "1" + "0" * 400,
    "5000 digits": "9" * 5000,
    "negative": "-1" + "0" * 400,
    "hexadecimal": "0x" + "f" * 400,
    "exponent": "1e400",
    "fraction": "1" + "0" * 400 + ".5",
}


@pytest.mark.parametrize("name", ["v001.yaml", "v001.jsonl"])
@pytest.mark.parametrize("number", HUGE.values(), ids=HUGE)
def test_a_number_that_is_too_large_is_an_error_of_its_case(tmp_path: Path, number: str, name: str) -> None:
    memory = {"content": "x", "dimensions": ["identity"]}
    cases: list[dict[str, Any]] = [
        {"case_id": "priority", "expected_l1": {"memories": [memory | {"priority": "HUGE"}]}},
        {"case_id": "existing", "existing_memories": [{"memory_id": "m", "content": "x", "priority": "HUGE"}]},
        {"case_id": "timeout", "timeout": "HUGE"},
        {"case_id": "grade", "expected_search_results": [{"query": "q", "relevant": [0], "grades": ["HUGE"]}]},
        {"case_id": "index", "expected_l15": {"actions": [{"new_memory_index": "HUGE", "action": "store"}]}},
    ]
    base = {"conversation": "hi", "expected_l1": {"memories": [memory]}}
    lines = [json.dumps(base | case).replace('"HUGE"', number) for case in cases]
    quote = "0x" in number and name.endswith(".jsonl")  # no number of JSON
    text = "\n".join(line.replace(number, f'"{number}"') if quote else line for line in lines)
    if name.endswith(".yaml"):
        text = "cases:\n" + "".join(f"  - {line}\n" for line in lines)
    case_set = load(tmp_path, text, name)
    assert case_set.problems == ()
    for case in case_set.cases:
        said = f"'{number[:60]}{'…' * (len(number) > 60)}' is too large a number"
        assert said in [problem.message for problem in case.problems], case.case_id
        assert all(len(problem.message) < 200 for problem in case.problems)


TIMES = ["9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+10:00"]


@pytest.mark.parametrize("time", TIMES)
def test_a_time_at_the_calendars_end_is_an_error_of_its_case(tmp_path: Path, time: str) -> None:
    for conversation in (
        f'[{{role: user, content: x, time: "{time}"}}]',
        f'"[msg#1] {time} user: x"',
    ):
        text = CASE.replace("conversation: hi", f"conversation: {conversation}")
        (problem,) = case_problems(tmp_path, text)
        assert "too near the calendar's end: years go from 0002 to 9998" in problem


def test_several_case_errors_leave_the_other_cases_whole(tmp_path: Path) -> None:
    text = """\
    cases:
      - case_id: good
        conversation: hi
        expected_l1: {memories: []}
      - case_id: bad
        conversation: |
          [msg#1] 2026-99-01T10:00:00Z user: a
          [msg#2] user: b
          [msg#2] user: c
        difficulty: esay
        existing_memories: [{memory_id: m, content: x}, {memory_id: m, content: y, created_at: then}]
        expected_l1:
          memories:
            - content: x
              dimensions: [identty]
    """
    problems = case_problems(tmp_path, text)
    assert [problem.partition(":")[0] for problem in problems] == ["7", "9", "10", "11", "11", "15"]


def test_f34_a_lone_surrogate_is_a_case_error_with_its_line(tmp_path: Path) -> None:
    text = """\
    cases:
      - case_id: a
        conversation:
          - {role: user, content: "smile \\ud83d\\ude00"}
          - {role: user, content: "half \\ud83d"}
        expected_l1: {memories: []}
      - case_id: b
        conversation: "\\ud83d\\ude00"
        expected_l1: {memories: []}
    """
    assert case_problems(tmp_path, text) == ["5: half of a surrogate pair is not a character"]
    case_set = load(tmp_path, text)
    assert [message.content for message in case_set.cases[0].conversation] == ["smile 😀", "half \ufffd"]
    assert case_set.cases[1].conversation[0].content == "😀"
    line = '{"case_id": "a", "notes": "\\ud83d", "conversation": "x", "expected_l1": {"memories": []}}'
    assert case_problems(tmp_path, "\n" + line, "x.jsonl") == ["2: half of a surrogate pair is not a character"]


def test_a_lone_surrogate_in_meta_is_a_file_error(tmp_path: Path) -> None:
    text = CASE + 'meta:\n  description: "\\ud83d"\n'
    assert file_problems(tmp_path, text) == ["7: half of a surrogate pair is not a character"]


def test_validate_case() -> None:
    said = [problem.message.partition(":")[0] for problem in validate_case(EvalCase("a"))]
    assert said == ["the case has no input", "the case has nothing to check"]
    message = Message("msg_1", "user", "hi")
    assert validate_case(EvalCase("a", conversation=(message,), expected_l1=L1GroundTruth())) == ()


def test_validate_case_gives_a_loaded_cases_problems(tmp_path: Path) -> None:
    (case,) = load(tmp_path, CASE + "    difficulty: esay\n").cases
    assert validate_case(case) == case.problems != ()


# -- own registry and templates

OWN_REGISTRY = Registry(
    (Dimension("pets", "宠物", aliases=("animals",)), Dimension("food")),
    memory_types=("fact",),
    time_velocities=("slow",),
    priority_min=1,
    priority_max=5,
    max_dimensions=1,
)
OWN_TEMPLATES = Templates({"home": Template("home", sections=(SectionSpec("p", "🐱 Pets", SectionQuery(("pets",))),))})


def test_given_registry_and_templates_are_used(tmp_path: Path) -> None:
    text = """\
    cases:
      - case_id: a
        conversation: hi
        expected_l1:
          memories: [{content: x, dimensions: [animals], memory_type: fact, priority: 5, time_velocity: slow}]
        expected_l2: {template_section: {home: {0: "🐱 Pets"}}}
    """
    case_set = load(tmp_path, text, registry=OWN_REGISTRY, templates=OWN_TEMPLATES)
    (case,) = case_set.cases
    assert case_set.problems == case.problems == ()
    assert (case_set.registry, case_set.templates) == (OWN_REGISTRY, OWN_TEMPLATES)
    assert case.expected_l1 is not None
    assert case.expected_l1.memories[0].dimensions == ("pets",)
    assert case.expected_l2 is not None
    assert case.expected_l2.template_section == {"home": {0: "p"}}
    shipped = load(tmp_path, text)
    assert shipped.problems == ()
    assert len(shipped.cases[0].problems) == 4
    assert (shipped.registry, shipped.templates) == (load_registry(None), load_templates(None))


OWN_FILES = {
    "own/dimensions.yaml": """\
dimensions:
  - {id: pets, display_name: Pets, description: animals at home}
memory_types: [fact]
time_velocities: [static, dynamic]
priority: [1, 5]
max_dimensions: 1
""",
    "own/home.yaml": "name: home\nsections:\n  - {id: p, title: Pets, query: {dimensions: [pets]}}\n",
}


def test_the_sets_own_files_win(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name, text in OWN_FILES.items():
        write(tmp_path, text, name)
    case = """\
cases:
  - case_id: a
    conversation: hi
    expected_l1: {memories: [{content: x, dimensions: [pets], memory_type: fact, priority: 5}]}
"""
    text = f"meta: {{registry: own/dimensions.yaml, templates: ./own/home.yaml, prompts: own}}\n{case}"
    text += "    expected_l2: {template_section: {home: {0: Pets}}}\n"
    case_set = load(tmp_path, text, registry=load_registry(None), templates=load_templates(None))
    assert case_set.problems == case_set.cases[0].problems == ()
    assert case_set.registry is not None
    assert case_set.registry.ids == ("pets",)
    assert case_set.meta.registry == case_set.registry.path == tmp_path / "own" / "dimensions.yaml"
    assert case_set.meta.prompts == tmp_path / "own"
    # The shipped templates do not stand in the way of a registry that lacks their dimensions.
    alone = load(tmp_path, f"meta: {{registry: own/dimensions.yaml}}\n{case}")
    assert alone.problems == alone.cases[0].problems == ()


def test_problems_of_a_named_registry_are_file_errors(tmp_path: Path) -> None:
    registry = write(tmp_path, "dimensions: [{idd: pets}]\n", "dimensions.yaml")
    case_set = load(tmp_path, "meta: {registry: dimensions.yaml}\n" + CASE)
    assert {problem.path for problem in case_set.problems} == {registry}
    assert case_set.cases[0].problems == ()


# -- the rest


def test_the_cache_changes_nothing(tmp_path: Path) -> None:
    case = "  - case_id: eval-{0}\n    conversation: 猫 {0}\n    expected_l1: {{memories: []}}\n    notes: {1}\n"
    text = "cases:\n" + "".join(case.format(number, "x" * 300) for number in range(1000))
    plain = load(tmp_path, text)
    for _ in range(2):
        assert load(tmp_path, text, cache_dir=tmp_path / "cache") == plain
    assert len(list((tmp_path / "cache").iterdir())) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text().filter(str.strip), st.text(), st.booleans())
def test_arbitrary_text_survives(tmp_path: Path, content: str, notes: str, unicode: bool) -> None:
    case = {
        "case_id": "a",
        "conversation": [{"role": "user", "content": content}],
        "expected_l1": {"memories": [{"content": content, "dimensions": ["identity"]}]},
        "notes": notes,
    }
    # the dumper writes runs of these and line feeds in a way that it does not read back itself, unless it escapes them
    raw = unicode and not any(character in "\x85\u2028\u2029" for character in content + notes)
    dumped = yaml.safe_dump({"cases": [case]}, allow_unicode=raw)
    for name, text in (("x.yaml", dumped), ("x.json", json.dumps([case], ensure_ascii=not unicode))):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        (loaded,) = load_cases(path)
        assert loaded.problems == ()
        assert loaded.conversation[0].content == content
        assert loaded.expected_l1 is not None
        assert loaded.expected_l1.memories[0].content == content
        assert loaded.notes == notes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["x.yaml", "x.json", "x.jsonl"]))
def test_arbitrary_bytes_raise_nothing(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    case_set = load_case_set(path)
    assert case_set.problems
    assert case_set.path == path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_arbitrary_values_in_any_place_raise_nothing(tmp_path: Path, data: st.DataObject) -> None:
    tree = json.loads(json.dumps(yaml.load(FULL, yaml.BaseLoader)))
    place: Any = tree
    for _ in range(data.draw(st.integers(1, 7))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], (dict, list)) and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(
            st.sampled_from([None, "", "x", -1, 99, 1.5, True, [], {}, [[]], [{}], {"x": {}}, {"x": [1]}, "a#0", "0"])
        )
        break
    path = write(tmp_path, json.dumps(tree), "x.json")
    case_set = load_case_set(path)
    assert all(str(problem) for problem in case_set.problems)


def test_f21_no_default_encoding_is_used(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    code = (
        "import sys; from pathlib import Path; from pytest_memeval.cases.loader import *\n"
        "path = Path(sys.argv[1]); assert looks_like_case_file(path); assert len(load_cases(path)) == 2"
    )
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code, str(path)]
    environment = {**os.environ, "PYTHONPATH": ROOT, "LC_ALL": "C", "PYTHONUTF8": "0"}
    subprocess.run(command, check=True, env=environment)


def test_f05_a_threshold_on_an_unknown_dimension_is_a_file_error(tmp_path: Path) -> None:
    text = """\
    cases:
      - case_id: a
        conversation: hi
        expected_l1: {memories: []}
        expect:
          l1.per_dimension_f1.identity: ">= 0.5"
          l1.per_dimension_f1.identty: ">= 0.5"
    """
    (problem,) = file_problems(tmp_path, text)
    assert problem.startswith("7: expect: unknown dimension 'identty'")
    assert problem.endswith("did you mean 'identity'?")


def test_a_meta_key_that_is_nearly_a_known_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "set.yaml"
    path.write_text(
        'meta: {gate: ["P0 l1.memory_recall >= 0.5"], registy: x.yaml, owner: me}\n'
        'cases: [{case_id: a, conversation: "hi", expected_l1: {memories: []}}]\n',
        encoding="utf-8",
    )
    loaded = load_case_set(path)
    assert [problem.message for problem in loaded.problems] == [
        "unknown key 'gate' in meta; did you mean 'gates'?",
        "unknown key 'registy' in meta; did you mean 'registry'?",
    ]


@pytest.mark.parametrize("content", ['""', '"  "'])
def test_a_blank_label_is_an_error_of_its_case(tmp_path: Path, content: str) -> None:
    path = tmp_path / "set.yaml"
    label = f"{{content: {content}, dimensions: [family]}}"
    path.write_text(
        f'cases: [{{case_id: a, conversation: "hi", expected_l1: {{memories: [{label}]}}}}]\n', encoding="utf-8"
    )
    (case,) = load_case_set(path).cases
    assert [problem.message for problem in case.problems] == ["a labelled memory needs a content: this one is blank"]


@pytest.mark.parametrize(
    "head", ['{"kind": "distill", "meta": META}', '{"meta": META, "kind": "distill"}', '{"meta": META}']
)
def test_the_first_of_several_lines_may_say_of_the_set_what_a_mapping_says(tmp_path: Path, head: str) -> None:
    row = '{"case_id": "a", "conversation": "hi", "expected_l1": {"memories": []}}\n'
    case_set = load(tmp_path, head.replace("META", '{"version": "v7", "gates": []}') + "\n" + row, "a.memeval.jsonl")
    assert case_set.problems == ()
    assert (case_set.kind, case_set.meta.version, case_set.meta.gates) == ("distill", "v7", ())
    assert [case.case_id for case in case_set.cases] == ["a"]
    assert load(tmp_path, '{"kind": "distill"}\n' + row, "b.memeval.jsonl").problems == ()


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ('{"kind": "distil", "meta": {}}', "1: unknown kind 'distil'; did you mean 'distill'?"),
        ('{"kind": ["distill"]}', "1: unknown kind a list; known: distill, qa, rag"),
        ('{"kind": "qa", "meta": {}}', "1: kind 'qa' is not read from JSON Lines: write the set as YAML"),
        ('{"kind": "distill", "mta": {}}', "1: unknown key 'kind' in a case; known: "),
        ("{}", "1: a case needs 'case_id'"),
    ],
)
def test_a_first_line_that_says_nothing_usable_of_the_set(tmp_path: Path, head: str, said: str) -> None:
    row = '{"case_id": "a", "conversation": "hi", "expected_l1": {"memories": []}}\n'
    assert any(said in problem for problem in file_problems(tmp_path, f"{head}\n{row}", "a.memeval.jsonl"))


def test_templates_of_a_registry_that_cannot_be_read_are_not_blamed(tmp_path: Path) -> None:
    """What they ask for would be checked against dimensions that are not the file's."""
    (tmp_path / "own.yaml").write_text(
        "version: 1\ndimensions:\n- {id: alpha, name: A}\n- {id: alpha, name: B}\n", encoding="utf-8"
    )
    (tmp_path / "tpl").mkdir()
    (tmp_path / "tpl" / "daily.yaml").write_text(
        "mode: daily\nsections:\n- {id: one, title: One, query: {dimensions: [alpha]}}\n", encoding="utf-8"
    )
    path = tmp_path / "a.yaml"
    path.write_text(
        "meta: {registry: own.yaml, templates: tpl}\ncases:\n- case_id: one\n"
        "  conversation: [{id: m, role: user, content: x}]\n"
        "  expected_l1: {memories: [{content: x, dimensions: [alpha]}]}\n",
        encoding="utf-8",
    )
    said = [str(problem) for problem in load_case_set(path).problems]
    assert any("own.yaml" in line and "alpha" in line for line in said)
    assert not any("unknown dimension" in line or "tpl" in line for line in said)
