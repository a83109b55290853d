"""Whichever way items are shared out among workers, and whenever some of these die: every item is run, and once."""

from __future__ import annotations

import queue
import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from pytest_memeval.workers.schedule import keep_begun, outlive, scheduling

SHUTDOWN = "shutdown"
#: Questions of conversations, cases and tests of two files, and some that name a group.
ITEMS = (
    *(f"talks.json::talk{n // 5}::q{n}" for n in range(20)),
    *(f"cases/a.yaml::c{n}" for n in range(12)),
    *(f"cases/b.yaml::c{n}" for n in range(3)),
    *(f"test_x.py::test_{n}@group{n % 2}" for n in range(4)),
)


class Worker:
    """The far end of a worker, as xdist's is: it begins an item when it knows the next, or that there is none."""

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.near: Any = WorkerController.__new__(WorkerController)
        self.near.gateway = type("Gateway", (), {"id": f"gw{number}", "spec": f"gw{number}"})()
        self.near.log = Producer("worker", enabled=False)
        self.near._down = self.near._shutdown_sent = False
        self.near.channel = self
        outlive(self.near, lambda: False)
        self.torun: queue.Queue[Any] = queue.Queue()
        self.dead = self.ended = False
        #: What it says before its first item.
        self.greetings = ["collected", "ready"]
        self.steal: Callable[[Sequence[int]], None] = self._nothing
        # Some items have begun ahead of their turn, and are not parted with.
        keep_begun(self, lambda place: place % 3 > 0, self._nothing)

    def _nothing(self, places: Sequence[int]) -> None:
        pass

    def sendevent(self, name: str, **given: Any) -> None:
        self.session.tell(name, self, **given)

    def send(self, message: tuple[str, dict[str, Any]]) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        name, given = message
        if name == "steal":
            self.steal(given["indices"])
        for item in given["indices"] if name == "runtests" else (SHUTDOWN,) if name == SHUTDOWN else ():
            self.torun.put(item)

    @property
    def can_step(self) -> bool:
        waiting = self.torun.queue
        return not self.dead and not self.ended and bool(self.greetings or len(waiting) > 1 or SHUTDOWN in waiting)

    def step(self) -> None:
        if self.greetings:
            self.sendevent(self.greetings.pop())
            return
        item = self.torun.get()
        self.ended = item == SHUTDOWN
        if self.ended:
            self.sendevent("finished")
        else:
            self.sendevent("complete", item=item)

    def die(self) -> None:
        self.dead = True
        self.sendevent("errordown")


