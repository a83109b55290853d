"""The console commands about labels, from files to what is printed."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from pytest_memeval.cli.main import main

ROOT = Path(__file__).parents[2]
PAIRS = ROOT / "cases" / "matching_pairs.jsonl"

WARNED = """\
cases:
  - case_id: a
    conversation: "[msg#1] user: hi"
    expected_l1:
      memories:
        - {content: keeps three hives of bees, dimensions: [habits], time_velocity: static}
        - {content: keeps three hives of bees., dimensions: [habits], time_velocity: static}
"""
TEMPLATE = """\
name: garden
sections:
  - {id: insects, title: Insects, query: {dimensions: [habits]}}
"""
HINTED = "cases:\n" + "".join(
    f"""\
  - case_id: c{number}
    conversation: "[msg#1] user: {word}"
    expected_l1: {{memories: [{{content: {word}, dimensions: [status], time_velocity: static}}]}}
"""
    for number, word in enumerate(("plum", "gear", "坐骨神经", "wax seal", "钓鱼竿", "yodel", "墨水", "brick"))
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warned.yaml").write_text(WARNED, encoding="utf-8")
    (tmp_path / "hinted.yaml").write_text(HINTED, encoding="utf-8")
    return tmp_path


# -- agreement in a project with templates of its own


def test_agreement_takes_the_projects_templates(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "templates").mkdir()
    (here / "templates" / "garden.yaml").write_text(TEMPLATE, encoding="utf-8")
    case = {
        "case_id": "a",
        "conversation": "[msg#1] user: hi",
        "expected_l1": {"memories": [{"content": "keeps bees", "dimensions": ["habits"]}]},
        "expected_l2": {"template_section": {"garden": {0: "insects"}}},
    }
    (here / "one.yaml").write_text(yaml.safe_dump({"cases": [case]}), encoding="utf-8")
    assert main(["agreement", "one.yaml", "one.yaml"]) == 2
    assert "garden" in capsys.readouterr().err
    (here / "pytest.ini").write_text("[pytest]\nmemeval_templates = templates\n", encoding="utf-8")
    assert main(["validate", "one.yaml"]) == 0
    assert main(["agreement", "one.yaml", "one.yaml"]) == 0
    (here / "pytest.ini").unlink()
    assert main(["agreement", "one.yaml", "one.yaml", "--templates", "templates"]) == 0


# -- validate


def test_warnings_change_the_status_only_if_strict(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "warned.yaml"]) == 0
    plain = capsys.readouterr().out
    assert plain.splitlines() == [
        "warned.yaml:7: [a] memories 0 and 1 are nearly the same text (similarity 0.98) (warning: same-memory-twice)",
        "warned.yaml: 1 case, 0 problems",
    ]
    assert main(["validate", "warned.yaml", "--strict"]) == 1
    assert capsys.readouterr().out == plain


def test_hints_change_no_status_and_are_shortened(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "hinted.yaml", "--strict"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("(hint: velocity-differs)" in line for line in lines) == 5
    assert "hinted.yaml: 3 more of the hint velocity-differs; --hints lists them" in lines
    assert main(["validate", "hinted.yaml", "--hints"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("(hint: velocity-differs)" in line for line in lines) == 8
    assert not any("--hints" in line for line in lines)


def test_a_file_in_order_gets_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = ROOT / "cases" / "v001_sample.yaml"
    assert main(["validate", str(sample)]) == 0
    assert capsys.readouterr().out == f"{sample}: 5 cases, 0 problems\n"


def test_statistics_are_printed_when_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(ROOT / "cases" / "v001_sample.yaml"), "--stats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "difficulty: easy 2 (40 %), medium 2 (40 %), hard 1 (20 %)" in lines
    assert any(line.split()[:1] == ["identity"] for line in lines)


# -- calibrate-matching


def test_the_documented_figures_are_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate-matching", str(PAIRS)]) == 0
    page = (ROOT / "docs" / "matching.md").read_text(encoding="utf-8")
    block = re.search(r"\$ memeval calibrate-matching cases/matching_pairs\.jsonl\n(.*?)```", page, re.DOTALL)
    assert block is not None
    assert block[1] == capsys.readouterr().out


def test_the_documented_similarities_are_right() -> None:
    from pytest_memeval.metrics.matching import content_similarity

    page = (ROOT / "docs" / "matching.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)`, `(.+?)` \| ([0-9.]+), matched \| ([0-9.]+), near miss \|$", page, re.MULTILINE)
    assert len(rows) == 2
    for a, b, indel, hybrid in rows:
        assert content_similarity(a, b) == pytest.approx(float(indel), abs=0.005)
        assert content_similarity(a, b, similarity="hybrid") == pytest.approx(float(hybrid), abs=0.006)
        assert content_similarity(a, b, similarity="hybrid") >= 0.3


def test_thresholds_can_be_chosen_on_other_pairs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuning = [{"a": "likes tea", "b": "likes teas", "same": True}, {"a": "likes tea", "b": "likes pea", "same": False}]
    (here / "tuning.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in tuning), encoding="utf-8")
    words = ["calibrate-matching", str(PAIRS), "--tuned-on", "tuning.jsonl", "--json"]
    assert main([*words, "--similarity", "indel", "--similarity", "hybrid"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report["similarities"]) == ["indel", "hybrid"]
    assert report["similarities"]["indel"]["chosen"]["threshold"] == 0.9
    assert len(report["similarities"]["indel"]["curve"]) == 19
    assert report["thresholds_chosen_on"] == "tuning.jsonl"
    assert [(one["similarity"], one["against"]) for one in report["differences"]] == [("hybrid", "indel")]
    assert report["similarities"]["hybrid"]["by_lang"]["zh"]["pairs"] == 144


def test_the_curve_is_printed_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate-matching", str(PAIRS), "--similarity", "indel", "--curve"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-19:]] == [f"{number / 100:.2f}" for number in range(5, 100, 5)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--similarity", "hybird"], "unknown similarity 'hybird'; did you mean 'hybrid'?"),
        (["--tuned-on", "warned.yaml"], "warned.yaml"),
    ],
)
def test_bad_input_is_a_sentence(
    here: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate-matching", str(PAIRS), *words]) == 2
    assert message in capsys.readouterr().err


def test_the_pairs_are_not_collected(pytester: pytest.Pytester) -> None:
    cases = pytester.mkdir("cases")
    (cases / "matching_pairs.jsonl").write_bytes(PAIRS.read_bytes())
    result = pytester.runpytest_subprocess("--collect-only", "-q", "cases")
    result.stdout.fnmatch_lines(["*no tests collected*"])


# -- new-case


def test_a_pasted_chat_becomes_a_case_that_validates_once_labelled(
    here: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    chat = [
        {"role": "user", "content": "我搬到厦门了，邮箱 a.b@mail.example"},
        {"role": "assistant", "content": "好的"},
    ]
    (here / "chat.json").write_text(json.dumps(chat, ensure_ascii=False), encoding="utf-8")
    assert main(["new-case", "chat.json", "--case-id", "moved", "--start", "2026-01-05T09:00:00+08:00"]) == 0
    captured = capfdbinary.readouterr()
    assert captured.err.decode().strip() == "masked: 1 email"
    text = captured.out.decode("utf-8")
    assert "[msg#1] 2026-01-05T09:00:00+08:00 user:" in text
    assert "邮箱 <email>" in text
    (here / "moved.yaml").write_text(text, encoding="utf-8")
    assert main(["validate", "moved.yaml"]) == 1
    text = text.replace('content: ""', "content: 搬到厦门").replace("dimensions: []", "dimensions: [identity]")
    (here / "moved.yaml").write_text(text, encoding="utf-8")
    assert main(["validate", "moved.yaml"]) == 0
    assert capfdbinary.readouterr().out.decode("utf-8").splitlines()[-1] == "moved.yaml: 1 case, 0 problems"


def test_stdin_and_no_mask(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    said = io.TextIOWrapper(io.BytesIO("Ines: mail a@b.example\nPaul: 好\n".encode()), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", said)
    assert main(["new-case", "-", "--no-mask"]) == 0
    captured = capfdbinary.readouterr()
    assert captured.err == b""
    (case,) = yaml.safe_load(captured.out)["cases"]
    assert re.fullmatch(r"\[msg#1\] \S+ Ines:\n  mail a@b\.example\n\[msg#2\] \S+ Paul:\n  好\n", case["conversation"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.json"], "none.json"),
        (["warned.yaml", "--case-id", "a::b"], "--case-id"),
        (["warned.yaml", "--start", "noon"], "--start: 'noon' is not an ISO time"),
        (["broken.json"], "broken.json:1:2: not JSON"),
        (["latin.txt"], "latin.txt"),
    ],
)
def test_what_cannot_become_a_case_is_a_sentence(
    here: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.json").write_text("{x", encoding="utf-8")
    (here / "latin.txt").write_bytes(b"Ines: caf\xe9")
    assert main(["new-case", *words]) == 2
    assert message in capsys.readouterr().err
