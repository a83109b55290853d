"""Which names are a method of the protocol with a slip of the pen, and which are an engine's own."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_memeval.engine.misspelt import PROTOCOL_METHODS, meant_to_be
from pytest_memeval.engine.protocol import STAGE_METHODS

METHODS = (*STAGE_METHODS.values(), "load")

SLIPS = {
    "extract": "extrakt extrat exctract extarct Extract extract_ extractt eextract",
    "resolve": "resovle resolv resolvee revolve Resolve",
    "aggregate": "aggragate agregate agreggate aggregat aggregatee Aggregate aggergate",
    "query_template": "querytemplate query_tempate queryTemplate query_templete quer_template queri_tempalte",
    "inject": "injekt injct inejct Inject",
    "search": "serach searh serch seearch",
    "load": "laod loda Load load_",
}
OWN = """
search_all resolve_name inject_into extract_text aggregates aggregated aggregator aggregation segregate
query_templates extracts extractor extract2 extract_v2 extract_memories research searcher searches reload
preload loader loads lead read loud inspect reject eject project object retract exact resolver resolved dissolve
solve contract abstract insert reset close connect index query template upload unload add store memories injest
"""


def engine(*names: str, **more: Any) -> object:
    return type("Engine", (), {**{name: lambda self, *given: None for name in names}, **more})()


@pytest.mark.parametrize(("method", "name"), [(method, name) for method in SLIPS for name in SLIPS[method].split()])
def test_a_slip_is_told_and_for_one_method_alone(method: str, name: str) -> None:
    found = {one: meant_to_be(engine(name), one) for one in METHODS}
    assert {one for one, guess in found.items() if guess} == {method}
    assert found[method] == name


@pytest.mark.parametrize("name", [*OWN.split(), *PROTOCOL_METHODS])
def test_a_name_of_the_engines_own_is_left_alone(name: str) -> None:
    others = [method for method in METHODS if method != name]
    assert [meant_to_be(engine(name), method) for method in others] == [None] * len(others)


def test_only_what_can_be_called_counts() -> None:
    assert meant_to_be(engine(extrakt=3), "extract") is None
    assert meant_to_be(engine(_extrakt=print), "extract") is None
    assert meant_to_be(engine(Extract=type("Extract", (), {})), "extract") is None
    assert meant_to_be(engine("extract", "extrakt"), "extract") is None


def test_the_nearest_of_several_is_named() -> None:
    assert meant_to_be(engine("agreggate", "aggregat"), "aggregate") == "aggregat"
    assert meant_to_be(engine("extrat", "Extract"), "extract") == "Extract"


def test_an_engine_that_declares_its_stages_is_taken_at_its_word() -> None:
    assert meant_to_be(engine("extrakt", "supported_stages"), "extract") is None


def test_a_property_that_does_not_work_is_passed_over() -> None:
    def broken(self: object) -> Any:
        raise RuntimeError("not now")

    assert meant_to_be(engine("extrakt", aaa=property(broken)), "extract") == "extrakt"
