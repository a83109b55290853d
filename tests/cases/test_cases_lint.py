from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.assets.registry import load_registry
from pytest_memeval.assets.templates import SectionQuery, SectionSpec, Template, load_templates
from pytest_memeval.cases.lint import RULES, lint, review
from pytest_memeval.cases.lint_sections import possible_sections
from pytest_memeval.cases.lint_set import ALL_PAIRS_UP_TO, SAME_CASE, candidate_pairs, same_case_twice
from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.cases.models import CaseSet, EvalCase, GtMemory
from pytest_memeval.values import Message

SHIPPED = Path(__file__).parents[2] / "cases"

TEXT = """\
meta: {total_cases: 3}
cases:
  - case_id: a
    conversation: "[msg#1] user: hi"
    expected_l1:
      memories:
        - {content: x, dimensions: [identity], source_message_ids: [msg_1, msg_7]}
"""


def test_warnings_do_not_stop_the_set(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT, encoding="utf-8")
    case_set = load_case_set(path)
    assert case_set.problems == case_set.cases[0].problems == ()
    assert case_set.warnings == lint(case_set)
    assert [(warning.line, warning.case_id, warning.message) for warning in case_set.warnings] == [
        (0, None, "meta.total_cases is 3, the file holds 1 cases"),
        (7, "a", "source message 'msg_7' is not in the conversation; did you mean 'msg_1'?"),
    ]


def test_a_set_in_order_has_no_warnings(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT.replace(", msg_7", "").replace("3", "1"), encoding="utf-8")
    assert load_case_set(path).warnings == ()
    assert review(load_case_set(path)) == ()


@pytest.mark.parametrize(
    ("said", "guess"),
    [
        ("asistant", "assistant"),
        ("Assistent", "assistant"),
        ("sytem", "system"),
        ("devloper", "developer"),
        ("usr", None),
        ("Usher", None),
        ("Caroline", None),
        ("assistant", None),
        ("bot", None),
        ("小明", None),
    ],
)
@pytest.mark.parametrize("form", ["text", "list"])
def test_a_speaker_called_nearly_as_a_role_is_named(tmp_path: Path, said: str, guess: str | None, form: str) -> None:
    path = tmp_path / "x.yaml"
    whole = [{"role": "user", "content": "hi"}, {"role": said, "content": "hello"}]
    conversation = f"[msg#1] user: hi\n[msg#2] {said}: hello" if form == "text" else whole
    memory = {"content": "x", "dimensions": ["identity"]}
    entry = {"case_id": "a", "conversation": conversation, "expected_l1": {"memories": [memory]}}
    path.write_text(json.dumps({"cases": [entry]}), encoding="utf-8")
    text = f"message 'msg_2' is a user's of the name {said!r}; did you mean the role {guess!r}?"
    assert [warning.message for warning in load_case_set(path).warnings] == ([text] if guess else [])


# -- twenty and more faults in one file

#: One sentence a dimension, unlike each other, with the dimension's usual velocity.
SENTENCES = {
    "identity": ("Grew up in a lighthouse near Aberdeen", "static"),
    "family": ("哥哥在内蒙古养了三百只羊", "static"),
    "social": ("Quizzes with five old rowing mates", "static"),
    "skills": ("会修老式机械钟表", "static"),
    "tech_stack": ("Runs a Zig compiler on FreeBSD", "static"),
    "preferences": ("最讨厌香菜和折耳根", "static"),
    "habits": ("Swims at dawn whatever the weather", "static"),
    "environment": ("住的楼没有电梯，在六层", "static"),
    "style": ("Answers must fit on one index card", "static"),
    "focus": ("正在研究怎么酿青梅酒", "dynamic"),
    "projects": ("The wind map goes to print in April", "dynamic"),
    "goals": ("今年要骑完川藏线", "dynamic"),
    "tasks": ("Return the borrowed drill by Monday", "dynamic"),
    "status": ("左脚打着石膏，拄拐", "dynamic"),
}


def memory(content: str, dimension: str, **changes: Any) -> dict[str, Any]:
    velocity = SENTENCES[dimension][1] if dimension in SENTENCES else "static"
    fields = {
        "content": content,
        "dimensions": [dimension],
        "memory_type": "persona",
        "priority": 80,
        "time_velocity": velocity,
        "source_message_ids": ["msg_1"],
    }
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not None}


