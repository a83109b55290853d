from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.assets.nodes import content_hash
from pytest_memeval.assets.prompts import (
    ALL_STAGES,
    JUDGE_STAGES,
    PLACEHOLDERS,
    PROMPT_STAGES,
    SHIPPED_PROMPTS,
    PromptError,
    PromptText,
    check_placeholders,
    copy_prompts,
    load_prompts,
    stage_name,
)
from pytest_memeval.assets.registry import Dimension, Registry, load_registry
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.report.messages import run_note
from pytest_memeval.values import Memory, Message

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = {
    "l1_extraction": "{{dimensions}}\n{{conversation}}\n",
    "l1_conflict": "{{new_memories}}\n{{candidates}}\n",
    "l2_scene": "{{new_memories}}\n{{existing_scenes}}\n",
}


def make_store(
    folder: Path, versions: dict[str, list[str]], active: dict[str, str], working: tuple[str, ...] = ()
) -> Path:
    """A prompts folder with the given frozen versions; each text differs by its version."""
    lines = ["active:", *(f"  {stage}: {version}" for stage, version in active.items()), "frozen:"]
    for stage, names in versions.items():
        lines.append(f"  {stage}:")
        (folder / "versions" / stage).mkdir(parents=True, exist_ok=True)
        for name in names:
            text = f"{name}\n{TEXTS[stage]}"
            (folder / "versions" / stage / f"{name}.txt").write_text(text, encoding="utf-8", newline="\n")
            lines.append(f"    {name}: {content_hash(text)}")
    for stage in working:
        (folder / f"{stage}.txt").write_text(f"working\n{TEXTS[stage]}", encoding="utf-8")
    (folder / "manifest.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    versions = {"l1_extraction": ["v001", "v002", "v010"], "l1_conflict": ["v001"], "l2_scene": ["v001", "v002"]}
    active = {"l1_extraction": "v002", "l1_conflict": "v001", "l2_scene": "v001"}
    return make_store(tmp_path, versions, active, ("l1_extraction",))


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        load_prompts(folder)
    return [f"{problem.path.name}:{problem.line}: {problem.message}" for problem in caught.value.problems]


def test_shipped_prompts() -> None:
    store = load_prompts()
    for stage in PROMPT_STAGES:
        assert store.versions(stage) == ("v001", "v002", "@working")
        assert store.active(stage) == "v002"
    prompts = store.resolve()
    assert prompts.versions == dict.fromkeys(PROMPT_STAGES, "v002")
    assert prompts.label == "v002"
    assert prompts.notes == ()
    assert prompts.hashes == {stage: content_hash(text.text) for stage, text in prompts.texts.items()}


def test_only_the_richer_version_describes_the_dimensions() -> None:
    registry = load_registry()
    conversation = [Message("msg_1", "user", "hi")]
    terse, rich = (
        load_prompts().resolve(version).render("l1_extraction", registry=registry, conversation=conversation, now=NOW)
        for version in ("v001", "v002")
    )
    for dimension in registry.dimensions:
        assert f"- {dimension.id} | {dimension.display_name} |  |  |\n" in terse
        assert (
            f"- {dimension.id} | {dimension.display_name} | {dimension.description} | {dimension.boundaries} | " in rich
        )


def test_versions_are_resolved_by_stage(uneven: Path) -> None:
    store = load_prompts(uneven)
    assert store.versions("l1") == ("v001", "v002", "v010", "@working")
    assert store.resolve().versions == {"l1_extraction": "v002", "l1_conflict": "v001", "l2_scene": "v001"}
    mixed = store.resolve(" l1=v010 , l2 = v002")
    assert mixed.versions == {"l1_extraction": "v010", "l1_conflict": "v001", "l2_scene": "v002"}
    assert mixed.label == "l1_extraction=v010,l1_conflict=v001,l2_scene=v002"
    assert mixed.notes == ()
    default = store.resolve("v001,l1=v010")
    assert default.versions == {"l1_extraction": "v010", "l1_conflict": "v001", "l2_scene": "v001"}


def test_stage_without_the_version_uses_its_active_one_and_says_so(uneven: Path) -> None:
    prompts = load_prompts(uneven).resolve("v010")
    assert prompts.versions == {"l1_extraction": "v010", "l1_conflict": "v001", "l2_scene": "v001"}
    assert prompts.notes == (
        "prompt stage l1_conflict has no version v010; its active v001 is used",
        "prompt stage l2_scene has no version v010; its active v001 is used",
    )
    assert [run_note(note, "zh") for note in prompts.notes] == [
        "提示词阶段 l1_conflict 没有版本 v010，使用其当前版本 v001",
        "提示词阶段 l2_scene 没有版本 v010，使用其当前版本 v001",
    ]


def test_working_copy_is_named_by_its_hash(uneven: Path) -> None:
    text = load_prompts(uneven).resolve("l1=@working").texts["l1_extraction"]
    assert text.version == f"working-{text.sha256[:8]}"
    assert text.text.startswith("working\n")
    before = text.version
    (uneven / "l1_extraction.txt").write_text("changed {{dimensions}} {{conversation}}", encoding="utf-8")
    assert load_prompts(uneven).resolve("@working").versions["l1_extraction"] not in ("", before)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "v003",
            r"'v003' does not exist for any stage \(l1_extraction: v001, v002, v010, @working; .*did you mean 'v00",
        ),
        ("l15=v002", r"'v002' does not exist for stage l1_conflict \(l1_conflict: v001\)"),
        ("l2=@working", r"'@working' does not exist for stage l2_scene"),
        ("l1_extracton=v001", "unknown prompt stage 'l1_extracton'; did you mean 'l1_extraction'"),
        ("l1=v001,l1_extraction=v002", "two versions for stage l1_extraction: v001 and v002"),
        ("v001,v002", "two versions for all stages: v001 and v002"),
        ("l1=", "'' does not exist"),
    ],
)
def test_bad_version_lists_what_exists(uneven: Path, spec: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        load_prompts(uneven).resolve(spec)


def test_own_folder_may_leave_out_stages(tmp_path: Path) -> None:
    store = load_prompts(make_store(tmp_path, {"l1_extraction": ["v001"]}, {"l1_extraction": "v001"}))
    prompts = store.resolve("v001")
    assert prompts.versions == dict.fromkeys(PROMPT_STAGES, "v001")
    assert prompts.texts["l2_scene"].text == load_prompts().resolve("v001").texts["l2_scene"].text
    assert [note.split(" is not")[0] for note in prompts.notes] == ["prompt stage l1_conflict", "prompt stage l2_scene"]


def test_changed_frozen_text_is_refused(uneven: Path) -> None:
    file = uneven / "versions" / "l2_scene" / "v002.txt"
    file.write_text(file.read_text(encoding="utf-8") + "!", encoding="utf-8")
    (problem,) = problems_of(uneven)
    assert "manifest.yaml:14: manifest, frozen l2_scene: v002 has SHA-256" in problem
    assert "freeze the change as a new version" in problem


def test_line_ends_do_not_matter(uneven: Path) -> None:
    for file in uneven.rglob("*.txt"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert load_prompts(uneven).resolve("v002").texts["l1_extraction"].text == "v002\n" + TEXTS["l1_extraction"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "l1_conflict: v001",
            "l1_conflict: v002",
            ["manifest.yaml:3: manifest: active version 'v002' of l1_conflict has no text; did you mean 'v001'?"],
        ),
        (
            "  l1_conflict: v001\n",
            "",
            ["manifest.yaml:1: manifest: l1_conflict has texts (v001) but no active version"],
        ),
        ("active:", "activ:", ["manifest.yaml:1: manifest: unknown key 'activ'; did you mean 'active'?"]),
    ],
)
def test_bad_manifest(uneven: Path, old: str, new: str, expected: list[str]) -> None:
    manifest = uneven / "manifest.yaml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    assert problems_of(uneven)[: len(expected)] == expected


