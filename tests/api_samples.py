"""An engine and case files for tests that run cases without pytest."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any


class Lines:
    """Takes each user message "dim: text" as one memory, in the time it is told to take."""

    name = "lines"
    version = "1"
    concurrent = True

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.now = self.most = 0
        self.lock = threading.Lock()

    async def extract(self, conversation: Any, ctx: Any) -> list[dict[str, Any]]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        memories = []
        for message in conversation:
            if message.content == "raise":
                raise RuntimeError("engine broke here")
            dimensions, _, content = message.content.partition(": ")
            memories.append(
                {
                    "id": f"m{len(memories)}",
                    "content": content,
                    "dimensions": dimensions.split("+"),
                    "memory_type": "persona",
                    "priority": 80,
                    "time_velocity": "static",
                }
            )
        return memories


class OneAtATime(Lines):
    concurrent = False


def write(cases: list[dict[str, Any]], name: str = "cases/v001.yaml", **meta: Any) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in cases)
    path.write_text(f"meta: {json.dumps({'version': 'v1', 'gates': [], **meta})}\ncases: [\n{rows}\n]\n", "utf-8")
    return name