def case(case_id: str, *memories: dict[str, Any], says: str | None = None, **changes: Any) -> dict[str, Any]:
    said = says if says is not None else " / ".join(one["content"] for one in memories) or f"just chatting: {case_id}"
    fields = {
        "case_id": case_id,
        "source": "synthetic",
        "difficulty": "easy",
        "conversation": [{"id": "msg_1", "role": "user", "content": said}],
        "expected_l1": {"memories": list(memories)},
    }
    fields.update(changes)
    return fields


def one(dimension: str, **changes: Any) -> dict[str, Any]:
    return memory(SENTENCES[dimension][0], dimension, **changes)


OLD = [{"memory_id": "m1", "content": "lives in Oslo"}, {"memory_id": "m2", "content": "has a boat"}]


def acts(**action: Any) -> dict[str, Any]:
    return {"existing_memories": OLD, "expected_l15": {"actions": [{"new_memory_index": 0, **action}]}}


def sections(**modes: Mapping[str, str]) -> dict[str, Any]:
    return {"expected_l2": {"template_section": modes}}


def scenes(labels: list[str], *found: tuple[str, list[int]]) -> dict[str, Any]:
    entries = [{"label": label, "memories": members} for label, members in found]
    return {"expected_l2": {"scene_labels": labels, "scenes": entries}}