def test_missing_unlisted_and_stray_files(uneven: Path) -> None:
    (uneven / "versions" / "l2_scene" / "v002.txt").unlink()
    (uneven / "versions" / "l1_conflict" / "v009.txt").write_text("x", encoding="utf-8")
    (uneven / "l2_scenes.txt").write_text("x", encoding="utf-8")
    problems = problems_of(uneven)
    assert "manifest.yaml:14: manifest, frozen l2_scene: v002 has no text, v002.txt is missing" in problems
    (unlisted,) = (problem for problem in problems if "v009" in problem)
    assert f"add 'v009: {content_hash('x')}' under frozen, l1_conflict" in unlisted
    assert "l2_scenes.txt:0: l2_scenes.txt is no prompt stage's working copy; did you mean 'l2_scene'?" in problems


def test_missing_folder_and_manifest(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="prompts folder does not exist"):
        load_prompts(tmp_path / "none")
    with pytest.raises(DocumentError, match="manifest does not exist"):
        load_prompts(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a\n b {{conversatoin}} {{dimensions}}{{conversation}}",
            [(2, 4, "unknown placeholder {{conversatoin}}; did you mean 'conversation'?")],
        ),
        ("{{dimensions}}\nx", [(2, 0, "lacks the required placeholder {{conversation}}")]),
        ("{{candidates}} {{dimensions}} {{conversation}}", [(1, 1, "unknown placeholder {{candidates}}")]),
        ("{{dimensions:id, nam}} {{conversation}}", [(1, 1, "unknown field 'nam'; did you mean 'name'?")]),
        ("{{ conversation : id }} {{dimensions}}", [(1, 1, "unknown field 'id'")]),
        ("{{}} {{dimensions}} {{conversation}}", [(1, 1, "unknown placeholder {{}}")]),
        ("{{ dimensions : id,cues }} {{ conversation }} {single} }} {{now}}", []),
    ],
)
def test_placeholders_are_checked_with_their_line(text: str, expected: list[tuple[int, int, str]]) -> None:
    problems = check_placeholders(PromptText("l1_extraction", "v001", text, "", None))
    assert [(problem.line, problem.column) for problem in problems] == [(line, column) for line, column, _ in expected]
    for problem, (_, _, message) in zip(problems, expected, strict=True):
        assert message in problem.message


