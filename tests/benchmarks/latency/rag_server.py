"""A server that answers whether statements are supported, with drawn latencies, in a process of its own.

Prints its base URL and the sum of the latencies; on a line of input what it saw: the seconds from the first request to
the last answer, the time of the first request (perf_counter), the most requests in flight. Then it ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "servers"))

from chat_server import ChatServer, log_normal

SUPPORTED = json.dumps({"statements": [{"statement": "s", "reason": "r", "supported": True}]})


class Drawn:
    def __init__(self, count: int, median: float) -> None:
        draw = log_normal(median, seed=7)
        self.latencies = [draw() for _ in range(count)]
        self._left = iter(self.latencies)
        self._lock = threading.Lock()
        self.first = self.last = 0.0

    def __call__(self) -> float:
        with self._lock:
            now, latency = time.perf_counter(), next(self._left)
            self.first = self.first or now
            self.last = max(self.last, now + latency)
            return latency


if __name__ == "__main__":
    drawn = Drawn(int(sys.argv[1]), float(sys.argv[2]))
    with ChatServer(lambda request: SUPPORTED, latency=drawn) as server:
        print(json.dumps([server.base_url, sum(drawn.latencies)]), flush=True)
        sys.stdin.readline()
        print(json.dumps([drawn.last - drawn.first, drawn.first, server.most_in_flight]), flush=True)