#: Each planted fault: what it is, the case that has it, and the rule that must find it.
PLANTED: list[tuple[str, str, dict[str, Any]]] = [
    ("a source message that the conversation lacks", "", case("f01", one("identity", source_message_ids=["msg_9"]))),
    (
        "two memories of a case that say the same",
        "same-memory-twice",
        case("f02", memory("每周三晚上去学陶艺拉坯", "habits"), memory("每周三的晚上去学陶艺拉坯", "habits")),
    ),
    (
        "a memory out of the assistant's mouth",
        "assistant-only-source",
        case(
            "f03",
            memory("Could try the sourdough place", "preferences", source_message_ids=["msg_2"]),
            conversation=[
                {"id": "msg_1", "role": "user", "content": "Any idea for a bakery?"},
                {"id": "msg_2", "role": "assistant", "content": "You could try the sourdough place."},
            ],
        ),
    ),
    ("a state that never changes", "velocity-differs", case("f04", one("status", time_velocity="static"))),
    (
        "a memory without an action",
        "action-missing",
        case("f05", one("family"), one("social"), **acts(action="store")),
    ),
    ("a store without any action", "actions-missing", case("f06", one("skills"), existing_memories=OLD)),
    (
        "'store' with a target",
        "action-targets",
        case("f07", one("tech_stack"), **acts(action="store", candidate_ids=["m1"])),
    ),
    (
        "'update' with two targets",
        "action-targets",
        case("f08", one("preferences"), **acts(action="update", candidate_ids=["m1", "m2"])),
    ),
    (
        "'merge' with one target",
        "action-targets",
        case("f09", one("habits"), **acts(action="merge", candidate_ids=["m1"])),
    ),
    ("'skip' without a target", "action-targets", case("f10", one("environment"), **acts(action="skip"))),
    (
        "a memory in no scene",
        "scene-membership",
        case(
            "f11",
            memory("Plays the bagpipes", "skills"),
            memory("Ordered new reeds", "tasks", time_velocity="dynamic"),
            **scenes(["pipes"], ("pipes", [0])),
        ),
    ),
    (
        "a memory in two scenes",
        "scene-membership",
        case(
            "f12", memory("Keeps bees on the roof", "habits"), **scenes(["bees", "roof"], ("bees", [0]), ("roof", [0]))
        ),
    ),
    (
        "scene labels that no scene has",
        "scene-labels-differ",
        case("f13", memory("种了两亩薰衣草", "projects", time_velocity="dynamic"), **scenes(["花田"], ("薰衣草", [0]))),
    ),
    (
        "a section that an earlier section takes the memory from",
        "section-impossible",
        case(
            "f14",
            memory("Knows Rust, used at work", "skills", dimensions=["skills", "identity"]),
            **sections(full={"0": "📚 技能学习"}),
        ),
    ),
    (
        "a section whose dimensions the memory lacks",
        "section-impossible",
        case("f15", one("style"), **sections(daily={"0": "👤 基本信息"})),
    ),
    (
        "a section whose least priority the memory lacks",
        "section-impossible",
        case("f16", memory("Speaks a little Welsh", "skills", priority=60), **sections(full={"0": "💼 职业背景"})),
    ),
    (
        "a shown memory without section truth",
        "section-unlabelled",
        case(
            "f17",
            memory("Wears size 47 boots", "identity"),
            memory("姑姑开茶馆", "family"),
            **sections(daily={"0": "👤 基本信息"}),
        ),
    ),
    (
        "an injection of what the mode never shows",
        "injection-impossible",
        case(
            "f18",
            memory("Plays darts with Ruth", "social"),
            expected_inject={"mode": "coding", "subsequent_conversation": "fix it", "referenced_memory_indices": [0]},
        ),
    ),
    (
        "messages that go back in time",
        "times-run-backwards",
        case(
            "f19",
            one("goals"),
            conversation=[
                {"id": "msg_1", "role": "user", "time": "2026-03-02T10:00:00Z", "content": SENTENCES["goals"][0]},
                {"id": "msg_2", "role": "user", "time": "2026-03-01T10:00:00Z", "content": "好的，就这么定"},
            ],
        ),
    ),
    (
        "a clock before the last message",
        "times-run-backwards",
        case(
            "f20",
            one("focus"),
            now="2026-01-01T00:00:00Z",
            conversation=[
                {"id": "msg_1", "role": "user", "time": "2026-03-02T10:00:00Z", "content": SENTENCES["focus"][0]},
            ],
        ),
    ),
    (
        "a query for nothing",
        "nothing-relevant",
        case("f21", one("projects"), expected_search_results=[{"query": "when?", "relevant": []}]),
    ),
    (
        "a threshold on a stage without a label",
        "expect-unlabelled",
        case("f26", memory("Sleeps on the balcony", "habits"), expect={"l15.action_accuracy": ">= 0.5"}),
    ),
    (
        "a threshold on what two stages give, and one is labelled",
        "expect-unlabelled",
        case(
            "f27", memory("Sells kites", "identity"), expect={"l2.profile_quality": ">= 0.5", "l1.memory_recall": "> 0"}
        ),
    ),
    ("a memory that leaves its priority out", "label-left-out", case("f22", one("tasks", priority=None))),
    (
        "a case without difficulty",
        "origin-left-out",
        case("f23", memory("Cuts her own hair", "habits"), difficulty=None),
    ),
    (
        "a phenomenon in one case only",
        "phenomenon-rare",
        case("f24", memory("Is no fan of opera", "preferences"), tags=["sarcasm"]),
    ),
    (
        "a conversation a second time",
        "same-case-twice",
        case("f25", memory("Cuts her own hair", "habits"), says="Cuts her own hair!"),
    ),
]
#: Faults of the set itself.
OF_THE_SET = [
    ("another number of cases", "", "meta.total_cases is 99"),
    ("a dimension never used", "dimension-unused", "dimension 'values' is in no labelled memory"),
]
#: Needs another registry than the shipped one; a test below has it.
ELSEWHERE = "templates-unfit"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> CaseSet:
    path = tmp_path_factory.mktemp("planted") / "planted.yaml"
    cases = [{key: value for key, value in entry.items() if value is not None} for _, _, entry in PLANTED]
    lines = ["meta: {total_cases: 99}", "cases:", *(f"  - {json.dumps(entry, ensure_ascii=False)}" for entry in cases)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    case_set = load_case_set(path)
    assert case_set.problems == ()
    assert [problem for entry in case_set.cases for problem in entry.problems] == []
    return case_set


def test_at_least_twenty_faults_are_planted() -> None:
    assert len(PLANTED) + len(OF_THE_SET) >= 20
    assert {rule for _, rule, _ in PLANTED} | {rule for _, rule, _ in OF_THE_SET} == (
        {"", *RULES, "actions-missing"} - {ELSEWHERE}
    )


@pytest.mark.parametrize(("fault", "rule", "entry"), PLANTED, ids=[fault.replace(" ", "-") for fault, _, _ in PLANTED])
def test_every_planted_fault_is_found_and_named(planted: CaseSet, fault: str, rule: str, entry: dict[str, Any]) -> None:
    case_id = entry["case_id"]
    line = next(found.line for found in planted.cases if found.case_id == case_id)
    if rule:
        at_the_line = [found for found in review(planted) if found.problem.line == line]
        assert [(found.rule, found.problem.case_id) for found in at_the_line] == [
            (rule, None if rule == "phenomenon-rare" else case_id)
        ]
    else:
        assert [warning.line for warning in planted.warnings if warning.case_id == case_id] == [line]
        assert "msg_9" in str(planted.warnings[1])


@pytest.mark.parametrize(("fault", "rule", "message"), OF_THE_SET)
def test_every_planted_fault_of_the_set_is_found(planted: CaseSet, fault: str, rule: str, message: str) -> None:
    found = [str(one) for one in (review(planted) if rule else planted.warnings)]
    assert [text for text in found if message in text and rule in text]


def test_nothing_but_the_planted_faults_is_found(planted: CaseSet) -> None:
    assert len(review(planted)) == len([rule for _, rule, _ in [*PLANTED, *OF_THE_SET] if rule])


def test_the_shipped_sample_needs_no_word() -> None:
    assert review(load_case_set(SHIPPED / "v001_sample.yaml")) == ()


def test_own_phenomena_replace_the_known_ones(planted: CaseSet) -> None:
    meta = replace(planted.meta, extra={"phenomena": ["stutter"]})
    found = [one.problem.message for one in review(replace(planted, meta=meta)) if one.rule == "phenomenon-rare"]
    assert found == ["0 cases have the tag 'stutter': a difficult phenomenon needs at least 3 to tell anything"]


def test_a_small_file_need_not_cover_anything(planted: CaseSet) -> None:
    few = replace(planted, cases=planted.cases[:5])
    assert not {"dimension-unused", "phenomenon-rare"} & {one.rule for one in review(few)}


def test_without_registry_and_templates_their_rules_are_silent(planted: CaseSet) -> None:
    bare = review(replace(planted, registry=None, templates=None))
    silent = {
        "velocity-differs",
        "dimension-unused",
        "section-impossible",
        "section-unlabelled",
        "injection-impossible",
    }
    assert not silent & {one.rule for one in bare}
    assert bare


# -- sections by pure logic


@dataclass(frozen=True)
class Section:
    """A section as the tests write it."""

    id: str
    dimensions: tuple[str, ...]
    more: dict[str, Any] = field(default_factory=dict)

    def spec(self) -> SectionSpec:
        return SectionSpec(self.id, self.id, SectionQuery(self.dimensions, **self.more))


def template(*parts: Section, exclusive: bool = True) -> Template:
    return Template("t", exclusive=exclusive, sections=tuple(part.spec() for part in parts))


def places(made: Template, found: GtMemory, **options: Any) -> tuple[str, ...]:
    return possible_sections(made, found, **{"memories": 1, **options}).sections


def test_an_exclusive_section_ends_the_search_and_a_shared_one_does_not() -> None:
    parts = (Section("a", ("goals",)), Section("b", ("tasks",)))
    both = GtMemory("x", ("tasks", "goals"))
    assert places(template(*parts), both) == ("a",)
    assert places(template(*parts, exclusive=False), both) == ("a", "b")


def test_what_is_not_known_may_go_either_way() -> None:
    parts = (Section("a", ("goals",), {"priority_min": 70}), Section("b", ("goals",)))
    assert places(template(*parts), GtMemory("x", ("goals",))) == ("a", "b")
    assert places(template(*parts), GtMemory("x", ("goals",), priority=70)) == ("a",)
    assert places(template(*parts), GtMemory("x", ("goals",), priority=69.9)) == ("b",)


def test_a_limit_may_push_a_memory_on() -> None:
    parts = (Section("a", ("goals",), {"limit": 2}), Section("b", ("goals",)))
    assert places(template(*parts), GtMemory("x", ("goals",)), memories=2) == ("a",)
    assert places(template(*parts), GtMemory("x", ("goals",)), memories=3) == ("a", "b")


def test_windows_and_ttl_need_an_age() -> None:
    registry = load_registry()
    parts = (
        Section("window", ("status",), {"time_window": timedelta(days=2)}),
        Section("ttl", ("status",), {"ttl_filter": True}),
        Section("rest", ("status",)),
    )
    found = GtMemory("x", ("status",))
    assert places(template(*parts), found, registry=registry) == ("window", "ttl", "rest")
    for days, place in ((1, "window"), (3, "ttl"), (15, "rest")):
        assert places(template(*parts), found, registry=registry, age=timedelta(days=days)) == (place,)


@given(
    st.lists(st.sampled_from(load_registry().ids), min_size=1, max_size=3, unique=True),
    st.integers(0, 100),
    st.sampled_from(["daily", "coding", "work", "full"]),
)
def test_the_logic_agrees_with_the_reference_engines_sql(labels: list[str], priority: int, mode: str) -> None:
    """A fresh memory alone in a store: the section that the template's SQL finds is the one that the rules predict."""
    import sqlite3
    from datetime import UTC, datetime

    from pytest_memeval.engine.reference.template_query import section_sql

    made = load_templates().modes[mode]
    clock = datetime(2026, 1, 1, tzinfo=UTC)
    store = sqlite3.connect(":memory:")
    store.execute("CREATE TABLE memories (id, priority, created_at, status)")
    store.execute("CREATE TABLE memory_tags (memory_id, dimension)")
    store.execute("INSERT INTO memories VALUES ('m', ?, '2026-01-01T00:00:00.000000+00:00', 'active')", (priority,))
    store.executemany("INSERT INTO memory_tags VALUES ('m', ?)", [(label,) for label in labels])
    shown = [
        section.id
        for section in made.sections
        if store.execute(*section_sql(section.query, load_registry(), clock, [])).fetchall()
    ][:1]
    predicted = possible_sections(
        made, GtMemory("x", tuple(labels), priority=priority), memories=1, age=timedelta(0), registry=load_registry()
    )
    assert list(predicted.sections) == shown
    assert predicted.sure == bool(shown)


# -- near-duplicate conversations of large sets


def conversations(count: int, length: int = 60, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 8))) for _ in range(5000)]
    return [" ".join(draw.choices(words, k=length)) for _ in range(count)]