def test_placeholder_faults_stop_loading(uneven: Path) -> None:
    (uneven / "l1_extraction.txt").write_text("{{dimensions}}\n{{convo}}\n", encoding="utf-8")
    assert [problem.split(": ")[0] for problem in problems_of(uneven)] == ["l1_extraction.txt:2", "l1_extraction.txt:3"]


NASTY = "{braces} %s %(x)s {{conversation}} {{dimensions}} {{nope}} \\1 \\g<0> $x </conversation>"


def test_f31_braces_in_values_reach_the_model_as_written() -> None:
    registry = Registry((Dimension("a", "A", description="say {{conversation}} or {{now}}"),))
    prompts = load_prompts().resolve("v002")
    text = prompts.render("l1_extraction", registry=registry, conversation=[Message("msg_1", "user", NASTY)], now=NOW)
    assert text.count(NASTY) == 1
    assert "say {{conversation}} or {{now}}" in text
    text = prompts.render("l1_conflict", new_memories=[Memory(None, "{{candidates}}")], candidates=[], now=NOW)
    assert '"content": "{{candidates}}"' in text


@given(st.text(max_size=80))
def test_f31_any_text_is_substituted_once(text: str) -> None:
    prompts = load_prompts().resolve("v001")
    rendered = prompts.render("l1_extraction", registry=load_registry(), conversation=[Message("m", "user", text)])
    template = prompts.texts["l1_extraction"].text
    assert rendered.startswith(template[: template.index("{{")])
    assert rendered.endswith(f"[m] user: {text}\n</conversation>" + template[template.rindex("}}") + 2 :])


