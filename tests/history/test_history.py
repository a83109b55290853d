from __future__ import annotations

import json
import multiprocessing
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_samples import full_case, run_info, set_info

from pytest_memeval.cli.main import main
from pytest_memeval.history.series import breaks, history_html, history_text, series_of, sparkline
from pytest_memeval.history.store import HISTORY_NAME, History, HistoryError, HistoryRow, row_of
from pytest_memeval.report.build import build_report


def row(number: int, *, root: str = "", cases: int = 6, **fields: Any) -> HistoryRow:
    info = run_info(
        run_id=f"run-{number:03}", timestamp=f"2026-08-{number + 1:02}T10:00:00+00:00", config={"rootdir": root}
    )
    report = build_report(info, [set_info()], [full_case(one) for one in range(1, cases + 1)])
    return replace(row_of(report), **fields)


def test_rows_come_back_as_they_went(tmp_path: Path) -> None:
    history = History(tmp_path / "new")
    assert history.rows() == []
    first, second = row(1), row(0)
    assert history.append(first) is None
    assert history.append(second) is None
    # In the order of their times; a run that is added again replaces.
    assert history.append(replace(first, prompts="v009")) is None
    assert [one.run_id for one in history.rows()] == ["run-000", "run-001"]
    assert history.rows()[0] == second
    assert history.rows()[1].prompts == "v009"
    value, low, high, cases = second.metrics["l1.dimension_micro_f1"]
    assert low is not None
    assert value is not None
    assert high is not None
    assert low < value < high
    assert cases == 6


def _append(folder: str, start: int) -> None:
    for number in range(start, start + 8):
        History(Path(folder)).append(row(number % 28, run_id=f"run-{number:03}"))


def test_f12_many_processes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn" if sys.platform == "win32" else "fork")
    processes = [context.Process(target=_append, args=(str(tmp_path), 8 * at)) for at in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(History(tmp_path).rows()) == 24


@pytest.mark.parametrize("damage", ["text", "truncated", "foreign", "no table", "empty"])
def test_f12_a_damaged_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    history = History(tmp_path)
    history.append(row(1))
    path = tmp_path / HISTORY_NAME
    if damage == "text":
        path.write_text("no database at all, but long enough to be read as one" * 10, encoding="utf-8")
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:3000])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE other (x)" if damage == "foreign" else "CREATE TABLE t (x)")
        if damage == "no table":
            connection.execute(f"PRAGMA application_id={0x4D45_4D48}")
            connection.execute("PRAGMA user_version=1")
        connection.commit()
        connection.close()
    before = path.read_bytes()
    if damage not in ("empty",):
        with pytest.raises(HistoryError, match="history"):
            history.rows()
        assert path.read_bytes() == before
    aside = history.append(row(2))
    assert [one.run_id for one in history.rows()] == ["run-002"]
    if damage == "empty":
        assert aside is None
    else:
        assert aside == f"{HISTORY_NAME}.damaged-1"
        assert (tmp_path / aside).read_bytes() == before


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.append(row(1))
    connection = sqlite3.connect(history.path)
    connection.execute("PRAGMA user_version=7")
    connection.close()
    for use in (history.rows, lambda: history.append(row(2))):
        with pytest.raises(HistoryError, match="newer version"):
            use()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(HistoryError):
        History(tmp_path / "file" / "inside").append(row(1))


def test_breaks_and_series() -> None:
    first = row(1)
    rows = [
        first,
        replace(row(2), prompts="v003"),
        replace(row(3), case_set_hash="other labels"),
        replace(row(4), case_set_hash="other labels", matcher={"similarity": "hybrid"}),
        row(5, cases=7),
        replace(row(6, cases=7), model="another model"),
    ]
    series = series_of(rows, "l1.dimension_micro_f1")
    assert [(one.model, len(one.points)) for one in series] == [("embedded", 5), ("another model", 1)]
    assert [point.breaks for point in series[0].points] == [(), (), ("labels",), ("matcher",), ("cases", "matcher")]
    assert list(breaks(None, first)) == []
    assert series_of(rows, "l1.nothing") == []


def test_a_case_file_of_one_run_alone_is_no_other_registry() -> None:
    first = replace(row(1), registry={"a.yaml": "1"})
    more = replace(row(2, cases=7), registry={"a.yaml": "1", "b.yaml": "2"})
    assert list(breaks(first, more)) == list(breaks(more, first)) == ["cases"]
    other = replace(row(3), registry={"a.yaml": "2"})
    assert list(breaks(first, other)) == ["registry"]
    assert list(breaks(more, other)) == ["cases", "registry"]


