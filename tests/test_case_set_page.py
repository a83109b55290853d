"""What docs/case-set.md and the README say of the shipped set is what the commands say now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval import run
from pytest_memeval.aggregate import aggregate_metric, flat_value
from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.cases.models import CaseSet
from pytest_memeval.cases.statistics import SetStatistics, set_statistics
from pytest_memeval.cli.main import main
from pytest_memeval.llm.recorded import RecordedChatModel
from pytest_memeval.metrics.thresholds import parse_path
from pytest_memeval.report.reader import load_report, records_of
from pytest_memeval.results import CaseResult

ROOT = Path(__file__).resolve().parent.parent
SET = ROOT / "cases" / "v001.yaml"
PAGE = (ROOT / "docs" / "case-set.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
VERSIONS = ("v001", "v002")
MODES = ("daily", "coding", "work", "full")


def table_under(text: str) -> list[list[str]]:
    """The cells of the first table behind ``text`` on the page, head first."""
    rows: list[list[str]] = []
    for line in PAGE[PAGE.index(text) :].splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return [row for row in rows if not set(row[0]) <= {"-", " "} or any(set(cell) - {"-", " "} for cell in row)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The folder of a run over the recorded answers of each prompt version."""
    folder = tmp_path_factory.mktemp("recorded")
    for version in VERSIONS:
        run(
            SET, llm=RecordedChatModel(ROOT / "cases" / "recorded" / "answers.jsonl"), prompt_version=version,
            output=folder / version, cache_dir=folder / "cache", no_history=True,
        )  # fmt: skip
    return {version: folder / version for version in VERSIONS}


@pytest.fixture(scope="module")
def reports(runs: Mapping[str, Path]) -> Mapping[str, Mapping[str, Any]]:
    return {version: load_report(folder) for version, folder in runs.items()}


@pytest.fixture(scope="module")
def case_set() -> CaseSet:
    return load_case_set(SET)


@pytest.fixture(scope="module")
def statistics(case_set: CaseSet) -> SetStatistics:
    return set_statistics(case_set)


# -- figures of the recorded answers


def shown(records: Sequence[CaseResult], metric: str, *, interval: bool = True) -> str:
    """A figure as the page shows it."""
    path = parse_path(metric)
    section = aggregate_metric(records, path)
    value = flat_value(section, path)
    assert value is not None, metric
    bounds = section["intervals"].get(path.metric) if interval else None
    return f"{value:.2f}" + (f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else "")


@pytest.mark.parametrize(("title", "holdout"), [("development", False), ("held out", True)])
def test_the_figures_of_both_parts_are_measured(
    reports: Mapping[str, Mapping[str, Any]], title: str, holdout: bool
) -> None:
    part = {
        version: [record for record in records_of(report) if ("holdout" in record.tags) is holdout]
        for version, report in reports.items()
    }
    assert f"**{title}, {len(part['v001'])} cases**" in PAGE
    head, *rows = table_under(f"**{title}, ")
    assert len(rows) == 12
    for version, records in part.items():
        place = head.index(f"recorded {version}")
        measured = {row[0]: shown(records, row[0].strip("`")) for row in rows}
        assert measured == {row[0]: row[place] for row in rows}


def test_the_figures_by_difficulty_and_dimension_are_measured(
    reports: Mapping[str, Mapping[str, Any]], case_set: CaseSet
) -> None:
    head, *rows = table_under("**dimension F1 by difficulty")
    assert case_set.registry is not None
    assert {row[0].strip("`") for row in rows} == {"easy", "medium", "hard", *case_set.registry.ids}
    for version, report in reports.items():
        place = head.index(f"recorded {version}")
        for row in rows:
            metric = (
                f"l1.per_dimension_f1.{row[0].strip('`')}"
                if row[0].startswith("`")
                else f"l1.dimension_micro_f1{{difficulty={row[0]}}}"
            )
            assert (row[0], shown(records_of(report), metric, interval=False)) == (row[0], row[place])


