"""10,000 trivial cases against a parametrised test that does the same: figures to read, no limits to fail."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from benchmark_processes import compared, run_pytest

CASES = 10_000
RUNS = 3

ENGINE = """\
from pytest_memeval.values import Memory

ANSWER = Memory(
    id=None, content="called number 7", dimensions=("identity",), memory_type="persona", priority=80.0,
    time_velocity="static", source_message_ids=("msg_1",),
)


class Constant:
    name = "constant"
    version = "1"

    def extract(self, conversation, ctx):
        return [ANSWER]
"""

CONFTEST = """\
import pytest
from constant_engine import Constant


@pytest.fixture(scope="session")
def memeval_engine():
    return Constant()
"""

#: A case, a store, a run and a stage as fixtures of their own, a shared engine, the engine's call and the metrics.
PARAMETRISED = """\
import json
from pathlib import Path

import pytest
from constant_engine import Constant
from pytest_memeval.cases.models import GtMemory
from pytest_memeval.metrics.l1 import compute_l1

ROWS = json.loads(Path(__file__).with_name("many.json").read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="session")
def engine():
    return Constant()


@pytest.fixture
def case(row):
    return row


@pytest.fixture
def db():
    connections = {}
    yield connections
    for connection in connections.values():
        connection.close()


@pytest.fixture
def run(case, db, engine):
    return engine


@pytest.fixture
def l1(run, case):
    predicted = run.extract(case["conversation"], None)
    truth = []
    for memory in case["expected_l1"]["memories"]:
        sources = tuple(memory["source_message_ids"])
        truth.append(GtMemory(**{**memory, "dimensions": tuple(memory["dimensions"]), "source_message_ids": sources}))
    return compute_l1(predicted, truth)


@pytest.mark.parametrize("row", ROWS, ids=[row["case_id"] for row in ROWS])
def test_case(case, db, run, l1):
    assert l1.section().ratios
"""


def _case(number: int) -> dict[str, object]:
    return {
        "case_id": f"eval-{number:05}",
        "source": "synthetic",
        "difficulty": "easy",
        "conversation": [{"id": "msg_1", "role": "user", "content": f"I am called number {number}"}],
        "expected_l1": {
            "memories": [
                {
                    "content": f"called number {number}",
                    "dimensions": ["identity"],
                    "memory_type": "persona",
                    "priority": 80,
                    "time_velocity": "static",
                    "source_message_ids": ["msg_1"],
                }
            ]
        },
    }


def _write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"pytest.ini": "[pytest]\n", "constant_engine.py": ENGINE, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_many_trivial_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # JSON is YAML; one case a line.
    rows = ",\n".join(json.dumps(_case(number)) for number in range(CASES))
    text = f'{{"meta": {{"version": "v1"}}, "cases": [\n{rows}\n]}}\n'
    cases = _write(tmp_path / "cases-project", {"conftest.py": CONFTEST, "cases/many.yaml": text})
    plain = _write(tmp_path / "plain-project", {"many.json": text, "test_many.py": PARAMETRISED})
    options = ("--memeval-stages", "l1", "--memeval-no-gate", "--memeval-output", "out")
    # Order and reruns of other plugins belong to neither side.
    both = ("-p", "no:randomly", "-p", "no:rerunfailures")
    as_cases, as_tests = [], []
    for _ in range(RUNS):
        as_cases.append(run_pytest(cases, "cases/many.yaml", *options, *both, cache=tmp_path))
        as_tests.append(run_pytest(plain, *both, cache=tmp_path))
    assert all(f"{CASES} passed" in run.output for run in (*as_cases, *as_tests))
    report = json.loads((cases / "out" / "report.json").read_text(encoding="utf-8"))
    assert len(report["per_case"]) == CASES
    assert report["l1"]["counts"]["scored"] == CASES
    peaks = [statistics.median(run.peak for run in runs) for runs in (as_cases, as_tests)]
    with capsys.disabled():
        print("\n" + compared(f"{CASES} trivial cases", as_cases, as_tests, ("as cases", "as a parametrised test")))
        print(f"peak memory: {peaks[0]:.0f} MB as cases, {peaks[1]:.0f} MB as a parametrised test")
