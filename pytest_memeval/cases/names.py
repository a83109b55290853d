"""Case ids and tags: what pytest's node ids, markers and ``-m`` expressions can hold."""

from __future__ import annotations

import re
import unicodedata

from pytest_memeval.cases.tables import DIFFICULTIES, SOURCES

_UNUSABLE_IN_TAG = re.compile(r"[^\w.+-]")
_OPERATORS = frozenset({"and", "or", "not"})

#: Markers that make pytest, this plugin or common plugins act.
RESERVED_TAGS: frozenset[str] = frozenset(
    {
        # pytest
        "skip",
        "skipif",
        "xfail",
        "parametrize",
        "usefixtures",
        "filterwarnings",
        "tryfirst",
        "trylast",
        "hookwrapper",
        "optionalhook",
        "historic",
        "firstresult",
        # common plugins
        "anyio",
        "asyncio",
        "asyncio_cooperative",
        "benchmark",
        "dependency",
        "depends",
        "django_db",
        "enable_socket",
        "disable_socket",
        "allow_hosts",
        "first",
        "flaky",
        "forked",
        "freeze_time",
        "hypothesis",
        "incremental",
        "last",
        "limit_memory",
        "no_cover",
        "order",
        "repeat",
        "run",
        "second",
        "second_to_last",
        "timeout",
        "trio",
        "twisted",
        "vcr",
        "xdist_group",
        # this plugin
        "memeval",
    }
)


def check_case_id(case_id: str) -> str | None:
    """What makes ``case_id`` unusable in a node id, or ``None``."""
    if not case_id.strip():
        return "the case_id is empty"
    if "::" in case_id:
        return f"case_id {case_id!r} contains '::', which separates the parts of a node id"
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") for character in case_id):
        return f"case_id {case_id!r} contains a control character"
    return None


def check_tag(tag: str) -> str | None:
    """What makes ``tag`` unusable as a marker, or ``None``."""
    if not tag or _UNUSABLE_IN_TAG.search(tag):
        return f"tag {tag!r} cannot stand in a -m expression (letters, digits and . + - _ can)"
    if tag in _OPERATORS:
        return f"tag {tag!r} is an operator of -m expressions"
    if tag in RESERVED_TAGS:
        return f"tag {tag!r} is a reserved marker name"
    if tag in DIFFICULTIES or tag in SOURCES:
        return f"tag {tag!r} is reserved: it is a difficulty or source, which is set by its own key"
    return None
