"""The JSON types of what a report holds, as its schema has them: what is checked of a file before it is read.

Only what is read without a look at it first is listed here; cases are checked where they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_OBJECT, _LIST, _TEXT, _NUMBER, _FLAG, _NULL = "object", "list", "string", "number", "boolean", "null"

#: Key → its JSON types. ``a/b`` is the key ``b`` of object ``a``, ``a/*`` every element of ``a``. What is not there is
#: not checked, but for the inner keys of :data:`NEEDED`.
SHAPES: Mapping[str, tuple[str, ...]] = {
    "schema_version": (_TEXT,),
    "run_id": (_TEXT,),
    "timestamp": (_TEXT,),
    "notes": (_LIST,),
    "notes/*": (_TEXT,),
    "run_notes": (_LIST,),
    "run_notes/*": (_TEXT,),
    "summary": (_OBJECT,),
    "summary/total_cases": (_NUMBER,),
    "summary/passed_p0": (_FLAG, _NULL),
    "summary/p0_status": (_OBJECT,),
    "summary/without_own_thresholds": (_NUMBER,),
    "summary/missed_own_thresholds": (_NUMBER,),
    "summary/duration_seconds": (_NUMBER,),
    "counts": (_OBJECT,),
    "counts/scored": (_NUMBER,),
    "counts/errored": (_NUMBER,),
    "counts/skipped": (_NUMBER,),
    "counts/not_run": (_NUMBER,),
    "counts/total": (_NUMBER,),
    "partial": (_TEXT, _NULL),
    "shard": (_OBJECT, _NULL),
    "shard/index": (_NUMBER,),
    "shard/count": (_NUMBER,),
    "shard/selected": (_OBJECT,),
    "shard/selected/*": (_OBJECT,),
    "shard/files": (_OBJECT,),
    "shard/chosen": (_FLAG,),
    "shard/metas": (_LIST,),
    "shard/metas/*": (_OBJECT,),
    "shard/crashed": (_NUMBER,),
    "shard/notes": (_LIST,),
    "variant": (_OBJECT, _NULL),
    "variant/name": (_TEXT,),
    "variant/candidate": (_FLAG,),
    "variant/of": (_LIST,),
    "stopping": (_OBJECT, _NULL),
    "stopping/seed": (_NUMBER,),
    "stopping/level": (_NUMBER,),
    "stopping/most_wrong": (_NUMBER,),
    "stopping/selected": (_FLAG,),
    "stopping/left_out": (_LIST,),
    "stopping/left_out/*": (_LIST,),
    "stopping/scopes": (_OBJECT,),
    "stopping/scopes/*": (_OBJECT,),
    "not_run": (_LIST,),
    "not_run/*": (_LIST,),
    "gone": (_LIST,),
    "gone/*": (_LIST,),
    "broken_files": (_LIST,),
    "broken_files/*": (_LIST,),
    "stages": (_OBJECT,),
    "stages/selected": (_LIST,),
    "stages/supported": (_LIST,),
    "stages/input": (_TEXT,),
    "gating": (_OBJECT,),
    "gating/enabled": (_FLAG,),
    "gating/max_error_rate": (_NUMBER,),
    "gating/command_line": (_LIST,),
    "gating/command_line/*": (_LIST,),
    "config": (_OBJECT,),
    "prompt_versions": (_OBJECT,),
    "prompt_hashes": (_OBJECT,),
    "model": (_OBJECT,),
    "judge": (_OBJECT, _NULL),
    "engine": (_OBJECT,),
    "matcher": (_OBJECT,),
    "registry": (_OBJECT,),
    "templates": (_OBJECT,),
    "protocol": (_OBJECT, _NULL),
    "metrics_spec": (_OBJECT,),
    **dict.fromkeys(("l1", "l15", "l2", "inject", "search"), (_OBJECT,)),
    **dict.fromkeys(("qa", "rag", "locomo", "longmemeval", "metrics", "rrf", "baseline", "funnel"), (_OBJECT, _NULL)),
    "case_sets": (_OBJECT,),
    "case_sets/*": (_OBJECT,),
    "gates": (_LIST,),
    "gates/*": (_OBJECT,),
    "usage": (_OBJECT,),
    "timings": (_OBJECT,),
    "environment": (_OBJECT,),
    "per_case": (_LIST,),
    "per_case/*": (_OBJECT,),
}
#: Objects whose listed inner keys all have to be there.
NEEDED = ("summary", "counts", "shard", "variant", "stopping", "stages", "gating")


def kind_of(value: object) -> str:
    """JSON's name of a value's type."""
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _FLAG
    kinds = ((dict, _OBJECT), (list, _LIST), (str, _TEXT), (int | float, _NUMBER))
    return next((kind for cls, kind in kinds if isinstance(value, cls)), type(value).__name__)


def damage(report: Mapping[str, Any]) -> str | None:
    """What is wrong with the report's shape, the first thing; ``None`` where all is as the schema has it."""
    for path, kinds in SHAPES.items():
        for place, value in _values(report, path):
            if value is _ABSENT:
                return f"{place} is missing"
            if kind_of(value) not in kinds:
                wanted = " or ".join(kind if kind == _NULL else f"a{'n' * (kind == _OBJECT)} {kind}" for kind in kinds)
                return f"{place} must be {wanted}, not {_told(value)}"
    return None


_ABSENT = object()


def _values(report: Mapping[str, Any], path: str) -> Iterator[tuple[str, object]]:
    key, _, inner = path.partition("/")
    value: Any = report.get(key)
    if key not in report or (inner and value is None):
        return
    if not inner:
        yield key, value
    elif inner == "*":
        yield from _elements(key, value)
    else:
        inner, _, rest = inner.partition("/")
        found = value.get(inner, _ABSENT if key in NEEDED else None)
        if not rest:
            yield f"{key}.{inner}", found
        else:
            yield from _elements(f"{key}.{inner}", found)


def _elements(name: str, value: Any) -> Iterator[tuple[str, object]]:
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return ((f"{name}[{key!r}]", element) for key, element in pairs)


def _told(value: object) -> str:
    kind = kind_of(value)
    return kind if kind in (_NULL, _OBJECT, _LIST) else f"{kind} {value!r:.40}"