def test_versions_of_an_engine_are_one_series() -> None:
    rows = [
        row(1, engine="own engine 1", engine_name="own engine"),
        row(2, engine="own engine 2", engine_name="own engine"),
    ]
    (series,) = series_of(rows, "l1.dimension_micro_f1")
    assert (series.engine, len(series.points)) == ("own engine", 2)
    shown = history_text([series], "l1.dimension_micro_f1")
    assert "engine version" in shown
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("2026-")] == ["1", "2"]
    page = history_html([series], "l1.dimension_micro_f1")
    assert "<td>2</td>" in page
    # Where it does not change, it is in the title alone.
    shown = history_text(series_of(rows[:1], "l1.dimension_micro_f1"), "l1.dimension_micro_f1")
    assert "engine own engine 1" in shown
    assert "engine version" not in shown


def test_a_file_of_an_earlier_time_gets_the_new_column(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.append(row(1))
    with sqlite3.connect(tmp_path / HISTORY_NAME) as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN engine_name")
    connection.close()
    (old,) = history.rows()
    assert old.engine_name is None
    assert series_of([old], "l1.dimension_micro_f1")[0].engine == old.engine
    assert history.append(row(2)) is None
    assert [one.engine_name for one in history.rows()] == [None, row(2).engine_name]


def test_a_sparkline_has_one_sign_a_run() -> None:
    def at(number: int, value: float) -> HistoryRow:
        return replace(row(number), metrics={"m.x": [value, None, None, 3]})

    [series] = series_of([at(1, 0.1), at(2, 0.5), at(3, 0.9)], "m.x")
    assert sparkline(series.points) == "▁▅█"
    assert sparkline(series.points, ascii_only=True) == "_=#"
    [flat] = series_of([at(1, 0.5), at(2, 0.5)], "m.x")
    assert sparkline(flat.points) == "▅▅"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_f19_text_and_page(lang: str) -> None:
    evil = "<script>alert(1)</script>"
    rows = [row(1), replace(row(2), prompts=evil, case_set_hash="x", partial="selected", git_commit="a" * 40)]
    series = series_of(rows, "l1.dimension_micro_f1")
    shown = history_text(series, "l1.dimension_micro_f1", lang)
    assert "aaaaaaaa" in shown
    assert "│" in shown
    page = history_html(series, "l1.dimension_micro_f1", lang)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<circle") == 2
    assert page.count("stroke-dasharray") == 1


class TestCommand:
    @pytest.fixture
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        history = History(tmp_path / "cache")
        for number in range(3):
            history.append(row(number, root=str(tmp_path)))
        history.append(row(9, root="/somewhere/else"))
        return tmp_path

    def test_lists_and_plots(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["history", "--cache-dir", "cache", "--html", "h.html"]) == 0
        shown = capsys.readouterr().out
        assert shown.count("2026-08-") == 3
        assert "l1.dimension_micro_f1 | model embedded" in shown
        assert (here / "h.html").read_text(encoding="utf-8").count("<circle") == 3
        assert main(["history", "--cache-dir", "cache", "--all-projects", "--last", "2"]) == 0
        assert "2026-08-10" in capsys.readouterr().out
        assert main(["history", "--cache-dir", "cache", "--json", "--metric", "l1.per_dimension_f1.skills"]) == 0
        assert len(json.loads(capsys.readouterr().out)["series"][0]["points"]) == 3

    def test_nothing_to_show(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["history", "--cache-dir", "nowhere"]) == 0
        assert "No run of this project" in capsys.readouterr().out
        assert main(["history", "--cache-dir", "cache", "--metric", "search.ndcg@10"]) == 0
        assert "has a value for search.ndcg@10" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (["--metric", "l1.dimension_micro_f2"], "did you mean"),
            (["--metric", "l1.memory_recall{difficulty=hard}"], "without filters"),
            (["--cache-dir", "bad"], "history"),
            (["--html", "no/such/page.html"], "--html: there is no folder no/such"),
        ],
    )
    def test_bad_input(self, here: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "bad").mkdir()
        (here / "bad" / HISTORY_NAME).write_text("x" * 500, encoding="utf-8")
        assert main(["history", *words]) == 2
        assert sentence in capsys.readouterr().err
