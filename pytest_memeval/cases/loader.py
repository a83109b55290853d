"""Case files to :class:`CaseSet`: every file problem at once, every case with its own problems."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_memeval.cases.build import CaseBuilder
from pytest_memeval.cases.fieldtypes import AsNode, Field, Row, Table
from pytest_memeval.cases.in_code import NO_FILE, checked
from pytest_memeval.cases.lint import lint
from pytest_memeval.cases.models import CaseSet, CaseSetMeta, EvalCase
from pytest_memeval.cases.reporting import ProblemLog, place_of
from pytest_memeval.cases.sniff import looks_like_case_file, seems_forgotten
from pytest_memeval.cases.tables import CASE, CASE_FILE, INPUT_KEYS, KINDS, META, TRUTH_KEYS
from pytest_memeval.documents.canonical import content_hash
from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean, nearest
from pytest_memeval.documents.reader import paused_gc, read_document, syntax_of
from pytest_memeval.documents.tree import Document, Node
from pytest_memeval.metrics.thresholds import Gate, ThresholdError, check_key, parse_gate

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates

__all__ = ["load_case_set", "load_cases", "looks_like_case_file", "seems_forgotten", "validate_case"]

#: Kinds of case sets that can be run.
RUNNABLE_KINDS: tuple[str, ...] = ("distill",)

_FILE = Table("the file", {**CASE_FILE.fields, "cases": Field(AsNode(), ""), "meta": Field(AsNode(), "")})


def load_case_set(
    path: Path,
    *,
    registry: Registry | None = None,
    templates: Templates | None = None,
    cache_dir: Path | None = None,
) -> CaseSet:
    """Load a case file.

    ``registry`` and ``templates`` are used where the file's ``meta`` names none; without them the shipped ones are.
    ``cache_dir`` keeps the parsed form of large files. Never raises for a bad file: ``CaseSet.problems`` has every
    problem of the file, sorted by place, and each case its own.
    """
    try:
        document = read_document(path, cache_dir=cache_dir, strict=False, prepare=_hash_cases)
    except DocumentError as error:
        return CaseSet(path, problems=error.problems, registry=registry, templates=templates)
    with paused_gc():
        return _Loader(document, registry, templates).load()


def load_cases(path: Path | str) -> list[EvalCase]:
    """The cases of a file, checked against its own or the shipped registry and templates.

    Raises :class:`DocumentError` with all problems of the file; problems of single cases are in ``EvalCase.problems``.
    """
    case_set = load_case_set(Path(path))
    if case_set.problems:
        raise DocumentError(case_set.problems)
    return list(case_set.cases)


def validate_case(
    case: EvalCase, registry: Registry | None = None, templates: Templates | None = None
) -> tuple[Problem, ...]:
    """A case's problems; for one built in code also what a file would not be taken for: labels that ``registry`` and
    ``templates`` (by default the shipped ones) do not know, no input, nothing to check."""
    if case.path is None and not case.problems:
        from pytest_memeval.assets.registry import load_registry
        from pytest_memeval.assets.templates import load_templates

        registry = load_registry(None) if registry is None else registry
        case = checked(case, registry, load_templates(None, registry) if templates is None else templates)
    return (*case.problems, *lacking(case))


def lacking(case: EvalCase) -> tuple[Problem, ...]:
    """That the case has no input, or nothing to check."""
    path, line = (NO_FILE, 0) if case.path is None else (case.path, case.line)
    return tuple(Problem(path, line, 0, message, case.case_id) for _, message in _lacks(case))


def _hash_cases(document: Document) -> None:
    cases = document.root if document.root.is_sequence else document.root.get("cases")
    if cases is not None and cases.is_sequence:
        for case in cases.elements():
            content_hash(case)


def _lacks(case: EvalCase) -> list[tuple[tuple[str, ...], str]]:
    """What a case needs at least and does not have, an input or a truth, with the keys that give it."""
    inject, search, l2, l15 = case.expected_inject, case.expected_search, case.expected_l2, case.expected_l15
    lacks = []
    has_input = (
        case.conversation
        or case.existing_memories
        or (inject is not None and inject.subsequent_conversation)
        or (search is not None and search.queries)
    )
    if not has_input:
        lacks.append((INPUT_KEYS, "the case has no input: it needs a 'conversation'"))
    has_truth = (
        case.expected_l1 is not None
        or (l15 is not None and l15.actions)
        or (l2 is not None and (l2.scene_labels or l2.scenes or l2.template_section))
        or inject is not None
        or (search is not None and search.queries)
    )
    if not has_truth:
        lacks.append((TRUTH_KEYS, f"the case has nothing to check: it needs one of {', '.join(TRUTH_KEYS)}"))
    return lacks


class _Loader:
    def __init__(self, document: Document, registry: Registry | None, templates: Templates | None) -> None:
        self.document = document
        self.path = document.path
        self.log = ProblemLog(document)
        self.registry = registry
        self.templates = templates
        self.zone: tzinfo = UTC
        #: The file's gates and where they stand.
        self.gates: list[tuple[int, Gate]] = []

    def load(self) -> CaseSet:
        kind, meta_node, case_nodes = self.parts()
        if kind not in RUNNABLE_KINDS:
            return self.result(CaseSet(self.path, kind))
        meta = self.meta(meta_node)
        self.load_assets(meta)
        self.check_gates()
        cases = self.cases(case_nodes)
        case_set = CaseSet(self.path, kind, meta, cases, registry=self.registry, templates=self.templates)
        return self.result(replace(case_set, warnings=lint(case_set)))

    def result(self, case_set: CaseSet) -> CaseSet:
        return replace(case_set, problems=tuple(sorted(self.log.file, key=place_of)))

    def parts(self) -> tuple[str, Node | None, list[Node]]:
        """Kind, meta and case nodes of the file's layout: a mapping, a list of cases, or lines of cases."""
        root = self.document.root
        if root.is_sequence:
            nodes = list(root.elements())
            meta = None
            if syntax_of(self.path) == "jsonl" and nodes and nodes[0].is_mapping:
                first = {key.text: value for key, value in nodes[0].items()}
                if first and set(first) <= {"kind", "meta"}:
                    meta = first.get("meta")
                    del nodes[0]
                    if "kind" in first and not self.is_runnable_head(first["kind"]):
                        return "unknown", None, []
            if not nodes and not self.log.file:
                self.log.structure(root.at, "the file has no cases")
            return "distill", meta, nodes
        row = _FILE.read(self.document.tape, root.at, self.log)
        if row is None:
            return "distill", None, []
        kind = row.get("kind", "distill")
        if "kind" in row.places and "kind" not in row.values:
            return "unknown", None, []  # reported where it was read
        if kind not in RUNNABLE_KINDS or "dataset" in row.places:
            self.report_unsupported(row, kind)
            return kind if kind not in RUNNABLE_KINDS else "dataset", None, []
        cases = self.log.node(row.places["cases"]) if "cases" in row.places else None
        if cases is None:
            self.log.structure(root.at, "the file needs 'cases'")
        elif not cases.is_sequence:
            self.log.structure(cases.at, f"'cases' has to be a list, not {cases.describe()}")
        elif cases.size == 1:
            self.log.structure(cases.at, "the file has no cases")
        nodes = list(cases.elements()) if cases is not None and cases.is_sequence else []
        return kind, self.log.node(row.places["meta"]) if "meta" in row.places else None, nodes

    def is_runnable_head(self, kind: Node) -> bool:
        """Whether the first of several lines names a kind that can be run from lines; what else it names is told."""
        name = kind.text if kind.is_scalar else ""
        if name in RUNNABLE_KINDS:
            return True
        if name in KINDS:
            self.log.structure(kind.at, f"kind {name!r} is not read from JSON Lines: write the set as YAML")
        else:
            self.log.structure(kind.at, f"unknown kind {kind.describe()}{did_you_mean(name, KINDS)}")
        return False

    def report_unsupported(self, row: Row, kind: str) -> None:
        """What is recognised, but not yet run. Other keys of such files are not judged."""
        what = f"kind {kind!r}" if kind not in RUNNABLE_KINDS else "'dataset' files"
        at = row.places["kind" if kind not in RUNNABLE_KINDS else "dataset"]
        self.log.file = list(self.document.problems)
        runnable = ", ".join(repr(name) for name in RUNNABLE_KINDS)
        self.log.structure(at, f"{what} cannot be run by this version, which runs kind {runnable} with 'cases'")

    def meta(self, node: Node | None) -> CaseSetMeta:
        row = META.read(self.document.tape, node.at, self.log) if node is not None else None
        if row is None:
            return CaseSetMeta()
        self.report_lone_surrogates(row.at)
        get = row.get
        if node is not None:
            self.report_misspelt_meta(node)
        self.zone = self.time_zone(row)
        for gate_at, text in row.values.get("gates", ()):
            try:
                self.gates.append((gate_at, parse_gate(text, "file")))
            except ThresholdError as error:
                self.log.structure(gate_at, f"gate: {error}")
        return CaseSetMeta(
            version=get("version"),
            created_at=get("created_at"),
            total_cases=get("total_cases"),
            description=get("description"),
            timezone=get("timezone", "UTC"),
            gates=tuple(gate for _, gate in self.gates) if "gates" in row.values else None,
            registry=self.asset_path(row, "registry", folder=False),
            templates=self.asset_path(row, "templates", folder=None),
            prompts=self.asset_path(row, "prompts", folder=True),
            distractors=self.distractors(row),
            extra=get("extra", {}),
        )

    def report_misspelt_meta(self, node: Node) -> None:
        """Own keys are kept; one that is nearly a known one was meant to be it, and would change the gates unseen."""
        for key, _ in node.items():
            name = key.text or ""
            meant = nearest(name, META.fields, cutoff=0.85) if name not in META.fields else None
            if meant is not None:
                self.log.structure(key.at, f"unknown key {name!r} in meta; did you mean {meant!r}?")

    def check_gates(self) -> None:
        """The dimensions that gates name, now that the registry is known."""
        if self.registry is None:
            return
        for at, gate in self.gates:
            try:
                check_key(gate.path, self.registry.ids)
            except ThresholdError as error:
                self.log.structure(at, f"gate: {error}")

    def time_zone(self, row: Row) -> tzinfo:
        name = row.get("timezone", "UTC")
        if name == "UTC":
            return UTC
        from zoneinfo import ZoneInfo, available_timezones

        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            guess = did_you_mean(name, sorted(available_timezones()))
            self.log.structure(row.places["timezone"], f"unknown time zone {name!r}{guess}")
            return UTC

    def asset_path(self, row: Row, key: str, *, folder: bool | None) -> Path | None:
        """The absolute path that ``meta`` gives, relative to the file; ``folder`` says what it must be."""
        text = row.get(key)
        if text is None:
            return None
        path = Path(os.path.abspath(self.path.parent / text))
        try:
            exists = path.exists()
        except (OSError, ValueError):
            exists = False
        if not exists:
            self.log.structure(row.places[key], f"{key}: {text!r} does not exist (looked for {path})")
            return None
        if folder is not None and path.is_dir() is not folder:
            wanted = "folder" if folder else "file"
            self.log.structure(row.places[key], f"{key}: {text!r} is not a {wanted}")
            return None
        return path

    def distractors(self, row: Row) -> Path | None:
        from pytest_memeval.cases.distractors import load_distractors

        path = self.asset_path(row, "distractors", folder=False)
        if path is not None:
            try:
                load_distractors(path)
            except DocumentError as error:
                self.log.file += error.problems
        return path

    def load_assets(self, meta: CaseSetMeta) -> None:
        from pytest_memeval.assets.registry import load_registry
        from pytest_memeval.assets.templates import beside, load_templates

        try:
            if meta.registry is not None or self.registry is None:
                self.registry = load_registry(meta.registry)
        except DocumentError as error:
            self.log.file += error.problems
            # What templates ask for cannot be checked against dimensions that are not known.
            self.registry = self.templates = None
            return
        try:
            if meta.templates is not None:
                self.templates = load_templates(meta.templates, self.registry)
            elif self.templates is None:
                self.templates = load_templates(None, self.registry)
            elif meta.registry is not None and self.registry is not None:
                # The ini's were made for the ini's registry.
                self.templates = beside(self.templates, self.registry)
        except DocumentError as error:
            self.log.file += error.problems
            self.templates = None

    def cases(self, nodes: list[Node]) -> tuple[EvalCase, ...]:
        builder = CaseBuilder(self.log, self.zone, self.registry, self.templates)
        cases: list[EvalCase] = []
        seen: dict[str, int] = {}
        for node in nodes:
            case_id_node = node.get("case_id") if node.is_mapping else None
            case_id = case_id_node.text if case_id_node is not None and case_id_node.is_scalar else ""
            self.log.enter_case(case_id or None)
            case = self.case(node, case_id, builder)
            problems = self.log.leave_case()
            if case is None:
                continue
            if case_id_node is not None and case_id:
                line = case_id_node.line
                if case_id in seen:
                    message = f"duplicate case_id {case_id!r}: lines {seen[case_id]} and {line}"
                    self.log.file.append(case_id_node.problem(message, case_id))
                seen.setdefault(case_id, line)
            cases.append(replace(case, problems=problems) if problems else case)
        return self.check_references(cases, builder)

    def case(self, node: Node, case_id: str, builder: CaseBuilder) -> EvalCase | None:
        before = len(self.log.file)
        row = CASE.read(self.document.tape, node.at, self.log)
        if row is None:
            return None
        self.report_lone_surrogates(node.at)
        case = builder.build(row, case_id)
        faulty = bool(self.log.case) or len(self.log.file) > before
        for keys, message in _lacks(case):
            # what is written but could not be read is reported already
            if not (faulty and any(key in row.places for key in keys)):
                self.log.structure(row.places.get("case_id", node.at), message)
        return case

    def report_lone_surrogates(self, part: int) -> None:
        for at in self.document.lone_surrogates:
            if part <= at < part + self.document.tape.sizes[part]:
                self.log.value(at, "half of a surrogate pair is not a character")

    def check_references(self, cases: list[EvalCase], builder: CaseBuilder) -> tuple[EvalCase, ...]:
        """Search truths that name other cases' memories, now that all are known."""
        if builder.references:
            counts = {case.case_id: len(case.expected_l1.memories) if case.expected_l1 else 0 for case in cases}
            late: dict[str, list[Problem]] = {}
            for other, index, at, case_id in builder.references:
                if other not in counts:
                    message = f"no case {other!r} in this file{did_you_mean(other, counts)}"
                elif index >= counts[other]:
                    message = (
                        f"memory index {index} is out of range: case {other!r} has {counts[other]} labelled memories"
                    )
                else:
                    continue
                late.setdefault(case_id, []).append(self.log.node(at).problem(message, case_id))
            cases = [
                replace(case, problems=tuple(sorted([*case.problems, *late[case.case_id]], key=place_of)))
                if case.case_id in late
                else case
                for case in cases
            ]
        return tuple(cases)
