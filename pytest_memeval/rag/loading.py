"""Files of kind ``rag`` as case sets: a sample an item."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_memeval.cases.fieldtypes import Field, Integer, ListOf, Table, Text
from pytest_memeval.cases.names import check_case_id, check_tag
from pytest_memeval.cases.reporting import ProblemLog, place_of
from pytest_memeval.cases.tables import DIFFICULTIES, SOURCES
from pytest_memeval.copies import copied
from pytest_memeval.documents.bounds import MAX_SECONDS
from pytest_memeval.documents.canonical import content_hash
from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean
from pytest_memeval.documents.reader import paused_gc, read_document, syntax_of
from pytest_memeval.documents.scalars import number_value
from pytest_memeval.documents.tree import Document, Node
from pytest_memeval.kinds import KindCase, KindSet
from pytest_memeval.metrics.thresholds import Gate, MetricPath, Threshold, ThresholdError, parse_gate, parse_threshold
from pytest_memeval.own_code import named, own_errors
from pytest_memeval.rag.rows import RowReader, id_of, is_head, is_rag_row, row_nodes
from pytest_memeval.rag.types import EvalDataset, EvalSample

#: Sections that a gate or threshold of a RAG file can be on.
SECTIONS: tuple[str, ...] = ("rag", "metrics")

META = Table(
    "meta",
    {
        "version": Field(Text(), "the set's own version"),
        "created_at": Field(Text(), "when the set was made"),
        "total_cases": Field(Integer(), "how many samples there should be; another number is a warning"),
        "description": Field(Text(), "what the set is for"),
        "gates": Field(ListOf(Text()), "gates such as 'P0 rag.faithfulness >= 0.8'; [] for none"),
    },
    open=True,
)
_TOP_KEYS = ("kind", "meta", "cases", "generate")


@dataclass(frozen=True)
class RagCase(KindCase):
    """One sample as an item."""

    sample: EvalSample = field(default_factory=lambda: EvalSample(""))


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a JSON or JSONL file is of kind ``rag``: it says so, or its first row has the columns of a sample."""
    text = head.decode("utf-8", "ignore")
    if path.suffix.lower() == ".json":
        if re.search(r'"kind"\s*:\s*"rag"', text):
            return True
        start = re.match(r'\s*(?:\[|\{\s*"(?:samples|data|cases)"\s*:\s*\[)\s*(?=\{)', text)
        return start is not None and is_rag_row(_first_row(text[start.end() :]))
    for line in text.split("\n")[:2]:
        row = _first_row(line.lstrip())
        if row.get("kind") == "rag" or is_rag_row(row):
            return True
        if "kind" in row:
            return False
    return False


def _first_row(text: str) -> dict[str, Any]:
    """The object at the start of a text. Of one that does not end in it, its keys are all that can be seen."""
    if not text.startswith("{"):
        return {}
    try:
        row, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return dict.fromkeys(re.findall(r'"(\w+)"\s*:', text))
    return row if isinstance(row, dict) else {}


def load_rag_set(path: Path, *, cache_dir: Path | None = None) -> KindSet:
    """Load a file. Never raises for a bad one: its problems are in the set, those of single samples with their case."""
    try:
        document = read_document(path, cache_dir=cache_dir, strict=False)
    except DocumentError as error:
        return KindSet(path, "rag", problems=error.problems)
    with paused_gc():
        return _Loader(document).load()


