from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.agreement import AgreementError, LabelledCase, compare, labelled_twice
from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.cases.models import CaseSet, GtMemory, L1GroundTruth
from pytest_memeval.cli.main import main
from pytest_memeval.metrics.kappa import NO_UNITS, SAME_ANSWER

DIMENSIONS = ("identity", "skills", "tasks")
CONTENTS = ("keeps bees on the roof", "在深圳做后端开发", "Return the drill by Monday", "最讨厌香菜", "is 34")


def gt(content: str, *dimensions: str, **labels: Any) -> GtMemory:
    return GtMemory(content, dimensions or ("identity",), **labels)


def pair(case_id: str, one: list[GtMemory], two: list[GtMemory]) -> LabelledCase:
    return LabelledCase(case_id, L1GroundTruth(tuple(one)), L1GroundTruth(tuple(two)), Path("a.yaml"), Path("b.yaml"))


def test_equal_labellings_agree_wholly() -> None:
    memories = [gt(CONTENTS[0], "skills", priority=80.0), gt(CONTENTS[2], "tasks", priority=60.0)]
    found = compare([pair(f"c{n}", memories, memories) for n in range(6)], DIMENSIONS)
    assert (found.cases, found.memories, found.matched) == (6, (12, 12), 12)
    assert found.matched_of_one.value == found.matched_of_two.value == found.same_dimensions.value == 1.0
    assert found.overall.value == found.dimensions["skills"].value == 1.0
    assert (found.priority_mae.value, found.priority_correlation) == (0.0, pytest.approx(1.0))
    assert found.disagreements == ()


def test_kappa_of_a_dimension_is_over_matched_memories() -> None:
    cases = [
        pair("a", [gt(CONTENTS[0], "skills")], [gt(CONTENTS[0], "skills")]),
        pair("b", [gt(CONTENTS[1], "skills")], [gt(CONTENTS[1], "tasks")]),
        pair("c", [gt(CONTENTS[2], "tasks")], [gt(CONTENTS[2], "tasks")]),
        # without a partner: no unit of any kappa
        pair("d", [gt("has a boat", "skills")], []),
    ]
    found = compare(cases, DIMENSIONS)
    # skills: both yes, first only, both no: p = 2/3, e = (2·1 + 1·2)/9
    assert found.dimensions["skills"].value == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))
    assert found.dimensions["skills"].units == 3
    assert found.overall.units == 9
    assert (found.dimensions["identity"].value, found.dimensions["identity"].reason) == (None, SAME_ANSWER)
    assert found.matched_of_one.value == 0.75
    assert found.matched_of_two.value == 1.0


def test_type_velocity_and_priority_are_of_pairs_that_both_label() -> None:
    cases = [
        pair(
            "a",
            [gt(CONTENTS[0], memory_type="persona", priority=80.0), gt(CONTENTS[2], memory_type="episodic")],
            [
                gt(CONTENTS[0], memory_type="persona", priority=65.0),
                gt(CONTENTS[2], memory_type="persona", priority=9.0),
            ],
        )
    ]
    found = compare(cases, DIMENSIONS)
    assert (found.memory_type.units, found.memory_type.agreement) == (2, 0.5)
    assert (found.time_velocity.value, found.time_velocity.reason) == (None, NO_UNITS)
    assert (found.priority_mae.value, found.priority_within.value) == (15.0, 0.0)
    assert found.priority_correlation is None


def test_no_overlap_in_texts_leaves_nothing_to_compare() -> None:
    found = compare([pair("a", [gt("keeps bees")], [gt("最讨厌香菜")])], DIMENSIONS)
    assert found.matched == 0
    assert (found.overall.value, found.overall.reason) == (None, NO_UNITS)
    assert found.priority_mae.value is None
    assert [problem.message.split(" has ")[0] for problem in found.disagreements] == [
        "only the first labelling",
        "only the second labelling",
    ]


def test_cases_in_which_nothing_is_worth_keeping_count_as_cases() -> None:
    found = compare([pair("a", [], []), pair("b", [gt(CONTENTS[0])], [gt(CONTENTS[0])])], DIMENSIONS)
    assert (found.cases, found.matched_of_one.value) == (2, 1.0)


def test_disagreements_name_both_places() -> None:
    one = [gt(CONTENTS[0], "skills", time_velocity="static", priority=90.0, line=7)]
    two = [gt(CONTENTS[0], "skills", "identity", time_velocity="dynamic", priority=70.0, line=19)]
    found = compare([pair("a", one, two)], DIMENSIONS)
    where = "“keeps bees on the roof” (second: b.yaml:19)"
    assert [str(problem) for problem in found.disagreements] == [
        f"a.yaml:7: [a] dimensions {{skills}} against {{identity, skills}}: {where}",
        f"a.yaml:7: [a] time_velocity static against dynamic: {where}",
        f"a.yaml:7: [a] priority 90 against 70: {where}",
    ]


def test_a_memory_without_a_partner_is_shown_beside_the_nearest() -> None:
    found = compare([pair("a", [gt("在深圳做后端开发")], [gt("后端，人在深圳")])], DIMENSIONS)
    assert "nearest there: “后端，人在深圳”" in found.disagreements[0].message


memories = st.lists(
    st.builds(
        GtMemory,
        st.sampled_from(CONTENTS),
        st.lists(st.sampled_from(DIMENSIONS), min_size=1, max_size=2, unique=True).map(tuple),
        st.sampled_from([None, "persona", "episodic"]),
        st.sampled_from([None, 10.0, 55.0, 90.0]),
    ),
    max_size=4,
    unique_by=lambda memory: memory.content,
)