def case_set_of(texts: list[str]) -> CaseSet:
    cases = [
        EvalCase(f"c{number}", conversation=(Message("msg_1", "user", text),), line=number + 1)
        for number, text in enumerate(texts)
    ]
    return CaseSet(Path("large.yaml"), cases=tuple(cases))


def changed(text: str, share: float, seed: int) -> str:
    """``text`` with this share of its words replaced."""
    draw = random.Random(seed)
    return " ".join("changed" if draw.random() < share else word for word in text.split())


def test_near_duplicates_are_found_among_many_and_what_was_skipped_is_said() -> None:
    texts = conversations(ALL_PAIRS_UP_TO + 100)
    copies = [changed(texts[number], 0.15, number) for number in range(20)]
    found = list(same_case_twice(case_set_of([*texts, *copies])))
    assert [one.problem.case_id for one in found if one.level == "warning"] == [
        f"c{len(texts) + number}" for number in range(20)
    ]
    assert [one.level for one in found if one.level != "warning"] == ["note"]
    assert "may have been missed" in found[-1].problem.message


def test_few_conversations_are_all_compared() -> None:
    texts = conversations(30, length=20)
    found = list(same_case_twice(case_set_of([*texts, changed(texts[3], 0.1, 1)])))
    assert [(one.level, one.problem.case_id) for one in found] == [("warning", "c30")]
    assert "case 'c3' in line 4" in found[0].problem.message