class _Loader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.path = document.path
        self.log = ProblemLog(document)
        self.strict = syntax_of(self.path) == "yaml"

    def load(self) -> KindSet:
        meta_node, generate = self._head()
        gates, extra, version, total = self._meta(meta_node)
        cases = self._generated(generate) if generate is not None else self._rows()
        if not cases and not self.log.file:
            self.log.structure(self.document.root.at, "the file has no samples: it needs 'cases', or 'generate'")
        warnings: tuple[Problem, ...] = ()
        if total is not None and total != len(cases) and meta_node is not None:
            warnings = (meta_node.problem(f"total_cases is {total}, but the file has {len(cases)} samples"),)
        return KindSet(
            self.path,
            "rag",
            tuple(cases),
            problems=tuple(sorted(self.log.file, key=place_of)),
            warnings=warnings,
            version=version,
            gates=gates,
            note=None if extra.get("gates_note") is None else str(extra["gates_note"]),
            extra=extra,
        )

    def _head(self) -> tuple[Node | None, Node | None]:
        root = self.document.root
        if root.is_sequence:
            first = next(root.elements(), None)
            return (first.get("meta") if first is not None and is_head(first) else None), None
        if not root.is_mapping:
            self.log.structure(root.at, f"the file has to be a mapping or a list of samples, not {root.describe()}")
            return None, None
        found: dict[str, Node] = {}
        for key, value in root.items():
            known = _TOP_KEYS if self.strict else (*_TOP_KEYS, "samples", "data")
            if key.text not in known:
                self.log.structure(key.at, f"unknown key {key.text!r} in the file{did_you_mean(key.text, known)}")
            elif not value.is_null:
                found[key.text] = value
        cases, generate = found.get("cases"), found.get("generate")
        if cases is not None and not cases.is_sequence:
            self.log.structure(cases.at, f"'cases' has to be a list, not {cases.describe()}")
        if cases is not None and generate is not None:
            self.log.structure(generate.at, "a file has 'cases' or 'generate', not both")
        return found.get("meta"), generate

    def _meta(self, node: Node | None) -> tuple[tuple[Gate, ...] | None, dict[str, Any], str | None, int | None]:
        row = META.read(self.document.tape, node.at, self.log) if node is not None else None
        if row is None:
            return None, {}, None, None
        gates: list[Gate] = []
        for at, text in row.values.get("gates", ()):
            try:
                gate = parse_gate(text, "file")
                self._check_section(gate.path)
                gates.append(gate)
            except ThresholdError as error:
                self.log.structure(at, f"gate: {error}")
        given = tuple(gates) if "gates" in row.values else None
        return given, row.get("extra") or {}, row.get("version"), row.get("total_cases")

    @staticmethod
    def _check_section(path: MetricPath) -> None:
        if path.section not in SECTIONS:
            raise ThresholdError(f"samples of kind rag have no section {path.section!r}; write rag.<metric>")

    # -- samples ---------------------------------------------------------------------------------------------------

    def _rows(self) -> list[RagCase]:
        cases: list[RagCase] = []
        seen: dict[str, int] = {}
        for number, node in enumerate(row_nodes(self.document), 1):
            if not node.is_mapping:
                self.log.structure(node.at, f"a sample has to be a mapping, not {node.describe()}")
                continue
            values: list[Problem] = []
            case_id = id_of(node) or f"row-{number}"
            self.log.case_id = case_id
            reader = RowReader(self.document, self.log.file, values, case_id)
            sample, nodes = reader.sample(node, strict=self.strict)
            place = nodes.get("case_id", node)
            if (why := check_case_id(case_id)) is not None:
                self.log.structure(place.at, why)
            if case_id in seen:
                self.log.structure(place.at, f"duplicate case_id {case_id!r}: lines {seen[case_id]} and {place.line}")
            seen.setdefault(case_id, place.line)
            cases.append(self._case(case_id, replace(sample, id=case_id), node, nodes, values))
            self.log.case_id = None
        return cases

    def _case(
        self, case_id: str, sample: EvalSample, node: Node, nodes: dict[str, Node], values: list[Problem]
    ) -> RagCase:
        return RagCase(
            case_id,
            line=node.line,
            source=self._word(nodes, "source", SOURCES, values),
            difficulty=self._word(nodes, "difficulty", DIFFICULTIES, values),
            tags=self._tags(nodes.get("tags")),
            timeout=self._timeout(nodes.get("timeout"), values),
            expect=self._expect(nodes.get("expect")),
            stages=("rag",),
            cluster=str(sample.meta.get("group") or ""),
            content_hash=content_hash(node),
            problems=tuple(sorted(values, key=place_of)),
            sample=sample,
        )

    def _word(self, nodes: dict[str, Node], key: str, choices: Sequence[str], values: list[Problem]) -> str:
        node = nodes.get(key)
        if node is None:
            return "unspecified"
        if node.text not in choices:
            values.append(self._problem(node, f"unknown {key} {node.text!r}{did_you_mean(node.text, choices)}"))
            return "unspecified"
        return node.text

    def _tags(self, node: Node | None) -> tuple[str, ...]:
        if node is None:
            return ()
        if not node.is_sequence:
            self.log.structure(node.at, f"a list is needed here, not {node.describe()}")
            return ()
        tags = []
        for element in node.elements():
            why = check_tag(element.text) if element.is_scalar else f"a tag is text, not {element.describe()}"
            if why is not None:
                self.log.structure(element.at, why)
            else:
                tags.append(element.text)
        return tuple(dict.fromkeys(tags))

    def _problem(self, node: Node, message: str) -> Problem:
        return node.problem(message, self.log.case_id)

    def _timeout(self, node: Node | None, values: list[Problem]) -> float | None:
        if node is None:
            return None
        number = number_value(node.text.strip()) if node.is_scalar else None
        if number is None or not 0 < number <= MAX_SECONDS:
            wanted = f"a number of seconds above 0 and at most {MAX_SECONDS}"
            values.append(self._problem(node, f"timeout must be {wanted}, not {node.describe()}"))
            return None
        return float(number)

    def _expect(self, node: Node | None) -> tuple[Threshold, ...]:
        if node is None:
            return ()
        if not node.is_mapping:
            self.log.structure(node.at, f"'expect' has to be a mapping of metric to threshold, not {node.describe()}")
            return ()
        found = []
        for key, value in node.items():
            try:
                threshold = parse_threshold(key.text, value.text)
                self._check_section(threshold.path)
                found.append(threshold)
            except ThresholdError as error:
                self.log.structure(key.at, f"expect: {error}")
        return tuple(found)

    # -- a generator -----------------------------------------------------------------------------------------------

    def _generated(self, node: Node) -> list[RagCase]:
        from pytest_memeval.extensions import load_object
        from pytest_memeval.options import SettingsError

        try:
            dataset = generated_by(load_object(node.text, "generate"))
        except SettingsError as error:
            self.log.structure(node.at, str(error))
            return []
        except own_errors() as error:  # whatever a generator of the project's does
            self.log.structure(node.at, f"{node.text} could not generate samples: {named(error)}")
            return []
        cases: list[RagCase] = []
        for number, sample in enumerate(dataset.samples, 1):
            case_id = sample.id if sample.id is not None else f"row-{number}"
            if (why := check_case_id(case_id)) is not None:
                self.log.structure(node.at, why)
            cases.append(
                RagCase(
                    case_id,
                    line=node.line,
                    stages=("rag",),
                    cluster=str(sample.meta.get("group") or ""),
                    content_hash=_sample_hash(sample),
                    sample=replace(copied(sample), id=case_id),
                )
            )
        for case_id, count in Counter(case.case_id for case in cases).items():
            if count > 1:
                self.log.structure(node.at, f"{node.text} generated {count} samples with the id {case_id!r}")
        return cases


def generated_by(generator: Any) -> EvalDataset:
    """What a generator makes: an object's ``generate()``, or what a function has returned already."""
    method = getattr(generator, "generate", None)
    given = method() if callable(method) else generator
    if inspect.isawaitable(given):

        async def value() -> Any:
            return await given

        given = asyncio.run(value())
    dataset = given if isinstance(given, EvalDataset) else EvalDataset(tuple(given))
    for sample in dataset.samples:
        if not isinstance(sample, EvalSample):
            raise TypeError(f"a generator gives EvalSample objects, not {type(sample).__name__}")
    return dataset


def _sample_hash(sample: EvalSample) -> str:
    import hashlib

    parts = [sample.query, *sample.context, sample.response, sample.ground_truth, *(sample.reference_contexts or ())]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()
