"""Rows of RAG data sets as samples: which columns mean what, and what is wrong with a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import DocumentError, Problem, nearest
from pytest_memeval.documents.tree import Document, Node
from pytest_memeval.rag.types import EvalDataset, EvalSample

#: Field → its names in data sets, the first being the one of this package. The others are RAGAS's and common ones.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "user_input", "input", "prompt"),
    "contexts": (
        "contexts",
        "context",
        "retrieved_contexts",
        "retrieval_context",
        "retrieved_documents",
        "retrieved_passages",
        "documents",
        "passages",
    ),
    "response": ("response", "answer", "actual_output", "output", "prediction", "generated_answer"),
    "ground_truth": (
        "ground_truth",
        "ground_truths",
        "reference",
        "reference_answer",
        "expected_output",
        "expected_answer",
        "gold_answer",
        "target",
    ),
    "reference_contexts": (
        "reference_contexts",
        "ground_truth_contexts",
        "gold_contexts",
        "expected_contexts",
        "supporting_passages",
    ),
    "case_id": ("case_id", "id", "sample_id", "question_id", "qid"),
    "group": ("group", "document_id", "doc_id"),
}
#: Column → its field.
FIELD_OF: Mapping[str, str] = {column: field for field, columns in COLUMNS.items() for column in columns}
#: Keys that a case may have besides, as other kinds' cases do.
CASE_KEYS: tuple[str, ...] = ("source", "difficulty", "tags", "timeout", "expect", "extra", "notes")
#: Keys of distillation cases, which are no RAG samples whatever else they hold.
_DISTILL_KEYS = ("conversation", "expected_l1", "expected_l15", "expected_l2", "expected_inject", "existing_memories")
#: Columns that, beside a query, make a row a sample.
_TELLING = frozenset(
    {"response", *COLUMNS["contexts"], *COLUMNS["ground_truth"], *COLUMNS["reference_contexts"]} - {"target"}
)
#: Keys under which a passage's text stands where it is an object, as retrievers return them.
PASSAGE_KEYS = ("text", "content", "page_content", "passage", "document")


def is_rag_row(keys: Mapping[str, Any] | set[str]) -> bool:
    """Whether a row with these columns is a RAG sample: a query, and what was retrieved or answered, or should have
    been, under a name that says so. (A bare ``question`` with an ``answer`` may be anything: such a file says
    ``kind: rag``.)"""
    names = set(keys)
    if names.intersection(_DISTILL_KEYS) or not names.intersection(COLUMNS["query"]):
        return False
    return bool(names.intersection(_TELLING))


@dataclass(frozen=True)
class RowReader:
    """Reads a mapping's nodes. Problems go to ``problems`` (those of the file) and ``values`` (those of the case)."""

    document: Document
    problems: list[Problem]
    values: list[Problem]
    #: Names the sample in problems.
    case_id: str | None = None

    def _wrong(self, node: Node, message: str) -> None:
        """A problem of the file."""
        self.problems.append(node.problem(message, self.case_id))

    def _unusable(self, node: Node, message: str) -> None:
        """A problem of this sample alone."""
        self.values.append(node.problem(message, self.case_id))

    def sample(self, node: Node, *, strict: bool) -> tuple[EvalSample, dict[str, Node]]:
        """The row as a sample, and its nodes by field or key. ``strict``: an unknown column is a problem of the file;
        otherwise it is kept in ``meta``, as published data sets have many, unless it looks like a misspelt one."""
        nodes: dict[str, Node] = {}
        meta: dict[str, Any] = {}
        for key, value in node.items():
            name = key.text
            field = FIELD_OF.get(name, name if name in CASE_KEYS else None)
            if field is None:
                self._unknown(key, value, meta, strict=strict)
            elif value.is_null:
                continue
            elif field in nodes:
                self._wrong(key, f"{name!r} gives {field!r} a second time")
            else:
                nodes[field] = value
        extra = nodes.get("extra")
        if extra is not None and extra.is_mapping:
            meta.update(extra.value())
        for field in ("group",):
            if field in nodes:
                meta[field] = self._text(nodes, field)
        if "query" not in nodes:
            self._wrong(node, f"a sample needs a query (one of {', '.join(COLUMNS['query'])})")
        sample = EvalSample(
            query=self._text(nodes, "query") or "",
            context=self._passages(nodes, "contexts") or (),
            response=self._text(nodes, "response"),
            ground_truth=self._truth(nodes),
            meta=meta,
            reference_contexts=self._passages(nodes, "reference_contexts"),
            id=self._text(nodes, "case_id"),
        )
        if "query" in nodes and not sample.query.strip():
            self._unusable(nodes["query"], "the query is blank")
        return sample, nodes

    def _unknown(self, key: Node, value: Node, meta: dict[str, Any], *, strict: bool) -> None:
        known = [*FIELD_OF, *CASE_KEYS]
        guess = nearest(key.text, known, cutoff=0.6 if strict else 0.88)
        if strict or (guess is not None and key.text.casefold() not in ("contextual", "texts")):
            hint = f"; did you mean {guess!r}?" if guess is not None else f"; known: {', '.join(COLUMNS)}"
            self._wrong(key, f"unknown key {key.text!r} in a sample{hint}")
            return
        meta[key.text] = value.value()

    def _text(self, nodes: Mapping[str, Node], field: str) -> str | None:
        node = nodes.get(field)
        if node is None:
            return None
        if not node.is_scalar:
            self._wrong(node, f"{field!r} is text, not {node.describe()}")
            return None
        return node.text

    def _truth(self, nodes: Mapping[str, Node]) -> str | None:
        """One right answer; of a list the first, which older RAGAS data sets hold one of."""
        node = nodes.get("ground_truth")
        if node is None or not node.is_sequence:
            return self._text(nodes, "ground_truth")
        texts = list(node.elements())
        if len(texts) > 1:
            self._unusable(node, f"{len(texts)} ground truths are given, and one is needed")
        return self._text({"ground_truth": texts[0]}, "ground_truth") if texts else None

    def _passages(self, nodes: Mapping[str, Node], field: str) -> tuple[str, ...] | None:
        node = nodes.get(field)
        if node is None:
            return None
        if node.is_scalar:
            return (node.text,)
        if not node.is_sequence:
            self._wrong(node, f"{field!r} has to be a list of texts, not {node.describe()}")
            return None
        return tuple(self._passage(element, field) for element in node.elements())

    def _passage(self, node: Node, field: str) -> str:
        if node.is_scalar:
            if node.is_null:
                self._unusable(node, f"a passage of {field!r} is null")
            return node.text
        if node.is_mapping:
            for key in PASSAGE_KEYS:
                inner = node.get(key)
                if inner is not None and inner.is_scalar:
                    return inner.text
        wanted = f"text, or an object with one of {', '.join(PASSAGE_KEYS)}"
        self._wrong(node, f"a passage of {field!r} is {wanted}, not {node.describe()}")
        return ""


