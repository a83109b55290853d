"""Control answers: right ones are right, wrong ones are wrong, and they are spread as the questions are."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_memeval.judge.alteration import altered, unlike
from pytest_memeval.judge.controls import (
    RIGHT,
    RIGHT_VARIANTS,
    WRONG,
    WRONG_VARIANTS,
    ControlQuestion,
    make_controls,
)
from pytest_memeval.judge.refusal import is_unanswerable

NOUNS = (
    "beagle",
    "Lisbon",
    "violin",
    "marathon",
    "sourdough",
    "chess",
    "Norway",
    "lantern",
    "falcon",
    "pottery",
    "cinema",
    "opal",
)


def questions(count: int, kind: str = "multi_session", start: int = 0) -> list[ControlQuestion]:
    return [
        ControlQuestion(f"{kind}-{n}", kind, f"What of {kind} {n}?", f"{NOUNS[n % 12]} {chr(97 + n) * 4}")
        for n in range(start, start + count)
    ]


def test_each_kind_and_variant_is_drawn() -> None:
    found = make_controls(questions(12), 12)
    assert Counter(c.kind for c in found.controls) == {RIGHT: 12, WRONG: 12}
    assert {c.variant for c in found.controls if c.kind == RIGHT} == set(RIGHT_VARIANTS)
    assert {c.variant for c in found.controls if c.kind == WRONG} == set(WRONG_VARIANTS)
    for control in found.controls:
        if control.kind == RIGHT:
            assert control.truth in control.prediction
        else:
            assert control.truth not in control.prediction
    # A question is not used twice while others are unused.
    assert max(Counter((c.kind, c.question_id) for c in found.controls).values()) == 1


def test_types_have_their_share_and_at_least_one() -> None:
    mixed = [*questions(9, "multi_hop"), *questions(3, "temporal"), *questions(1, "open_domain", 11)]
    found = make_controls(mixed, 6)
    counts = Counter(c.question_type for c in found.controls if c.kind == RIGHT)
    assert counts == {"multi_hop": 4, "temporal": 1, "open_domain": 1}
    assert sum(Counter(c.question_type for c in make_controls(mixed, 1).controls).values()) == 2


def test_questions_are_used_again_in_other_variants_when_they_run_out() -> None:
    found = make_controls(questions(4), 100)
    right = [c for c in found.controls if c.kind == RIGHT]
    assert len(right) == 4 * len(RIGHT_VARIANTS)
    assert len({(c.question_id, c.variant) for c in right}) == len(right)


def test_the_same_seed_gives_the_same_controls_in_any_order() -> None:
    rows = [*questions(9, "multi_hop"), *questions(5, "temporal")]
    assert make_controls(rows, 8).controls == make_controls(rows[::-1], 8).controls
    assert make_controls(rows, 8).controls != make_controls(rows, 8, seed=1).controls


def test_what_cannot_be_controlled_is_counted() -> None:
    rows = [
        *questions(3),
        ControlQuestion("a", "adversarial", "q", ""),
        ControlQuestion("p", "single_session_preference", "q", "would prefer tea"),
        ControlQuestion("e", "single_hop", "q", " "),
        ControlQuestion("r", "single_hop", "q", "Not mentioned."),
    ]
    found = make_controls(rows, 3)
    assert found.skipped == {"judged by rule": 1, "no truth": 2, "the truth is a rubric": 1}
    assert {c.question_type for c in found.controls} == {"multi_session"}
    assert make_controls(rows[3:], 5).controls == ()
    with pytest.raises(ValueError, match="at least 1"):
        make_controls(rows, 0)


def test_abstention_is_right_to_refuse() -> None:
    rows = [*questions(4), ControlQuestion("x_abs", "multi_session", "她的猫叫什么?", "没有提到猫")]
    found = [c for c in make_controls(rows, 10).controls if c.mode == "abstention"]
    assert {c.kind for c in found} == {RIGHT, WRONG}
    for control in found:
        assert is_unanswerable(control.prediction) is (control.kind == RIGHT)


def test_a_lone_question_has_no_other_truth() -> None:
    found = make_controls(questions(1), 10)
    assert {c.variant for c in found.controls if c.kind == WRONG} == {"vague"}


@pytest.mark.parametrize("truth", ["7 May 2023", "3", "Monday", "2022", "Yes", "12 years", "In June"])
def test_an_altered_answer_says_something_else(truth: str) -> None:
    for seed in range(30):
        changed = altered(truth, random.Random(seed))
        assert changed is not None
        assert changed != truth


def test_a_count_moves_by_more_than_one() -> None:
    for number in range(60):
        changed = altered(str(number), random.Random(number))
        assert changed is not None
        assert abs(int(changed) - number) > 1


@pytest.mark.parametrize("truth", ["a beagle", "her red bike with 2 baskets and a bell", "", "版本"])
def test_what_would_be_right_in_part_is_not_altered(truth: str) -> None:
    assert altered(truth, random.Random(0)) is None


@pytest.mark.parametrize(
    ("truth", "other", "different"),
    [
        ("Paris", "Rome", True), ("Paris", "paris, France", False), ("two red dogs", "red dogs", False),
        ("Yes, she does", "Yes, often", False), ("", "Rome", False), ("the", "an", False), ("深圳", "上海", True),
    ],
)  # fmt: skip
def test_unlike(truth: str, other: str, different: bool) -> None:
    assert unlike(truth, other) is different


def test_an_answer_out_of_the_questions_words_might_fit_it() -> None:
    assert not unlike("tea", "coffee", "Does she like tea or coffee?")


@given(
    st.lists(st.tuples(st.sampled_from(["multi_hop", "temporal", "x"]), st.text(max_size=20)), max_size=20),
    st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_any_questions_make_no_more_than_wanted(rows: list[tuple[str, str]], wanted: int) -> None:
    made = [ControlQuestion(f"q{n}", kind, f"question {n}", truth) for n, (kind, truth) in enumerate(rows)]
    found = make_controls(made, wanted)
    counts = Counter(c.kind for c in found.controls)
    assert counts[RIGHT] <= wanted
    assert counts[WRONG] <= wanted
    assert all(c.prediction for c in found.controls)