def test_the_readmes_table_is_the_runs(reports: Mapping[str, Mapping[str, Any]]) -> None:
    rows = re.findall(r"^  (P[0-2])     (\S+) +([0-9.]+)  (\[.*?\]) +>= ([0-9.]+) +(\w+)$", README, re.MULTILINE)
    gates = [
        (
            gate["level"], gate["metric"], f"{gate['value']:.3f}",
            f"[{gate['interval'][0]:.3f}, {gate['interval'][1]:.3f}]", f"{gate['threshold']:g}", gate["status"],
        )
        for gate in reports["v002"]["gates"]
    ]  # fmt: skip
    assert rows == gates
    assert [gate[5] for gate in gates].count("missed") == 1


def test_what_the_page_says_of_the_gates_is_so(reports: Mapping[str, Mapping[str, Any]]) -> None:
    missed = {
        version: {gate["metric"] for gate in report["gates"] if gate["status"] != "passed"}
        for version, report in reports.items()
    }
    assert missed == {"v001": {"l1.time_velocity_accuracy", "search.ndcg@10"}, "v002": {"search.ndcg@10"}}
    value = f"{reports['v001']['l1']['time_velocity_accuracy']:.3f}"
    assert (
        f"v001 passes the P0 gates and misses one P1 gate, `l1.time_velocity_accuracy` ({value} against 0.80)" in PAGE
    )
    assert "`search.ndcg@10` 0.41 against 0.60" in PAGE
    assert f"{reports['v002']['search']['ndcg@10']:.2f}" == "0.41"