@given(st.lists(st.tuples(memories, memories), min_size=1, max_size=6))
def test_turning_the_labellings_round_changes_no_figure(cases: list[tuple[list[GtMemory], list[GtMemory]]]) -> None:
    there = compare([pair(f"c{n}", one, two) for n, (one, two) in enumerate(cases)], DIMENSIONS, resamples=20)
    back = compare([pair(f"c{n}", two, one) for n, (one, two) in enumerate(cases)], DIMENSIONS, resamples=20)
    assert there.overall == back.overall
    assert there.dimensions == back.dimensions
    assert there.memory_type == back.memory_type
    assert there.priority_mae == back.priority_mae
    assert there.matched_of_one == back.matched_of_two
    assert json.loads(json.dumps(there.as_dict(), allow_nan=False))["cases"] == len(cases)


@given(st.permutations(range(6)))
def test_the_order_of_cases_does_not_matter(order: list[int]) -> None:
    cases = [
        pair(f"c{n}", [gt(CONTENTS[n % 5], DIMENSIONS[n % 3])], [gt(CONTENTS[n % 5], DIMENSIONS[n % 2])])
        for n in range(6)
    ]
    assert compare([cases[n] for n in order], DIMENSIONS, resamples=30) == compare(cases, DIMENSIONS, resamples=30)


# -- files

CASE = """\
  - case_id: {case_id}
    conversation: "[msg#1] user: {content}"
    expected_l1: {{memories: [{{content: {content}, dimensions: [{dimension}]}}]}}
"""
SECOND = "    annotations: {{{name}: {{memories: [{{content: {content}, dimensions: [{dimension}]}}]}}}}\n"


def file(path: Path, *cases: str, meta: str = "") -> Path:
    path.write_text(f"{meta}cases:\n" + "".join(cases), encoding="utf-8")
    return path


def entry(case_id: str, dimension: str = "habits", content: str = "keeps bees") -> str:
    return CASE.format(case_id=case_id, content=content, dimension=dimension)


def second(name: str, dimension: str = "habits", content: str = "keeps bees") -> str:
    return SECOND.format(name=name, content=content, dimension=dimension)


def loaded(path: Path) -> CaseSet:
    case_set = load_case_set(path)
    assert case_set.problems == ()
    return case_set


def test_two_files_are_compared_in_the_cases_that_both_have(tmp_path: Path) -> None:
    one = loaded(file(tmp_path / "a.yaml", entry("x"), entry("only-a")))
    two = loaded(file(tmp_path / "b.yaml", entry("x"), entry("only-b")))
    cases, only_one, only_two = labelled_twice(one, two, None)
    assert ([case.case_id for case in cases], only_one, only_two) == (["x"], ("only-a",), ("only-b",))


def test_one_file_is_compared_with_its_annotator(tmp_path: Path) -> None:
    one = loaded(file(tmp_path / "a.yaml", entry("x") + second("mo"), entry("y") + second("li"), entry("z")))
    cases, only_one, _ = labelled_twice(one, None, "mo")
    assert ([case.case_id for case in cases], only_one) == (["x"], ())
    with pytest.raises(AgreementError, match="several annotators \\(li, mo\\); choose with --annotator"):
        labelled_twice(one, None, None)
    with pytest.raises(AgreementError, match="no annotator 'mi'; known: li, mo"):
        labelled_twice(one, None, "mi")


def test_what_cannot_be_compared_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = file(tmp_path / "a.yaml", entry("x")), file(tmp_path / "b.yaml", entry("y"))
    assert main(["agreement", str(a)]) == 2
    assert "no case has 'annotations'; name a second file" in capsys.readouterr().err
    assert main(["agreement", str(a), str(b)]) == 2
    assert "no case is labelled in both" in capsys.readouterr().err
    assert main(["agreement", str(a), str(a), "--matcher", "indle"]) == 2
    assert "unknown matcher 'indle'; did you mean 'indel'?" in capsys.readouterr().err
    bad = file(tmp_path / "bad.yaml", entry("x", dimension="habit5"))
    assert main(["agreement", str(a), str(bad)]) == 2
    assert "unknown dimension 'habit5'" in capsys.readouterr().err


def test_the_target_is_shown_and_not_enforced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [entry(f"c{n}") + second("mo", "skills" if n % 2 else "habits") for n in range(6)]
    assert main(["agreement", str(file(tmp_path / "a.yaml", *cases))]) == 0
    output = capsys.readouterr().out
    assert "6 cases, 6 and 6 memories, 6 matched: 1.00 of the first's, 1.00 of the second's" in output
    assert "target for all dimensions 0.85: not reached" in output
    assert "to settle: 3 disagreements" in output
    assert "a.yaml:8: [c1] dimensions {habits} against {skills}" in output
    assert "not independent" not in output


def test_labellings_of_one_author_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [entry("c") + second("mo")]
    path = file(tmp_path / "a.yaml", *cases)
    assert main(["agreement", str(path), "--not-independent"]) == 0
    assert "not independent: one author or model made both" in capsys.readouterr().out
    noted = file(tmp_path / "b.yaml", *cases, meta="meta: {annotations_note: one model wrote both}\n")
    assert main(["agreement", str(noted)]) == 0
    assert "not independent: one model wrote both" in capsys.readouterr().out
    assert main(["agreement", str(noted), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["independent"] is False


def test_json_is_strict_and_has_null_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(tmp_path / "a.yaml", entry("c") + second("mo"))
    assert main(["agreement", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["per_dimension"]["skills"] == {
        "kappa": None,
        "interval": None,
        "agreement": 1.0,
        "units": 1,
        "cases": 1,
        "reason": SAME_ANSWER,
    }
    assert report["dimension_kappa"]["kappa"] == 1.0
    assert report["memories"]["matched"] == 1
    assert report["target"] == 0.85
    assert report["independent"] is None
