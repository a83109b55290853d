"""A case item's own way to its results, without the price of a fixture for each.

pytest takes as long for eight small fixtures as for three trivial tests. Where a project overrides none of the
function-scoped fixtures of this plugin, and no fixture of its own asks for one, an item makes their values itself. The
engine, the chat model and every fixture of the project's are set up by pytest as ever, before any stage runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.nodes.cases import prompts_of, registry_of, templates_of
from pytest_memeval.nodes.keys import SAID
from pytest_memeval.nodes.runs import all_measured, open_run

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.items import CaseItem

#: The fixtures whose values an item can make itself.
OWN = frozenset(
    f"memeval_{word}"
    for word in (
        *("case", "registry", "templates", "prompts", "db", "run", "measured"),
        *("l1", "l15", "l2", "template", "inject", "search"),
    )
)
#: pytest's options under which fixtures are shown or left out: then there have to be some.
_SHOWN = ("setuponly", "setupplan", "setupshow")


@dataclass(frozen=True, slots=True)
class Assets:
    """What all cases of a file are run with."""

    prompts: PromptSet
    registry: Registry
    templates: Templates


def can_be_direct(item: CaseItem) -> bool:
    """Whether the item's fixtures are the plugin's own, and serve the item alone. Equal for all items of a file that
    ask for the same fixtures."""
    if any(getattr(item.config.option, name, False) for name in _SHOWN):
        return False
    manager: Any = item.session._fixturemanager
    if any(len(manager.getfixturedefs(name, item) or ()) != 1 for name in OWN):
        return False
    foreign = (found for name, found in item._fixtureinfo.name2fixturedefs.items() if name not in OWN)
    return all(OWN.isdisjoint(definition.argnames) for found in foreign for definition in found)


def set_up(item: CaseItem) -> bool:
    """Set the item up. False where it has to be done by fixtures, of which none has been made then but others' own."""
    if item.case.problems:
        return False
    values: dict[str, Any] = item.funcargs
    # pytest leaves alone what is there already.
    later = [name for name in item.fixturenames if name in OWN and name not in values]
    values.update(dict.fromkeys(later))
    values["request"] = item._request
    try:
        pytest.Function.setup(item)
    finally:
        for name in later:
            del values[name]
    if not OWN.isdisjoint(item._request._fixture_defs):
        return False  # a fixture of the project asked for one of ours while it ran
    _run_stages(item, values)
    return True


def _run_stages(item: CaseItem, values: dict[str, Any]) -> None:
    file = item.case_file
    assets = file.assets.get(item.memeval_variant)
    if assets is None:
        assets = Assets(prompts_of(item), registry_of(item), templates_of(item))
        file.assets[item.memeval_variant] = assets
    opened = open_run(
        item,
        item.case,
        values["memeval_engine"],
        values["memeval_llm"],
        prompts=assets.prompts,
        registry=assets.registry,
        templates=assets.templates,
    )
    run = opened.__enter__()
    item.addfinalizer(lambda: opened.__exit__(None, None, None))
    values["memeval_case"] = item.case
    said = item.stash.get(SAID, None)
    for stage in item.stages:
        values[f"memeval_{stage}"] = run.result(stage)
        if said is not None:
            said.repeat()
    values["memeval_measured"] = all_measured(item, run)