class Session:
    """xdist's session, one event after the other in an order drawn by lot."""

    def __init__(self, scheduler: Any, items: list[str], seed: int, *, kills: int, again: bool) -> None:
        self.scheduler = scheduler
        self.items = items
        self.random = random.Random(seed)
        self.kills = kills
        self.again = again
        self.ending = False
        self.events: deque[tuple[str, Worker, dict[str, Any]]] = deque()
        self.workers: list[Worker] = []
        self.done: Counter[str] = Counter()
        self.places: dict[str, Worker] = {}
        self.crashed: Counter[str] = Counter()

    def tell(self, name: str, worker: Worker, **given: Any) -> None:
        self.events.append((name, worker, given))

    def start(self) -> None:
        self.workers.append(Worker(self, len(self.workers)))

    def run(self, workers: int) -> None:
        for _ in range(workers):
            self.start()
        while True:
            able = [worker for worker in self.workers if worker.can_step]
            alive = [worker for worker in self.workers if not worker.dead and not worker.ended]
            if not self.events and not able:
                return
            chance = self.random.random()
            if self.kills and alive and chance < 0.05:
                self.kills -= 1
                self.random.choice(alive).die()
            elif able and (chance < 0.5 or not self.events):
                self.random.choice(able).step()
            elif self.events:
                self.take(*self.events.popleft())

    def take(self, name: str, worker: Worker, given: dict[str, Any]) -> None:
        near = worker.near
        if name == "ready" and self.ending:
            near.shutdown()
        elif name == "ready":
            self.scheduler.add_node(near)
        elif name == "collected" and not self.ending:
            self.scheduler.add_node_collection(near, self.items)
            if self.scheduler.collection_is_completed:
                self.scheduler.schedule()
        elif name == "complete":
            item = self.items[given["item"]]
            self.done[item] += 1
            self.places[item] = worker
            self.scheduler.mark_test_complete(near, given["item"], 0.0)
        elif name == "unscheduled":
            self.scheduler.remove_pending_tests_from_node(near, given["indices"])
        elif name == "finished":
            near._down = True
            if near in self.scheduler.nodes:
                assert self.scheduler.remove_node(near) is None
        elif name == "errordown":
            self.errordown(near)
        if self.scheduler.tests_finished:
            self.ending = True
            for node in self.scheduler.nodes:
                node.shutdown()

    def errordown(self, near: Any) -> None:
        near._down = True
        try:
            crashed = self.scheduler.remove_node(near)
        except KeyError:  # it had been told to end
            crashed = None
        if crashed is not None:
            self.crashed[crashed] += 1
            if self.again and self.crashed[crashed] == 1:
                self.scheduler.mark_test_pending(crashed)
        self.ending = False
        self.start()


#: What the user chose, whether cases run ahead, whether the items hold conversations.
CHOICES = [
    *((kind, True, True) for kind in ("no", "worksteal", "loadscope", "loadfile", "loadgroup")),
    ("no", True, False),
    ("no", False, False),
]


@pytest.fixture
def make(pytester: pytest.Pytester) -> Callable[..., Any]:
    config = pytester.parseconfig("-p", "xdist", "-n", "2", "--tx", "2*popen")
    log = Producer("test", enabled=False)

    def scheduler(kind: str, *, ahead: bool = True, in_turn: bool = False) -> Any:
        return scheduling(config, log, kind, lambda ids: True, ahead=ahead, in_turn=in_turn)

    return scheduler


@pytest.mark.parametrize("again", [False, True], ids=["errored", "again"])
@pytest.mark.parametrize(("kind", "ahead", "talks"), CHOICES)
def test_every_item_is_run_once_whenever_workers_die(
    make: Callable[..., Any], kind: str, *, ahead: bool, talks: bool, again: bool
) -> None:
    items = [item for item in ITEMS if talks or not item.startswith("talks")]
    for seed in range(150):
        kills = seed % 6
        scheduler = make(kind, ahead=ahead, in_turn=seed % 2 == 1)
        session = Session(scheduler, items, seed, kills=kills, again=again)
        session.run(2)
        lost = set(items) - set(session.done) - set(session.crashed)
        assert not lost, f"seed {seed}: never run: {sorted(lost)}"
        assert max(session.done.values()) == 1, f"seed {seed}: {session.done.most_common(1)}"
        assert session.crashed.total() <= kills
        for item, deaths in session.crashed.items():
            assert (item in session.done) == (again and deaths == 1), f"seed {seed}: {item}"


@pytest.mark.parametrize(("kind", "parts"), [("no", 2), ("loadscope", 2), ("loadfile", 1)])
def test_without_deaths_a_scope_stays_with_one_worker(make: Callable[..., Any], kind: str, parts: int) -> None:
    for seed in range(20):
        session = Session(make(kind), list(ITEMS), seed, kills=0, again=False)
        session.run(2)
        assert sum(session.done.values()) == len(ITEMS)
        where: dict[str, set[Worker]] = {}
        for item, worker in session.places.items():
            if item.startswith("talks"):
                where.setdefault("::".join(item.split("::")[:parts]), set()).add(worker)
        assert [len(workers) for workers in where.values()] == [1] * len(where)
        assert len(set(session.places.values())) == 2
