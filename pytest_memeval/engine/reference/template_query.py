"""Template sections: plain SQL over memory.db."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.engine.protocol import StageContext, StageError
from pytest_memeval.engine.reference.db import MemoryStore, time_text
from pytest_memeval.values import Section

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import SectionQuery, Template

_ORDER = {
    "priority": "m.priority IS NULL, m.priority DESC, m.id",
    "recent": "m.created_at DESC, m.id",
}


def find_template(mode: str, ctx: StageContext, *, stage: str) -> Template:
    """The template of ``mode``; StageError with the nearest mode where there is none."""
    template = ctx.templates.get(mode)
    if template is None:
        known = did_you_mean(mode, ctx.templates.modes)
        raise StageError(f"unknown mode {mode!r}{known}", kind="unknown_mode", stage=stage)
    return template


def query_template(mode: str, ctx: StageContext, *, stage: str = "template") -> list[Section]:
    """Every section of the mode in the template's order, empty ones included.

    In an exclusive template a memory stands in the first section that takes it; one beyond a section's limit is not
    taken. Ages count from the case's clock. Equal priorities (or times) are ordered by id.
    """
    template = find_template(mode, ctx, stage=stage)
    connection = MemoryStore(ctx.memory_db).connection
    claimed: list[str] = []
    sections: list[Section] = []
    for spec in template.sections:
        taken = claimed if template.exclusive else []
        statement, values = section_sql(spec.query, ctx.registry, ctx.clock, taken)
        ids = tuple(row[0] for row in connection.execute(statement, values))
        claimed.extend(ids)
        sections.append(Section(spec.id, spec.title, ids))
    return sections


def section_sql(query: SectionQuery, registry: Registry, clock: datetime, taken: list[str]) -> tuple[str, list[Any]]:
    """(SELECT of memory ids, its values) for one section; ``taken`` are ids that it must leave out.

    With ``ttl_filter`` a memory counts as long as one of its dimensions that the section asks for (any of its
    dimensions where the section asks for none) is younger than that dimension's TTL or has none.
    """
    wanted = list(dict.fromkeys(query.dimensions))
    where = ["m.status = 'active'"]
    values: list[Any] = []
    if wanted:
        count = len(wanted) if query.match == "all" else 1
        where.append(
            "(SELECT COUNT(*) FROM memory_tags t WHERE t.memory_id = m.id AND " + _IN.format("t.dimension") + ") >= ?"
        )
        values += [json.dumps(wanted), count]
    if taken:
        where.append("NOT " + _IN.format("m.id"))
        values.append(json.dumps(taken))
    if query.priority_min is not None:
        where.append("m.priority >= ?")
        values.append(query.priority_min)
    if query.time_window is not None:
        where.append("m.created_at >= ?")
        values.append(_cutoff(clock, query.time_window))
    if query.ttl_filter:
        clause, more = _ttl_clause(wanted, registry, clock)
        where.append(clause)
        values += more
    statement = f"SELECT m.id FROM memories m WHERE {' AND '.join(where)} ORDER BY {_ORDER[query.sort]}"
    if query.limit is not None:
        statement += " LIMIT ?"
        values.append(query.limit)
    return statement, values


_IN = "{} IN (SELECT value FROM json_each(?))"


def _ttl_clause(wanted: list[str], registry: Registry, clock: datetime) -> tuple[str, list[Any]]:
    limits = {
        dimension.id: _cutoff(clock, timedelta(days=dimension.ttl_days))
        for dimension in registry.dimensions
        if dimension.ttl_days is not None
    }
    asked, values = "", [json.dumps(limits)]
    if wanted:
        asked = " AND " + _IN.format("t.dimension")
        values.append(json.dumps(wanted))
    clause = (
        "EXISTS (SELECT 1 FROM memory_tags t LEFT JOIN json_each(?) ttl ON ttl.key = t.dimension "
        f"WHERE t.memory_id = m.id{asked} AND (ttl.value IS NULL OR m.created_at >= ttl.value))"
    )
    if not wanted:
        clause = f"({clause} OR NOT EXISTS (SELECT 1 FROM memory_tags t WHERE t.memory_id = m.id))"
    return clause, values


def _cutoff(clock: datetime, age: timedelta) -> str:
    try:
        return time_text(clock - age)
    except OverflowError:  # an age that reaches back beyond the calendar leaves nothing out
        return time_text(datetime.min.replace(tzinfo=UTC))
