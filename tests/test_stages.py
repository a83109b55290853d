"""Which stages a case needs, and what is said of the others."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
from run_bench import full_case, truth

from pytest_memeval.cases.models import EvalCase, L2GroundTruth, L15GroundTruth
from pytest_memeval.stages import (
    UnknownStage,
    misspelt_method,
    needed_stages,
    parse_stages,
    plan_stages,
    why_idle,
    why_no_stage,
)
from pytest_memeval.truths import truth_stages
from pytest_memeval.values import DISTILL_STAGES

ALL = ("l1", "l15", "l2", "template", "inject")
TRUTHS = {
    "l1": {"expected_l1": None},
    "l15": {"expected_l15": None},
    "l2": {"expected_l2": None},
    "inject": {"expected_inject": None},
}


def plan(case: EvalCase, **options: Any) -> Any:
    values: dict[str, Any] = {"selected": None, "supported": ALL, "can_load": True, "chained": True}
    return plan_stages(case, **{**values, **options})


def some(*present: str) -> EvalCase:
    absent: dict[str, Any] = {}
    for stage, fields in TRUTHS.items():
        if stage not in present:
            absent.update(fields)
    return full_case(**absent)


def test_truths_are_read_off_the_labels() -> None:
    assert truth_stages(full_case()) == ALL
    assert truth_stages(some("l1")) == ("l1",)
    assert truth_stages(full_case(expected_l15=L15GroundTruth(()))) == ("l1", "l2", "template", "inject")
    only_sections = full_case(expected_l2=L2GroundTruth(template_section={"daily": {0: "basic_info"}}))
    assert truth_stages(only_sections) == ("l1", "l15", "template", "inject")
    assert truth_stages(full_case(expected_l2=L2GroundTruth(("Work",), (), {"daily": {}}))) == (
        "l1",
        "l15",
        "l2",
        "inject",
    )
    # No memory is a label too.
    assert truth_stages(EvalCase("x", expected_l1=truth())) == ("l1",)


PRESENT = [names for size in range(len(TRUTHS) + 1) for names in combinations(TRUTHS, size)]


@pytest.mark.parametrize("missing", [None, *ALL])
@pytest.mark.parametrize("chained", [True, False])
def test_every_stage_has_one_status_that_follows_the_rules(missing: str | None, chained: bool) -> None:
    supported = tuple(stage for stage in ALL if stage != missing)
    for present, chosen in product(PRESENT, (None, *ALL)):
        case = some(*present)
        labelled = truth_stages(case)
        selected = None if chosen is None else parse_stages(chosen)
        found = plan(case, selected=selected, supported=supported, chained=chained)
        assert set(found.scored) | set(found.idle) == set(DISTILL_STAGES)
        assert not set(found.scored) & set(found.idle)
        assert set(found.scored) <= set(found.run) <= set(supported)
        assert list(found.run) == [stage for stage in DISTILL_STAGES if stage in found.run]
        for stage in DISTILL_STAGES:
            why = found.idle.get(stage)
            if stage not in labelled:
                assert why == "no_truth"
            elif selected is not None and stage not in selected:
                assert why == "unselected"
            elif stage == missing or (chained and missing == "l1" and stage in ("l15", "l2", "template")):
                assert why == "unsupported"
            else:
                assert why is None
        if not chained:
            assert found.run == found.scored
        elif missing != "l1" and set(found.scored) & {"l15", "l2", "template", "inject"}:
            assert "l1" in found.run


def test_a_stage_alone_runs_what_it_builds_on_unscored() -> None:
    found = plan(full_case(), selected={"template"})
    assert (found.scored, found.run) == (("template",), ("l1", "l15", "template"))
    assert found.idle == dict.fromkeys(("l1", "l15", "l2", "inject"), "unselected") | {"search": "no_truth"}


def test_l2_selects_the_sections_too_and_words_may_be_spaced() -> None:
    assert parse_stages("l2") == frozenset({"l2", "template"})
    assert parse_stages(" L1 , inject ") == frozenset({"l1", "inject"})
    assert parse_stages("rrf") == frozenset({"search"})
    assert parse_stages("all") is None
    assert parse_stages("all,l1") is None


@pytest.mark.parametrize(
    ("text", "hint"), [("l3", "l1"), ("tempalte", "'template'"), ("l1,injekt", "'inject'"), ("all,l9", "l1")]
)
def test_f05_an_unknown_stage_names_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(UnknownStage, match=hint):
        parse_stages(text)


@pytest.mark.parametrize("text", ["", " , "])
def test_no_stage_at_all_is_told(text: str) -> None:
    with pytest.raises(UnknownStage, match="no stage is named"):
        parse_stages(text)


def test_an_engine_that_cannot_be_filled() -> None:
    found = plan(full_case(), can_load=False)
    # With memories stored before, conflict resolution cannot be measured; it still has to store the new ones.
    assert found.scored == ("l1", "l2", "template")
    assert found.run == ("l1", "l15", "l2", "template")
    assert found.idle["l15"] == found.idle["inject"] == "unsupported"
    empty = full_case(existing_memories=(), existing_scenes=())
    assert plan(empty, can_load=False).scored == ("l1", "l15", "l2", "template")
    # Labelled memories can only be given to an engine that takes any.
    assert plan(empty, can_load=False, chained=False).scored == ("l1", "l15")


def test_injection_needs_no_extraction() -> None:
    found = plan(full_case(), supported=("inject",))
    assert (found.scored, found.run) == (("inject",), ("inject",))
    assert needed_stages("inject", ("l1", "inject")) == ("l1",)


def test_more_stages_can_be_asked_for() -> None:
    found = plan(some("l1")).with_stages(("template", "l15"))
    assert (found.scored, found.run) == (("l1",), ("l1", "l15", "template"))
    assert found.idle["template"] == "no_truth"


@pytest.mark.parametrize(
    ("present", "options", "reason"),
    [
        (("l1",), {}, None),
        (("l1", "inject"), {"supported": ("inject",)}, None),
        (("l1", "l15"), {"selected": {"inject"}}, "nothing of this case was selected: it has labels for l1, l15"),
        ((), {}, "the case has labels for no stage"),
        (("l1",), {"supported": ("inject",)}, "nothing of this case can be measured: engine e lacks l1"),
        (("l15",), {"supported": ("l15",)}, "nothing of this case can be measured: engine e lacks l1 for l15"),
        (("l15",), {"can_load": False}, "nothing of this case can be measured: engine e lacks load for l15"),
        (
            ("l1", "inject"),
            {"can_load": False, "selected": {"inject"}},
            "nothing of this case can be measured: engine e lacks load for inject",
        ),
    ],
)
def test_a_case_with_nothing_to_score_says_why(
    present: tuple[str, ...], options: dict[str, Any], reason: str | None
) -> None:
    supported = options.get("supported", ALL)
    assert why_idle(plan(some(*present), **options), supported, engine="e", chained=True) == reason


def test_an_engine_without_any_stage_is_told_what_it_meant() -> None:
    class Misspelt:
        name = "mine"

        @property
        def broken(self) -> Any:
            raise RuntimeError("not now")

        def extrct(self) -> None: ...

        def close(self) -> None: ...

    class Declared:
        def supported_stages(self) -> list[str]:
            return ["extract"]

        def extract(self) -> None: ...

    assert why_no_stage(Misspelt()) == (
        "engine mine supports none of the stages l1, l15, l2, template, inject, search: it has 'extrct'; "
        "did you mean 'extract'?"
    )
    assert why_no_stage(object()).startswith("engine object supports none of the stages")
    assert why_no_stage(object()).endswith(
        "none of the methods extract, resolve, aggregate, query_template, inject, search"
    )
    assert why_no_stage(Declared()).endswith("its supported_stages() gives ['extract']")


class OneOff:
    """An engine whose methods are off by one letter."""

    name = "off"

    def extrakt(self) -> None: ...

    def resovle(self) -> None: ...

    def aggregat(self) -> None: ...

    def laod(self) -> None: ...


def misspelt(
    case: EvalCase, *supported: str, selected: Any = None, chained: bool = True, can_load: bool = False
) -> str | None:
    found = plan(case, supported=supported, can_load=can_load, chained=chained, selected=selected)
    return misspelt_method(
        OneOff(),
        found,
        supported,
        can_load=can_load,
        chained=chained,
        has_store=bool(case.existing_memories or case.existing_scenes),
    )


@pytest.mark.parametrize(
    ("method", "meant", "stage", "found"),
    [
        ("extract", "extrakt", "l1", misspelt(some("l1"), "template")),
        ("extract", "extrakt", "l2", misspelt(some("l1", "l2"), "template", selected={"l2"})),
        ("aggregate", "aggregat", "l2", misspelt(some("l2"), "l1", "l15", can_load=True)),
        # Passed over in the chain, it would have what comes behind it measured without it.
        ("resolve", "resovle", "template", misspelt(some("l2"), "l1", "l2", "template", selected={"template"})),
        ("load", "laod", "inject", misspelt(some("inject"), "l1", "l15", "inject")),
        ("load", "laod", "l15", misspelt(some("l15"), "l1", "l15")),
        ("load", "laod", "l2", misspelt(some("l2"), "l2", chained=False, selected={"l2"})),
        (None, None, None, misspelt(some("l1"), "l1")),
        (None, None, None, misspelt(some("inject"), "l1", "l15", "inject", can_load=True)),
        # Nobody asked for it.
        (None, None, None, misspelt(some("l1", "l2"), "l1", selected={"l1"})),
        (None, None, None, misspelt(some("l2"), "l2", chained=False, selected={"inject"})),
    ],
)
def test_a_method_that_a_case_needs_and_an_engine_has_misspelt(
    method: str | None, meant: str | None, stage: str | None, found: str | None
) -> None:
    wanted = f"engine off has no method {method!r}, which {stage} of this case needs, but {meant!r};"
    assert found == (None if method is None else f"{wanted} did you mean {method!r}?")
