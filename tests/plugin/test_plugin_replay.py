"""Recorded answers in place of a server: the cache's replay, and a committed file."""

from __future__ import annotations

import json
import re

import pytest
from chat_project import ChatProject, full_case, simple_case
from plugin_project import MODES, stable

from pytest_memeval.report.json_report import dumps


def test_the_second_run_of_200_cases_asks_nothing_and_reports_the_same(chat: ChatProject) -> None:
    chat.cases([full_case(number) for number in range(1, 201)], gates=["P0 l1.dimension_micro_f1 >= 0.5"])
    chat.chat("--memeval-output", "first").assert_outcomes(passed=200)
    assert chat.server.count == 600
    chat.chat("--memeval-output", "second", "-n", "2").assert_outcomes(passed=200)
    assert chat.server.count == 600
    first, second = chat.report("first"), chat.report("second")
    assert dumps(stable(first)) == dumps(stable(second))
    assert first["usage"] == second["usage"]
    assert first["timings"]["calls"]["attempts"] == 600
    assert second["timings"]["calls"]["attempts"] == 0
    assert second["timings"]["calls"]["cached"] == 600
    assert second["timings"]["calls"]["spent_usd"] == 0
    assert first["timings"]["calls"]["spent_usd"] == pytest.approx(first["usage"]["cost_usd"])
    # Latencies are those of the recording, so that the stage's percentiles stay what they were.
    assert second["timings"]["calls"]["latency_p50"] == pytest.approx(
        first["timings"]["calls"]["latency_p50"], abs=1e-5
    )


@MODES
def test_replay_needs_neither_the_server_nor_its_address(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.cases([full_case(number) for number in range(1, 4)])
    chat.chat("--memeval-endpoint", "team-gpu").assert_outcomes(passed=3)
    recorded = chat.report()
    before = chat.server.count
    replay = ("--memeval-llm", "openai", "--memeval-model", "gpt-4o-mini", "--memeval-cache", "replay")
    folder = ("--memeval-cache-dir", str(chat.cache))
    chat.write("pytest.ini", "[pytest]\nmemeval_endpoint = team-gpu\n")
    chat.run(*replay, *folder, *mode, fresh=True).assert_outcomes(passed=3)
    assert dumps(stable(chat.report())) == dumps(stable(recorded))
    assert chat.report()["model"] == {
        "provider": "openai", "name": "gpt-4o-mini", "served_model": "gpt-4o-mini", "endpoint": "team-gpu",
    }  # fmt: skip
    assert chat.server.count == before


@MODES
def test_a_miss_in_replay_names_case_stage_and_the_ways_on(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.cases([full_case(1)])
    chat.chat().assert_outcomes(passed=1)
    chat.cases([full_case(1), full_case(2)])
    result = chat.chat("--memeval-cache", "replay", *mode, fresh=True)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of eval-002*",
            "*cases/v001.yaml:4: *l1* not_recorded: stage l1_extraction: the cache holds no answer of gpt-4o-mini"
            "*--memeval-cache auto*--memeval-cache batch*",
        ]
    )
    assert chat.server.count == 3


