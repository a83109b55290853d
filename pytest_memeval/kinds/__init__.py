"""Kinds of case files besides distillation: how such a file becomes tests and what its cases leave behind.

A distillation set is read, run and scored by modules of its own. Every other kind (``rag``, ``qa``, a published data
set) comes in through here, and journals, reports, gates, concurrency and workers treat its items as any others:

- A :class:`Kind` recognises its files, loads one into a :class:`KindSet` (a :class:`KindCase` for every item) and
  makes a :class:`KindRun` of a case.
- :class:`KindRun` is one item's work. It is awaited once, on the process's loop, in the item's turn or ahead of it,
  and fills in what the case's record needs: statuses, sections, errors, outputs, calls.
- :mod:`pytest_memeval.kind_items` makes the pytest nodes. A kind whose items are nested (a conversation with many
  questions) gives a file class of its own; its items stay :class:`~pytest_memeval.kind_items.KindItem`.

To add a kind: a module with a ``KIND`` object, named in :data:`pytest_memeval.kinds.registry.KINDS`. Importing the
module has to be cheap.

What a record holds. ``sections`` maps a report section (``rag``, ``qa`` …) to a
:class:`~pytest_memeval.metrics.sections.SectionRecord`, whose ratios are added up over cases. ``statuses`` says of each
labelled stage what became of it. Where a section's metrics can fail one by one, a status under ``section.metric`` says
what became of that metric, and counts for it in the place of the stage's.
"""

from __future__ import annotations

from pytest_memeval.kinds.protocol import Kind, KindCase, KindSet
from pytest_memeval.kinds.records import described, set_info, untouched
from pytest_memeval.kinds.registry import DISTILL_SECTIONS, HEAD, kind_named, kind_of, sections_of
from pytest_memeval.kinds.run import KindRun

__all__ = [
    "DISTILL_SECTIONS",
    "HEAD",
    "Kind",
    "KindCase",
    "KindRun",
    "KindSet",
    "described",
    "kind_named",
    "kind_of",
    "sections_of",
    "set_info",
    "untouched",
]
