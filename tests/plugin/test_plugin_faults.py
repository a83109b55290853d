"""Each fault of a model server through a whole run, in one process and in two: every case ends as it should, nothing is
lost, nothing hangs, and the report's attempts are the requests that the server saw."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chat_server as fake
import pytest
from chat_project import NAME, ChatProject, full_case, good_answer, simple_case
from plugin_project import MODES

GATE = "P0 l1.dimension_micro_f1 >= 0.5"


@dataclass(frozen=True)
class Fault:
    """``make`` answers the first ``times`` requests of a case (0: all of them); then it has ``kind`` of error, or
    none, after ``attempts`` requests."""

    make: Callable[[], fake.Reply]
    kind: str | None
    attempts: int
    times: int = 0
    timeout: float | None = None


#: With --memeval-max-attempts 2.
MATRIX: dict[str, Fault] = {
    "healthy": Fault(lambda: fake.Raw(action="never"), None, 1, times=-1),
    "500, passing": Fault(lambda: fake.status(500), None, 2, times=1),
    "500, lasting": Fault(lambda: fake.status(500), "model_unavailable", 2),
    "429, passing": Fault(fake.rate_limited, None, 2, times=1),
    "429, lasting": Fault(fake.rate_limited, "model_unavailable", 2),
    "429 with Retry-After, passing": Fault(lambda: fake.rate_limited("1"), None, 2, times=1),
    "429 with Retry-After, lasting": Fault(lambda: fake.rate_limited("0"), "model_unavailable", 2),
    "dropped, passing": Fault(fake.dropped, None, 2, times=1),
    "dropped, lasting": Fault(fake.dropped, "model_unavailable", 2),
    "cut, lasting": Fault(fake.cut, "model_unavailable", 2),
    "junk body, passing": Fault(fake.junk, None, 2, times=1),
    "junk body, lasting": Fault(fake.junk, "model_unavailable", 2),
    "hang": Fault(fake.hang, "timeout", 1, timeout=2),
    "truncated": Fault(fake.truncated, "truncated", 1),
    "truncated, no text": Fault(lambda: fake.truncated(None), "truncated", 1),
    "refused": Fault(fake.refused, "refused", 1),
    "filtered": Fault(fake.filtered, "refused", 1),
    "empty": Fault(fake.empty, "empty_answer", 1),
    "junk text": Fault(lambda: fake.Answer("I found nothing special."), "unusable_answer", 1),
    "unclosed reasoning": Fault(lambda: fake.Answer("<think>let me see [1, 2"), "unusable_answer", 1),
    "overflow": Fault(fake.overflow, "context_overflow", 1),
    "rejected": Fault(lambda: fake.error(400, "no such model"), "rejected", 1),
    "reasoning": Fault(lambda: fake.Raw(action="think"), None, 1),
}
NUMBERS = dict(enumerate(MATRIX, 1))


class FaultyServer:
    """The script of a server that meets case n with fault n, and counts what each case sent."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.healthy = False
        self._lock = threading.Lock()

    def __call__(self, request: fake.Request) -> fake.Reply:
        match = NAME.search(request.prompt)
        assert match is not None
        number = int(match[1])
        with self._lock:
            self.seen[number] += 1
            count = self.seen[number]
        fault = MATRIX[NUMBERS[number]]
        good = good_answer(request)
        if self.healthy or (fault.times and count > fault.times):
            return good
        reply = fault.make()
        if isinstance(reply, fake.Raw) and reply.action == "think":
            return fake.thinking(good, thought='maybe [{"content": "x"}]')
        return reply


def faulty_cases() -> list[dict[str, Any]]:
    cases = []
    for number, name in NUMBERS.items():
        timeout = MATRIX[name].timeout
        cases.append(simple_case(number, **({} if timeout is None else {"timeout": timeout})))
    return cases


