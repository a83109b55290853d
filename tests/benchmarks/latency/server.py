"""The chat server of the latency benchmark, in a process of its own: ``python server.py``, then the port on stdout.

Every call takes as long as its case and stage say, log-normal around 300 ms, so that all tools wait for the same calls.
``GET /v1/stats`` tells the seconds from the first request to the last answer, and begins anew.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "servers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugin"))

from chat_project import NAME, answer_to, prompt_stage
from chat_server import Answer, ChatServer, Raw, Request

MEDIAN, SIGMA = 0.3, 0.5
STAGES = ("l1_extraction", "l1_conflict", "l2_scene")


def latency(number: int, stage: str) -> float:
    """Seconds of one call."""
    return random.Random(f"{number}/{stage}").lognormvariate(math.log(MEDIAN), SIGMA)


class LatencyServer(ChatServer):
    """Answers as a perfect model does, after the call's own time."""

    first = last = 0.0
    answered = 0
    most = 0

    def _reply(self, request: Request) -> Answer | Raw:
        if request.path.endswith("/stats"):
            self.requests.clear()
            told = {"seconds": self.last - self.first, "calls": self.answered, "in_flight": self.most}
            self.first = self.last = 0.0
            self.answered = self.most = 0
            return Raw(200, json.dumps(told).encode())
        self.first = self.first or time.perf_counter()
        self.most = max(self.most, self.in_flight)
        found = NAME.search(request.prompt)
        stage = prompt_stage(request)
        assert found is not None, request.prompt[-200:]
        return Answer(answer_to(request.prompt, stage), latency=latency(int(found[1]), stage))

    async def _send(self, request: Request, reply: Answer | Raw, writer: Any) -> bool:
        kept = await super()._send(request, reply, writer)
        if not request.path.endswith("/stats"):
            self.answered += 1
            self.last = time.perf_counter()
        return kept


if __name__ == "__main__":
    with LatencyServer() as server:
        print(server.port, flush=True)
        sys.stdin.read()  # until whoever started it goes