def test_the_figures_of_power_are_the_commands(runs: Mapping[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", str(runs["v001"]), str(runs["v002"])]) == 0
    found = {}
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("P"):
            _, name, _, cases, same, _, _, _, needed, _ = line.split()
            found[name] = [cases, same, needed]
    head, *rows = table_under("With the recorded answers of both versions:")
    assert head == ["metric", "cases", "finds a difference of", "needs for 0.05"]
    assert len(rows) == 8
    assert {row[0]: row[1:] for row in rows} == {row[0]: found[row[0]] for row in rows}


def test_where_the_longer_prompts_are_worse_is_said(reports: Mapping[str, Mapping[str, Any]]) -> None:
    said = " ".join(PAGE.split())
    v001, v002 = (reports[version] for version in VERSIONS)
    for text, section, metric in (
        ("({new} points on average against {old})", "l1", "priority_mae"),
        ("({new} against {old}), names fewer", "l15", "action_accuracy_reached"),
        ("({new} against {old}), and loses", "l2", "scene_label_recall"),
    ):
        digits = 1 if metric == "priority_mae" else 2
        new, old = (f"{report[section][metric]:.{digits}f}" for report in (v002, v001))
        assert text.format(new=new, old=old) in said


# -- what the set holds


def test_the_table_of_contents_is_counted(case_set: CaseSet, statistics: SetStatistics) -> None:
    rows = dict(row[:2] for row in table_under("prints most of this table") if row[0])
    cases = case_set.cases
    acts: dict[str, int] = {}
    for case in cases:
        for action in case.expected_l15.actions if case.expected_l15 else ():
            acts[action.action] = acts.get(action.action, 0) + 1
    few = sum(case.expected_l1 is not None and len(case.expected_l1.memories) <= 1 for case in cases)
    modes = {
        mode: sum(mode in (case.expected_l2.template_section or {}) for case in cases if case.expected_l2)
        for mode in MODES
    }
    searched = [case for case in cases if case.expected_search]

    def listed(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in counts.items())

    languages = {"Chinese": "zh", "English": "en", "mixed": "mixed"}
    assert rows == {
        "languages by characters": listed({name: statistics.languages[short] for name, short in languages.items()}),
        "difficulty": listed(statistics.difficulties),
        "source": listed(dict(sorted(statistics.sources.items(), reverse=True))),
        "conversations": (
            f"{statistics.messages.low:.0f} to {statistics.messages.high:.0f} messages, median"
            f" {statistics.messages.middle:.0f}; {statistics.characters.low:.0f} to"
            f" {statistics.characters.high:,.0f} characters"
        ),
        "labelled memories": (
            f"{statistics.memories}; {statistics.without_memories} cases with none, {few} with at most one"
        ),
        "conflict resolution": (
            f"{sum(bool(case.expected_l15) for case in cases)} cases: "
            + listed({name: acts[name] for name in ("store", "update", "skip", "merge")})
        ),
        "cases with section labels": listed(modes),
        "cases with scene groupings": str(sum(bool(case.expected_l2 and case.expected_l2.scenes) for case in cases)),
        "cases with injection labels": str(sum(bool(case.expected_inject) for case in cases)),
        "search": (
            f"{statistics.truths['queries']} queries in {len(searched)} cases, asked of all"
            f" {statistics.memories} labelled memories"
        ),
    }


def test_the_table_of_dimensions_is_counted(statistics: SetStatistics) -> None:
    def cells() -> Iterator[list[str]]:
        for dimension, row in statistics.coverage.items():
            total = [sum(pair[place] for pair in row.values()) for place in (0, 1)]
            counts = [f"{memories} ({cases})" if memories else "–" for memories, cases in row.values()]
            yield [dimension, *counts, f"{total[0]} ({total[1]})", str(statistics.alone[dimension])]

    _, *rows = table_under("Labelled memories by dimension")
    assert rows == list(cells())


def test_the_agreement_is_the_commands(case_set: CaseSet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agreement", str(SET)]) == 0
    text = capsys.readouterr().out
    head = re.search(r"(\d+) cases, (\d+) and (\d+) memories, (\d+) matched", text)
    kappa = re.search(r"^all dimensions +([0-9.]+)  (\[[^]]+\])", text, re.MULTILINE)
    settle = re.search(r"to settle: (\d+) disagreements", text)
    assert head
    assert kappa
    assert settle
    assert "not independent" in text
    cases, first, second, both = head.groups()
    said = " ".join(PAGE.split())
    assert f"{cases} cases ({int(cases) / len(case_set.cases):.0%}) carry".replace("%", " %") in said
    assert f"kappa of {kappa[1]} {kappa[2]} over the dimensions of the {both} memories" in said
    assert f"of {first} in the first and {second} in the second, and lists {settle[1]} disagreements" in said
    assert "this is no independent agreement" in said


#: What a set worth gating on has to hold at least, by the counts of ``memeval validate --stats``.
LEAST = {
    **{f"l15 {action}": 10 for action in ("store", "update", "merge", "skip")},
    "section daily": 20, "section coding": 20, "section work": 15, "section full": 10, "injections": 15, "queries": 30,
}  # fmt: skip


def test_the_set_holds_what_a_gate_needs(case_set: CaseSet, statistics: SetStatistics) -> None:
    cases = case_set.cases
    assert len(cases) >= 80
    assert {kind: statistics.truths[kind] for kind in LEAST if statistics.truths[kind] < LEAST[kind]} == {}
    assert set(statistics.sources) == {"synthetic", "edge"}
    told = [
        {label for memory in case.expected_l1.memories for label in memory.dimensions}
        for case in cases
        if case.expected_l1 is not None
    ]
    for dimension, row in statistics.coverage.items():
        assert {dimension} in told, f"{dimension} is the only dimension of no case"
        assert sum(cases for _, cases in row.values()) >= 3, dimension
        assert statistics.alone[dimension] >= 1, dimension
    assert sum(case.expected_l1 is not None and len(case.expected_l1.memories) <= 1 for case in cases) >= 10
    assert sum("holdout" in case.tags for case in cases) >= len(cases) / 3
    assert sum(bool(case.annotations) for case in cases) >= len(cases) / 5
    resolved = [(case, case.expected_l15) for case in cases if case.expected_l15]
    assert len(resolved) >= 15
    for case, expected in resolved:  # each store holds something that looks like a target and is none
        targets = {target for action in expected.actions for target in action.candidate_ids}
        assert {memory.id for memory in case.existing_memories} - targets, case.case_id


def test_queries_are_of_all_three_kinds(case_set: CaseSet) -> None:
    content = {
        f"{case.case_id}#{index}": memory.content
        for case in case_set.cases
        for index, memory in enumerate(case.expected_l1.memories if case.expected_l1 else ())
    }
    queries = [query for case in case_set.cases if case.expected_search for query in case.expected_search.queries]
    letters = [query for query in queries if len(query.query) == 1 and "\u4e00" <= query.query <= "\u9fff"]
    paraphrases = [
        query for query in queries if all(not words(query.query) & words(content[found]) for found in query.relevant)
    ]
    assert len(letters) >= 3
    assert len(paraphrases) >= 10
    assert len(content) > 3 * len(queries)  # what is not relevant distracts: every query is asked of all memories


def words(text: str) -> set[str]:
    """Latin words and numbers, and Chinese characters one by one."""
    return set(re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.casefold()))