def id_of(node: Node) -> str | None:
    """The id that a row gives itself, under any of its names."""
    for key, value in node.items():
        if FIELD_OF.get(key.text) == "case_id" and value.is_scalar and not value.is_null:
            return value.text
    return None


def row_nodes(document: Document) -> Iterator[Node]:
    """The rows of a file: lines, a list, or the list under ``cases`` (``samples`` and ``data``, too)."""
    root = document.root
    if root.is_mapping:
        for name in ("cases", "samples", "data"):
            inner = root.get(name)
            if inner is not None and inner.is_sequence:
                yield from inner.elements()
                return
        return
    if root.is_sequence:
        yield from (node for node in root.elements() if not is_head(node))


def is_head(node: Node) -> bool:
    """Whether a line of JSONL is the file's head: ``{"kind": …, "meta": …}`` and nothing else."""
    return node.is_mapping and {key.text for key, _ in node.items()} <= {"kind", "meta"} and node.size > 1


def load_rag_dataset(path: Path | str, name: str | None = None) -> EvalDataset:
    """A file of RAG rows (YAML, JSON or JSONL) as a data set. Raises DocumentError with all problems of the file."""
    from pytest_memeval.documents.reader import paused_gc, read_document

    path = Path(path)
    document = read_document(path)
    problems: list[Problem] = []
    with paused_gc():
        reader = RowReader(document, problems, problems)
        samples = [reader.sample(node, strict=False)[0] for node in row_nodes(document) if _is_row(node, problems)]
    if problems:
        raise DocumentError(problems)
    if not samples:
        raise DocumentError([document.root.problem("the file has no samples")])
    stem = re.sub(r"\.memeval$", "", path.stem)
    return EvalDataset(tuple(samples), name or stem)


def _is_row(node: Node, problems: list[Problem]) -> bool:
    if not node.is_mapping:
        problems.append(node.problem(f"a sample has to be a mapping, not {node.describe()}"))
    return node.is_mapping