@pytest.mark.parametrize("mode", [("--memeval-concurrency", "1"), (), ("-n", "2")], ids=["serial", "concurrent", "n2"])
def test_each_fault_ends_in_its_outcome(chat: ChatProject, mode: tuple[str, ...]) -> None:
    script = chat.server.script = FaultyServer()
    chat.cases(faulty_cases(), gates=[GATE])
    options = ("--memeval-max-attempts", "2", "--memeval-request-timeout", "30", *mode)
    began = time.monotonic()
    result = chat.chat(*options, fresh=True)
    assert time.monotonic() - began < 40
    errored = sum(fault.kind is not None for fault in MATRIX.values())
    result.assert_outcomes(passed=len(MATRIX) - errored, errors=errored)
    assert result.ret == 1
    report = chat.report()
    assert report["counts"] == {
        "scored": len(MATRIX) - errored, "errored": errored, "skipped": 0, "not_run": 0, "total": len(MATRIX),
    }  # fmt: skip
    assert report["gates"][0]["status"] == "unmeasured"
    entries, twice = chat.entries(), 0
    for number, name in NUMBERS.items():
        fault, entry = MATRIX[name], entries[f"eval-{number:03}"]
        kinds = [error["kind"] for error in entry["errors"]]
        assert kinds == ([] if fault.kind is None else [fault.kind]), name
        assert [error["stage"] for error in entry["errors"]] == ["l1"] * len(kinds), name
        assert entry["l1_f1"] == (1.0 if fault.kind is None else None), name
        if script.seen[number] != fault.attempts:
            # A case that one worker had prepared when another took it over was asked by both; the report counts them.
            assert script.seen[number] == 2 * fault.attempts, name
            twice += 1
        if name != "hang":  # its call was given up with the case
            assert [call["attempts"] for call in entry["timings"]["calls"]] == [fault.attempts], name
    assert twice <= report["environment"].get("prepared_in_vain", 0)
    assert 1.9 < entries[f"eval-{list(MATRIX).index('hang') + 1:03}"]["duration_seconds"] < 6
    assert "max_tokens" in entries[f"eval-{list(MATRIX).index('truncated') + 1:03}"]["errors"][0]["message"]

    # F11: nothing of what failed is recorded, and everything else is.
    script.healthy = True
    before = chat.server.count
    chat.chat(*options, fresh=True).assert_outcomes(passed=len(MATRIX))
    strays = chat.report()["environment"].get("prepared_in_vain", 0)
    assert errored <= chat.server.count - before <= errored + strays
    chat.chat("--memeval-cache", "replay", *mode, fresh=True).assert_outcomes(passed=len(MATRIX))


@MODES
@pytest.mark.parametrize("stage", ["l1_conflict", "l2_scene"])
def test_a_fault_of_a_later_stage_leaves_the_earlier_ones_measured(
    chat: ChatProject, mode: tuple[str, ...], stage: str
) -> None:
    from chat_project import prompt_stage

    def script(request: fake.Request) -> fake.Reply:
        bad = prompt_stage(request) == stage and "number 2 is" in request.prompt
        return fake.status(500) if bad else good_answer(request)

    chat.server.script = script
    chat.cases([full_case(number) for number in range(1, 4)])
    chat.chat("--memeval-max-attempts", "1", *mode, fresh=True).assert_outcomes(passed=2, errors=1)
    entry = chat.entries()["eval-002"]
    failed = {"l1_conflict": "l15", "l2_scene": "l2"}[stage]
    assert entry["stages"]["l1"] == "scored"
    assert entry["stages"][failed] == "errored"
    assert entry["stages"]["l2"] == ("void" if failed == "l15" else "errored")
    assert [error["stage"] for error in entry["errors"]] == [failed]