def test_many_copies_of_one_conversation_are_one_finding() -> None:
    texts = conversations(10, length=20)
    copies = [texts[3] + " " + "x" * number for number in range(20)]
    found = [one.problem for one in same_case_twice(case_set_of([*texts, *copies, texts[5]]))]
    assert [problem.case_id for problem in found] == ["c29", "c30"]
    assert found[0].message.startswith(
        "its conversation is nearly that of case 'c3' in line 4, 'c10' in line 11, 'c11' in line 12, "
    )
    assert " more (similarity from 0.9" in found[0].message
    assert "case 'c5' in line 6" in found[1].message


def test_cases_that_are_alike_through_a_third_are_one_group() -> None:
    a, b = "a" * 60 + "b" * 40, "a" * 20 + "b" * 80
    middle = "a" * 40 + "b" * 60
    found = [one.problem for one in same_case_twice(case_set_of([a, b, "z" * 100, middle]))]
    assert [(problem.line, problem.case_id) for problem in found] == [(4, "c3")]
    assert "case 'c0' in line 1, 'c1' in line 2 (similarity from 0.80)" in found[0].message


def test_ten_thousand_cases_are_compared_in_seconds() -> None:
    texts = conversations(10_000)
    case_set = case_set_of([*texts, texts[17]])
    start = time.process_time()
    found = list(same_case_twice(case_set))
    assert time.process_time() - start < 30
    assert [one.problem.case_id for one in found if one.level == "warning"] == ["c10000"]


