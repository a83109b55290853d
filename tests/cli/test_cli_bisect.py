"""``memeval bisect`` with real runs: four versions of a prompt, of which the third names the dimensions and no more."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from pytest_memeval.assets.prompts import load_prompts
from pytest_memeval.cli.bisect import is_usable, version_range
from pytest_memeval.cli.main import main
from pytest_memeval.options import SettingsError
from pytest_memeval.report.reader import load_report

PEOPLE = ("daughter", "wife", "brother", "mother", "son", "sister", "father", "cousin", "aunt", "uncle")


def sentence(number: int) -> str:
    return f"My {PEOPLE[number % 10]} turned {number + 20} last week and we had a family dinner."


def project(folder: Path) -> None:
    stage = folder / "prompts" / "versions" / "l1_extraction"
    stage.mkdir(parents=True)
    shipped = load_prompts().frozen["l1_extraction"]["v002"].text
    # Without descriptions the offline reader has nothing to hold a sentence against.
    poor = shipped.replace("{{dimensions}}", "{{dimensions: name}}")
    texts = {"v001": shipped, "v002": shipped + "\n", "v003": poor, "v004": poor + "\n"}
    for version, text in texts.items():
        (stage / f"{version}.txt").write_text(text, encoding="utf-8")
    hashes = {version: hashlib.sha256(text.encode("utf-8")).hexdigest() for version, text in texts.items()}
    manifest = {"active": {"l1_extraction": "v001"}, "frozen": {"l1_extraction": hashes}}
    (folder / "prompts" / "manifest.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    cases = [
        {
            "case_id": f"c{number:02}",
            "conversation": sentence(number),
            "expected_l1": {
                "memories": [
                    {
                        "content": sentence(number),
                        "dimensions": ["family"],
                    }
                ]
            },
        }
        for number in range(20)
    ]
    (folder / "cases").mkdir()
    data = {"meta": {"version": "v1", "gates": []}, "cases": cases}
    (folder / "cases" / "people.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmemeval_prompts = prompts\n", encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project(tmp_path)
    return tmp_path


def test_runs_reuses_and_finds(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["bisect", "--metric", "l1.dimension_micro_f1", "--good", "v001", "--bad", "v003", "--stage", "l1"]
    status = main(words)
    shown = capfd.readouterr().out
    assert "searching v001, v002, v003" in shown
    assert status == 0, shown
    assert "v003 is the first version that regressed; v002 before it had not." in shown
    assert main(words) == 0
    again = capfd.readouterr().out
    assert "runs into" not in again
    assert "run of before" in again
    # Other prompts, and a case that was edited, make the old runs worthless.
    report = load_report(here / ".memeval" / "bisect" / "l1-v001")
    assert is_usable(report, report["prompt_hashes"])
    assert not is_usable(report, {**report["prompt_hashes"], "l1_extraction": "0" * 64})
    path = here / "cases" / "people.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("family dinner", "family lunch"), encoding="utf-8")
    assert not is_usable(report, report["prompt_hashes"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--good", "v001", "--bad", "v009"], "prompt version 'v009' does not exist"),
        (["--good", "v003", "--bad", "v001"], "--bad v001 does not come after --good v003"),
        (["--good", "v001", "--bad", "v003", "--metric", "l1.total_tp"], "nothing regresses in it"),
        (["--good", "v001", "--bad", "v003", "--metric", "l1.x"], "unknown metric"),
        (["--good", "v001", "--bad", "v003", "--alpha", "2"], "not between 0 and 1"),
        (["--good", "v001", "--bad", "v003", "nowhere.yaml"], "pytest ended with status 4"),
    ],
)
def test_bad_input_is_a_sentence(
    here: Path, words: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = words if "--metric" in words else ["--metric", "l1.dimension_micro_f1", *words]
    assert main(["bisect", *given]) == 2
    assert sentence in capfd.readouterr().err


def test_versions_in_their_order(here: Path) -> None:
    store = load_prompts(here / "prompts")
    assert version_range(store, "v002", "v004", "l1") == ["v002", "v003", "v004"]
    assert version_range(load_prompts(), "v001", "@working") == ["v001", "v002", "@working"]
    with pytest.raises(SettingsError):
        version_range(store, "v002", "v002")


def test_an_engine_that_asks_no_prompts_is_told(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "conftest.py").write_text(
        "import pytest\n\n\nclass Same:\n    name = 'same'\n\n    def extract(self, conversation, ctx):\n"
        "        return [{'content': one.content, 'dimensions': ['family']} for one in conversation]\n\n\n"
        "@pytest.fixture(scope='session')\ndef memeval_engine():\n    return Same()\n",
        encoding="utf-8",
    )
    words = ["bisect", "--metric", "l1.dimension_micro_f1", "--good", "v001", "--bad", "v002", "--stage", "l1"]
    assert main(words) == 1
    assert "this engine asked no prompts" in capfd.readouterr().out
