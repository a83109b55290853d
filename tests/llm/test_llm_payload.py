from __future__ import annotations

import contextlib
import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.llm.payload import PayloadError, as_items, has_lone_surrogate, parse_payload

ITEM = {"content": "drinks tea"}
LIST = json.dumps([ITEM])


def fenced(body: str, info: str = "json") -> str:
    return f"```{info}\n{body}\n```"


# --- reasoning blocks (F06) ---------------------------------------------------------------------------------------


def test_f06_the_payload_follows_the_reasoning_block() -> None:
    assert parse_payload(f'<think>maybe [{{"content":"x"}}]</think>{LIST}') == [ITEM]


def test_f06_only_a_closing_tag() -> None:
    assert parse_payload(f'maybe [{{"content":"x"}}] or not</think>\n{LIST}') == [ITEM]


def test_f06_a_closing_tag_inside_what_looks_like_json_before_it() -> None:
    assert parse_payload(f'I could say ["a or so </think>{LIST}') == [ITEM]


@pytest.mark.parametrize("text", [f"<think>maybe {LIST}", f"Sure. <thinking>hm {LIST}", f"{LIST} <think> and more"])
def test_f06_a_block_that_is_never_closed_is_an_error(text: str) -> None:
    with pytest.raises(PayloadError, match="never closed"):
        parse_payload(text)


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<think>a</think>"])
@pytest.mark.parametrize("frame", ["{}", "```json\n{}\n```", "<think>hm [1]</think>Here: {} done", "hm</think>{}"])
def test_f06_a_tag_inside_a_fact_is_text(tag: str, frame: str) -> None:
    payload = [{"content": f"writes {tag} in prompts"}]
    assert parse_payload(frame.replace("{}", json.dumps(payload))) == payload


def test_f06_tags_in_another_case_and_two_blocks() -> None:
    assert parse_payload(f"<THINK>a</THINK>\n<reasoning>[2]</reasoning>{LIST}") == [ITEM]


# --- fences, prose, commas (F07) ----------------------------------------------------------------------------------


def test_f07_braces_in_the_prose_around_a_fenced_list() -> None:
    assert parse_payload(f"Using {{facts}}:\n{fenced(LIST)}\nDone [end]") == [ITEM]


@pytest.mark.parametrize(
    "text",
    ['[{"content": "a",},]', '{"content": "a",}', '[{"content": "a"} ,\n ]', 'Sure:\n[{"content": "a",},] done'],
)
def test_f07_a_real_trailing_comma(text: str) -> None:
    payload = parse_payload(text)
    assert as_items(payload, "memories") == [{"content": "a"}]


@pytest.mark.parametrize("tail", ["", ","])
@pytest.mark.parametrize("frame", ["{}", "Here {{x}} it is: {} [end]", "```\n{}\n```"])
def test_f07_a_comma_before_a_bracket_inside_a_string_stays(frame: str, tail: str) -> None:
    text = frame.replace("{}", '[{"content": "pens, ink,] paper"' + tail + "}]")
    assert parse_payload(text) == [{"content": "pens, ink,] paper"}]


def test_f07_strict_json_is_taken_as_it_is() -> None:
    text = '["```json [1] ```", "<think>", ",]"]'
    assert parse_payload(text) == ["```json [1] ```", "<think>", ",]"]


@pytest.mark.parametrize("text", ["[,]", "[1,,]", '{"a":,}', "{,}"])
def test_commas_without_an_element_are_not_repaired(text: str) -> None:
    with pytest.raises(PayloadError):
        parse_payload(text)


# --- which payload ------------------------------------------------------------------------------------------------


def test_foot_notes_are_not_the_payload() -> None:
    assert parse_payload(f"From [1] and [2, 3]: {LIST} as said in [4].") == [ITEM]


def test_the_last_of_two_similar_lists_is_the_final_one() -> None:
    assert parse_payload(f'Draft: [{{"content":"draft of it"}}] and finally: {LIST}') == [ITEM]