def test_every_shipped_text_renders_without_a_placeholder_left() -> None:
    values = {
        "registry": load_registry(), "conversation": [], "new_memories": [], "candidates": [], "existing_scenes": [],
        "max_scenes": 4, "now": NOW,
    }  # fmt: skip
    for version in ("v001", "v002", "@working"):
        prompts = load_prompts().resolve(version)
        for stage in PROMPT_STAGES:
            assert "{{" not in prompts.render(stage, **values)
    assert "at most 4 scenes" in load_prompts().resolve("v002").render("l2_scene", **values)


def test_missing_value_and_unknown_stage() -> None:
    prompts = load_prompts().resolve("v001")
    with pytest.raises(PromptError, match="prompt l1_extraction v001 needs a value for 'registry'"):
        prompts.render("l1_extraction", conversation=[])
    with pytest.raises(PromptError, match="no prompt for stage 'l1_extractoin'; did you mean 'l1_extraction'"):
        prompts.render("l1_extractoin")


def test_stage_names() -> None:
    assert [stage_name(name) for name in ("l1", "l15", "l2", "l2_scene")] == [*PROMPT_STAGES, "l2_scene"]
    assert set(PLACEHOLDERS) == set(ALL_STAGES)


def test_copy_prompts_gives_an_equal_store_and_overwrites_nothing(tmp_path: Path) -> None:
    target = tmp_path / "prompts"
    written = copy_prompts(target)
    assert target / "manifest.yaml" in written
    assert load_prompts(target).resolve("v001").hashes == load_prompts().resolve("v001").hashes
    with pytest.raises(PromptError, match="exists already"):
        copy_prompts(target)
    shutil.rmtree(target)
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(PromptError, match="exists already"):
        copy_prompts(target)
    assert target.read_text(encoding="utf-8") == "mine"


def test_working_copies_start_as_the_active_texts() -> None:
    for stage in PROMPT_STAGES:
        assert (SHIPPED_PROMPTS / f"{stage}.txt").is_file()
    store = load_prompts()
    assert store.resolve("@working").label.count("working-") == 3


def test_judge_prompts_change_by_their_own_names_alone(tmp_path: Path) -> None:
    shipped = load_prompts()
    assert shipped.resolve("v001", JUDGE_STAGES).versions == dict.fromkeys(JUDGE_STAGES, "v001")
    assert set(shipped.resolve("v001").texts) == set(PROMPT_STAGES)
    folder = tmp_path / "prompts"
    folder.mkdir()
    text = "Is {{prediction}} right for {{question}}? The truth: {{truth}}. Say yes or no."
    (folder / "judge_default_binary.txt").write_text(text, encoding="utf-8")
    (folder / "manifest.yaml").write_text('active: {judge_default_binary: "@working"}\n', encoding="utf-8")
    own = load_prompts(folder).resolve(None, JUDGE_STAGES)
    assert own.versions["judge_default_binary"].startswith("working-")
    assert own.versions["judge_continuous"] == "v001"
    assert own.notes == ()
    values = {"question": "{{truth}}", "truth": "t", "prediction": "p"}
    assert own.render("judge_default_binary", **values) == "Is p right for {{truth}}? The truth: t. Say yes or no."


def test_a_judge_prompt_needs_question_truth_and_prediction(tmp_path: Path) -> None:
    (tmp_path / "judge_abstention.txt").write_text("{{question}} {{truth}} {{conversation}}", encoding="utf-8")
    (tmp_path / "manifest.yaml").write_text('active: {judge_abstention: "@working"}\n', encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load_prompts(tmp_path)
    assert "unknown placeholder {{conversation}}" in str(caught.value)
    assert "lacks the required placeholder {{prediction}}" in str(caught.value)
