"""Prompt texts: numbered frozen versions, one editable working copy, and how a run chooses among them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_memeval.assets.nodes import Fields, content_hash, parse_asset, raise_problems, read_asset_text
from pytest_memeval.assets.rendering import (
    DIMENSION_FIELDS,
    render_candidates,
    render_conversation,
    render_dimensions,
    render_new_memories,
    render_now,
    render_scenes,
)
from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean

SHIPPED_PROMPTS = Path(__file__).parent.parent / "data" / "prompts"
PROMPT_STAGES = ("l1_extraction", "l1_conflict", "l2_scene")
#: Outside the pipeline: the answerer's prompt, and one for each mode in which answers are judged by a model.
ANSWER_STAGES = ("qa_answer",)
JUDGE_STAGES = (
    "judge_continuous",
    "judge_temporal_reasoning",
    "judge_knowledge_update",
    "judge_preference",
    "judge_default_binary",
    "judge_abstention",
)
ALL_STAGES = (*PROMPT_STAGES, *ANSWER_STAGES, *JUDGE_STAGES)
#: Short names of prompt stages that options accept.
STAGE_ALIASES: Mapping[str, str] = {"l1": "l1_extraction", "l15": "l1_conflict", "l2": "l2_scene"}
WORKING = "@working"

#: Prompt stage → (placeholders a text must have, those it may have besides).
PLACEHOLDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "l1_extraction": (("dimensions", "conversation"), ("now",)),
    "l1_conflict": (("new_memories", "candidates"), ("dimensions", "now")),
    "l2_scene": (("new_memories", "existing_scenes"), ("dimensions", "max_scenes", "now")),
    **dict.fromkeys(ANSWER_STAGES, (("question", "context"), ("question_date",))),
    **dict.fromkeys(JUDGE_STAGES, (("question", "truth", "prediction"), ("context", "question_date"))),
}
PLACEHOLDER = re.compile(r"\{\{\s*([^{}\s:]+)\s*(?::\s*([^{}]*?)\s*)?\}\}")
VERSION = re.compile(r"v\d{3,}")


class PromptError(ValueError):
    """A prompt version that does not exist, or a value that a prompt needs and was not given."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """One text. ``version`` is ``vNNN`` or ``working-<first 8 of sha256>``; ``source`` is its file."""

    stage: str
    version: str
    text: str
    sha256: str
    source: Path | None = None


@dataclass(frozen=True)
class PromptSet:
    """The texts chosen for a run, one a stage; ``notes`` say where a stage fell back on another version."""

    texts: Mapping[str, PromptText]
    notes: tuple[str, ...] = ()

    @property
    def versions(self) -> dict[str, str]:
        return {stage: text.version for stage, text in self.texts.items()}

    @property
    def hashes(self) -> dict[str, str]:
        return {stage: text.sha256 for stage, text in self.texts.items()}

    @property
    def label(self) -> str:
        """The version if all stages share it, else ``stage=version`` for each, as an option would write it."""
        versions = self.versions
        if len(set(versions.values())) == 1:
            return next(iter(versions.values()))
        return ",".join(f"{stage}={version}" for stage, version in versions.items())

    def render(self, stage: str, **values: Any) -> str:
        """The text of ``stage`` with its placeholders filled in.

        Values: ``registry`` (for ``dimensions``), ``conversation`` (messages), ``new_memories`` and ``candidates``
        (memories), ``existing_scenes`` (``Scene`` with ``scene_contents``, memory id → text; or ``SceneText``),
        ``max_scenes`` (int), ``now`` (datetime); for answer and judge prompts ``question``, ``context``, ``truth``,
        ``prediction``, ``question_date`` (texts). All are substituted in one pass: what stands in double braces
        inside a value is text. Raises :class:`PromptError` for a placeholder without its value.
        """
        text = self.texts.get(stage)
        if text is None:
            raise PromptError(f"no prompt for stage {stage!r}{did_you_mean(stage, self.texts)}")
        return PLACEHOLDER.sub(lambda match: _render_value(text, match[1], match[2], values), text.text)


def _render_value(text: PromptText, name: str, argument: str | None, values: Mapping[str, Any]) -> str:
    source = {"dimensions": "registry"}.get(name, name)
    value = values.get(source)
    if value is None:
        raise PromptError(f"prompt {text.stage} {text.version} needs a value for {source!r}")
    if name == "dimensions":
        return render_dimensions(value, _fields(argument))
    if name == "conversation":
        return render_conversation(value)
    if name == "new_memories":
        return render_new_memories(value)
    if name == "candidates":
        return render_candidates(value)
    if name == "existing_scenes":
        return render_scenes(value, values.get("scene_contents"))
    if name == "now":
        return render_now(value)
    return str(value)


def _fields(argument: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in argument.split(",")) if argument else DIMENSION_FIELDS


@dataclass(frozen=True)
class PromptStore:
    """The texts of a prompts folder. ``frozen``: stage → version → text; ``working``: stage → text."""

    path: Path
    frozen: Mapping[str, Mapping[str, PromptText]]
    working: Mapping[str, PromptText]
    actives: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())

    def versions(self, stage: str) -> tuple[str, ...]:
        """The frozen versions of ``stage`` in ascending order, then ``@working`` where there is a working copy."""
        stage = stage_name(stage)
        working = (WORKING,) if stage in self.working else ()
        return (*sorted(self.frozen.get(stage, {}), key=_number), *working)

    def active(self, stage: str) -> str:
        """The version that is used where none is asked for."""
        return self.actives[stage_name(stage)]

    def resolve(self, spec: str | None = None, stages: tuple[str, ...] = PROMPT_STAGES) -> PromptSet:
        """The set that ``spec`` asks for, of the pipeline's stages or other ``stages`` that the store has.

        ``None`` or an empty text: each stage's active version; ``v002`` or ``@working``: that version for every stage
        which has it; ``l1=v002,l2=@working``: by stage, the others active (a part without a stage is for all of the
        pipeline's that are not named; answer and judge prompts change by their names alone, so that two runs with other
        pipeline prompts are judged alike). A stage without the version uses its active one, as a note says; a version
        that none of the stages asked has is a :class:`PromptError`.
        """
        wanted, common = self._wanted(spec)
        pipeline = stages == PROMPT_STAGES
        notes = list(self.notes) if pipeline else []
        if common is not None and not any(self._find(stage, common) for stage in PROMPT_STAGES):
            raise PromptError(self._unknown_version(common, PROMPT_STAGES))
        texts: dict[str, PromptText] = {}
        for stage in stages:
            if stage not in self.actives and not pipeline:
                continue
            version = wanted.get(stage) or (common if pipeline else None)
            text = self._find(stage, version) if version else None
            if version and text is None:
                notes.append(f"prompt stage {stage} has no version {version}; its active {self.actives[stage]} is used")
            texts[stage] = text or self._active_text(stage)
        return PromptSet(texts, tuple(notes))

    def _wanted(self, spec: str | None) -> tuple[dict[str, str], str | None]:
        wanted: dict[str, str] = {}
        common: str | None = None
        for part in filter(None, (part.strip() for part in (spec or "").split(","))):
            name, equals, version = (piece.strip() for piece in part.partition("="))
            if not equals:
                if common is not None and common != name:
                    raise PromptError(f"{spec!r} names two versions for all stages: {common} and {name}")
                common = name
                continue
            stage = stage_name(name)
            if not self._find(stage, version):
                raise PromptError(self._unknown_version(version, (stage,)))
            if wanted.setdefault(stage, version) != version:
                raise PromptError(f"{spec!r} names two versions for stage {stage}: {wanted[stage]} and {version}")
        return wanted, common

    def _find(self, stage: str, version: str) -> PromptText | None:
        # Without its sign too: pytest takes an argument that starts with @ for a file of arguments.
        if version in (WORKING, WORKING.removeprefix("@")):
            return self.working.get(stage)
        return self.frozen.get(stage, {}).get(version)

    def _active_text(self, stage: str) -> PromptText:
        text = self._find(stage, self.actives[stage])
        if text is None:
            raise PromptError(self._unknown_version(self.actives[stage], (stage,)))
        return text

    def _unknown_version(self, version: str, stages: Iterable[str]) -> str:
        stages = tuple(stages)
        exist = "; ".join(f"{stage}: {', '.join(self.versions(stage))}" for stage in stages)
        known = dict.fromkeys(version for stage in stages for version in self.versions(stage))
        hint = did_you_mean(version, known)
        place = f"stage {stages[0]}" if len(stages) == 1 else "any stage"
        return f"prompt version {version!r} does not exist for {place} ({exist}){hint if hint.endswith('?') else ''}"


def stage_name(name: str) -> str:
    """The prompt stage that ``name`` (``l1``, ``l15``, ``l2`` or a full name) means; :class:`PromptError` if none."""
    stage = STAGE_ALIASES.get(name, name)
    if stage not in ALL_STAGES:
        raise PromptError(f"unknown prompt stage {name!r}{did_you_mean(name, (*STAGE_ALIASES, *ALL_STAGES))}")
    return stage


def _number(version: str) -> int:
    return int(version[1:])


def load_prompts(path: Path | None = None) -> PromptStore:
    """The store in ``path`` (``None``: the shipped one).

    A project's folder may leave out whole stages: the shipped texts are used for them and a note says so. Raises
    :class:`DocumentError` with every fault: a frozen text whose hash is not the manifest's, an active version without
    a text, unknown or missing placeholders, stray files.
    """
    return _load_shipped() if path is None else _load(path)


@lru_cache(maxsize=1)
def _load_shipped() -> PromptStore:
    return _load(SHIPPED_PROMPTS)


def _load(path: Path) -> PromptStore:
    if not path.is_dir():
        raise DocumentError([Problem(path, 0, 0, "prompts folder does not exist")])
    manifest, _ = parse_asset(path / "manifest.yaml", "manifest")
    problems = manifest.problems
    manifest.known_keys(("active", "frozen"))
    frozen = _read_frozen(path, manifest)
    working = _read_working(path, problems)
    actives = _read_actives(manifest, frozen, working)
    for text in (*(text for texts in frozen.values() for text in texts.values()), *working.values()):
        problems.extend(check_placeholders(text))
    raise_problems(problems)
    if path == SHIPPED_PROMPTS:
        return PromptStore(path, frozen, working, actives)
    shipped = load_prompts()
    absent = [stage for stage in shipped.actives if stage not in actives]
    return PromptStore(
        path,
        {**frozen, **{stage: shipped.frozen[stage] for stage in absent}},
        working,
        {**actives, **{stage: shipped.actives[stage] for stage in absent}},
        tuple(
            f"prompt stage {stage} is not in {path.name}; the shipped prompt is used"
            for stage in absent
            if stage in PROMPT_STAGES
        ),
    )


def _read_frozen(path: Path, manifest: Fields) -> dict[str, dict[str, PromptText]]:
    """The frozen texts that the manifest lists and the versions folder holds, which must be the same."""
    found: dict[str, dict[str, PromptText]] = {}
    listed: set[Path] = set()
    stages = manifest.mapping("frozen", "manifest, 'frozen'")
    if stages is not None:
        stages.known_keys(ALL_STAGES)
        for stage in filter(stages.values.__contains__, ALL_STAGES):
            hashes = stages.mapping(stage, f"manifest, frozen {stage}")
            for version in hashes.values if hashes is not None else ():
                assert hashes is not None
                file = path / "versions" / stage / f"{version}.txt"
                listed.add(file)
                text = _frozen_text(stage, version, file, hashes)
                if text is not None:
                    found.setdefault(stage, {})[version] = text
    for file in sorted((path / "versions").glob("*/*.txt")):
        if file not in listed:
            digest = content_hash(read_asset_text(file))
            hint = f"add '{file.stem}: {digest}' under frozen, {file.parent.name}"
            manifest.note(f"frozen prompt {file.parent.name}/{file.name} is not in the manifest: {hint}")
    return found


def _frozen_text(stage: str, version: str, file: Path, hashes: Fields) -> PromptText | None:
    node = hashes.values[version]
    if not VERSION.fullmatch(version):
        hashes.note(f"{hashes.what}: version {version!r} is not of the form v001", node)
        return None
    if not file.is_file():
        hashes.note(f"{hashes.what}: {version} has no text, {file.name} is missing", node)
        return None
    try:
        text = read_asset_text(file)
    except DocumentError as error:
        hashes.problems.extend(error.problems)
        return None
    digest = content_hash(text)
    if digest != hashes.text(version).lower():
        hint = "a frozen text must not change: restore it, or freeze the change as a new version"
        hashes.note(f"{hashes.what}: {version} has SHA-256 {digest}, not {hashes.text(version)}; {hint}", node)
    return PromptText(stage, version, text, digest, file)


def _read_working(path: Path, problems: list[Problem]) -> dict[str, PromptText]:
    found: dict[str, PromptText] = {}
    for file in sorted(path.glob("*.txt")):
        if file.stem not in ALL_STAGES:
            message = f"{file.name} is no prompt stage's working copy{did_you_mean(file.stem, ALL_STAGES)}"
            problems.append(Problem(file, 0, 0, message))
            continue
        try:
            text = read_asset_text(file)
        except DocumentError as error:
            problems.extend(error.problems)
            continue
        digest = content_hash(text)
        found[file.stem] = PromptText(file.stem, f"working-{digest[:8]}", text, digest, file)
    return found


def _read_actives(
    manifest: Fields, frozen: Mapping[str, Mapping[str, PromptText]], working: Mapping[str, PromptText]
) -> dict[str, str]:
    """Stage → active version; every stage that has a text needs one, and its text must exist."""
    actives = manifest.mapping("active", "manifest, 'active'")
    found: dict[str, str] = {}
    if actives is not None:
        actives.known_keys(ALL_STAGES)
    for stage in ALL_STAGES:
        version = actives.text(stage) if actives is not None else ""
        known = [*frozen.get(stage, {}), *([WORKING] if stage in working else [])]
        if version and version not in known and actives is not None:
            message = f"manifest: active version {version!r} of {stage} has no text{did_you_mean(version, known)}"
            actives.note(message, actives.values[stage])
        elif not version and known:
            manifest.note(f"manifest: {stage} has texts ({', '.join(known)}) but no active version")
        if version:
            found[stage] = version
    return found


def check_placeholders(text: PromptText) -> list[Problem]:
    """The faults of a text's placeholders: unknown ones with their place, required ones that are missing."""
    required, optional = PLACEHOLDERS[text.stage]
    allowed = (*required, *optional)
    path = text.source or Path(text.stage)
    problems: list[Problem] = []
    seen: set[str] = set()
    for number, line in enumerate(text.text.split("\n"), start=1):
        for match in re.finditer(r"\{\{(.*?)\}\}", line):
            parsed = PLACEHOLDER.fullmatch(match[0])
            name = parsed[1] if parsed else match[1].strip()
            column = match.start() + 1
            if parsed is None or name not in allowed:
                message = (
                    f"prompt {text.stage} {text.version}: unknown placeholder {match[0]}{did_you_mean(name, allowed)}"
                )
                problems.append(Problem(path, number, column, message))
                continue
            seen.add(name)
            for wanted in _fields(parsed[2]) if parsed[2] is not None else ():
                if name != "dimensions" or wanted not in DIMENSION_FIELDS:
                    message = f"{match[0]}: unknown field {wanted!r}{did_you_mean(wanted, DIMENSION_FIELDS)}"
                    problems.append(Problem(path, number, column, message))
    last = text.text.count("\n") + 1
    for name in required:
        if name not in seen:
            message = f"prompt {text.stage} {text.version} lacks the required placeholder {{{{{name}}}}}"
            problems.append(Problem(path, last, 0, message))
    return problems


def copy_prompts(target: Path) -> tuple[Path, ...]:
    """Copies the shipped prompts folder to ``target`` and returns the files written.

    Raises :class:`PromptError` where ``target`` exists and is not an empty folder: nothing is overwritten.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise PromptError(f"{target} exists already; nothing was copied")
    shutil.copytree(SHIPPED_PROMPTS, target, dirs_exist_ok=True)
    return tuple(sorted(file for file in target.rglob("*") if file.is_file()))