def test_a_short_remark_after_the_payload_is_not_the_payload() -> None:
    payload = [{"content": f"fact number {index}"} for index in range(5)]
    assert parse_payload(json.dumps(payload) + ' I left out {"content": "hm"}.') == payload


def test_a_fenced_payload_goes_before_a_bare_one() -> None:
    assert parse_payload(f'{fenced(LIST)}\nThe form was [{{"content": "…", "dimensions": ["…"]}}]') == [ITEM]


def test_an_empty_list_in_prose_is_a_payload() -> None:
    assert parse_payload("Nothing is worth keeping, see [3]: []") == []


@pytest.mark.parametrize(
    "text",
    [
        'Example: [{"content":"ex"}]. My answer: []',
        f"{LIST}\nOn reflection none of it lasts:\n{fenced('[]')}",
        f"First {fenced(LIST)} but then {fenced('[]')}",
    ],
)
def test_an_empty_list_behind_others_is_the_answer(text: str) -> None:
    assert parse_payload(text) == []


def test_a_bare_empty_list_behind_a_fenced_payload_is_prose() -> None:
    assert parse_payload(f"{fenced(LIST)}\nLeft out: []") == [ITEM]


@pytest.mark.parametrize("frame", ["{}", "Here:\n{}\nDone", "```json\n{}\n```"])
@pytest.mark.parametrize("between", ["\n", "", "  \n\n"])
def test_lists_that_follow_one_another_are_several_answers(frame: str, between: str) -> None:
    other = '[{"content": "has a dog"}, {"content": "is called Ann and lives in Lyon"}]'
    for text in (f"{LIST}{between}{other}", f"{other}{between}{LIST}"):
        with pytest.raises(PayloadError, match="several answers"):
            parse_payload(frame.replace("{}", text))


def test_the_same_list_twice_is_one_answer() -> None:
    assert parse_payload(f"{LIST}\n{LIST}") == [ITEM]


def test_objects_one_a_line_are_a_list() -> None:
    assert parse_payload('Here:\n{"content": "a"}\n{"content": "b"},\n{"content": "c"}\nDone') == [
        {"content": "a"},
        {"content": "b"},
        {"content": "c"},
    ]


@pytest.mark.parametrize(
    "text",
    [
        '[{"content": "a"}, {"content": "b"}, {"cont',  # cut off
        'Here: [{"content": "a"}, {"content": "b"}',
        '[{"content": "a"}, {"content": b}, {"content": "c"}]',  # broken in the middle
    ],
)
def test_the_healthy_parts_of_a_broken_list_are_not_the_answer(text: str) -> None:
    with pytest.raises(PayloadError, match="broken"):
        parse_payload(text)


def test_times_and_links_in_prose_do_not_hide_the_payload() -> None:
    assert parse_payload(f"[12:30] see [[wiki]] and {{a: 1}} or [1, 2 and 3]: {LIST}") == [ITEM]


def test_raw_line_breaks_inside_a_string_pass() -> None:
    assert parse_payload('[{"content": "one\ntwo"}]') == [{"content": "one\ntwo"}]


def test_byte_order_mark_and_white_space() -> None:
    assert parse_payload("\ufeff \n" + LIST + "\n") == [ITEM]


def test_numbers_that_json_lacks_are_null() -> None:
    assert parse_payload('[{"priority": NaN}, {"priority": -Infinity}]') == [{"priority": None}, {"priority": None}]


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff", "I found nothing.", "{facts}", "```\n```", "[end]"])
def test_no_json_is_an_error(text: str) -> None:
    with pytest.raises(PayloadError):
        parse_payload(text)


# --- items (F08) --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "items"),
    [
        ([], []),
        ([ITEM], [ITEM]),
        (ITEM, [ITEM]),
        ({"memories": [ITEM, ITEM]}, [ITEM, ITEM]),
        ({"memories": []}, []),
        ({"memories": ITEM}, [ITEM]),
        ({"memories": [ITEM], "note": "x"}, [ITEM]),
        ({"results": [ITEM]}, [ITEM]),
        ({"dimensions": []}, [{"dimensions": []}]),
        ({}, [{}]),
        ([ITEM, "text"], [ITEM, "text"]),
    ],
)
def test_f08_documented_shapes(payload: Any, items: list[Any]) -> None:
    assert as_items(payload, "memories") == items


