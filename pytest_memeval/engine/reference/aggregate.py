"""L2: new memories put into scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.engine.protocol import StageContext, UnusableAnswer
from pytest_memeval.engine.reference.answers import ask_for_items, scene_schema
from pytest_memeval.engine.reference.db import MemoryStore, fresh_ids
from pytest_memeval.engine.reference.fields import InvalidItem, as_object, indexes, required_text, shown, text, texts
from pytest_memeval.engine.reference.wiki import SceneStore
from pytest_memeval.values import Memory, Scene

SCENE_ACTIONS = ("create", "update", "merge")


@dataclass(slots=True)
class _Draft:
    """A scene while answers are being applied; ``stored`` says whether wiki.db has it."""

    id: str
    title: str
    memory_ids: dict[str, None]
    stored: bool
    change: str | None = None
    absorbed: list[str] = field(default_factory=list)

    def scene(self) -> Scene:
        return Scene(self.id, self.title, tuple(self.memory_ids), self.change)


async def aggregate(memories: Sequence[Memory], ctx: StageContext, *, batch_size: int, max_scenes: int) -> list[Scene]:
    """Put live memories into scenes and return every scene that exists then, ``change`` None for an untouched one.

    Each batch sees the scenes as the batch before left them; all is written in one transaction at the end, so that a
    failed call (StageError) leaves the scenes as they were. Invalid items are dropped and recorded; UnusableAnswer
    where a batch's answer has items and none is valid. Memory ids are live ones: a memory that conflict resolution
    merged away stands under its successor's id. No memories: no call.
    """
    store = MemoryStore(ctx.memory_db)
    wiki = SceneStore(ctx.wiki_db)
    loaded = wiki.scenes(store.live_id)
    drafts = _Drafts(loaded, wiki.ids())
    live = _live_memories(memories, store, ctx)
    for start in range(0, len(live), batch_size):
        batch = live[start : start + batch_size]
        await _ask(batch, drafts, store, ctx, max_scenes)
    if live:
        with wiki.transaction:
            drafts.write(wiki, ctx)
    return [draft.scene() for draft in drafts.by_id.values()]


def _live_memories(memories: Sequence[Memory], store: MemoryStore, ctx: StageContext) -> list[tuple[str, Memory]]:
    found: dict[str, Memory] = {}
    for memory in memories:
        if memory.id is None:
            ctx.record("note", text=f"l2: a memory without an id stays outside the scenes: {shown(memory.content, 60)}")
            continue
        found.setdefault(store.live_id(memory.id), memory)
    return list(found.items())


async def _ask(
    batch: Sequence[tuple[str, Memory]], drafts: _Drafts, store: MemoryStore, ctx: StageContext, max_scenes: int
) -> None:
    existing = [draft.scene() for draft in drafts.by_id.values()]
    contents = {str(memory.id): memory.content for memory in store.live({i for s in existing for i in s.memory_ids})}
    items = await ask_for_items(
        ctx,
        "l2",
        "l2_scene",
        scene_schema(max_scenes),
        key="scenes",
        registry=ctx.registry,
        new_memories=[memory for _, memory in batch],
        existing_scenes=existing,
        scene_contents=contents,
        max_scenes=max_scenes,
        now=ctx.clock,
    )
    ids = [memory_id for memory_id, _ in batch]
    offered = {scene.id for scene in existing}
    valid, reason = 0, ""
    for item in items:
        try:
            drafts.apply(item, ids, offered)
            valid += 1
        except InvalidItem as error:
            reason = str(error)
            ctx.record("invalid_item", stage="l2", reason=reason, item=shown(item))
    if items and not valid:
        raise UnusableAnswer(f"none of the {len(items)} items is a scene; the last one's fault: {reason}", stage="l2")


class _Drafts:
    """The scenes as they are going to be, in the order in which they were made."""

    def __init__(self, scenes: Sequence[Scene], used_ids: set[str]) -> None:
        self.by_id = {
            scene.id: _Draft(scene.id, scene.title, dict.fromkeys(scene.memory_ids), True) for scene in scenes
        }
        self._used = set(used_ids)

    def apply(self, item: Any, memory_ids: Sequence[str], offered: set[str]) -> None:
        """Apply one item of an answer about ``memory_ids``, or raise InvalidItem and change nothing."""
        data = as_object(item)
        action = (text(data, "action") or "").lower()
        if action not in SCENE_ACTIONS:
            raise InvalidItem(f"unknown action {shown(data.get('action'), 60)}{did_you_mean(action, SCENE_ACTIONS)}")
        members = dict.fromkeys(memory_ids[place] for place in indexes(data, "memory_indexes", len(memory_ids)))
        scene_ids = texts(data, "scene_ids")
        if action == "create":
            if not members:
                raise InvalidItem("create without memories")
            self._create(required_text(data, "title"), members)
            return
        for scene_id in scene_ids:
            if scene_id not in offered:
                raise InvalidItem(f"unknown scene {scene_id!r}{did_you_mean(scene_id, sorted(offered))}")
            if scene_id not in self.by_id:
                raise InvalidItem(f"scene {scene_id!r} has been merged by an earlier item")
        if action == "update" and len(scene_ids) != 1:
            raise InvalidItem(f"update names {len(scene_ids)} scenes instead of one")
        if action == "merge" and len(scene_ids) < 2:
            raise InvalidItem("merge names fewer than two scenes")
        self._extend(scene_ids, text(data, "title"), members)

    def _create(self, title: str, members: dict[str, None]) -> None:
        scene_id = fresh_ids("scene", self._used, 1)[0]
        self._used.add(scene_id)
        self.by_id[scene_id] = _Draft(scene_id, title, members, False, "created")

    def _extend(self, scene_ids: Sequence[str], title: str | None, members: dict[str, None]) -> None:
        """Add members to the first scene, which takes the others in."""
        survivor = self.by_id[scene_ids[0]]
        for other_id in scene_ids[1:]:
            other = self.by_id.pop(other_id)
            survivor.memory_ids.update(other.memory_ids)
            survivor.absorbed += [*other.absorbed, *([other_id] if other.stored else [])]
        survivor.memory_ids.update(members)
        survivor.title = title or survivor.title
        if len(scene_ids) > 1:
            survivor.change = "merged"
        elif survivor.change is None:
            survivor.change = "updated"

    def write(self, wiki: SceneStore, ctx: StageContext) -> None:
        """Bring the drafts into wiki.db."""
        for draft in self.by_id.values():
            if draft.stored:
                wiki.update(draft.scene(), ctx.clock)
            else:
                wiki.add(draft.scene(), ctx.clock)
            wiki.absorb(draft.absorbed, draft.id, ctx.clock)
