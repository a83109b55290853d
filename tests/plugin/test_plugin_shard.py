"""A run shared out over machines: every case on one of them, and one report and verdict in the end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import case, good_cases, stable

from pytest_memeval.cli.main import main
from pytest_memeval.settings.shard import shard_of

if TYPE_CHECKING:
    from plugin_project import Project

GATE = ("--memeval-gate", "P0 l1.memory_recall >= 0.9")


def two_files(project: Project, *more: dict[str, Any]) -> None:
    project.cases(good_cases(9))
    project.cases([*good_cases(3), *more], "cases/other.yaml", gates=["P0 l1.dimension_micro_f1 >= 0.5"])


def parts(project: Project, count: int, *options: str) -> list[str]:
    """Run every part, the first with two processes, each with an output folder of its own."""
    folders = []
    for index in range(1, count + 1):
        mode = ("-n", "2") if index == 1 and options else ()
        folders.append(f"part{index}")
        project.run(*mode, "--memeval-shard", f"{index}/{count}", "--memeval-output", folders[-1], *options)
    return folders


@pytest.fixture
def merge(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(project.path)

    def merge(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main(["merge", "--output", "merged", *arguments])
        told = capsys.readouterr()
        return status, told.out + told.err

    return merge


def test_the_merged_report_is_that_of_one_machine(project: Project, merge: Any) -> None:
    """With errors, missed thresholds, gates of files and of the command line."""
    missed = case("eval-100", "identity: x", truth=[("skills", "quite another")], expect={"l1.memory_recall": ">= 0.5"})
    two_files(project, missed, case("eval-101", "raise", truth=[("identity", "x")]))
    folders = parts(project, 3, *GATE)
    for folder in folders:
        report = project.report(folder)
        assert report["gates"] == []
        assert report["notes"][0].startswith(f"Part {folder[-1]} of 3")
    status, said = merge(*folders)
    whole = project.run(*GATE, "--memeval-output", "whole")
    assert status == whole.ret == 1
    assert stable(project.report("merged")) == stable(project.report("whole"))
    assert len(project.report("merged")["gates"]) == 3
    assert "P0     l1.memory_recall" in said
    assert sorted(project.journal("merged")) == sorted(project.journal("whole"))
    assert len(project.report("merged")["environment"]["merged"]) == 3


def test_exit_status_of_parts_and_of_the_whole(project: Project, merge: Any) -> None:
    """A missed gate is no failure of a part; the whole it fails."""
    wrong = [case(f"eval-{n:03}", f"identity: n {n}", truth=[("skills", "wholly other")]) for n in range(1, 5)]
    project.cases(wrong, gates=["P0 l1.memory_recall >= 0.5"])
    for index in (1, 2):
        result = project.run("--memeval-shard", f"{index}/2", "--memeval-output", f"part{index}")
        assert result.ret == 0
    status, said = merge("part1", "part2")
    assert status == 1
    assert "a P0 gate was missed" in said or project.report("merged")["summary"]["passed_p0"] is False
    assert project.run().ret == 1
    project.cases(wrong, gates=["P0 l1.memory_recall < 0.5"])
    parts(project, 2)
    assert merge("part1", "part2")[0] == 0


def test_a_part_without_cases_is_no_failure(project: Project, merge: Any) -> None:
    project.cases(good_cases(1))
    index = shard_of("cases/v001.yaml::eval-001", 5)
    other = index % 5 + 1
    for mode in ((), ("-n", "2")):
        result = project.run(*mode, "--memeval-shard", f"{other}/5", "--memeval-output", "none")
        assert result.ret == 0
        result.stdout.fnmatch_lines([f"memeval: none of the run's 1 case(s) falls to part {other}/5"])
    assert not (project.path / "none").exists()
    assert project.run("--memeval-shard", f"{other}/5", "-k", "nothing-like-it").ret == 5
    project.run("--memeval-shard", f"{index}/5", "--memeval-output", "some")
    assert merge("some")[0] == 0


def test_gaps_overlaps_and_differences_are_listed(project: Project, merge: Any) -> None:
    two_files(project)
    parts(project, 3)

    def refused(*arguments: str) -> str:
        status, said = merge(*arguments)
        assert status == 2
        assert not (project.path / "merged").exists()
        return said

    first, second = (len(project.report(name)["per_case"]) for name in ("part1", "part2"))
    said = refused("part1", "part3")
    assert f"{second} case(s) of part 2/3 have no result (its report is missing): cases/" in said
    assert f"{first} case(s) are in both copy and part1" in refused(
        copy(project, "part1", "copy"), "part1", "part2", "part3"
    )
    project.run("--memeval-shard", "2/3", "--memeval-output", "other", "--memeval-matcher", "difflib")
    said = refused("part1", "other", "part3")
    assert 'option matcher differs: "indel" in part1, "difflib" in other.' in said
    project.run("--memeval-shard", "2/3", "--memeval-output", "limited", "--memeval-limit", "2")
    assert "option limit differs" in refused("part1", "limited", "part3")
    project.run("--memeval-shard", "1/2", "--memeval-output", "half")
    assert "different divisions: half is 1/2, part1 is 1/3" in refused("half", "part1")
    project.run("--memeval-output", "whole")
    assert "whole is the report of a whole run" in refused("whole", "part1")
    cases = good_cases(9)
    project.cases([{**entry, "notes": "changed"} for entry in cases])
    project.run("--memeval-shard", "2/3", "--memeval-output", "changed")
    project.cases([*cases, case("eval-050", "identity: one more")])
    project.run("--memeval-shard", "2/3", "--memeval-output", "more")
    assert "case file cases/v001.yaml differs" in refused("part1", "more", "part3")
    assert "text of cases/v001.yaml differs" in refused("part1", "changed", "part3")


def copy(project: Project, folder: str, name: str) -> str:
    shutil.copytree(project.path / folder, project.path / name)
    return name


def test_a_part_cut_short_leaves_a_gap_until_it_is_gone_on_with(project: Project, merge: Any) -> None:
    broken = [case(f"eval-{n:03}", "raise", truth=[("identity", "x")]) for n in range(1, 4)]
    project.cases([*broken, *good_cases(9)[3:]])
    index = shard_of("cases/v001.yaml::eval-001", 2)
    for number in (1, 2):
        project.run("-x", "--memeval-shard", f"{number}/2", "--memeval-output", f"part{number}")
    status, said = merge("part1", "part2")
    assert status == 2
    assert f"of part {index}/2 have no result (part{index} did not run them)" in said
    for number in (1, 2):
        project.run(
            "--memeval-shard", f"{number}/2", "--memeval-output", f"part{number}", "--memeval-resume", f"part{number}"
        )
    assert merge("part1", "part2")[0] == 1
    project.run("--memeval-output", "whole")
    assert stable(project.report("merged")) == stable(project.report("whole"))


def test_tests_by_hand_are_shared_out_with_the_cases(project: Project, merge: Any) -> None:
    project.cases(good_cases(2))
    project.write(
        "test_own.py",
        """
        import pytest


        @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
        @pytest.mark.parametrize("number", range(6))
        def test_own(memeval_l1, number):
            assert memeval_l1.output


        def test_other():
            pass
        """,
    )
    passed = [
        project.run("--memeval-shard", f"{n}/2", "--memeval-output", f"part{n}").parseoutcomes()["passed"]
        for n in (1, 2)
    ]
    assert sum(passed) == 2 + 6 + 2  # the ordinary test runs in both
    assert merge("part1", "part2")[0] == 0
    project.run("--memeval-output", "whole")
    assert stable(project.report("merged")) == stable(project.report("whole"))


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/b", "1/0"])
def test_a_part_that_there_is_not(project: Project, text: str) -> None:
    project.cases(good_cases(1))
    result = project.run("--memeval-shard", text)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--memeval-shard: *"])


def test_parts_are_the_same_everywhere() -> None:
    """The division may never change: machines of one run may have different versions of Python."""
    assert [shard_of(f"cases/v001.yaml::eval-{n:03}", 5) for n in range(1, 11)] == EXPECTED
    counts = [0] * 5
    for n in range(5000):
        counts[shard_of(f"cases/v001.yaml::eval-{n}", 5) - 1] += 1
    assert max(counts) < 1.1 * min(counts)


EXPECTED = [3, 4, 4, 5, 5, 3, 3, 3, 1, 2]


def test_the_journal_of_parts_holds_every_call(project: Project, merge: Any) -> None:
    """Model calls of all parts are in the merged folder, in the order of a whole run."""
    import gzip

    def calls(folder: str) -> list[dict[str, Any]]:
        with gzip.open(project.path / folder / "calls.jsonl.gz", "rt", encoding="utf-8") as file:
            return [{**json.loads(line), "latency": 0} for line in file]

    Path(project.path / "conftest.py").write_text("", encoding="utf-8")
    project.cases(good_cases(4))
    for number in (1, 2):
        project.run("--memeval-shard", f"{number}/2", "--memeval-output", f"part{number}", "--memeval-llm", "embedded")
    assert merge("part2", "part1")[0] in (0, 1)
    project.run("--memeval-output", "whole", "--memeval-llm", "embedded")
    assert calls("merged") == calls("whole")
    assert len(calls("whole")) == 4


def history_rows(project: Project, folder: str) -> list[Any]:
    from pytest_memeval.history.store import History

    return History(project.path / folder).rows()


@pytest.mark.parametrize("cache", [(), ("--memeval-cache-dir", "own-cache")])
def test_the_merged_run_is_a_run_of_the_history(project: Project, merge: Any, cache: tuple[str, ...]) -> None:
    """The parts leave no row, the whole leaves the one that a single machine would have left."""
    two_files(project)
    folder = "own-cache" if cache else "user-cache/pytest-memeval"
    folders = parts(project, 2, *GATE, *cache)
    assert history_rows(project, folder) == []
    status, _ = merge(*folders)
    assert status == 0
    (row,) = history_rows(project, folder)
    assert row.run_id == project.report("merged")["run_id"]
    assert row.partial is None
    assert row.folder == str(project.path / "merged")
    project.run(*GATE, *cache, "--memeval-output", "whole")
    (_, other) = history_rows(project, folder)
    assert (row.case_set_hash, row.engine, row.prompts, row.metrics) == (
        other.case_set_hash,
        other.engine,
        other.prompts,
        other.metrics,
    )


@pytest.mark.parametrize("by", ["parts", "command"])
def test_a_merged_run_leaves_no_row_where_none_is_wanted(project: Project, merge: Any, by: str) -> None:
    two_files(project)
    folders = parts(project, 2, *(("--memeval-no-history",) if by == "parts" else GATE))
    merge(*folders, *(("--no-history",) if by == "command" else ()))
    assert history_rows(project, "user-cache/pytest-memeval") == []


def test_a_history_that_cannot_be_written_does_not_cost_the_merged_report(project: Project, merge: Any) -> None:
    two_files(project)
    folders = parts(project, 2, *GATE)
    project.write("blocked", "a file")
    status, said = merge(*folders, "--cache-dir", "blocked/cache")
    assert status == 0
    assert "history" in said
    assert project.report("merged")["counts"]["scored"] == 12