@pytest.mark.parametrize(
    "payload",
    [
        None,
        3,
        True,
        "text",
        ["a", "b"],
        [None],
        [[ITEM]],
        {"memories": None},
        {"memories": "none"},
        {"memories": ["a"]},
    ],
)
def test_f08_other_shapes_are_errors(payload: Any) -> None:
    with pytest.raises(PayloadError):
        as_items(payload, "memories")


@pytest.mark.parametrize(
    ("value", "lone"),
    [
        ("\ud83d", True),
        ("\U0001f600", False),
        ([{"a": ["\udc00"]}], True),
        ({"\ud800": 1}, True),
        ([{"a": "b"}, None, 1.5], False),
    ],
)
def test_lone_surrogates_are_found_anywhere(value: Any, lone: bool) -> None:
    assert has_lone_surrogate(value) is lone


def test_an_escaped_pair_is_one_character() -> None:
    assert parse_payload('["\\ud83d\\ude00"]') == ["\U0001f600"]


# --- properties ---------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
containers = values.filter(lambda value: isinstance(value, list | dict))
prose = st.text(alphabet=st.characters(exclude_characters="[{`<", exclude_categories=["Cs"]), max_size=40)


def same(left: Any, right: Any) -> bool:
    return json.dumps(left) == json.dumps(right)


@given(values, st.sampled_from(["json", "", "JSON"]), prose, prose, st.sampled_from([None, 2]))
def test_any_value_in_a_fence_comes_back(value: Any, info: str, before: str, after: str, indent: int | None) -> None:
    text = f"{before}\n{fenced(json.dumps(value, indent=indent, ensure_ascii=False), info)}\n{after}"
    assert same(parse_payload(text), value)


@given(containers, prose, prose, st.booleans())
def test_any_container_in_prose_comes_back(value: Any, before: str, after: str, thinking: bool) -> None:
    start = "<think>say [{'a'}] or [1]</think>" if thinking else ""
    text = f"{start}{before} Using {{facts}} {json.dumps(value)} [end] {after}"
    assert same(parse_payload(text), value)


@given(st.lists(st.dictionaries(st.text(max_size=5), scalars, min_size=1, max_size=3), min_size=1, max_size=4))
def test_trailing_commas_change_nothing(value: Any) -> None:
    text = "[" + "".join(
        "{" + "".join(f"{json.dumps(k)}: {json.dumps(v)}," for k, v in o.items()) + "}," for o in value
    )
    assert same(parse_payload(text + " ]"), value)


@given(st.text(alphabet='[]{}",:\\ \n`<>/think1ae-', max_size=120) | st.text(max_size=200))
def test_nothing_but_payload_errors(text: str) -> None:
    try:
        value = parse_payload(text)
    except PayloadError:
        return
    assert not (isinstance(value, float) and math.isnan(value))
    try:
        items = as_items(value, "memories")
    except PayloadError:
        return
    assert isinstance(items, list)


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "{",
        '[{"a":',
        "[,]",
        "[1,]",
        '[1,"',
        "```\nx",
        "```",
        '"\\"',
        "<think></think>",
        "</think>",
        "[x",
        '{"a',
        "[" * 900 + " x ",
        "[ ,",
        "[1 x",
        '{"a":1}',
        "[1" + " " * 50,
    ],
)
def test_a_megabyte_of_anything_ends_soon(unit: str) -> None:
    text = "see " + unit * (1_000_000 // len(unit))
    began = time.process_time()
    with contextlib.suppress(PayloadError):
        parse_payload(text)
    # Linear work takes a second at most even on a slow machine; quadratic work would take hours.
    assert time.process_time() - began < 20


def test_a_number_with_too_many_digits_is_no_crash() -> None:
    with pytest.raises(PayloadError):
        parse_payload("[" + "1" * 10_000 + "]")
