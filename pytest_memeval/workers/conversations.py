"""Which worker runs what: all questions of a conversation go to one, so that the conversation is read once."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_memeval.workers.scopes import OutlivingScopes

#: In a run with more items than this, those without a conversation are handed out in packs.
MANY = 1_000
PACK = 8
_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")


def conversation_of(node_id: str) -> str | None:
    """``file::conversation`` of a question's node id, ``None`` for any other item."""
    file, _, rest = node_id.partition("::")
    conversation, nested, _ = rest.partition("::")
    return f"{file}::{conversation}" if nested and file.endswith(_SUFFIXES) else None


def has_conversations(node_ids: Sequence[str]) -> bool:
    """Whether two items share a conversation."""
    seen: set[str] = set()
    for node_id in node_ids:
        conversation = conversation_of(node_id)
        if conversation is not None:
            if conversation in seen:
                return True
            seen.add(conversation)
    return False


class ByConversation(OutlivingScopes):
    """Sharing out by scope, a conversation being one."""

    _scopes: dict[str, str] | None = None

    def _split_scope(self, nodeid: str) -> str:
        if self._scopes is None:
            items = list(next(iter(self.registered_collections.values())))
            self._scopes = scopes_of(items)
        return self._scopes[nodeid]


def scopes_of(node_ids: Sequence[str]) -> dict[str, str]:
    """Node id → the scope that it is handed out with. Items without a conversation are each their own, or, where there
    are very many, in packs of neighbours, since each scope costs a look at every hand-out."""
    pack = PACK if len(node_ids) > MANY else 1
    scopes: dict[str, str] = {}
    alone = 0
    for node_id in node_ids:
        conversation = conversation_of(node_id)
        if conversation is None:
            conversation = f"#{alone // pack}"
            alone += 1
        scopes[node_id] = conversation
    return scopes
