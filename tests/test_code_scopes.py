"""What the gates are told of test modules whose cases are in no file."""

from __future__ import annotations

from itertools import permutations

from pytest_memeval.code_scopes import code_scope, counted, joined
from pytest_memeval.metrics.thresholds import Gate, parse_gate
from pytest_memeval.results import CaseError, CaseResult, SetInfo

INI: tuple[Gate, ...] = (
    parse_gate("P0 l1.memory_recall >= 0.5", "ini"),
    parse_gate("P1 l1.memory_precision >= 0.5", "ini"),
)
FILE = SetInfo("test_it.py", cases=3, gates=(("P0 l1.memory_recall >= 0.9", "file"),), truth_counts={"l1": 3})


def record(name: str, path: str = "test_it.py", **stages: str) -> CaseResult:
    return CaseResult(f"{path}::{name}", path, name, "scored", stages=stages)  # type: ignore[arg-type]  # short for tests


def test_its_gates_are_the_inis_and_it_has_no_default_ones() -> None:
    assert code_scope("test_it.py", INI).gates == (
        ("P0 l1.memory_recall >= 0.5", "ini"),
        ("P1 l1.memory_precision >= 0.5", "ini"),
    )
    assert code_scope("test_it.py", ()).gates == ()


def test_cases_are_counted_by_their_records() -> None:
    records = [
        record("a", l1="scored", l2="unselected", l15="no_truth"),
        record("b", l1="errored", template="ran"),
        record("c", "cases/x.yaml", inject="scored"),
    ]
    selected = {one.node_id: one.set for one in records} | {"test_it.py::d": "test_it.py"}
    sets = {"cases/x.yaml": SetInfo("cases/x.yaml", cases=7), "test_it.py": code_scope("test_it.py", INI, ["identity"])}
    file, module = counted(sets, records, selected, INI)
    assert file == sets["cases/x.yaml"]
    assert (module.cases, module.truth_counts, module.dimensions) == (3, {"l1": 2, "l2": 1}, ("identity",))


def test_a_case_that_left_no_word_counts_for_every_stage() -> None:
    lost = CaseResult(
        "test_it.py::a", "test_it.py", "a", "errored", errors=(CaseError("worker", "worker_crashed", "x"),)
    )
    (module,) = counted({}, [lost], {"test_it.py::a": "test_it.py"}, INI)
    assert module.in_code
    assert module.gates == code_scope("test_it.py", INI).gates
    assert module.truth_counts["l1"] == module.truth_counts["inject"] == 1


def test_a_module_with_both_has_the_files_gates_first_whoever_tells_first() -> None:
    code = code_scope("test_it.py", INI)
    wanted = (("P0 l1.memory_recall >= 0.9", "file"), ("P1 l1.memory_precision >= 0.5", "ini"))
    for order in permutations((FILE, code, code, FILE)):
        known: SetInfo | None = None
        for one in order:
            known = joined(known, one)
        assert known is not None
        assert (known.gates, known.in_code) == (wanted, True)


def test_it_survives_the_report() -> None:
    code = code_scope("test_it.py", INI, ["identity"])
    assert SetInfo.from_json(code.to_json()) == code
    assert "in_code" not in FILE.to_json()