@given(st.lists(st.text("ab好 ", min_size=1, max_size=12), min_size=2, max_size=6))
def test_exact_copies_are_always_candidates(texts: list[str]) -> None:
    pairs = set(candidate_pairs(texts))
    for later in range(len(texts)):
        copies = [earlier for earlier in range(later) if texts[earlier] == texts[later]]
        assert not copies or (copies[0], later) in pairs
    assert all(earlier < later for earlier, later in pairs)
    assert 0 < SAME_CASE < 1


@pytest.mark.parametrize(
    ("truths", "found"),
    [
        ({}, 0),
        ({"expected_l2": {"scene_labels": ["Soup"]}}, 0),
        ({"expected_l2": {"template_section": {"daily": {"0": "💡 偏好与风格"}}}}, 1),
        ({"expected_inject": {"mode": "daily", "subsequent_conversation": "hi", "referenced_memory_indices": [0]}}, 1),
    ],
)
def test_templates_of_another_registry_are_told_once_where_something_needs_them(
    tmp_path: Path, truths: dict[str, Any], found: int
) -> None:
    (tmp_path / "own.yaml").write_text("dimensions: [{id: food}, {id: preferences}]\n", encoding="utf-8")
    label = {"content": "eats soup", "dimensions": ["food"], "memory_type": "persona"}
    entries = [
        {"case_id": case_id, "conversation": f"I eat soup {case_id}", "expected_l1": {"memories": [label]}, **truths}
        for case_id in ("a", "b")
    ]
    path = tmp_path / "x.yaml"
    path.write_text(json.dumps({"meta": {"registry": "own.yaml"}, "cases": entries}, ensure_ascii=False), "utf-8")
    case_set = load_case_set(path)
    assert case_set.problems == ()
    told = [one for one in review(case_set) if one.rule == ELSEWHERE]
    assert len(told) == found
    assert all("own.yaml lacks dimensions that the shipped templates name (identity, " in str(one) for one in told)
    # Where the templates do not fit, nothing is said of what they would show.
    assert not found or not [one for one in review(case_set) if one.rule.startswith(("section", "injection"))]


@pytest.mark.parametrize(
    ("metric", "lacking"),
    [
        ("l1.memory_recall", None),
        ("metrics.own", None),
        ("l15.action_accuracy", "l15"),
        ("l2.scene_grouping_f1", "l2"),
        ("l2.section_hit_rate", "template"),
        ("l2.profile_quality", "template"),
        ("inject.reference_coverage", "inject"),
        ("search.ndcg@10", "search"),
    ],
)
def test_a_threshold_that_no_engine_can_meet_is_told(tmp_path: Path, metric: str, lacking: str | None) -> None:
    path = tmp_path / "x.yaml"
    entry = case("a", one("identity"), expect={metric: ">= 0.5"}, expected_l15={"actions": []})
    path.write_text(json.dumps({"cases": [entry]}), encoding="utf-8")
    found = [one.problem.message for one in review(load_case_set(path)) if one.rule == "expect-unlabelled"]
    said = f"expect names {metric}, and the case has no label for {lacking}"
    assert found == ([] if lacking is None else [said])
