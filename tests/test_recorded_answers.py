"""The shipped cases and prompts have the answers that they were recorded with; whoever changes one records again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval import run
from pytest_memeval.assets.prompts import load_prompts
from pytest_memeval.llm.cache_entry import request_hash
from pytest_memeval.llm.export import read_jsonl
from pytest_memeval.llm.protocol import ChatReply
from pytest_memeval.llm.recorded import RecordedChatModel

ROOT = Path(__file__).resolve().parent.parent
SETS = (ROOT / "cases" / "v001.yaml", ROOT / "cases" / "v001_sample.yaml")
ANSWERS = ROOT / "cases" / "recorded" / "answers.jsonl"
VERSIONS = ("v001", "v002")
STAGES = ("l1_extraction", "l1_conflict", "l2_scene")
#: What is said where an answer is missing.
HOW = """
A prompt or a case was changed (or added) without new answers. Record them, in as many rounds as there are stages:
  memeval cache import cases/recorded/answers.jsonl --cache-dir .memeval/recording
  pytest cases --memeval-llm openai --memeval-model large-language-model --memeval-endpoint recorded \\
    --memeval-prompt-version {version} --memeval-cache batch --memeval-cache-dir .memeval/recording
  (have .memeval/recording/requests.jsonl answered: a batch, or any model that reads files)
  memeval cache import ANSWERS.jsonl --cache-dir .memeval/recording
then: memeval cache export cases/recorded/answers.jsonl --cache-dir .memeval/recording
and put the header line (prompt hashes, how and when) back; see "Recorded answers" in docs/case-set.md."""


class Watched(RecordedChatModel):
    """Remembers which answers were asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: set[str] = set()

    async def complete(self, messages: Sequence[Mapping[str, str]], **options: Any) -> ChatReply:
        self.asked.add(request_hash(messages, options.get("trial", 0)))
        return await super().complete(messages, **options)


def unanswered(model: RecordedChatModel, version: str, sets: Sequence[Path], folder: Path, **options: Any) -> list[str]:
    """Every question of the cases that has no recorded answer, as ``case: stage …``."""
    run(
        list(sets), llm=model, prompt_version=version, stages="l1,l15,l2", no_gate=True, output=folder,
        cache_dir=folder / "cache", no_history=True, **options,
    )  # fmt: skip
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert found["counts"]["total"] > 0
    return [
        f"{entry['case_id']}: {error['message']}"
        for entry in found["per_case"]
        for error in entry["errors"]
        if error["kind"] == "not_recorded"
    ]


def test_every_question_of_the_shipped_cases_has_its_answer_and_no_answer_is_left_over(tmp_path: Path) -> None:
    model = Watched(ANSWERS)
    for version in VERSIONS:
        missing = unanswered(model, version, SETS, tmp_path / version)
        assert not missing, "\n".join([*missing[:5], f"{len(missing)} in all", HOW.format(version=version)])
    kept = {entry.request_hash for _, entry in read_jsonl(ANSWERS)}
    assert not kept - model.asked, f"{len(kept - model.asked)} recorded answers belong to no question: remove them"


def test_the_files_head_names_the_prompts_that_were_answered() -> None:
    head = json.loads(ANSWERS.open(encoding="utf-8").readline())
    store = load_prompts()
    assert head["prompts"] == {version: dict(store.resolve(version, STAGES).hashes) for version in VERSIONS}
    for name in ("about", "recorded_at", "model", "rounds"):
        assert head[name]


def test_a_changed_case_is_noticed(tmp_path: Path) -> None:
    text = SETS[1].read_text(encoding="utf-8")
    changed = tmp_path / "changed.yaml"
    said = text.index(" user:\n") + len(" user:\n")
    changed.write_text(f"{text[:said]}        I moved to Lisbon.\n{text[said:]}", encoding="utf-8")
    (missing,) = unanswered(RecordedChatModel(ANSWERS), "v002", [changed], tmp_path / "out")
    assert "stage l1_extraction" in missing
    assert "collect it (`--memeval-cache batch`)" in missing


@pytest.mark.parametrize("stage", ["l1_extraction", "l2_scene"])
def test_a_changed_prompt_is_noticed(tmp_path: Path, stage: str) -> None:
    shipped = load_prompts().path
    prompts = tmp_path / "prompts"
    shutil.copytree(shipped, prompts)
    frozen = prompts / "versions" / stage / "v002.txt"
    text = frozen.read_text(encoding="utf-8") + "\nBe brief.\n"
    frozen.write_text(text, encoding="utf-8")
    # A frozen text that changes is an error of its own; here its hash is changed with it.
    manifest = prompts / "manifest.yaml"
    old = load_prompts().resolve("v002", STAGES).hashes[stage]
    listed = manifest.read_text(encoding="utf-8")
    assert old in listed
    manifest.write_text(listed.replace(old, hashlib.sha256(text.encode("utf-8")).hexdigest()), encoding="utf-8")
    missing = unanswered(RecordedChatModel(ANSWERS), "v002", SETS[1:], tmp_path / "out", prompts=prompts)
    assert missing
    assert all(f"stage {stage}" in text for text in missing)
