"""What a reader of search figures must know: how much there was to search in, by what, and what the figures cannot
tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_memeval.report.numbers import value_text
from pytest_memeval.results import CaseResult

#: A cut-off of at least this share of the corpus is passed by almost any ranking.
CLOSE = 0.5
#: From here on a better system can hardly be told from a good one.
CEILING = 0.95


def search_warnings(records: Iterable[CaseResult], section: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """``[{id, values}]`` about the search figures of one case set, in a fixed order; ``[]`` where nothing was searched.

    ``id`` is a text of :mod:`pytest_memeval.report.messages` under ``note.``.
    """
    setups = [record.sections["search"].details.get("setup") or {} for record in records if "search" in record.sections]
    if not setups or section is None:
        return []
    found: list[tuple[str, dict[str, Any]]] = []
    fallbacks = sorted({str(setup["vectors_fallback"]) for setup in setups if setup.get("vectors_fallback")})
    if fallbacks:
        found.append(("search_numpy", {"why": fallbacks[0]}))
    excluded = section.get("excluded_queries")
    if excluded:
        found.append(("search_excluded", {"count": excluded}))
    unknown = sum(int(setup.get("unknown_hits") or 0) for setup in setups)
    if unknown:
        found.append(("search_unknown", {"count": unknown}))
    cutoffs = sorted(int(name.partition("@")[2]) for name in section if name.startswith("ndcg@"))
    documents = max((setup.get("documents") or 0 for setup in setups), default=0)
    close = [k for k in cutoffs if documents and k >= CLOSE * documents]
    if close:
        found.append(("search_close", {"k": close[0], "documents": documents}))
    shown = [int(setup["top_k"]) for setup in setups if isinstance(setup.get("top_k"), int | float)]
    beyond = [k for k in cutoffs if shown and k > min(shown)]
    if beyond:
        found.append(("search_beyond", {"k": beyond[-1], "top_k": min(shown)}))
    for name in (f"ndcg@{k}" for k in cutoffs if k == 10):
        value = section.get(name)
        if isinstance(value, int | float) and value >= CEILING:
            found.append(("search_ceiling", {"metric": f"search.{name}", "value": value_text(value)}))
    return [{"id": name, "values": values} for name, values in found]


def search_setup(records: Iterable[CaseResult]) -> dict[str, Any] | None:
    """What searched and in how much: what all cases of the set say alike; ``None`` where nothing was searched."""
    setups = [record.sections["search"].details.get("setup") for record in records if "search" in record.sections]
    told = [setup for setup in setups if isinstance(setup, Mapping)]
    if not told:
        return None
    return {key: value for key, value in told[0].items() if all(setup.get(key) == value for setup in told)}


def sentences(case_sets: Mapping[str, Any], say: Any) -> list[str]:
    """The warnings of every case set as sentences; ``say(key, **values)`` gives a text. With several sets each sentence
    names its own."""
    found = []
    for path, scope in case_sets.items():
        warnings = (
            one for name in ("l15", "l2", "search", "rag") for one in (scope.get(name) or {}).get("warnings") or ()
        )
        for warning in warnings:
            values = dict(warning["values"])
            if warning["id"] == "search_numpy":
                values["why"] = say(f"vectors.{values['why']}")
            sentence = say(f"note.{warning['id']}", **values)
            found.append(f"{path}: {sentence}" if len(case_sets) > 1 else sentence)
    return found