@MODES
def test_recorded_answers_give_the_figures_of_the_run_they_come_from(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.cases([full_case(number) for number in range(1, 4)])
    chat.chat().assert_outcomes(passed=3)
    asked = chat.report()
    done = chat.memeval("cache", "export", "answers.jsonl", "--cache-dir", str(chat.cache))
    done.stdout.fnmatch_lines(["9 answers written to answers.jsonl"])
    lines = (chat.path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {"format": "memeval-answers", "version": 1}
    chat.write("pytest.ini", "[pytest]\nmemeval_recorded = answers.jsonl\n")
    # The file is enough, with its first line or without.
    for count in (len(lines), len(lines) - 1):
        (chat.path / "answers.jsonl").write_text("\n".join(lines[-count:]) + "\n", encoding="utf-8")
        result = chat.run(*mode, fresh=True)
        result.assert_outcomes(passed=3)
        again = chat.report()
        assert again["model"]["provider"] == "recorded"
        assert again["model"]["served_model"] == "gpt-4o-mini"
        for section in ("l1", "l15", "l2", "gates", "counts"):
            assert again[section] == asked[section]
        assert again["usage"]["input_tokens"] == asked["usage"]["input_tokens"]
        assert again["timings"]["calls"]["attempts"] == 0
    assert chat.server.count == 9


def test_an_edited_prompt_is_an_error_and_no_silent_fallback(chat: ChatProject) -> None:
    assert chat.memeval("init", "--prompts", "prompts").ret == 0
    chat.cases([simple_case(1)])
    chat.chat("--memeval-prompts", "prompts").assert_outcomes(passed=1)
    chat.memeval("cache", "export", "answers.jsonl", "--cache-dir", str(chat.cache))
    recorded = ("--memeval-recorded", "answers.jsonl", "--memeval-prompts", "prompts")
    chat.run(*recorded, fresh=True).assert_outcomes(passed=1)
    working = chat.path / "prompts" / "l1_extraction.txt"
    working.write_text(working.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    result = chat.run(*recorded, "--memeval-prompt-version=@working", fresh=True)
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines(
        [r".*cases/v001\.yaml:3: .*not_recorded: stage l1_extraction: .*answers\.jsonl holds no answer.*"
         r"under another prompt or trial; .*--memeval-llm openai.*--memeval-llm embedded.*--memeval-cache batch.*"]
    )  # fmt: skip
    assert chat.server.count == 1


def test_a_bad_file_of_answers_is_named_with_its_line(chat: ChatProject) -> None:
    chat.cases([simple_case(1)])
    chat.write("answers.jsonl", '{"format": "memeval-answers", "version": 1}\n{"key": 1}\n')
    result = chat.run("--memeval-recorded", "answers.jsonl", fresh=True)
    assert result.ret != 0
    assert re.search(r"answers\.jsonl:2", result.stdout.str() + result.stderr.str())


def test_tokens_cost_and_latency_reach_report_csv_junit_and_terminal(chat: ChatProject) -> None:
    chat.cases([full_case(number) for number in range(1, 4)])
    chat.server.latency = 0.02
    result = chat.chat("--junitxml", "junit.xml", fresh=True)
    report = chat.report()
    stage = report["timings"]["calls"]["by_stage"]["l1_extraction"]
    assert stage["latency_p50"] >= 0.02
    assert stage["latency_p95"] >= stage["latency_p50"]
    assert report["usage"]["cost_usd"] == pytest.approx(sum(entry["usage"]["cost_usd"] for entry in report["per_case"]))
    header, *rows = (chat.path / "out" / "per_case.csv").read_text(encoding="utf-8").splitlines()
    place = header.split(",").index("cost_usd")
    assert float(rows[-1].split(",")[place]) == report["per_case"][-1]["usage"]["cost_usd"]
    markdown = (chat.path / "out" / "report.md").read_text(encoding="utf-8")
    assert "## Model calls" in markdown
    assert re.search(
        r"\| `l1_extraction` \| 3 \| 0 \| 0 \| 3 \| 0 \|.*\| 0\.\d{4} \| 0\.\d{3} s \| 0\.\d{3} s \|", markdown
    )
    result.stdout.fnmatch_lines(
        [
            "*model calls, * input and * output tokens; list price $0.*",
            "*requests sent (0 of them retries), 0 answers from the cache; this run's own requests cost $0.*",
            "*l1_extraction: 3 calls, 0 failed, latency p50 0.* s, p95 0.* s",
        ]
    )
    junit = (chat.path / "junit.xml").read_text(encoding="utf-8")
    suite, _, cases = junit.partition("<testcase")
    for name in ("usage.calls", "usage.cost_usd", "usage.l1_extraction.latency_p50", "usage.l1_extraction.latency_p95"):
        assert f'<property name="memeval.{name}" value="' in suite
    for name in ("usage.input_tokens", "usage.output_tokens", "usage.cost_usd", "latency.l1_extraction"):
        assert cases.count(f'<property name="memeval.{name}" value="') == 3