@MODES
def test_rejected_parameters_are_learnt_once(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.server.rejects = {"max_tokens", "temperature", "json_schema"}
    chat.cases([simple_case(number) for number in range(1, 13)])
    chat.chat(*mode, fresh=True).assert_outcomes(passed=12)
    processes = 2 if mode else 1
    # Three requests tell a process how this server wants to be asked.
    assert chat.server.count == 12 + 3 * processes
    assert chat.report()["timings"]["calls"]["attempts"] == chat.server.count


@MODES
@pytest.mark.parametrize("fault", [fake.unauthorized, fake.insufficient_quota], ids=["401", "quota"])
def test_quota_and_authentication_end_the_asking_with_one_message(
    chat: ChatProject, mode: tuple[str, ...], fault: Callable[[], fake.Reply]
) -> None:
    lock, asked = threading.Lock(), [0]

    def script(request: fake.Request) -> fake.Reply:
        with lock:
            asked[0] += 1
            return fault() if asked[0] > 10 else good_answer(request)

    chat.server.script = script
    chat.cases([simple_case(number) for number in range(1, 61)], gates=[GATE])
    result = chat.chat(*mode, fresh=True)
    result.assert_outcomes(passed=10, errors=50)
    assert result.ret == 1
    # Each process finds it out by the requests that it has in flight, eight at most.
    assert 10 < chat.server.count <= 10 + 8 * (2 if mode else 1)
    report = chat.report()
    assert report["counts"]["errored"] == 50
    errors = [error for entry in report["per_case"] for error in entry["errors"]]
    assert {error["kind"] for error in errors} == {"quota_or_auth"}
    assert len({error["message"] for error in errors}) == 1
    assert report["gates"][0]["status"] == "unmeasured"
    (note,) = [note for note in report["notes"] if note.startswith("The model server ended")]
    assert "50 case(s) could not be measured" in note
    assert "no further call is made in this run" in note
    assert report["timings"]["calls"]["attempts"] == chat.server.count


@MODES
def test_no_key_is_one_error_before_any_case(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.cases([simple_case(number) for number in range(1, 4)])
    result = chat.chat("--memeval-base-url", "https://api.openai.com/v1", *mode, fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str()
    assert text.count("needs a key: set MEMEVAL_API_KEY or OPENAI_API_KEY") == 1
    assert "eval-001" not in text + result.stdout.str()


@MODES
def test_f33_an_echoed_key_reaches_no_file_and_no_terminal(
    chat: ChatProject, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    key = "plugh-very-secret-key-13579"
    monkeypatch.setenv("MEMEVAL_API_KEY", key)

    def script(request: fake.Request) -> fake.Reply:
        assert request.headers["authorization"] == f"Bearer {key}"
        match = NAME.search(request.prompt)
        assert match is not None
        return {
            1: fake.error(400, f"bad request with {request.headers['authorization']}"),
            2: fake.refused(f"I will not say {key}"),
            3: fake.Answer(f"no JSON but {key}", model=f"model-{key}"),
            4: fake.status(500, f"Authorization: Bearer {key}"),
            5: fake.unauthorized(f"Incorrect API key provided: {key}"),
        }[int(match[1])]

    chat.server.script = script
    chat.cases([simple_case(number) for number in range(1, 6)])
    url = chat.server.base_url.replace("http://", "http://user:hunter2-password@")
    monkeypatch.delenv("MEMEVAL_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    result = chat.chat(
        "--memeval-max-attempts", "1", "--junitxml", "out/junit.xml", "-v", "--showlocals", *mode, fresh=True
    )
    result.assert_outcomes(errors=5)
    texts = result.stdout.str() + result.stderr.str()
    assert key not in texts
    assert "<redacted>" in texts
    _nothing_holds(chat, key)
    chat.server.script = lambda request: good_answer(request)
    result = chat.chat("--memeval-base-url", url, *mode, fresh=True)
    result.assert_outcomes(passed=5)
    assert "hunter2" not in result.stdout.str()
    report = chat.report()
    assert report["model"]["endpoint"] == chat.server.base_url
    assert "hunter2" not in str(report)


def _nothing_holds(chat: ChatProject, secret: str) -> None:
    import gzip

    files = [path for folder in ("out", "cache") for path in (chat.path / folder).rglob("*") if path.is_file()]
    assert {"report.json", "report.md", "journal.jsonl", "calls.jsonl.gz", "junit.xml", "per_case.csv"} <= {
        path.name for path in files
    }
    for path in files:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert secret.encode() not in data, path


@pytest.mark.slow
@MODES
def test_1000_cases_with_a_fifth_of_the_requests_failing_are_all_accounted_for(
    chat: ChatProject, mode: tuple[str, ...]
) -> None:
    drawn = random.Random(11)
    faults = [
        fault.make for name, fault in MATRIX.items() if name not in ("healthy", "hang", "reasoning") and not fault.times
    ]
    given: Counter[str] = Counter()
    lock = threading.Lock()

    def script(request: fake.Request) -> fake.Reply:
        with lock:
            reply = drawn.choice(faults)() if drawn.random() < 0.2 else good_answer(request)
            given["good" if isinstance(reply, str) else "bad"] += 1
            return reply

    chat.server.script = script
    chat.cases([simple_case(number) for number in range(1, 1001)], gates=[GATE])
    result = chat.chat("--memeval-max-attempts", "3", *mode, "-q", fresh=True)
    report = chat.report()
    counts = report["counts"]
    assert counts["total"] == 1000
    assert counts["scored"] == given["good"]  # no good answer was lost
    assert counts["errored"] == 1000 - given["good"]
    assert counts["not_run"] == counts["skipped"] == 0
    assert report["timings"]["calls"]["attempts"] == chat.server.count == given.total()
    assert report["gates"][0]["status"] == "unmeasured"
    assert result.ret == 1
    assert all(len(entry["errors"]) == (entry["outcome"] == "errored") for entry in report["per_case"])
    print(dict(counts), "attempts", chat.server.count, "faults", given["bad"])
