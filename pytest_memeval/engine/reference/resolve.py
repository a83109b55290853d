"""L1.5: what becomes of new memories beside those that the store holds already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.engine.protocol import StageContext
from pytest_memeval.engine.reference.answers import ask_for_items, conflict_schema
from pytest_memeval.engine.reference.db import MemoryStore, fresh_ids
from pytest_memeval.engine.reference.fields import InvalidItem, as_object, index_below, shown, text, texts
from pytest_memeval.values import ACTIONS, Decision, Memory

NO_CANDIDATE = "no stored memory shares a dimension with it"


@dataclass(frozen=True, slots=True)
class _Asked:
    """One answer's item and what it may speak of: places of new memories, and ids of stored ones."""

    item: Any
    places: tuple[int, ...]
    candidates: frozenset[str]


async def resolve(memories: Sequence[Memory], ctx: StageContext, *, batch_size: int) -> list[Decision]:
    """Decide for every new memory, apply all decisions in one transaction, and return them by memory index.

    A memory that shares a dimension with no stored one is stored without asking (a ``store`` decision). A memory for
    which the model's answer has no usable decision is stored too, but has no decision: what the model said wrongly is
    recorded as ``bad_decision``. A memory without an id, or with one that the store uses, gets a new one. Nothing is
    applied where a call fails (StageError). No memories: no call, no decisions.
    """
    store = MemoryStore(ctx.memory_db)
    new = _with_ids(memories, store)
    candidates = [store.sharing(memory.dimensions) if memory.dimensions else [] for memory in new]
    asked_places = [place for place, found in enumerate(candidates) if found]
    answers: list[_Asked] = []
    for start in range(0, len(asked_places), batch_size):
        places = tuple(asked_places[start : start + batch_size])
        offered = {str(memory.id): memory for place in places for memory in candidates[place]}
        order = {memory.id: rank for rank, memory in enumerate(store.live(offered))}
        items = await ask_for_items(
            ctx,
            "l15",
            "l1_conflict",
            conflict_schema(),
            key="decisions",
            registry=ctx.registry,
            new_memories=[new[place] for place in places],
            candidates=sorted(offered.values(), key=lambda memory: order[memory.id]),
            now=ctx.clock,
        )
        answers.extend(_Asked(item, places, frozenset(offered)) for item in items)
    untold = [place for place, found in enumerate(candidates) if not found]
    with store.transaction:
        return _Resolver(store, ctx, new).apply(answers, untold)


def _with_ids(memories: Sequence[Memory], store: MemoryStore) -> list[Memory]:
    """The memories, each with an id that neither the store nor another of them has."""
    stored = store.ids()
    taken = set(stored)
    kept: list[str | None] = []
    for memory in memories:
        kept.append(None if memory.id is None or memory.id in taken else memory.id)
        taken.add(memory.id or "")
    ids = iter(fresh_ids("mem", taken, kept.count(None)))
    return [
        replace(memory, id=own if own is not None else next(ids)) for memory, own in zip(memories, kept, strict=True)
    ]


class _Resolver:
    """Applies the decisions about ``new`` to the store, one after the other."""

    def __init__(self, store: MemoryStore, ctx: StageContext, new: Sequence[Memory]) -> None:
        self._store = store
        self._ctx = ctx
        self._new = new
        self._decisions: dict[int, Decision] = {}

    def apply(self, answers: Sequence[_Asked], untold: Sequence[int]) -> list[Decision]:
        for place in untold:
            decision = Decision(place, "store", reason=NO_CANDIDATE)
            self._decisions[place] = self._store_new(decision)
        for asked in answers:
            try:
                decision = self._read(asked)
                if decision.memory_index in self._decisions:
                    raise InvalidItem("a second decision for one memory")
                self._decisions[decision.memory_index] = self._carry_out(decision)
            except InvalidItem as error:
                self._ctx.record("bad_decision", reason=str(error), item=shown(asked.item))
        for place, memory in enumerate(self._new):
            if place not in self._decisions:
                self._store.add(memory, self._ctx.clock)
        return [self._decisions[place] for place in sorted(self._decisions)]

    def _read(self, asked: _Asked) -> Decision:
        data = as_object(asked.item)
        if "memory_index" not in data:
            raise InvalidItem("'memory_index' is missing")
        place = asked.places[index_below(data["memory_index"], "memory_index", len(asked.places))]
        action = (text(data, "action") or "").lower()
        if action not in ACTIONS:
            raise InvalidItem(f"unknown action {shown(data.get('action'), 60)}{did_you_mean(action, ACTIONS)}")
        targets = texts(data, "target_ids")
        merged = text(data, "merged_content")
        if action == "store":
            targets, merged = (), None
        for target in targets:
            if target not in asked.candidates:
                raise InvalidItem(f"unknown target {target!r}{did_you_mean(target, sorted(asked.candidates))}")
        if action in ("update", "merge") and not targets:
            raise InvalidItem(f"{action} without a target")
        if action == "merge" and merged is None:
            raise InvalidItem("merge without merged_content")
        if action == "skip":
            merged = None
        return Decision(place, action, targets, merged, reason=text(data, "reason"))

    def _carry_out(self, decision: Decision) -> Decision:
        if decision.action == "store":
            return self._store_new(decision)
        if decision.action == "skip":
            one = decision.target_ids[0] if len(decision.target_ids) == 1 else None
            return replace(decision, result_id=None if one is None else self._store.live_id(one))
        for target in decision.target_ids:
            if not self._store.is_live(target):
                raise InvalidItem(f"target {target!r} has been replaced by an earlier decision")
        return self._update(decision) if decision.action == "update" else self._merge(decision)

    def _store_new(self, decision: Decision) -> Decision:
        memory = self._new[decision.memory_index]
        self._store.add(memory, self._ctx.clock)
        return replace(decision, result_id=memory.id)

    def _update(self, decision: Decision) -> Decision:
        """The first target says what the new memory says; further targets are archived in its favour."""
        new = self._new[decision.memory_index]
        survivor, *others = decision.target_ids
        content = decision.merged_content or new.content
        self._store.replace(replace(new, id=survivor, content=content), self._ctx.clock)
        for other in others:
            self._store.archive(other, survivor, self._ctx.clock)
        return replace(decision, merged_content=content, result_id=survivor)

    def _merge(self, decision: Decision) -> Decision:
        """One new memory with everything that the new one and the targets carry; fields they differ in are the new
        one's, the priority is the highest."""
        new = self._new[decision.memory_index]
        parts = [new, *self._store.live(decision.target_ids)]
        taken = self._store.ids() | {str(memory.id) for memory in self._new}
        merged_id = fresh_ids("mem", taken, 1)[0]
        priorities = [part.priority for part in parts if part.priority is not None]
        merged = replace(
            new,
            id=merged_id,
            content=decision.merged_content or new.content,
            dimensions=_union(part.dimensions for part in parts),
            memory_type=next((part.memory_type for part in parts if part.memory_type is not None), None),
            priority=max(priorities, default=None),
            time_velocity=next((part.time_velocity for part in parts if part.time_velocity is not None), None),
            source_message_ids=_union(part.source_message_ids for part in parts),
        )
        self._store.add(merged, self._ctx.clock)
        for target in decision.target_ids:
            self._store.archive(target, merged_id, self._ctx.clock)
        return replace(decision, result_id=merged_id)


def _union(parts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for part in parts for value in part))
